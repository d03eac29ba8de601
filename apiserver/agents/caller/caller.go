// Package caller identifies the callers of an agent's tools: which credentials an agent accepts, for which user a call
// is made, and what the caller may do.
package caller

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
)

// Permission is the permission that API keys, and tokens of declared issuers, need to call the tools of agents.
const Permission = "ai_agents:call"

// The kinds of callers.
const (
	KindKey     = people.CallerKey
	KindClient  = people.CallerClient
	KindSession = people.CallerSession
	KindToken   = people.CallerToken
)

// Options configures a Resolver.
type Options struct {
	Authenticator *credential.Authenticator
	// Tokens reads the access tokens of OAuth apps.
	Tokens *bearer.AccessTokens
	// People has the grants of access tokens.
	People people.Store
	Clock  func() time.Time
}

// Resolver identifies callers. It is safe for concurrent use.
type Resolver struct{ Options }

// New returns a Resolver.
func New(opts Options) *Resolver { return &Resolver{opts} }

// Caller is the party that calls, and its user. No header, body or argument of a call changes it.
type Caller struct {
	// Principal is the credential's.
	Principal *credential.Principal
	// Kind is one of the kinds of callers, and ID identifies the caller among them: the public id of a key, a client's id,
	// a session's id, or the subject of a token.
	Kind, ID string
	// User is the user of the call, and Organization and Workspace are where; 0 for none.
	User, Organization, Workspace int64
	// ExpiresAt is when the credential ends, zero for never.
	ExpiresAt time.Time

	oauth *oauthRights
}

// byItself reports whether the caller acts by rights of its own, not by those of a user that signed in.
func (c *Caller) byItself() bool { return c.Kind == KindKey || c.Kind == KindToken }

// MayCall reports whether the credential is one that may call tools at all.
func (c *Caller) MayCall() bool { return !c.byItself() || c.Principal.Grants(Permission) }

// Has reports whether the caller has all of the permissions.
func (c *Caller) Has(permissions []string) bool {
	return !slices.ContainsFunc(permissions, func(name string) bool { return !c.has(name) })
}

func (c *Caller) has(name string) bool {
	if c.oauth != nil {
		return c.oauth.held[name]
	}
	return c.Principal.Grants(name)
}

// CanObtain reports whether the caller has all of the permissions, or gets them when its user grants its client further
// scopes.
func (c *Caller) CanObtain(permissions []string) bool {
	return !slices.ContainsFunc(permissions, func(name string) bool { return !c.has(name) && (c.oauth == nil || len(c.oauth.scopes[name]) == 0) })
}

// ScopesFor returns the scopes that a token needs for the permissions: those of it that already give them, and one for
// each that is missing, sorted.
func (c *Caller) ScopesFor(permissions []string) []string {
	if c.oauth == nil {
		return nil
	}
	var scopes []string
	for _, name := range permissions {
		candidates := c.oauth.scopes[name]
		at := slices.IndexFunc(candidates, func(scope string) bool { return slices.Contains(c.oauth.granted, scope) })
		switch {
		case at >= 0:
			scopes = append(scopes, candidates[at])
		case len(candidates) > 0:
			scopes = append(scopes, candidates[0])
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// Client returns the id of the OAuth client of the call, "" if it is made without one.
func (c *Caller) Client() string {
	if c.Kind == KindClient {
		return c.ID
	}
	return ""
}

// Of identifies the caller that presents a credential to an agent. The error is a 401 for every credential that the
// agent does not accept, a 429 for an address that presented too many unknown ones, or a 503.
func (r *Resolver) Of(ctx context.Context, s *snapshot.Snapshot, agent *snapshot.Entry, raw string, address netip.Addr) (*Caller, error) {
	form := bearer.Classify(raw)
	if form == bearer.APIKey {
		return r.byKey(ctx, s, agent, raw, address)
	}
	c, err := r.byToken(ctx, s, agent, raw, form)
	return r.throttled(address, c, err)
}

// OfID identifies the caller that presents a credential to the agent with an id, on a listener whose requests do not
// name the agent's deployment. A token of an OAuth app or of a session that is for the agent's URL is accepted as Of
// accepts it. Every other credential must be one of the backend API. The deployment is that of the principal. The error
// is that of Of; a 401 does not depend on whether there is such an agent.
func (r *Resolver) OfID(ctx context.Context, s *snapshot.Snapshot, id int64, raw string, address netip.Addr) (*Caller, error) {
	form := bearer.Classify(raw)
	if agent, found := agentOf(s, id, raw, form); found {
		c, err := r.byToken(ctx, s, agent, raw, form)
		return r.throttled(address, c, err)
	}
	p, err := r.Authenticator.ByCredential(ctx, s, raw, address)
	if form == bearer.APIKey && err != nil { // counted already
		return nil, err
	}
	if err != nil {
		return r.throttled(address, nil, err)
	}
	c := OfPrincipal(p)
	if token, err := bearer.Parse(raw); c.Kind == KindToken && err == nil && token.Claims.Expiry != nil {
		c.ExpiresAt = token.Claims.Expiry.Time()
	}
	return c, nil
}

// agentOf returns the agent with an id if a token states that it is for this agent: the agent's URL is an audience, and
// the issuer is the agent's OAuth app, or its deployment if the agent accepts session tokens. The audience of an opaque
// token is unknown here. Nothing is verified.
func agentOf(s *snapshot.Snapshot, id int64, raw string, form bearer.Form) (*snapshot.Entry, bool) {
	if form == bearer.APIKey {
		return nil, false
	}
	issuer, deployment := bearer.StatedIssuer(raw), ""
	app, own := s.AppByIssuer(issuer)
	if host, isURL := strings.CutPrefix(issuer, "https://"); own {
		deployment = app.Deployment
	} else if sessions, found := s.ByHost(host); isURL && found && form == bearer.SessionToken {
		deployment = sessions.Deployment
	}
	agent, found := s.ByID(v1alpha1.KindAIAgent, deployment, id)
	if !found {
		return nil, false
	}
	content := snapshot.ContentOf[snapshot.Agent](agent)
	if content.URL == "" || own && app.Name != content.OAuthApp || !own && !content.Sessions {
		return nil, false
	}
	if form == bearer.OpaqueAccessToken {
		return agent, true
	}
	token, err := bearer.Parse(raw)
	return agent, err == nil && token.Claims.Audience.Contains(content.URL)
}

// throttled returns a caller, or the error that identified none, which counts as a failed attempt of an address.
func (r *Resolver) throttled(address netip.Addr, c *Caller, err error) (*Caller, error) {
	// An expired token is no attempt to guess one: its client needs the 401 to get a new one.
	if refused := apierror.Of(err); err == nil || refused.Status != 401 || errors.Is(err, credential.ErrExpired) {
		return c, err
	}
	// As for session tokens of decisions: valid tokens are accepted from a throttled address, because users share it.
	if r.Authenticator.Attempts.TooMany(address, address) {
		return nil, credential.TooManyAttempts()
	}
	r.Authenticator.Attempts.Failed(address, address)
	return nil, err
}

func (r *Resolver) byToken(ctx context.Context, s *snapshot.Snapshot, agent *snapshot.Entry, raw string, form bearer.Form) (*Caller, error) {
	content := snapshot.ContentOf[snapshot.Agent](agent)
	if content.URL == "" {
		return nil, apierror.InvalidToken()
	}
	if app, own := s.AppByIssuer(bearer.StatedIssuer(raw)); own {
		if app.Deployment != agent.Deployment || app.Name != content.OAuthApp {
			return nil, apierror.InvalidToken()
		}
		return r.byAccessToken(ctx, s, app, content.URL, raw)
	}
	if form == bearer.SessionToken && content.Sessions {
		c, err := r.bySession(ctx, s, agent, content.URL, raw)
		if err == nil || errors.Is(err, credential.ErrExpired) || errors.Is(err, errEnded) || apierror.Of(err).Status != http.StatusUnauthorized {
			return c, err
		}
	}
	return r.byDeclaredIssuer(ctx, s, agent, content.URL, raw)
}

// OfPrincipal returns the caller with a principal that is authenticated already: that of a key, or of a token of a
// declared issuer.
func OfPrincipal(p *credential.Principal) *Caller {
	if p.KeyID == "" {
		return &Caller{Principal: p, Kind: KindToken, ID: p.Subject}
	}
	c := &Caller{Principal: p, Kind: KindKey, ID: p.KeyID}
	if p.Runtime != nil {
		c.User, c.Organization, c.Workspace, c.ExpiresAt = p.Runtime.OwnerUserID, p.Runtime.OrganizationID, p.Runtime.WorkspaceID, p.Runtime.ExpiresAt
	}
	return c
}

func (r *Resolver) byKey(ctx context.Context, s *snapshot.Snapshot, agent *snapshot.Entry, raw string, address netip.Addr) (*Caller, error) {
	key, err := apikey.Read(raw)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	p, err := r.Authenticator.ByPresentedKey(ctx, s, key, address)
	if err != nil {
		return nil, err
	}
	if p.Deployment.Deployment != agent.Deployment {
		return nil, apierror.InvalidToken()
	}
	return OfPrincipal(p), nil
}

// byDeclaredIssuer accepts a token of an issuer that the agent's deployment declares for the agent's URL.
func (r *Resolver) byDeclaredIssuer(ctx context.Context, s *snapshot.Snapshot, agent *snapshot.Entry, url, raw string) (*Caller, error) {
	token, err := bearer.Parse(raw)
	if err != nil || !token.Claims.Audience.Contains(url) {
		return nil, apierror.InvalidToken()
	}
	declared := slices.ContainsFunc([]string{token.Claims.Issuer, ""}, func(issuer string) bool {
		known, found := s.Issuer(issuer, url)
		return found && known.Deployment.Deployment == agent.Deployment
	})
	if !declared {
		return nil, apierror.InvalidToken()
	}
	p, err := r.Authenticator.Tokens.Authenticate(ctx, s, raw)
	if err != nil {
		return nil, err
	}
	if p.Deployment.Deployment != agent.Deployment {
		return nil, apierror.InvalidToken()
	}
	return &Caller{Principal: p, Kind: KindToken, ID: p.Subject, ExpiresAt: token.Claims.Expiry.Time()}, nil
}
