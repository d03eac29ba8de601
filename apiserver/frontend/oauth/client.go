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

// findClient returns a client of the app that is in use. Declared ones need no store.
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

// names notes which client a request names, nil for none that is known.
func (c *call) names(client *consent.Client) {
	if client != nil {
		c.named = client.ID
	}
}

// namesBy notes the known client of a request that cannot be read: whose id is in the form, else in the header. What cannot be looked up is none.
func (c *call) namesBy(form url.Values) {
	id := form.Get("client_id")
	if user, _, basic := c.r.BasicAuth(); id == "" && basic {
		id = user
	}
	if found, _, err := c.findClient(id); err == nil {
		c.names(found)
	}
}

// authenticate finds out which client a request is from (RFC 6749 2.3). A client presents its secret in one way, never in two; a public one
// names itself alone. Every failure is one answer.
func (c *call) authenticate(form url.Values) error {
	id, secret, presented, err := presentedSecret(c.r, form)
	if err != nil {
		c.namesBy(form)
		return err
	}
	asserts := form.Has("client_assertion")
	if asserts && (presented || len(c.r.Header.Values("Authorization")) > 0) {
		c.namesBy(form)
		return invalidRequest("credentials are there in more than one way")
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

// assertedClient is who an assertion says that it is from, before anything of it is proven.
func assertedClient(assertion string) string {
	parsed, err := jwt.ParseSigned(assertion, assertionAlgorithms)
	var claims jwt.Claims
	if err != nil || parsed.UnsafeClaimsWithoutVerification(&claims) != nil {
		return ""
	}
	return claims.Subject
}

// presentedSecret reads what a client presents.
func presentedSecret(r *http.Request, form url.Values) (id, secret string, presented bool, err error) {
	header := r.Header.Values("Authorization")
	if len(header) > 1 || len(header) == 1 && form.Has("client_secret") {
		return "", "", false, invalidRequest("credentials are there in more than one way")
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
	// Each is form-encoded before (RFC 6749 2.3.1).
	if id, err = url.QueryUnescape(user); err == nil {
		secret, err = url.QueryUnescape(password)
	}
	if err != nil || form.Has("client_id") && form.Get("client_id") != id {
		return "", "", false, invalidClient()
	}
	return id, secret, true, nil
}

// proves reports whether a client is the one it says it is.
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

// address is the client's, as the trusted proxies tell it.
func (c *call) address() netip.Addr { return c.Proxies.ClientAddress(c.r) }
