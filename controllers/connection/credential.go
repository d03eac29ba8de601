package connection

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/secretvalue"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
)

const (
	// maxSecret and maxKey bound a client secret and a private key in PEM, in bytes.
	maxSecret, maxKey = 512, 8 << 10
	// minRSA is the minimum size of an RSA key, in bits.
	minRSA = 2048
)

// secretField returns the field that takes its value from a Secret.
func secretField(c *v1alpha1.Connection) secretvalue.Field {
	if ref := c.Spec.Client.PrivateKeySecretRef; ref != nil {
		return secretvalue.Field{Path: "spec.client.privateKeySecretRef", Ref: *ref, MaxBytes: maxKey, Lines: true}
	}
	return secretvalue.Field{Path: "spec.client.clientSecretRef", Ref: ptr.Deref(c.Spec.Client.ClientSecretRef, v1alpha1.SecretKeyReference{}), MaxBytes: maxSecret}
}

// objectNames returns the names of the Secret and of the ConfigMap that a connection uses.
func objectNames(c *v1alpha1.Connection) []string {
	if c.Spec.Type == v1alpha1.ConnectionTypeSAML {
		return samlObjectNames(c)
	}
	return []string{secretField(c).Ref.Name}
}

// prepare observes the rows of the connection once a minute, more often before the first fetch, and prepares the
// content.
func (opts Options) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.Connection]) (engine.Prepared, error) {
	content := opts.content
	if p.Object.Spec.Type == v1alpha1.ConnectionTypeSAML {
		content = opts.samlContent
	}
	prepared, err := content(ctx, p)
	prepared.Conditions = opts.observe(ctx, p.Object, p.ID)
	again := observeEvery
	if meta.IsStatusConditionPresentAndEqual(prepared.Conditions, v1alpha1.ConditionReachable, metav1.ConditionUnknown) {
		again = pendingEvery
	}
	if prepared.RequeueAfter == 0 || again < prepared.RequeueAfter {
		prepared.RequeueAfter = again
	}
	return prepared, err
}

// content writes the URLs to register into the status, and seals the client secret or the private key. The URLs come
// first: identity providers issue a client secret only for a client that has its redirect URIs. An inactive connection
// needs no Secret, so that a connection can also be disabled after its Secret was deleted.
func (opts Options) content(ctx context.Context, p engine.Preparation[*v1alpha1.Connection]) (engine.Prepared, error) {
	c := p.Object
	if deployment, found := engine.DeploymentIn(p.Refs); found {
		c.Status.RedirectURIs, c.Status.BackchannelLogoutURL = opts.registered(deployment, p.ID)
	}
	if !ptr.Deref(c.Spec.Active, true) {
		return engine.Prepared{Value: translation.Connection(c, "")}, nil
	}
	if opts.Keyring.Empty() {
		return engine.Prepared{}, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
			"spec.client: the secret is stored sealed: start the operator with --root-key")
	}
	opts.Secrets.Ensure(c.Namespace)
	field := secretField(c)
	value, _, err := field.Read(ctx, opts.Client, c.Namespace, c.Spec.DeploymentRef.Name)
	if err != nil {
		return engine.Prepared{}, err
	}
	if c.Spec.Client.PrivateKeySecretRef != nil {
		if value, err = privateKey(value, c.Spec.Type == v1alpha1.ConnectionTypeApple); err != nil {
			return engine.Prepared{}, field.Invalid(err.Error())
		}
	}
	sealed := opts.Keyring.Seal(document.SealedConnectionSecret, ids.Format(p.ID), value)
	return engine.Prepared{Value: translation.Connection(c, sealed)}, nil
}

// registered returns the URLs to register at the identity provider: a redirect URI for each frontend host, and the
// back-channel logout URL on the first one.
func (opts Options) registered(d *v1alpha1.IdentityDeployment, id int64) (redirects []string, logout string) {
	path := translation.ConnectionPath(id)
	for _, origin := range opts.Local.Frontends(d) {
		redirects = append(redirects, origin+path+"/callback")
	}
	if first := opts.Local.URL(d); first != "" {
		logout = first + path + "/backchannel-logout"
	}
	return redirects, logout
}

// privateKey returns a private key in PEM as PKCS #8, the form that servers read. The input may also be PKCS #1 or
// SEC 1. The key must be P-256, or RSA of at least minRSA bits unless p256 is set. An error contains none of the input.
func privateKey(text []byte, p256 bool) ([]byte, error) {
	key, err := parseKey(text)
	if err != nil {
		return nil, err
	}
	switch key := key.(type) {
	case *ecdsa.PrivateKey:
		if key.Curve != elliptic.P256() {
			return nil, errors.New("is a key of another curve than P-256")
		}
	case *rsa.PrivateKey:
		if p256 {
			return nil, errors.New("is an RSA key, and Apple's keys are P-256")
		}
		if key.N.BitLen() < minRSA {
			return nil, fmt.Errorf("is an RSA key of less than %d bits", minRSA)
		}
	default:
		return nil, errors.New("is neither a P-256 key nor an RSA key")
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, errors.New("is a private key that cannot be encoded")
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

// parseKey parses the first private key of a text in PEM. `openssl ecparam` writes the curve's parameters before it.
func parseKey(text []byte) (any, error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("is a private key with a passphrase")
		default:
			continue
		}
		if err != nil {
			return nil, errors.New("is a private key that cannot be read")
		}
		return key, nil
	}
	return nil, errors.New("has no private key in PEM")
}
