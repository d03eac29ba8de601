package decision

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// evaluatedFor is how long the evaluation of an access token is used, and so how late a change of its grant takes
// effect.
const evaluatedFor = 500 * time.Millisecond

// byAccessToken finds the subject of an access token of a deployment's authorization server, and the permissions that
// are still granted. If the question names the caller's resource, `aud` must contain it; otherwise `aud` must contain
// the app's issuer or the deployment.
func (a *API) byAccessToken(ctx context.Context, s *snapshot.Snapshot, raw, audience string, client netip.Addr) (*subject, error) {
	digest := kindAccessToken.digest(audience + " " + raw)
	now := a.Clock()
	known := a.cache.get(digest, s)
	if known != nil && !known.live(now) {
		return nil, credential.Expired()
	}
	if known != nil && now.Before(known.evaluated.Add(evaluatedFor)) {
		return known, nil
	}
	app, tenant, claims, err := a.readAccessToken(s, raw, audience, now)
	if err != nil && !errors.Is(err, credential.ErrExpired) && a.attempts.TooMany(client, client) {
		return nil, credential.TooManyAttempts()
	}
	if err != nil {
		return nil, err
	}
	request := &account.Request{Tenant: tenant, Store: a.People, Now: now.UTC().Truncate(time.Microsecond), Actor: "anonymous"}
	var evaluated consent.Evaluation
	err = request.View(ctx, func(u *account.Unit) (err error) {
		evaluated, err = app.Evaluate(u, claims)
		return err
	})
	if errors.Is(err, store.ErrUnavailable) {
		return nil, apierror.Unavailable(err, "the store is unavailable: try again")
	}
	if err != nil {
		return nil, err
	}
	if evaluated.Client == nil {
		return nil, apierror.InvalidToken()
	}
	found, err := a.newAccessSubject(s, app, tenant, &evaluated)
	if err != nil {
		return nil, err
	}
	found.evaluated = now
	a.cache.put(digest, found)
	return found, nil
}

// readAccessToken returns the app that issued a token, and the token's claims. The error is a 401, whose cause may be
// credential.ErrExpired.
func (a *API) readAccessToken(s *snapshot.Snapshot, raw, audience string, now time.Time) (*consent.App, *account.Tenant, bearer.AccessClaims, error) {
	var none bearer.AccessClaims
	entry, found := s.AppByIssuer(bearer.StatedIssuer(raw))
	if !found {
		return nil, nil, none, apierror.InvalidToken()
	}
	deployment, found := s.Deployment(entry.Deployment)
	if !found {
		return nil, nil, none, apierror.InvalidToken()
	}
	app, tenant := consent.NewApp(s, entry), account.NewTenant(s, deployment)
	claims, ok := a.Tokens.Issued(entry, raw, now)
	if ok && !now.Before(claims.Expiry.Time()) {
		return nil, nil, none, credential.Expired()
	}
	if !ok || audience != "" && !app.Serves(s, audience) {
		return nil, nil, none, apierror.InvalidToken()
	}
	own := []string{audience}
	if audience == "" {
		own = []string{app.Content.Issuer, "cardea:" + deployment.Namespace + ":" + deployment.Name}
	}
	if !slices.ContainsFunc(own, func(name string) bool { return claims.Audience.Contains(name) }) {
		return nil, nil, none, apierror.InvalidToken()
	}
	return app, tenant, claims, nil
}

// newAccessSubject is newSubject for an access token. The subject's permissions are the granted scopes, the
// organization and workspace permissions of these scopes, and the permissions in the token's claims. The client's
// RateLimitScheme limits the subject, separately for each user.
func (a *API) newAccessSubject(s *snapshot.Snapshot, app *consent.App, tenant *account.Tenant, evaluated *consent.Evaluation) (*subject, error) {
	permissions := app.Permissions(evaluated)
	who := identity{DeploymentID: ids.Format(tenant.Entry.ID)}
	if evaluated.Subject != nil {
		who.OwnerUserID = ids.Format(evaluated.Subject.User.ID)
		organization, workspace := evaluated.Subject.Place.IDs()
		who.OrganizationID, who.WorkspaceID = idOrNone(organization), idOrNone(workspace)
	}
	principal := credential.NewClientPrincipal(tenant.Entry, tenant.Settings, evaluated.Client.ID, who.OwnerUserID, evaluated.Client.Scheme, permissions)
	binding, err := a.Limiter.Bind(s, principal)
	if missing := (*limits.MissingError)(nil); errors.As(err, &missing) {
		return nil, apierror.Unavailable(err, "the limits of the client are not known here yet: try again")
	}
	if err != nil {
		return nil, err
	}
	metadata, err := json.Marshal(map[string]string{"principal_type": typeAccessToken, "client_id": evaluated.Client.ID})
	if err != nil {
		return nil, err
	}
	found := &subject{
		under: s.Position(), principal: principal, binding: binding, expires: evaluated.Claims.Expiry.Time(), oauthApp: app.Entry.Key,
	}
	if evaluated.Subject != nil {
		found.acr, found.provenAt = evaluated.Subject.Family.Stated(), evaluated.Subject.Family.AuthenticatedAt
	}
	found.describe(who, permissions, metadata)
	return found, nil
}
