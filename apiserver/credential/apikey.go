package credential

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// ByPresentedKey is ByAPIKey for a key that the client itself sends. It throttles the client's failed attempts, so the
// error may also be a 429.
func (a *Authenticator) ByPresentedKey(ctx context.Context, s *snapshot.Snapshot, key apikey.Key, client netip.Addr) (*Principal, error) {
	if _, declared := Declared(s, key); !declared && a.Keys != nil && a.Attempts.TooMany(client, client) {
		if _, cached := a.Keys.Cached(key.Digest()); !cached {
			return nil, TooManyAttempts()
		}
	}
	principal, err := a.ByAPIKey(ctx, s, key, client)
	if err != nil && apierror.Of(err).Status == http.StatusUnauthorized {
		a.Attempts.Failed(client, client)
	}
	return principal, err
}

// ByAPIKey authenticates by an API key, declared or runtime. The error is a 401, or a 503 if the store is needed and
// does not respond.
func (a *Authenticator) ByAPIKey(ctx context.Context, s *snapshot.Snapshot, key apikey.Key, client netip.Addr) (*Principal, error) {
	declared, found := Declared(s, key)
	if !found && a.Keys != nil {
		return a.byRuntimeKey(keycache.ForAsker(ctx, engine.AddressOf(client)), s, key)
	}
	return byDeclaredKey(s, declared, client, a.Clock())
}

// Declared returns the declared key that equals a presented key in id and digest. A declared key with only the same
// public id is another key, so it does not hide a runtime key with that id.
func Declared(s *snapshot.Snapshot, key apikey.Key) (*snapshot.Key, bool) {
	// The digest is computed for unknown ids too, so that both take the same time.
	digest := key.Digest()
	known, found := s.APIKey(key.ID())
	if !found || !known.Verifier.Digest.Equal(digest) {
		return nil, false
	}
	return known, true
}

// byRuntimeKey authenticates by a runtime key.
func (a *Authenticator) byRuntimeKey(ctx context.Context, s *snapshot.Snapshot, key apikey.Key) (*Principal, error) {
	known, err := a.Keys.Find(ctx, key)
	if errors.Is(err, keycache.ErrUnknown) {
		return nil, apierror.InvalidToken()
	}
	if errors.Is(err, keycache.ErrBusy) {
		return nil, apierror.Unavailable(err, "too many API keys are being looked up: try again")
	}
	if err != nil {
		return nil, apierror.Unavailable(err, "the store is unavailable, and this API key is not cached: try again")
	}
	now := a.Clock()
	principal, served := OfRuntime(s, known)
	if !served || !known.Live(now) {
		return nil, apierror.InvalidToken()
	}
	a.Keys.Used(known, now)
	return principal, nil
}

// OfRuntime returns the principal of a runtime key, whether or not it is live. It returns false if the key's app or
// deployment is not served.
func OfRuntime(s *snapshot.Snapshot, known *keycache.Key) (*Principal, bool) {
	grant, served := keycache.Resolve(s, known)
	if !served {
		return nil, false
	}
	principal := &Principal{
		Deployment: grant.Deployment, Settings: grant.Settings, KeyID: known.KeyID(), Bound: known.Bound(),
		App: grant.App, Runtime: known, grant: grant,
	}
	return principal, true
}

// byDeclaredKey authenticates by a declared key. A nil key gets a 401.
func byDeclaredKey(s *snapshot.Snapshot, known *snapshot.Key, client netip.Addr, now time.Time) (*Principal, error) {
	if known == nil {
		return nil, apierror.InvalidToken()
	}
	if expires := known.Verifier.ExpiresAt; expires != nil && !now.Before(*expires) {
		return nil, apierror.InvalidToken()
	}
	if !known.Credential.AllowsFrom(client) {
		return nil, apierror.InvalidToken()
	}
	principal, found := OfDeclared(s, known)
	if !found {
		return nil, apierror.InvalidToken()
	}
	return principal, nil
}

// OfDeclared returns the principal of a declared key, whether or not it has expired. It returns false if the key's app
// or deployment is not served.
func OfDeclared(s *snapshot.Snapshot, key *snapshot.Key) (*Principal, bool) {
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
		App: entry, Declared: key, granted: key.Credential.Permissions, ceiling: app.Ceiling,
	}, true
}
