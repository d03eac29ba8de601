package oauth

import (
	"net/http"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// introspection is what is told of a token (RFC 7662 2.2). Of one that is not active, or not the asker's to know, nothing.
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
}

// introspect tells a confidential client of the app whether a token is good now: one of its own, or one for a resource of its own.
func introspect(c *call) error {
	raw, err := c.presentedToken()
	if err != nil {
		return err
	}
	if c.client.Public() {
		return invalidClient()
	}
	told, err := c.judge(raw)
	if err != nil {
		return err
	}
	if told.Client == nil {
		answer, err := c.introspectRefresh(raw)
		if err == nil {
			writeJSON(c.w, http.StatusOK, answer)
		}
		return err
	}
	if told.Client.ID != c.client.ID && !c.owns(told.Claims.Audience) {
		writeJSON(c.w, http.StatusOK, introspection{})
		return nil
	}
	writeJSON(c.w, http.StatusOK, introspection{
		Active: true, Scope: strings.Join(told.Scopes, " "), ClientID: told.Claims.ClientID, TokenType: "Bearer", ExpiresAt: told.Claims.Expiry.Time().Unix(),
		IssuedAt: told.Claims.IssuedAt.Time().Unix(), Subject: told.Claims.Subject, Audience: told.Claims.Audience, Issuer: told.Claims.Issuer, ID: told.Claims.ID,
		Permissions: told.Claims.Permissions,
	})
	return nil
}

// presentedToken authenticates the client, and reads the token that it asks about.
func (c *call) presentedToken() (string, error) {
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

// introspectRefresh tells a client whether a refresh token of its own would be taken.
func (c *call) introspectRefresh(raw string) (out introspection, err error) {
	hash, formed := session.Hash(raw)
	if !formed {
		return out, nil
	}
	err = c.view(func(u *account.Unit) error {
		token, family, found, err := refreshTokenOf(u, hash)
		if err != nil || !found || !c.holds(family) || !token.DiesAt.IsZero() && !c.now.Before(token.DiesAt) {
			return err
		}
		held, subject, err := c.Standing(u, family)
		if err != nil || subject == nil {
			return err
		}
		out = introspection{
			Active: true, Scope: strings.Join(held, " "), ClientID: family.Client, ExpiresAt: family.ExpiresAt.Unix(), IssuedAt: token.CreatedAt.Unix(),
			Subject: ids.Format(family.User), Issuer: c.Content.Issuer,
		}
		return nil
	})
	return out, err
}

// refreshTokenOf reads a refresh token with its family.
func refreshTokenOf(u *account.Unit, hash []byte) (token people.RefreshToken, family people.TokenFamily, found bool, err error) {
	if token, found, err = u.RefreshToken(hash); err != nil || !found {
		return token, family, false, err
	}
	family, found, err = u.TokenFamily(token.Family)
	return token, family, found, err
}

// owns tells whether a token is for a resource that the client is declared for.
func (c *call) owns(audience []string) bool {
	return c.client.Resources != nil && slices.ContainsFunc(audience, func(resource string) bool { return slices.Contains(*c.client.Resources, resource) })
}

// revoke ends a token of the client's, and with it all that came of the same authorization (RFC 7009). Of a token that is unknown, or
// another's, nothing is told. A client's own token ends by its lifetime alone.
func revoke(c *call) error {
	c.allowOrigin()
	raw, err := c.presentedToken()
	if err != nil {
		return err
	}
	family, found, err := c.familyOf(raw)
	if err != nil {
		return err
	}
	if !found {
		if claims, ok := c.ReadAccessToken(c.Keyring, raw, c.now); ok && claims.Authorization == "" && claims.ClientID == c.client.ID {
			return &Error{Status: http.StatusBadRequest, Code: "unsupported_token_type", Description: "a token of client_credentials ends by its lifetime: it cannot be revoked"}
		}
		c.w.WriteHeader(http.StatusOK)
		return nil
	}
	err = c.change(func(u *account.Unit) error {
		ended, err := u.EndTokenFamily(family.ID)
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

// familyOf finds the family of a refresh token or an access token of the client.
func (c *call) familyOf(raw string) (family people.TokenFamily, found bool, err error) {
	if hash, formed := session.Hash(raw); formed {
		err = c.view(func(u *account.Unit) (err error) {
			_, family, found, err = refreshTokenOf(u, hash)
			return err
		})
		return family, found && c.holds(family), err
	}
	claims, ok := c.ReadAccessToken(c.Keyring, raw, c.now)
	if !ok || claims.Authorization == "" {
		return family, false, nil
	}
	id, err := ids.Parse(claims.Authorization)
	if err != nil {
		return family, false, nil
	}
	err = c.view(func(u *account.Unit) (err error) {
		family, found, err = u.TokenFamily(id)
		return err
	})
	return family, found && c.holds(family), err
}
