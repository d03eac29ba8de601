package oauth

import (
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// findClient returns an active client of the app. Declared clients need no read of the store.
func (c *call) findClient(id string) (client *consent.Client, inUse bool, err error) {
	client, inUse, declared := consent.DeclaredClient(c.Snapshot, c.App, id)
	if declared || !consent.MayBeRegistered(id) {
		return client, inUse, nil
	}
	err = c.view(func(u *account.Unit) (err error) {
		client, inUse, err = consent.FindClient(u, c.App, id)
		return err
	})
	return client, inUse, err
}

// names records the known client that a request names; nil records nothing.
func (c *call) names(client *consent.Client) {
	if client != nil {
		c.named = client.ID
	}
}

// namesBy records the known client of a request that cannot be parsed: the one with the id in the form, or else in the
// header.
func (c *call) namesBy(form url.Values) {
	id := form.Get("client_id")
	if user, _, basic := c.r.BasicAuth(); id == "" && basic {
		id = user
	}
	if found, _, err := c.findClient(id); err == nil {
		c.names(found)
	}
}

// authenticate determines the client of a request (RFC 6749 2.3). A client presents credentials in exactly one way; a
// public client only sends its id. Every failure returns the same error.
func (c *call) authenticate(form url.Values) error {
	id, secret, presented, err := presentedSecret(c.r, form)
	if err != nil {
		c.namesBy(form)
		return err
	}
	asserts := form.Has("client_assertion")
	if asserts && (presented || len(c.r.Header.Values("Authorization")) > 0) {
		c.namesBy(form)
		return invalidRequest("credentials are present in more than one way")
	}
	if asserts && id == "" {
		id = assertedClient(form.Get("client_assertion"))
	}
	found, known, err := c.findClient(id)
	if err != nil {
		return err
	}
	c.names(found)
	if (presented || asserts) && c.secretAttempts.TooMany(c.address(), id) {
		return &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "too many wrong secrets came from this address: try again in a minute", RetryAfter: time.Minute}
	}
	proven := known && c.proves(found, secret, presented)
	if known && asserts && found.Authentication == string(v1alpha1.ClientAuthenticationPrivateKeyJWT) {
		if proven, err = asserted(c, found, form); err != nil {
			return err
		}
	}
	if !proven || asserts && found.Authentication != string(v1alpha1.ClientAuthenticationPrivateKeyJWT) {
		if presented || asserts {
			c.secretAttempts.Failed(c.address(), id)
		}
		return invalidClient()
	}
	c.client = found
	c.allowOriginOf(found)
	return nil
}

// assertedClient returns the subject of an assertion before its verification.
func assertedClient(assertion string) string {
	parsed, err := jwt.ParseSigned(assertion, assertionAlgorithms)
	var claims jwt.Claims
	if err != nil || parsed.UnsafeClaimsWithoutVerification(&claims) != nil {
		return ""
	}
	return claims.Subject
}

// presentedSecret reads the credentials of a request.
func presentedSecret(r *http.Request, form url.Values) (id, secret string, presented bool, err error) {
	header := r.Header.Values("Authorization")
	if len(header) > 1 || len(header) == 1 && form.Has("client_secret") {
		return "", "", false, invalidRequest("credentials are present in more than one way")
	}
	if len(header) == 0 {
		return form.Get("client_id"), form.Get("client_secret"), form.Has("client_secret"), nil
	}
	kind, encoded, _ := strings.Cut(header[0], " ")
	raw, decodeErr := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	user, password, there := strings.Cut(string(raw), ":")
	if !strings.EqualFold(kind, "Basic") || decodeErr != nil || !there {
		return "", "", false, invalidClient()
	}
	// Both parts are form-encoded (RFC 6749 2.3.1).
	if id, err = url.QueryUnescape(user); err == nil {
		secret, err = url.QueryUnescape(password)
	}
	if err != nil || form.Has("client_id") && form.Get("client_id") != id {
		return "", "", false, invalidClient()
	}
	return id, secret, true, nil
}

// proves reports whether the presented secret authenticates a client.
func (c *call) proves(found *consent.Client, secret string, presented bool) bool {
	switch v1alpha1.ClientAuthentication(found.Authentication) {
	case v1alpha1.ClientAuthenticationNone:
		return !presented
	case v1alpha1.ClientAuthenticationSecretBasic, v1alpha1.ClientAuthenticationSecretPost:
		key, err := apikey.Read(secret)
		if err != nil || !presented {
			return false
		}
		digest, right := key.Digest(), false
		for _, verifier := range found.Verifiers {
			if verifier.Digest.Equal(digest) && (verifier.ExpiresAt == nil || c.now.Before(*verifier.ExpiresAt)) {
				right = true
			}
		}
		return right
	}
	return false
}

// address returns the client's IP address, as the trusted proxies report it.
func (c *call) address() netip.Addr { return c.Proxies.ClientAddress(c.r) }
