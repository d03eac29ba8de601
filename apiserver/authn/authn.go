package authn

import (
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/problem"
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
	// KeyID is the public id of the API key.
	KeyID string

	granted, ceiling permission.Set
}

// Allows tells whether the principal has a permission: its key's, within its app's.
func (p *Principal) Allows(name string) bool { return p.granted.Allows(name) && p.ceiling.Allows(name) }

// Authenticate returns the principal of a request's one Authorization header. Every refusal is the same 401: unknown,
// expired, revoked, inactive and used from elsewhere cannot be told apart.
func Authenticate(s *snapshot.Snapshot, r *http.Request, client netip.Addr, now time.Time) (*Principal, error) {
	header := r.Header["Authorization"]
	if len(header) != 1 {
		return nil, problem.Unauthorized()
	}
	scheme, token, found := strings.Cut(header[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return nil, problem.Unauthorized()
	}
	key, err := apikey.Parse(token)
	if err != nil {
		return nil, problem.Unauthorized()
	}
	// The digest is computed for unknown ids as well: both take the same time.
	digest := key.Digest()
	known, found := s.APIKey(key.ID())
	if !found || !known.Verifier.Digest.Equal(digest) {
		return nil, problem.Unauthorized()
	}
	if expires := known.Verifier.ExpiresAt; expires != nil && !now.Before(*expires) {
		return nil, problem.Unauthorized()
	}
	if !known.Credential.AllowsFrom(client) {
		return nil, problem.Unauthorized()
	}
	principal, found := resolve(s, known)
	if !found {
		return nil, problem.Unauthorized()
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
