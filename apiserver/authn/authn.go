package authn

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/keycache"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

// Principal is who a request acts for.
type Principal struct {
	// Deployment is the credential's own deployment, and Settings its content.
	Deployment *snapshot.Entry
	Settings   *document.Deployment
	// KeyID is the public id of the API key, "" for a token; of an imported key, which has none, its id.
	KeyID string
	// Bound tells that the key acts for a person, an organization or a workspace: it manages nothing.
	Bound bool
	// Subject is a token's, "" for a key.
	Subject string

	granted, ceiling permission.Set
}

// Allows tells whether the principal has a permission: its key's, within its app's.
func (p *Principal) Allows(name string) bool {
	return !p.Bound && p.granted.Allows(name) && p.ceiling.Allows(name)
}

// Keys finds the keys that applications gave away.
type Keys interface {
	Find(ctx context.Context, key apikey.Key) (*keycache.Key, error)
	Used(key *keycache.Key, at time.Time)
}

// Authenticator authenticates requests by API key or token.
type Authenticator struct {
	// Tokens authenticates what is no API key; nil accepts API keys only.
	Tokens *Tokens
	// Keys finds the keys that applications gave away; nil knows declared ones only.
	Keys Keys
	// Proxies tell the client's address.
	Proxies Proxies
	Clock   func() time.Time
}

// Authenticate returns the principal of a request's one Authorization header. A request without a bearer credential is asked
// for one; every refusal of one is the same 401: unknown, expired, revoked, inactive and used from elsewhere cannot be told
// apart.
func (a *Authenticator) Authenticate(s *snapshot.Snapshot, r *http.Request) (*Principal, error) {
	header := r.Header["Authorization"]
	if len(header) == 0 {
		return nil, apierror.Unauthorized()
	}
	scheme, token, found := strings.Cut(header[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return nil, apierror.Unauthorized()
	}
	if !found || len(header) > 1 {
		return nil, apierror.InvalidToken()
	}
	if a.Tokens != nil && strings.Count(token, ".") == 2 { // no API key of ours has a dot, and every token has two
		return a.Tokens.Authenticate(r.Context(), s, token)
	}
	key, err := apikey.Read(token)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	declared, found := s.APIKey(key.ID())
	if !found && a.Keys != nil {
		return a.byGivenKey(r.Context(), s, key)
	}
	return byDeclaredKey(s, key, declared, a.Proxies.ClientAddress(r), a.Clock())
}

// byGivenKey authenticates by a key that an application gave away.
func (a *Authenticator) byGivenKey(ctx context.Context, s *snapshot.Snapshot, key apikey.Key) (*Principal, error) {
	known, err := a.Keys.Find(ctx, key)
	if errors.Is(err, keycache.ErrUnknown) {
		return nil, apierror.InvalidToken()
	}
	if err != nil {
		return nil, apierror.Unavailable(err, "the store is out of reach, and this API key is not known here without it: try again")
	}
	now := a.Clock()
	grant, served := keycache.Resolve(s, known)
	if !served || !known.Live(now) {
		return nil, apierror.InvalidToken()
	}
	a.Keys.Used(known, now)
	principal := &Principal{
		Deployment: grant.Deployment, Settings: grant.Settings, KeyID: known.PublicID, Bound: known.Bound(),
		granted: known.Permissions.Set, ceiling: grant.Content.Ceiling,
	}
	if principal.KeyID == "" {
		principal.KeyID = ids.Format(known.ID)
	}
	return principal, nil
}

// byDeclaredKey authenticates by a key of a resource, nil if there is none.
func byDeclaredKey(s *snapshot.Snapshot, key apikey.Key, known *snapshot.Key, client netip.Addr, now time.Time) (*Principal, error) {
	// The digest is computed for unknown ids as well: both take the same time.
	digest := key.Digest()
	if known == nil || !known.Verifier.Digest.Equal(digest) {
		return nil, apierror.InvalidToken()
	}
	if expires := known.Verifier.ExpiresAt; expires != nil && !now.Before(*expires) {
		return nil, apierror.InvalidToken()
	}
	if !known.Credential.AllowsFrom(client) {
		return nil, apierror.InvalidToken()
	}
	principal, found := resolve(s, known)
	if !found {
		return nil, apierror.InvalidToken()
	}
	return principal, nil
}

// resolve finds the key's app and deployment. A key whose app or deployment is not served is not served either.
func resolve(s *snapshot.Snapshot, key *snapshot.Key) (*Principal, bool) {
	entry, found := s.Get(store.Identity{Kind: v1alpha1.KindAPIAuthApp, Namespace: key.Entry.Namespace, Name: key.Content.App})
	if !found {
		return nil, false
	}
	app := entry.Content.(*snapshot.App)
	deployment, found := s.Deployment(key.Entry.Deployment)
	if !found || !app.Active || entry.Deployment != key.Entry.Deployment {
		return nil, false
	}
	return &Principal{
		Deployment: deployment, Settings: deployment.Content.(*document.Deployment), KeyID: key.Verifier.ID,
		granted: key.Credential.Permissions, ceiling: app.Ceiling,
	}, true
}
