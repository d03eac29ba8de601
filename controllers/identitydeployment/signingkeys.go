package identitydeployment

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/ownedsecret"
	"github.com/cardea-iam/cardea/store/document"
)

const (
	// signingKeyAge is how long a key signs.
	signingKeyAge = 90 * 24 * time.Hour
	// signingKeyOverlap is how long the key before is accepted: far longer than any token lives or a key set is cached.
	signingKeyOverlap = 24 * time.Hour

	currentPEM  = "current.pem"
	previousPEM = "previous.pem"
	// annotationDeployment on a Secret names the deployment whose signing key it holds.
	annotationDeployment = "iam.cardea.dev/signing-key-of"
)

// signingKeys keeps the Secret with a deployment's signing keys: generated once, replaced with an overlap. Like an API key, a
// key is in its Secret before the store knows it.
type signingKeys struct{ Options }

func signingSecretName(d *v1alpha1.IdentityDeployment) string { return d.Name + "-session-signing-key" }

func (k *signingKeys) owner(d *v1alpha1.IdentityDeployment) ownedsecret.Owner {
	return ownedsecret.Owner{
		Object: d, Kind: v1alpha1.KindIdentityDeployment, Marker: annotationDeployment, Taken: "delete it, or move what it holds",
	}
}

// keep makes sure that the Secret holds a current key, and returns its keys sealed, with the time to the next change.
func (k *signingKeys) keep(ctx context.Context, d *v1alpha1.IdentityDeployment) ([]document.SigningKey, time.Duration, error) {
	if k.Keyring.Empty() {
		return nil, 0, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
			"ownSessions needs a signing key, which is stored sealed: start the operator with --root-key")
	}
	k.Secrets.Ensure(d.Namespace)
	now := k.Clock()
	secret, err := ownedsecret.Manager{Client: k.Client}.Ensure(ctx, k.owner(d), signingSecretName(d), func(secret *corev1.Secret, fresh bool) error {
		if fresh {
			return k.issue(secret, now)
		}
		_, err := k.renew(secret, now)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return k.sealAll(secret, now)
}

// renew replaces a key that is due or was edited, and drops a previous one that is over. It tells whether it changed anything.
func (k *signingKeys) renew(secret *corev1.Secret, now time.Time) (bool, error) {
	issued, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationRotatedAt])
	if _, parseErr := parsePEM(secret.Data[currentPEM]); parseErr != nil || err != nil {
		delete(secret.Data, currentPEM) // edited by hand: what it was is not kept
		return true, k.issue(secret, now)
	}
	if !now.Before(issued.Add(signingKeyAge)) {
		return true, k.issue(secret, now)
	}
	if until, ok := previousUntil(secret); ok && !now.Before(until) {
		delete(secret.Data, previousPEM)
		delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
		return true, nil
	}
	return false, nil
}

// issue puts a new key into a Secret; the one there becomes the previous.
func (k *signingKeys) issue(secret *corev1.Secret, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), k.Random)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	delete(secret.Data, previousPEM)
	if current, found := secret.Data[currentPEM]; found {
		secret.Data[previousPEM] = current
		secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt] = now.Add(signingKeyOverlap).UTC().Format(time.RFC3339)
	}
	secret.Data[currentPEM] = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	secret.Annotations[v1alpha1.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339)
	return nil
}

// sealAll seals the keys of a Secret, and tells when it changes next.
func (k *signingKeys) sealAll(secret *corev1.Secret, now time.Time) ([]document.SigningKey, time.Duration, error) {
	current, err := k.sealed(secret.Data[currentPEM], nil)
	if err != nil {
		return nil, 0, err
	}
	keys := []document.SigningKey{current}
	wake := signingKeyAge
	if issued, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationRotatedAt]); err == nil {
		wake = issued.Add(signingKeyAge).Sub(now)
	}
	if until, ok := previousUntil(secret); ok {
		previous, err := k.sealed(secret.Data[previousPEM], &until)
		if err != nil {
			return nil, 0, err
		}
		keys, wake = append(keys, previous), min(wake, until.Sub(now))
	}
	return keys, max(wake, time.Second), nil
}

// sealed is a key as the store holds it.
func (k *signingKeys) sealed(text []byte, expiresAt *time.Time) (document.SigningKey, error) {
	key, err := parsePEM(text)
	if err != nil {
		return document.SigningKey{}, err
	}
	public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(jose.ES256), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	if err != nil {
		return document.SigningKey{}, err
	}
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	raw, err := json.Marshal(public)
	if err != nil {
		return document.SigningKey{}, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return document.SigningKey{}, err
	}
	return document.SigningKey{
		ID: public.KeyID, Public: raw, Sealed: k.Keyring.Seal(document.SealedSigningKey, public.KeyID, der), ExpiresAt: expiresAt,
	}, nil
}

// publicSet is the key set that verifies what the keys sign.
func publicSet(keys []document.SigningKey) (json.RawMessage, error) {
	set := struct {
		Keys []json.RawMessage `json:"keys"`
	}{}
	for _, key := range keys {
		set.Keys = append(set.Keys, key.Public)
	}
	return json.Marshal(set)
}

func parsePEM(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the signing key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the signing key is not PKCS #8")
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the signing key is not of curve P-256")
	}
	return key, nil
}

func previousUntil(secret *corev1.Secret) (time.Time, bool) {
	until, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt])
	_, parseErr := parsePEM(secret.Data[previousPEM])
	return until, err == nil && parseErr == nil
}

// remove deletes the Secret with the deployment.
func (k *signingKeys) remove(ctx context.Context, d *v1alpha1.IdentityDeployment) error {
	return ownedsecret.Manager{Client: k.Client}.Remove(ctx, k.owner(d), signingSecretName(d))
}
