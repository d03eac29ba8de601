package agents

import (
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/internal/ids"
)

// userTokenLifetime is how long the token of a call is valid.
const userTokenLifetime = time.Minute

// userClaims are the claims of the token that a tool gets for a user (RFC 9068; RFC 8693 4.1): the user delegates, the
// agent acts, for the program that called it.
type userClaims struct {
	jwt.Claims
	ClientID     string `json:"client_id"`
	Scope        string `json:"scope,omitempty"`
	Organization string `json:"org_id,omitempty"`
	Workspace    string `json:"workspace_id,omitempty"`
	Actor        actor  `json:"act"`
}

// actor is a party that acts for the subject, the newest outside.
type actor struct {
	Subject string `json:"sub"`
	Actor   *actor `json:"act,omitempty"`
}

// userToken signs the token of a call by the user's authorization, "" for a tool that needs none. It is valid at the
// tool's audience alone, and no longer than the credential of the caller.
func (c *call) userToken(t *toolset.Tool, id int64) (string, error) {
	if !t.Content.Authorization.AuthorizeAsUser {
		return "", nil
	}
	now := c.Clock()
	expires := now.Add(userTokenLifetime)
	if end := c.caller.ExpiresAt; !end.IsZero() && end.Before(expires) {
		expires = end
	}
	claims := userClaims{
		Claims: jwt.Claims{
			Issuer: "https://" + c.settings.FrontendHosts[0], Subject: ids.Format(c.caller.User), Audience: jwt.Audience{audienceOf(t)}, ID: ids.Format(id),
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(expires),
		},
		ClientID: clientID(c.caller), Scope: strings.Join(t.Content.Permissions, " "),
		Actor: actor{Subject: "agent:" + ids.Format(c.agent.ID), Actor: &actor{Subject: c.caller.Kind + ":" + c.caller.ID}},
	}
	if c.caller.Organization != 0 {
		claims.Organization = ids.Format(c.caller.Organization)
	}
	if c.caller.Workspace != 0 {
		claims.Workspace = ids.Format(c.caller.Workspace)
	}
	return c.Signer.Sign(c.settings, bearer.TypeAccessToken, claims)
}

// clientID names the program that calls: an OAuth client by its id, a key by "key:" and its id, a session as "session".
func clientID(who *caller.Caller) string {
	switch who.Kind {
	case caller.KindClient:
		return who.ID
	case caller.KindSession:
		return who.Kind
	}
	return who.Kind + ":" + who.ID
}

// audienceOf returns the audience of a tool's tokens: the declared one, else scheme and authority of the endpoint.
func audienceOf(t *toolset.Tool) string {
	if declared := t.Content.Authorization.Audience; declared != "" {
		return declared
	}
	scheme, rest, _ := strings.Cut(t.Content.Endpoint, "://")
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		rest = rest[:at]
	}
	return (&url.URL{Scheme: scheme, Host: rest}).String()
}
