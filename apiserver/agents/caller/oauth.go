package caller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// oauthRights is what an access token permits, and what its user could grant in addition.
type oauthRights struct {
	// granted are the scopes of the token, sorted, and held the permissions that it gives.
	granted []string
	held    map[string]bool
	// scopes are, by permission, the scopes that give it and that the user can grant the client, sorted.
	scopes map[string][]string
}

// byAccessToken accepts an access token of the agent's app for the agent's URL, if introspection would call it active.
func (r *Resolver) byAccessToken(ctx context.Context, s *snapshot.Snapshot, entry *snapshot.Entry, url, raw string) (*Caller, error) {
	now := r.Clock()
	deployment, found := s.Deployment(entry.Deployment)
	claims, ok := r.Tokens.Issued(entry, raw, now)
	if ok && !now.Before(claims.Expiry.Time()) {
		return nil, credential.Expired()
	}
	if !found || !ok || !claims.Audience.Contains(url) {
		return nil, apierror.InvalidToken()
	}
	app, tenant := consent.NewApp(s, entry), account.NewTenant(s, deployment)
	var evaluated consent.Evaluation
	var rights *oauthRights
	request := &account.Request{Tenant: tenant, Store: r.People, Now: now.UTC().Truncate(time.Microsecond), Actor: "anonymous"}
	err := request.View(ctx, func(u *account.Unit) (err error) {
		if evaluated, err = app.Evaluate(u, claims); err == nil && evaluated.Client != nil {
			rights = rightsOf(u, app, &evaluated)
		}
		return err
	})
	if errors.Is(err, store.ErrUnavailable) {
		return nil, apierror.Unavailable(err, "the store is unavailable: try again")
	}
	if err != nil {
		return nil, err
	}
	if evaluated.Client == nil || !app.Serves(s, url) || evaluated.Client.Resources != nil && !slices.Contains(*evaluated.Client.Resources, url) {
		return nil, apierror.InvalidToken()
	}
	c := &Caller{Kind: KindClient, ID: evaluated.Client.ID, ExpiresAt: claims.Expiry.Time(), oauth: rights}
	user := ""
	if evaluated.Subject != nil {
		c.User = evaluated.Subject.User.ID
		c.Organization, c.Workspace = evaluated.Subject.Place.IDs()
		user = ids.Format(c.User)
	}
	c.Principal = credential.NewClientPrincipal(tenant.Entry, tenant.Settings, evaluated.Client.ID, user, evaluated.Client.Scheme, app.Permissions(&evaluated))
	return c, nil
}

func rightsOf(u *account.Unit, app *consent.App, evaluated *consent.Evaluation) *oauthRights {
	rights := &oauthRights{granted: slices.Sorted(slices.Values(evaluated.Scopes)), held: map[string]bool{}, scopes: map[string][]string{}}
	for _, name := range app.Permissions(evaluated) {
		rights.held[name] = true
	}
	var possible []string
	for scope := range app.Scopes {
		if app.MayAsk(evaluated.Client, scope) {
			possible = append(possible, scope)
		}
	}
	if evaluated.Subject != nil {
		possible = app.Permitted(u, possible, evaluated.Subject.Place)
	}
	slices.Sort(possible)
	for _, scope := range possible {
		for _, name := range app.PermissionsOf(scope) {
			rights.scopes[name] = append(rights.scopes[name], scope)
		}
	}
	return rights
}
