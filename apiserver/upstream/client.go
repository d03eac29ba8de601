package upstream

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// assertionType is the value by which a signed assertion is announced (RFC 7523 2.2).
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// assertionFor is the lifetime of a signed assertion, and of Apple's client secret.
	assertionFor = 5 * time.Minute
)

// authenticate adds the authentication of Cardea to a request of a token endpoint: to its form or its header. secret is
// the client secret or the private key in PEM. Errors contain nothing of it.
func authenticate(c *document.Connection, tokenURL string, secret []byte, form url.Values, header http.Header, now time.Time) error {
	client := &c.Client
	switch {
	case c.Type == typeApple:
		minted, err := appleSecret(c, secret, now)
		if err != nil {
			return err
		}
		form.Set("client_id", client.ID)
		form.Set("client_secret", minted)
	case client.Authentication == string(v1alpha1.UpstreamAuthenticationPrivateKeyJWT):
		signed, err := assertion(client.ID, tokenURL, secret, now)
		if err != nil {
			return err
		}
		form.Set("client_id", client.ID)
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", signed)
	case client.Authentication == string(v1alpha1.UpstreamAuthenticationPost):
		form.Set("client_id", client.ID)
		form.Set("client_secret", string(secret))
	default:
		header.Set("Authorization", basic(client.ID, string(secret)))
	}
	return nil
}

// basic returns the header of HTTP Basic, whose two parts are encoded as in forms (RFC 6749 2.3.1).
func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

// assertion returns a signed assertion of a client (RFC 7523 3). Its audience is the URL of the token endpoint: Okta
// accepts nothing else, and OpenID Connect Core 9 asks for it. Its weakness, that a server could use the assertion at
// another one, needs a key that is registered at both; each connection has a key of its own.
func assertion(client, tokenURL string, key []byte, now time.Time) (string, error) {
	return sign(key, "", jwt.Claims{
		Issuer: client, Subject: client, Audience: jwt.Audience{tokenURL}, ID: rand.Text(), IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionFor)),
	})
}

// appleSecret returns the client secret that Apple accepts: a token that is signed with the team's key.
func appleSecret(c *document.Connection, key []byte, now time.Time) (string, error) {
	return sign(key, c.Provider.KeyID, jwt.Claims{
		Issuer: c.Provider.TeamID, Subject: c.Client.ID, Audience: jwt.Audience{c.Provider.Issuer}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(assertionFor)),
	})
}

// sign signs claims with a private key in PEM: a P-256 key by ES256, an RSA key by RS256. keyID is "" for none: the
// provider has one key of the client.
func sign(text []byte, keyID string, claims jwt.Claims) (string, error) {
	key, algorithm, err := parsePrivateKey(text)
	if err != nil {
		return "", err
	}
	options := (&jose.SignerOptions{}).WithType("JWT")
	if keyID != "" {
		options = options.WithHeader("kid", keyID)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		return "", errors.New("the private key cannot sign")
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// parsePrivateKey parses a private key in PEM that the operator accepted.
func parsePrivateKey(text []byte) (crypto.Signer, jose.SignatureAlgorithm, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, "", errors.New("the private key is not PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, "", errors.New("the private key is not PKCS #8")
	}
	switch key := parsed.(type) {
	case *ecdsa.PrivateKey:
		return key, jose.ES256, nil
	case *rsa.PrivateKey:
		return key, jose.RS256, nil
	}
	return nil, "", errors.New("the private key is neither a P-256 nor an RSA key")
}

// secret opens the client secret or the private key of a connection.
func (p *Providers) secret(c Connection) ([]byte, error) {
	opened, err := p.open(c, c.Client.Sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: its client secret: %w", ErrUnavailable, err)
	}
	return opened, nil
}

// open opens what is sealed for a connection.
func (p *Providers) open(c Connection, sealed string) ([]byte, error) {
	if c.Runtime {
		return p.Keyring.Open(people.SealedConnection, people.SealedFor(c.Deployment, c.ID), sealed)
	}
	return p.Keyring.Open(document.SealedConnectionSecret, ids.Format(c.ID), sealed)
}
