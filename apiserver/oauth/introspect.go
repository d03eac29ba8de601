package oauth

import (
	"net/http"
	"slices"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
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
	form, err := c.form()
	if err != nil {
		return err
	}
	if err := c.authenticate(form); err != nil {
		return err
	}
	if c.client.Authentication == string(v1alpha1.ClientAuthenticationNone) {
		return invalidClient()
	}
	raw := form.Get("token")
	if raw == "" {
		return invalidRequest("token is missing")
	}
	writeJSON(c.w, http.StatusOK, c.judge(raw))
	return nil
}

// judge tells what is true of a token now, as far as the client may know.
func (c *call) judge(raw string) introspection {
	claims, ok := c.verify(raw)
	if !ok {
		return introspection{}
	}
	holder, found := c.findClient(claims.ClientID)
	if !found || holder.ID != c.client.ID && !c.owns(claims.Audience) {
		return introspection{}
	}
	return introspection{
		Active: true, Scope: claims.Scope, ClientID: claims.ClientID, TokenType: "Bearer", ExpiresAt: claims.Expiry.Time().Unix(), IssuedAt: claims.IssuedAt.Time().Unix(),
		Subject: claims.Subject, Audience: claims.Audience, Issuer: claims.Issuer, ID: claims.ID, Permissions: claims.Permissions,
	}
}

// owns tells whether a token is for a resource that the client is declared for.
func (c *call) owns(audience []string) bool {
	return c.client.Resources != nil && slices.ContainsFunc(audience, func(resource string) bool { return slices.Contains(*c.client.Resources, resource) })
}

// verify reads an access token that the app signed and whose time is not over.
func (c *call) verify(raw string) (accessClaims, bool) {
	var claims accessClaims
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil || len(parsed.Headers) != 1 || parsed.Headers[0].ExtraHeaders[jose.HeaderType] != typeAccessToken {
		return claims, false
	}
	for _, key := range c.Content.SigningKeys {
		var public jose.JSONWebKey
		if key.ID != parsed.Headers[0].KeyID || key.ExpiresAt != nil && !c.now.Before(*key.ExpiresAt) || public.UnmarshalJSON(key.Public) != nil || public.Algorithm != parsed.Headers[0].Algorithm {
			continue
		}
		if parsed.Claims(public.Key, &claims) != nil {
			return claims, false
		}
		return claims, claims.Issuer == c.Content.Issuer && claims.Expiry != nil && claims.IssuedAt != nil && c.now.Before(claims.Expiry.Time())
	}
	return claims, false
}
