package credential

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/permission"
)

// Principal is the identity that a request acts for.
type Principal struct {
	// Deployment is the credential's own deployment, and Settings its content.
	Deployment *snapshot.Entry
	Settings   *document.Deployment
	// KeyID is the public id of the API key, or the row id of an imported key, which has no public id. It is "" for a
	// token.
	KeyID string
	// App is the key's app, and Declared or Runtime the key; nil for a token.
	App      *snapshot.Entry
	Declared *snapshot.Key
	Runtime  *keycache.Key
	// Bound reports that the key acts for a user, an organization or a workspace. Such a key has no management
	// permissions.
	Bound bool
	// Subject is the subject of a token, "" for a key.
	Subject string
	// Client is the client to which a token was issued, and Scheme the name of the RateLimitScheme resource that limits
	// it; "" for other credentials.
	Client, Scheme string

	granted, ceiling permission.Set
	// grant has the permissions of a runtime key.
	grant keycache.Grant
}

// Allows reports whether the principal has a built-in permission of the management API. The key must grant it within
// its app's ceiling; a bound key has none.
func (p *Principal) Allows(name string) bool { return !p.Bound && p.Grants(name) }

// Grants reports whether the principal has a permission of an application: within its app's ceiling, and within its
// role if it is bound.
func (p *Principal) Grants(name string) bool {
	if p.Runtime != nil {
		return p.grant.Allows(name)
	}
	return p.granted.Allows(name) && p.ceiling.Allows(name)
}

// Permissions returns the names of all permissions of the principal, sorted.
func (p *Principal) Permissions() []string {
	if p.Runtime != nil {
		return p.grant.Names()
	}
	return p.granted.Within(p.ceiling)
}

// Keys finds runtime keys.
type Keys interface {
	Find(ctx context.Context, key apikey.Key) (*keycache.Key, error)
	Cached(digest apikey.Digest) (*keycache.Key, bool)
	Used(key *keycache.Key, at time.Time)
}

// Authenticator authenticates requests by API key or token.
type Authenticator struct {
	// Tokens authenticates other credentials than API keys; nil accepts API keys only.
	Tokens *Tokens
	// Keys finds runtime keys; nil accepts declared keys only.
	Keys Keys
	// Attempts throttles failed attempts; nil does not throttle.
	Attempts *Attempts
	// Proxies determine the client's address.
	Proxies Proxies
	Clock   func() time.Time
}

// Authenticate returns the principal of a request's single Authorization header. A request without a bearer credential
// gets a 401 that asks for one. Every refused credential gets the same 401, so that a client cannot distinguish
// unknown, expired, revoked and inactive credentials, or credentials that its address may not use. A throttled client
// gets a 429, and a needed service that does not respond causes a 503.
func (a *Authenticator) Authenticate(s *snapshot.Snapshot, r *http.Request) (*Principal, error) {
	raw, err := Bearer(r)
	if err != nil {
		return nil, err
	}
	return a.ByCredential(r.Context(), s, raw, a.Proxies.ClientAddress(r))
}

// ByCredential is Authenticate for the bearer credential of a client's address.
func (a *Authenticator) ByCredential(ctx context.Context, s *snapshot.Snapshot, raw string, client netip.Addr) (*Principal, error) {
	if a.Tokens != nil && bearer.IsJWT(raw) {
		return a.Tokens.Authenticate(ctx, s, raw)
	}
	key, err := apikey.Read(raw)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	return a.ByPresentedKey(ctx, s, key, client)
}

// Bearer returns the bearer credential of a request's single Authorization header. The error is a 401.
func Bearer(r *http.Request) (string, error) {
	header := r.Header["Authorization"]
	if len(header) == 0 {
		return "", apierror.Unauthorized()
	}
	scheme, token, found := strings.Cut(header[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", apierror.Unauthorized()
	}
	if !found || len(header) > 1 {
		return "", apierror.InvalidToken()
	}
	return token, nil
}
