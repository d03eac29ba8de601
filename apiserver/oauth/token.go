package oauth

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store/document"
)

// typeAccessToken is the type of access tokens that are JWTs (RFC 9068).
const typeAccessToken = "at+jwt"

// granted is what the token endpoint answers.
type granted struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope,omitempty"`
}

// accessClaims are what an access token says (RFC 9068 2.2).
type accessClaims struct {
	jwt.Claims
	ClientID    string   `json:"client_id"`
	Scope       string   `json:"scope,omitempty"`
	Permissions []string `json:"permissions,omitempty"`
}

// token gives tokens for what a client presents.
func token(c *call) error {
	c.allowOrigin()
	form, err := c.form()
	if err != nil {
		return err
	}
	if err := c.authenticate(form); err != nil {
		return err
	}
	switch form.Get("grant_type") {
	case "client_credentials":
		return c.clientCredentials(form)
	case "":
		return invalidRequest("grant_type is missing")
	}
	return unsupportedGrant("grant_type is none of those in the metadata")
}

// clientCredentials gives a client a token of its own (RFC 6749 4.4). No row is written.
func (c *call) clientCredentials(form url.Values) error {
	if !c.client.May(string(v1alpha1.GrantTypeClientCredentials)) {
		return unauthorizedClient("the client may not use client_credentials: add ClientCredentials to its grantTypes")
	}
	scopes, err := c.machineScopes(form)
	if err != nil {
		return err
	}
	audience, err := c.audience(form["resource"])
	if err != nil {
		return err
	}
	lifetime := c.client.AccessTokenLifetime()
	claims := accessClaims{
		Claims: jwt.Claims{
			Issuer: c.Content.Issuer, Subject: c.client.ID, Audience: audience, IssuedAt: jwt.NewNumericDate(c.now),
			Expiry: jwt.NewNumericDate(c.now.Add(lifetime)), ID: rand.Text(),
		},
		ClientID: c.client.ID, Scope: strings.Join(scopes, " "), Permissions: c.client.MachinePermissions,
	}
	signer, err := c.signer(jose.ES256, typeAccessToken)
	if err != nil {
		return err
	}
	signed, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		return fmt.Errorf("sign an access token: %w", err)
	}
	writeJSON(c.w, 200, granted{AccessToken: signed, TokenType: "Bearer", ExpiresIn: int64(lifetime / time.Second), Scope: claims.Scope})
	return nil
}

// machineScopes are those a client may have of its own: of no category, within its ceiling. Without scope it gets its declared ceiling, else none.
func (c *call) machineScopes(form url.Values) ([]string, error) {
	asked, err := scopesOf(form.Get("scope"))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, entry := range c.Snapshot.Scopes(c.Entry) {
		if scope := snapshot.ContentOf[document.OAuthScope](entry); scope.Category == "" && !scope.Archived && c.mayAsk(scope.Scope) {
			own[scope.Scope] = true
		}
	}
	if !form.Has("scope") && c.client.Scopes != nil {
		return slices.DeleteFunc(slices.Clone(*c.client.Scopes), func(scope string) bool { return !own[scope] }), nil
	}
	for _, scope := range asked {
		if !own[scope] {
			return nil, invalidScope("a scope is unknown, archived, not the client's, or of a category that needs a person")
		}
	}
	return asked, nil
}

// mayAsk tells whether a scope is within the client's ceiling.
func (c *call) mayAsk(scope string) bool {
	return c.client.Scopes == nil || slices.Contains(*c.client.Scopes, scope)
}

// scopesOf splits a list of scopes (RFC 6749 3.3), each named once.
func scopesOf(list string) ([]string, error) {
	var scopes []string
	for scope := range strings.SplitSeq(list, " ") {
		switch {
		case scope == "":
		case strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }):
			return nil, invalidScope("a scope has a character that scopes do not have")
		case !slices.Contains(scopes, scope):
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// audience is whom a token is for: the resources that were asked for, or else the issuer (RFC 8707).
func (c *call) audience(resources []string) (jwt.Audience, error) {
	if len(resources) == 0 {
		return jwt.Audience{c.Content.Issuer}, nil
	}
	for _, resource := range resources {
		if !slices.Contains(c.Content.Resources, resource) || c.client.Resources != nil && !slices.Contains(*c.client.Resources, resource) {
			return nil, invalidTarget("a resource is unknown, or not the client's")
		}
	}
	return jwt.Audience(slices.Compact(slices.Sorted(slices.Values(resources)))), nil
}
