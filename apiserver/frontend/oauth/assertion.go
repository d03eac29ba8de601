package oauth

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// assertionType is the value by which a client announces a signed assertion (RFC 7523 2.2).
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// maxAssertionAge is how far in the future an assertion may expire. A use is remembered until then.
	maxAssertionAge = 10 * time.Minute
	// assertionLeeway is the tolerated difference of clocks.
	assertionLeeway = 30 * time.Second
	// assertionScope is the scope of the counters that detect reuse: each assertion has a counter of its uses.
	assertionScope = "oauth-assertion"
)

// assertionAlgorithms are the signature algorithms that clients may use.
var assertionAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.RS256, jose.PS256, jose.EdDSA}

// asserted reports whether the client presented a signed assertion that is for this app, valid now, and used for the
// first time.
func asserted(c *call, client *consent.Client, form url.Values) (bool, error) {
	if form.Get("client_assertion_type") != assertionType {
		return false, nil
	}
	parsed, err := jwt.ParseSigned(form.Get("client_assertion"), assertionAlgorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return false, nil
	}
	key, err := assertionKey(c, client, parsed.Headers[0])
	if err != nil || key == nil {
		return false, err
	}
	var claims jwt.Claims
	if parsed.Claims(key, &claims) != nil || claims.Expiry == nil || claims.ID == "" || len(claims.ID) > maxOpaque {
		return false, nil
	}
	expected := jwt.Expected{Issuer: client.ID, Subject: client.ID, AnyAudience: jwt.Audience{c.Content.Issuer, c.Content.Issuer + "/token"}, Time: c.now}
	if claims.ValidateWithLeeway(expected, assertionLeeway) != nil || claims.Expiry.Time().After(c.now.Add(maxAssertionAge)) {
		return false, nil
	}
	sum := sha256.Sum256([]byte(client.ID + " " + claims.ID))
	first := false
	err = c.change(func(u *account.Unit) error {
		counted, err := u.Limits().Count(assertionScope, base64.RawURLEncoding.EncodeToString(sum[:]), c.now, claims.Expiry.Time().Add(assertionLeeway))
		first = counted.Count == 1
		return err
	})
	return first, err
}

// asker returns the party for which a client's keys are fetched: the deployment, and also the request's network if the
// client registered itself.
func asker(c *call, client *consent.Client) egress.Asker {
	asker := egress.Asker{Deployment: c.Deployment.Deployment}
	if !client.Trusted() {
		asker.Source = account.NewClient(c.address(), "").WideNetwork
	}
	return asker
}

// assertionKey returns the client's key that an assertion names, nil for none. Without a key id, the client must have
// exactly one fitting key.
func assertionKey(c *call, client *consent.Client, header jose.Header) (any, error) {
	if client.JWKSURL != "" {
		keys := c.Keys
		if !client.Trusted() {
			keys = c.registeredKeys
		}
		key, err := keys.Key(c.r.Context(), asker(c, client), client.JWKSURL, header.KeyID)
		if err != nil {
			tracing.Logger(c.r.Context(), c.Log).Info("Fetching a client's keys failed", "client", client.ID, "error", err.Error())
			return nil, &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "the keys at the client's jwksURL cannot be fetched now: try again", RetryAfter: 30 * time.Second}
		}
		if key == nil || key.Algorithm != "" && key.Algorithm != header.Algorithm {
			return nil, nil
		}
		return key.Key, nil
	}
	if client.Client.Keys == nil {
		return nil, nil
	}
	fitting := slices.DeleteFunc(slices.Clone(client.Client.Keys.Keys), func(key jose.JSONWebKey) bool {
		return header.KeyID != "" && key.KeyID != header.KeyID || key.Algorithm != "" && key.Algorithm != header.Algorithm
	})
	if len(fitting) != 1 {
		return nil, nil
	}
	return fitting[0].Key, nil
}
