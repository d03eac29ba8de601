package credential

import (
	"maps"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/permission"
)

// presented are the claims of a token that select its issuer.
type presented struct {
	issuer    string
	audiences []string
	// client is the client in a token of an authorization server, "" in other tokens.
	client string
}

// candidatesOf returns the possible issuers of a token, in the order in which their keys are tried:
//  1. the OAuth app with the token's issuer, if its deployment accepts the app's tokens for the audience;
//  2. the issuer that a deployment declares for the audience;
//  3. the Kubernetes API, if there is neither and a deployment accepts it for the audience.
//
// The signature decides between 1 and 2, so neither can take over the other's tokens. This matters if an OAuth app uses
// the host of an issuer that another deployment declares, or if a deployment declares another deployment's app. If
// several deployments declare the issuer, each for one of the audiences, none of them is a candidate.
func candidatesOf(s *snapshot.Snapshot, token presented, now time.Time) []*snapshot.Issuer {
	candidates := make([]*snapshot.Issuer, 0, 3)
	if issuer, accepted := ownIssuer(s, token, now); accepted {
		candidates = append(candidates, issuer)
	}
	declared, unique := declaredIssuer(s, token.issuer, token.audiences)
	if declared != nil {
		candidates = append(candidates, declared)
	}
	if len(candidates) == 0 && unique { // the Kubernetes API verifies its tokens itself
		if cluster, _ := declaredIssuer(s, "", token.audiences); cluster != nil {
			candidates = append(candidates, cluster)
		}
	}
	return candidates
}

// ownIssuer returns the OAuth app with a token's issuer, and the token's client. It returns false unless the app's
// deployment accepts the app's tokens for one of the audiences and the client is active.
func ownIssuer(s *snapshot.Snapshot, token presented, now time.Time) (*snapshot.Issuer, bool) {
	app, own := s.AppByIssuer(token.issuer)
	if !own {
		return nil, false
	}
	issuer, accepted := s.OAuthIssuer(app, token.audiences, now)
	client, inUse := clientOf(s, app, token.client)
	if !accepted || !inUse {
		return nil, false
	}
	issuer.Client = client
	return issuer, true
}

// declaredIssuer returns the issuer that a deployment declares for one of the audiences ("" is the Kubernetes API), nil
// if none does. unique is false if several deployments do.
func declaredIssuer(s *snapshot.Snapshot, name string, audiences []string) (found *snapshot.Issuer, unique bool) {
	for _, audience := range audiences {
		candidate, declared := s.Issuer(name, audience)
		if !declared {
			continue
		}
		if found != nil && found != candidate {
			return nil, false
		}
		found = candidate
	}
	return found, true
}

// clientOf returns an active client of an app.
func clientOf(s *snapshot.Snapshot, app *snapshot.Entry, client string) (*snapshot.Entry, bool) {
	id, err := ids.Parse(client)
	if err != nil {
		return nil, false
	}
	entry, found := s.ByID(v1alpha1.KindOAuthClient, app.Deployment, id)
	if !found {
		return nil, false
	}
	content := snapshot.ContentOf[snapshot.Client](entry)
	return entry, content.App == app.Name && content.Active
}

// claimPermissions is the claim with the permissions that a client was declared with when its token was issued.
const claimPermissions = "permissions"

// currentPermissions returns a token's payload with only the permissions that its client is still declared with.
func currentPermissions(issuer *snapshot.Issuer, payload map[string]any) map[string]any {
	if issuer.Client == nil {
		return payload
	}
	declared := permission.NewSet(snapshot.ContentOf[snapshot.Client](issuer.Client).MachinePermissions)
	current := []any{}
	for _, name := range permission.NewSet(claimpermission.FromClaim(payload, claimPermissions)).Within(declared) {
		current = append(current, name)
	}
	payload = maps.Clone(payload)
	payload[claimPermissions] = current
	return payload
}

// ofItself reports whether an OAuth app issued a token to a client for itself; it is true for tokens of every other
// issuer. A token that a user granted to a client has no management permissions.
func ofItself(issuer *snapshot.Issuer, subject, client string) bool {
	return issuer.App == nil || subject == client
}

// same reports whether a and b are the same, unchanged entry of an issuer, with the same unchanged client if it is an
// OAuth app.
func same(a, b *snapshot.Issuer) bool {
	return a == b || a.App != nil && a.App == b.App && a.Client == b.Client && a.Deployment == b.Deployment
}

// NewClientPrincipal returns the principal of a client of a deployment's authorization server, for a user ("" for
// none), limited by a RateLimitScheme ("" for the deployment's default). Use it only for decisions, because its
// permissions are names of an application.
func NewClientPrincipal(deployment *snapshot.Entry, settings *document.Deployment, client, user, scheme string, permissions []string) *Principal {
	return &Principal{
		Deployment: deployment, Settings: settings, Subject: user, Client: client, Scheme: scheme,
		granted: permission.NewSet(permissions), ceiling: permission.NewSet([]string{permission.All}),
	}
}
