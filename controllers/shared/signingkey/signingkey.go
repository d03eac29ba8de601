// Package signingkey keeps a resource's token signing keys in a Secret. Keys are generated there, replaced with an
// overlap, and sealed for the store. Like an API key, a signing key is written to its Secret before the store knows it.
package signingkey

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
)

// OwnSessions reports whether the tokens of the deployment's own end users are accepted by the backend API.
func OwnSessions(d *v1alpha1.IdentityDeployment) bool {
	return slices.ContainsFunc(d.Spec.JWTIssuers, func(issuer v1alpha1.JWTIssuer) bool { return issuer.OwnSessions != nil })
}

// Signs reports whether a deployment has keys if the operator has a root key: because it serves end users, or accepts
// the tokens of their sessions.
func Signs(d *v1alpha1.IdentityDeployment) bool {
	return OwnSessions(d) || len(d.Spec.FrontendHosts) > 0
}

const (
	// age is how long a key signs.
	age = 90 * 24 * time.Hour
	// overlap is how long the previous key is accepted: far longer than any token lives and any key set is cached.
	overlap = 24 * time.Hour
	// annotationPreviousRotatedAt on a Secret is when the previous keys were generated, if its keys are dated.
	annotationPreviousRotatedAt = "iam.cardea.dev/previous-rotated-at"
	// rsaBits is the size of RSA keys, in bits. Every verifier accepts it.
	rsaBits = 2048
)

// Slot names the data keys of a Secret with the current and the previous key of an algorithm. These names never change.
type Slot struct {
	Algorithm         jose.SignatureAlgorithm
	Current, Previous string
}

// ForSessions are the keys of a deployment's end users' sessions, ForApps those of an authorization server, and
// ForWebhooks those that sign the calls of a deployment's tools.
var (
	ForSessions = []Slot{{jose.ES256, "current.pem", "previous.pem"}}
	ForWebhooks = []Slot{{jose.EdDSA, "current-ed25519.pem", "previous-ed25519.pem"}}
	ForApps     = []Slot{{jose.ES256, "current-es256.pem", "previous-es256.pem"}, {jose.RS256, "current-rs256.pem", "previous-rs256.pem"}}
)

// Keeper keeps the keys of resources.
type Keeper struct {
	Secrets ownedsecret.Manager
	Keyring *seal.Keyring
	Clock   func() time.Time
	// Random is the source of keys.
	Random io.Reader
}

// Wanted describes the Secret in which a resource has its keys.
type Wanted struct {
	Owner ownedsecret.Owner
	// Name is the name of the Secret.
	Name  string
	Slots []Slot
	// Dated reports that keys record when they were generated.
	Dated bool
	// Kind is the kind under which private keys are sealed.
	Kind string
	// RotateAt is the annotation AnnotationRotateAt of the resource: each value causes one rotation.
	RotateAt string
}

// Keep ensures that the Secret holds current keys. It returns the sealed keys, those that sign first, and the time
// until the next change. The Keyring must have a root key.
func (k Keeper) Keep(ctx context.Context, w Wanted) ([]document.SigningKey, time.Duration, error) {
	now := k.Clock()
	secret, err := k.Secrets.Ensure(ctx, w.Owner, w.Name, func(secret *corev1.Secret, fresh bool) error {
		if fresh {
			return k.issue(secret, w, now)
		}
		_, err := k.renew(secret, w, now)
		return err
	})
	if err != nil {
		return nil, 0, err
	}
	return k.sealAll(secret, w, now)
}

// Remove deletes the Secret with the resource.
func (k Keeper) Remove(ctx context.Context, w Wanted) error {
	return k.Secrets.Remove(ctx, w.Owner, w.Name)
}

// NoRootKey returns the WaitingError for a missing root key. The parameter names the field that needs a signing key.
func NoRootKey(what string) error {
	return engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
		"%s needs a signing key, which is stored sealed: start the operator with --root-key", what)
}

// renew replaces keys that are due or were edited, and removes previous keys when their overlap has ended. It reports
// whether it changed anything.
func (k Keeper) renew(secret *corev1.Secret, w Wanted, now time.Time) (bool, error) {
	issued, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationRotatedAt])
	edited := err != nil
	for _, slot := range w.Slots {
		if _, err := parse(secret.Data[slot.Current], slot.Algorithm); err != nil || edited {
			delete(secret.Data, slot.Current) // edited by hand: the edited value is not kept
			edited = true
		}
	}
	if edited || !now.Before(issued.Add(age)) {
		return true, k.issue(secret, w, now)
	}
	if at, err := time.Parse(time.RFC3339, w.RotateAt); err == nil && w.RotateAt != secret.Annotations[v1alpha1.AnnotationRotatedFor] && at.After(issued) && !now.Before(at) {
		secret.Annotations[v1alpha1.AnnotationRotatedFor] = w.RotateAt
		return true, k.issue(secret, w, now)
	}
	if until, ok := previousUntil(secret, w); ok && !now.Before(until) {
		for _, slot := range w.Slots {
			delete(secret.Data, slot.Previous)
		}
		delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
		return true, nil
	}
	return false, nil
}

// issue puts new keys into a Secret. The existing keys become the previous keys.
func (k Keeper) issue(secret *corev1.Secret, w Wanted, now time.Time) error {
	delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	if made := secret.Annotations[v1alpha1.AnnotationRotatedAt]; made != "" && w.Dated {
		secret.Annotations[annotationPreviousRotatedAt] = made
	}
	for _, slot := range w.Slots {
		delete(secret.Data, slot.Previous)
		if current, found := secret.Data[slot.Current]; found {
			secret.Data[slot.Previous] = current
			secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt] = now.Add(overlap).UTC().Format(time.RFC3339)
		}
		fresh, err := k.generate(slot.Algorithm)
		if err != nil {
			return err
		}
		secret.Data[slot.Current] = fresh
	}
	secret.Annotations[v1alpha1.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339)
	return nil
}

// generate makes a private key, in PEM.
func (k Keeper) generate(algorithm jose.SignatureAlgorithm) ([]byte, error) {
	var key crypto.Signer
	var err error
	switch algorithm {
	case jose.RS256:
		key, err = rsa.GenerateKey(k.Random, rsaBits)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(k.Random)
	default:
		key, err = ecdsa.GenerateKey(elliptic.P256(), k.Random)
	}
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// sealAll returns the sealed keys of a Secret, and the time until the Secret changes next.
func (k Keeper) sealAll(secret *corev1.Secret, w Wanted, now time.Time) ([]document.SigningKey, time.Duration, error) {
	var keys []document.SigningKey
	wake := age
	if issued, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationRotatedAt]); err == nil {
		wake = issued.Add(age).Sub(now)
		if at, err := time.Parse(time.RFC3339, w.RotateAt); err == nil && at.After(issued) && w.RotateAt != secret.Annotations[v1alpha1.AnnotationRotatedFor] {
			wake = min(wake, at.Sub(now))
		}
	}
	for _, slot := range w.Slots {
		current, err := k.sealed(secret.Data[slot.Current], slot.Algorithm, w.Kind, nil)
		if err != nil {
			return nil, 0, err
		}
		current.CreatedAt = w.made(secret, v1alpha1.AnnotationRotatedAt)
		keys = append(keys, current)
	}
	if until, ok := previousUntil(secret, w); ok {
		for _, slot := range w.Slots {
			if _, found := secret.Data[slot.Previous]; !found {
				continue
			}
			previous, err := k.sealed(secret.Data[slot.Previous], slot.Algorithm, w.Kind, &until)
			if err != nil {
				return nil, 0, err
			}
			previous.CreatedAt = w.made(secret, annotationPreviousRotatedAt)
			keys = append(keys, previous)
		}
		wake = min(wake, until.Sub(now))
	}
	return keys, max(wake, time.Second), nil
}

// made returns a key's creation time from an annotation, nil if the annotation is missing or keys are not dated.
func (w Wanted) made(secret *corev1.Secret, annotation string) *time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations[annotation])
	if err != nil || !w.Dated {
		return nil
	}
	return &at
}

// sealed is a key as the store holds it.
func (k Keeper) sealed(text []byte, algorithm jose.SignatureAlgorithm, kind string, expiresAt *time.Time) (document.SigningKey, error) {
	key, err := parse(text, algorithm)
	if err != nil {
		return document.SigningKey{}, err
	}
	public := jose.JSONWebKey{Key: key.Public(), Algorithm: string(algorithm), Use: "sig"}
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
	return document.SigningKey{ID: public.KeyID, Public: raw, Sealed: k.Keyring.Seal(kind, public.KeyID, der), ExpiresAt: expiresAt}, nil
}

// PublicSet is the key set that verifies the keys' signatures.
func PublicSet(keys []document.SigningKey) (json.RawMessage, error) {
	set := struct {
		Keys []json.RawMessage `json:"keys"`
	}{}
	for _, key := range keys {
		set.Keys = append(set.Keys, key.Public)
	}
	return json.Marshal(set)
}

// parse reads a private key of an algorithm. An error contains none of it.
func parse(text []byte, algorithm jose.SignatureAlgorithm) (crypto.Signer, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("the signing key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("the signing key is not PKCS #8")
	}
	switch key := parsed.(type) {
	case *ecdsa.PrivateKey:
		if algorithm == jose.ES256 && key.Curve == elliptic.P256() {
			return key, nil
		}
	case ed25519.PrivateKey:
		if algorithm == jose.EdDSA {
			return key, nil
		}
	case *rsa.PrivateKey:
		if algorithm == jose.RS256 && key.N.BitLen() >= rsaBits {
			return key, nil
		}
	}
	return nil, fmt.Errorf("the signing key is not a key for %s", algorithm)
}

// previousUntil returns until when the previous keys are accepted, if they exist and can be read.
func previousUntil(secret *corev1.Secret, w Wanted) (time.Time, bool) {
	until, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt])
	found := false
	for _, slot := range w.Slots {
		if text, there := secret.Data[slot.Previous]; there {
			if _, parseErr := parse(text, slot.Algorithm); parseErr != nil {
				return until, false
			}
			found = true
		}
	}
	return until, err == nil && found
}
