package oauth

import (
	"maps"
	"net/http"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

// userinfo returns the claims about the access token's user that the user granted to the client (OpenID Connect Core
// 5.3).
func userinfo(c *call) error {
	c.allowOrigin()
	raw, ok := bearer.FromHeader(c.r)
	if !ok {
		return &Error{Status: http.StatusUnauthorized, Code: "invalid_request", Description: "send an access token as Authorization: Bearer ...", Challenge: "Bearer"}
	}
	evaluated, err := c.evaluate(raw)
	if err != nil {
		return err
	}
	if evaluated.Client != nil {
		c.allowOriginOf(evaluated.Client)
	}
	if evaluated.Subject == nil || !evaluated.Claims.Audience.Contains(c.Content.Issuer) { // a token for another resource is for that resource only
		return &Error{
			Status: http.StatusUnauthorized, Code: "invalid_token", Description: "the access token is not valid, has no user, or is only for other resources: request the issuer as a resource too", Challenge: `Bearer error="invalid_token"`,
		}
	}
	if !evaluated.Has(consent.ScopeOpenID) {
		return &Error{
			Status: http.StatusForbidden, Code: "insufficient_scope", Description: "the access token lacks the scope openid", Challenge: `Bearer error="insufficient_scope", scope="openid"`,
		}
	}
	answer := map[string]any{}
	err = c.view(func(u *account.Unit) error {
		about, err := c.about(u, evaluated.Subject, evaluated.Scopes)
		maps.Copy(answer, about)
		return err
	})
	if err != nil {
		return err
	}
	answer["sub"] = evaluated.Claims.Subject
	if evaluated.Client.UserinfoSigningAlg == "" {
		writeJSON(c.w, http.StatusOK, answer)
		return nil
	}
	signer, err := signer(c, jose.SignatureAlgorithm(evaluated.Client.UserinfoSigningAlg), typeIDToken)
	if err != nil {
		return err
	}
	answer["iss"], answer["aud"] = c.Content.Issuer, evaluated.Client.ID
	signed, err := jwt.Signed(signer).Claims(answer).Serialize()
	if err != nil {
		return err
	}
	header := c.w.Header()
	header.Set("Content-Type", "application/jwt")
	header.Set("Cache-Control", "no-store")
	c.w.WriteHeader(http.StatusOK)
	_, _ = c.w.Write([]byte(signed)) // an error means that the client is disconnected
	return nil
}
