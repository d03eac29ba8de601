package oauth

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// permissionIntrospect is the permission that API keys need to introspect tokens.
const permissionIntrospect = "oauth_clients:read"

// introspection is the response of introspection (RFC 7662 2.2). For an inactive token, or one that the caller may not
// see, it has no details.
type introspection struct {
	Active      bool     `json:"active"`
	Scope       string   `json:"scope,omitempty"`
	ClientID    string   `json:"client_id,omitempty"`
	TokenType   string   `json:"token_type,omitempty"`
	ExpiresAt   int64    `json:"exp,omitempty"`
	IssuedAt    int64    `json:"iat,omitempty"`
	Subject     string   `json:"sub,omitempty"`
	Audience    []string `json:"aud,omitempty"`
	Issuer      string   `json:"iss,omitempty"`
	ID          string   `json:"jti,omitempty"`
	Permissions []string `json:"permissions,omitempty"`
	ACR         string   `json:"acr,omitempty"`
	AMR         []string `json:"amr,omitempty"`
	AuthTime    int64    `json:"auth_time,omitempty"`
}

// introspect reports whether a token is valid now. A confidential client may ask about its own tokens and about tokens
// for its resources; an API key of the deployment with the permission may ask about any token.
func introspect(c *call) error {
	form, err := c.form()
	if err != nil {
		return err
	}
	permitted := true
	if kind, _, _ := strings.Cut(c.r.Header.Get("Authorization"), " "); strings.EqualFold(kind, "Bearer") {
		permitted, err = authenticateKey(c)
	} else if err = c.authenticate(form); err == nil && c.client.Public() {
		err = invalidClient()
	}
	if err != nil {
		return err
	}
	raw := form.Get("token")
	if raw == "" {
		return invalidRequest("token is missing")
	}
	if !permitted {
		writeJSON(c.w, http.StatusOK, introspection{})
		return nil
	}
	evaluated, err := c.evaluate(raw)
	if err != nil {
		return err
	}
	if evaluated.Client == nil {
		answer, err := introspectRefresh(c, raw)
		if err == nil {
			writeJSON(c.w, http.StatusOK, answer)
		}
		return err
	}
	if c.client != nil && evaluated.Client.ID != c.client.ID && !owns(c, evaluated.Claims.Audience) {
		writeJSON(c.w, http.StatusOK, introspection{})
		return nil
	}
	answer := introspection{
		Active: true, Scope: strings.Join(evaluated.Scopes, " "), ClientID: evaluated.Claims.ClientID, TokenType: "Bearer", ExpiresAt: evaluated.Claims.Expiry.Time().Unix(),
		IssuedAt: evaluated.Claims.IssuedAt.Time().Unix(), Subject: evaluated.Claims.Subject, Audience: evaluated.Claims.Audience, Issuer: evaluated.Claims.Issuer, ID: evaluated.Claims.ID,
		Permissions: evaluated.Claims.Permissions,
	}
	if evaluated.Subject != nil {
		answer.states(evaluated.Subject.Family)
	}
	writeJSON(c.w, http.StatusOK, answer)
	return nil
}

// states adds what the user of a token had proven.
func (i *introspection) states(family people.TokenFamily) {
	i.ACR, i.AuthTime = family.Stated(), family.AuthenticatedAt.Unix()
	_, i.AMR = family.Proven()
}

// authenticateKey authenticates an API key of the app's deployment, and reports whether it may introspect. Keys of
// other deployments are refused like unknown keys.
func authenticateKey(c *call) (permitted bool, err error) {
	refused := &Error{Status: http.StatusUnauthorized, Code: "invalid_token", Description: "the API key is not an active key of the deployment", Challenge: `Bearer error="invalid_token"`}
	_, presented, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	key, err := apikey.Read(presented)
	if err != nil || len(c.r.Header.Values("Authorization")) > 1 {
		return false, refused
	}
	principal, err := c.Authenticator.ByPresentedKey(c.r.Context(), c.Snapshot, key, c.address())
	if err != nil {
		switch apierror.Of(err).Status {
		case http.StatusServiceUnavailable:
			return false, &Error{Status: http.StatusServiceUnavailable, Code: "temporarily_unavailable", Description: "the API key cannot be checked now: try again", RetryAfter: time.Second}
		case http.StatusTooManyRequests:
			return false, &Error{Status: http.StatusTooManyRequests, Code: "slow_down", Description: "too many unknown API keys came from this address: try again in a minute", RetryAfter: time.Minute}
		}
	}
	if err != nil || principal.Deployment.Identity != c.Deployment.Identity {
		return false, refused
	}
	return principal.Allows(permissionIntrospect), nil
}

// presentedToken authenticates the client, and returns the token parameter.
func presentedToken(c *call) (string, error) {
	form, err := c.form()
	if err != nil {
		return "", err
	}
	if err := c.authenticate(form); err != nil {
		return "", err
	}
	if form.Get("token") == "" {
		return "", invalidRequest("token is missing")
	}
	return form.Get("token"), nil
}

// introspectRefresh introspects a refresh token. A client sees only its own tokens, an API key all tokens of the app.
func introspectRefresh(c *call, raw string) (out introspection, err error) {
	hash, formed := session.Hash(raw)
	if !formed {
		return out, nil
	}
	err = c.view(func(u *account.Unit) error {
		token, family, found, err := refreshTokenOf(u, hash)
		if err != nil || !found || !token.DiesAt.IsZero() && !c.now.Before(token.DiesAt) {
			return err
		}
		client, err := visibleClient(c, u, family)
		if err != nil || client == nil || !client.May(string(v1alpha1.GrantTypeRefreshToken)) || !c.now.Before(family.UsedAt.Add(idleOf(client))) {
			return err
		}
		effective, subject, err := c.EffectiveGrant(u, client, family)
		if unmet := new(consent.RequirementError); errors.As(err, &unmet) {
			return nil
		}
		if err != nil || subject == nil {
			return err
		}
		out = introspection{
			Active: true, Scope: strings.Join(effective, " "), ClientID: family.Client, ExpiresAt: family.ExpiresAt.Unix(), IssuedAt: token.CreatedAt.Unix(),
			Subject: ids.Format(family.User), Issuer: c.Content.Issuer,
		}
		out.states(family)
		return nil
	})
	return out, err
}

// visibleClient returns the client of a token family if the caller may see it, else nil. A client may see itself, and
// an API key all active clients of the app.
func visibleClient(c *call, u *account.Unit, family people.TokenFamily) (*consent.Client, error) {
	if c.client != nil && c.ownsFamily(family) {
		return c.client, nil
	}
	if c.client != nil || family.App != c.Entry.ID {
		return nil, nil
	}
	client, inUse, err := consent.FindClient(u, c.App, family.Client)
	if !inUse {
		client = nil
	}
	return client, err
}

// refreshTokenOf reads a refresh token with its token family.
func refreshTokenOf(u *account.Unit, hash []byte) (token people.RefreshToken, family people.TokenFamily, found bool, err error) {
	if token, found, err = u.OAuth().RefreshToken(hash); err != nil || !found {
		return token, family, false, err
	}
	family, found, err = u.OAuth().TokenFamily(token.Family)
	return token, family, found, err
}

// owns reports whether a token is for one of the client's declared resources.
func owns(c *call, audience []string) bool {
	return c.client.Resources != nil && slices.ContainsFunc(audience, func(resource string) bool { return slices.Contains(*c.client.Resources, resource) })
}

// revoke ends the token family of one of the client's tokens (RFC 7009). For an unknown token or one of another client,
// the response is the same. An access token of client_credentials cannot be revoked; it ends with its lifetime.
func revoke(c *call) error {
	c.allowOrigin()
	raw, err := presentedToken(c)
	if err != nil {
		return err
	}
	family, found, err := familyOf(c, raw)
	if err != nil {
		return err
	}
	if !found {
		if claims, ok := c.Tokens.Read(c.Entry, raw, c.now); ok && claims.Authorization == "" && claims.ClientID == c.client.ID {
			return &Error{Status: http.StatusBadRequest, Code: "unsupported_token_type", Description: "a token of client_credentials ends with its lifetime: it cannot be revoked"}
		}
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	err = c.change(func(u *account.Unit) error {
		ended, err := u.OAuth().EndTokenFamily(family.ID)
		if err != nil || !ended {
			return err
		}
		return u.Audit("oauth.token_revoked", "oauth_grant:"+ids.Format(family.Grant))
	})
	if err == nil {
		c.w.WriteHeader(http.StatusOK)
	}
	return err
}

// familyOf returns the token family of a refresh token or an access token of the client.
func familyOf(c *call, raw string) (family people.TokenFamily, found bool, err error) {
	if hash, formed := session.Hash(raw); formed {
		err = c.view(func(u *account.Unit) (err error) {
			_, family, found, err = refreshTokenOf(u, hash)
			return err
		})
		return family, found && c.ownsFamily(family), err
	}
	claims, ok := c.Tokens.Read(c.Entry, raw, c.now)
	if !ok || claims.Authorization == "" {
		return family, false, nil
	}
	id, err := ids.Parse(claims.Authorization)
	if err != nil {
		return family, false, nil
	}
	err = c.view(func(u *account.Unit) (err error) {
		family, found, err = u.OAuth().TokenFamily(id)
		return err
	})
	return family, found && c.ownsFamily(family), err
}
