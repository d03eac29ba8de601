package agents

import (
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
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
	Actor        *actor `json:"act,omitempty"`
}

// actor is a party that acts for the subject, the newest outside.
type actor struct {
	Subject string `json:"sub"`
	Actor   *actor `json:"act,omitempty"`
}

// token signs the token of a call by the user's authorization or a template, "" for a tool that needs none. It is valid
// at the tool's audience alone, and no longer than the credential of the caller. It returns the result of the call if
// the template cannot be used.
func (c *call) token(t *toolset.Tool, id int64) (string, *toolcall.Result, error) {
	authorization := &t.Content.Authorization
	if !authorization.Token() {
		return "", nil, nil
	}
	if len(c.settings.FrontendHosts) == 0 { // nothing issues the token
		refused := toolcall.Failed(codeNotConfigured, notConfigured)
		return "", &refused, nil
	}
	claims := c.claims(t, id)
	if authorization.JWTTemplateID == "" && authorization.JWTTemplate == "" {
		token, err := c.Signer.Sign(c.settings, bearer.TypeAccessToken, claims)
		return token, nil, err
	}
	templated, err := templated(c, t, id, claims)
	if err != nil {
		if errors.Is(err, store.ErrUnavailable) {
			return "", nil, apierror.Unavailable(err, "the store is unavailable: try again")
		}
		tracing.Logger(c.r.Context(), c.Log).Info("The template of a tool cannot be used: correct the JWTTemplate",
			"namespace", t.Entry.Namespace, "name", t.Entry.Name, "request_id", c.ID[0], "fault", err.Error())
		refused := toolcall.Failed(codeNotConfigured, notConfigured)
		return "", &refused, nil
	}
	token, err := c.Signer.Sign(c.settings, bearer.TypeAccessToken, templated)
	return token, nil, err
}

// claims returns the claims of a token without those of a template. Without the user's authorization, it is the agent's
// own token.
func (c *call) claims(t *toolset.Tool, id int64) userClaims {
	agent := "agent:" + ids.Format(c.agent.ID)
	claims := userClaims{
		Claims: jwt.Claims{
			Issuer: "https://" + c.settings.FrontendHosts[0], Subject: agent, Audience: jwt.Audience{audienceOf(t)}, ID: ids.Format(id),
			IssuedAt: jwt.NewNumericDate(c.Clock()), Expiry: c.expiry(userTokenLifetime),
		},
		ClientID: clientID(c.caller), Scope: strings.Join(t.Content.Permissions, " "),
	}
	if t.Content.Authorization.AuthorizeAsUser {
		claims.Subject = ids.Format(c.caller.User)
		claims.Actor = &actor{Subject: agent, Actor: &actor{Subject: c.caller.Kind + ":" + c.caller.ID}}
	}
	if c.caller.Organization != 0 {
		claims.Organization = ids.Format(c.caller.Organization)
	}
	if c.caller.Workspace != 0 {
		claims.Workspace = ids.Format(c.caller.Workspace)
	}
	return claims
}

// expiry returns when a token with a lifetime ends: no later than the credential of the caller.
func (c *call) expiry(lifetime time.Duration) *jwt.NumericDate {
	expires := c.Clock().Add(lifetime)
	if end := c.caller.ExpiresAt; !end.IsZero() && end.Before(expires) {
		expires = end
	}
	return jwt.NewNumericDate(expires)
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
