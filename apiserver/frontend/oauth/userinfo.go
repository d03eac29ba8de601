package oauth

import (
	"maps"
	"net/http"
	"strings"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

// userinfo tells of the person whose access token is presented what they granted the client to know (OpenID Connect Core 5.3).
func userinfo(c *call) error {
	c.allowOrigin()
	kind, raw, _ := strings.Cut(c.r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") || len(c.r.Header.Values("Authorization")) > 1 {
		return &Error{Status: http.StatusUnauthorized, Code: "invalid_request", Description: "send an access token as Authorization: Bearer ...", Challenge: "Bearer"}
	}
	told, err := c.evaluate(strings.TrimSpace(raw))
	if err != nil {
		return err
	}
	if told.Client != nil {
		c.allowOriginOf(told.Client)
	}
	if told.Subject == nil || !told.Claims.Audience.Contains(c.Content.Issuer) { // one for a resource is for that resource alone
		return &Error{
			Status: http.StatusUnauthorized, Code: "invalid_token", Description: "the access token is no good any more, is of no person, or is for other resources alone: ask for the issuer as a resource too", Challenge: `Bearer error="invalid_token"`,
		}
	}
	if !told.Has(consent.ScopeOpenID) {
		return &Error{
			Status: http.StatusForbidden, Code: "insufficient_scope", Description: "the access token has not the scope openid", Challenge: `Bearer error="insufficient_scope", scope="openid"`,
		}
	}
	answer := map[string]any{}
	err = c.view(func(u *account.Unit) error {
		about, err := c.about(u, told.Subject, told.Scopes)
		maps.Copy(answer, about)
		return err
	})
	if err != nil {
		return err
	}
	answer["sub"] = told.Claims.Subject
	if told.Client.UserinfoSigningAlg == "" {
		writeJSON(c.w, http.StatusOK, answer)
		return nil
	}
	signer, err := signer(c, jose.SignatureAlgorithm(told.Client.UserinfoSigningAlg), typeIDToken)
	if err != nil {
		return err
	}
	answer["iss"], answer["aud"] = c.Content.Issuer, told.Client.ID
	signed, err := jwt.Signed(signer).Claims(answer).Serialize()
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", "application/jwt")
	header.Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write([]byte(signed)) // the client is gone
	return nil
}
