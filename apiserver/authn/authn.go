package authn

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

// Principal is who a request acts for.
type Principal struct {
	// Deployment is the credential's own deployment, and Settings its content.
	Deployment *snapshot.Entry
	Settings   *document.Deployment
	// KeyID is the public id of the API key, "" for a token.
	KeyID string
	// Subject is a token's, "" for a key.
	Subject string

	granted, ceiling permission.Set
}

// Allows tells whether the principal has a permission: its key's, within its app's.
func (p *Principal) Allows(name string) bool { return p.granted.Allows(name) && p.ceiling.Allows(name) }

// Authenticator authenticates requests by API key or token.
type Authenticator struct {
	// Tokens authenticates what is no API key; nil accepts API keys only.
	Tokens *Tokens
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
	if a.Tokens != nil && strings.IndexByte(token, '.') > 0 { // no API key has a dot, and every token has two
		return a.Tokens.Authenticate(r.Context(), s, token)
	}
	return byKey(s, token, a.Proxies.ClientAddress(r), a.Clock())
}

func byKey(s *snapshot.Snapshot, plain string, client netip.Addr, now time.Time) (*Principal, error) {
	key, err := apikey.Parse(plain)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	// The digest is computed for unknown ids as well: both take the same time.
	digest := key.Digest()
	known, found := s.APIKey(key.ID())
	if !found || !known.Verifier.Digest.Equal(digest) {
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
