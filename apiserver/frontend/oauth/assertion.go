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
	// assertionType is how a client says that it proves itself by a signature (RFC 7523 2.2).
	assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
	// maxAssertionAge is how far ahead an assertion may end: so long it is remembered.
	maxAssertionAge = 10 * time.Minute
	// assertionLeeway is how much clocks may differ.
	assertionLeeway = 30 * time.Second
	// assertionScope counts how often each was presented.
	assertionScope = "oauth-assertion"
)

// assertionAlgorithms are those that clients sign with.
var assertionAlgorithms = []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.RS256, jose.PS256, jose.EdDSA}

// asserted reports whether a client proves itself by an assertion that it signed, for this app, now, and once.
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

// asker returns for whom the keys of a client are fetched: for the deployment, and for the network of the request where the client registered itself.
func asker(c *call, client *consent.Client) egress.Asker {
	asker := egress.Asker{Deployment: c.Deployment.Deployment}
	if !client.Trusted() {
		asker.Network = account.NewClient(c.address(), "").WideNetwork
	}
	return asker
}

// assertionKey finds the client's key that an assertion names, nil for none. Where it names none, the client has to have one of the kind.
func assertionKey(c *call, client *consent.Client, header jose.Header) (any, error) {
	if client.JWKSURL != "" {
		keys := c.Keys
		if !client.Trusted() {
			keys = c.registeredKeys
		}
		key, err := keys.Key(c.r.Context(), asker(c, client), client.JWKSURL, header.KeyID)
		if err != nil {
			tracing.Logger(c.r.Context(), c.Log).Info("The keys of a client cannot be had", "client", client.ID, "error", err.Error())
			return nil, &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "the keys at the client's jwksURL cannot be had now: try again", RetryAfter: 30 * time.Second}
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
