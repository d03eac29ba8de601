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

// presented are the claims of a token that determine which issuer it needs.
type presented struct {
	issuer    string
	audiences []string
	// client is the client that an authorization server's token names, "" in other tokens.
	client string
}

// candidatesOf returns the issuers whose token this may be, in the order in which their keys are tried: the OAuth app whose issuer the
// token names, where its deployment accepts the app's tokens for the audience; the issuer that a deployment declares for the audience;
// the Kubernetes API. The signature decides between the first two, so that neither an OAuth app with the host of an issuer that another
// deployment declares, nor a declaration of another deployment's app, takes the other's tokens away. Several deployments that declare the
// issuer, each for one of the audiences, are no candidates: choosing one would be a guess.
func candidatesOf(s *snapshot.Snapshot, token presented, now time.Time) []*snapshot.Issuer {
	candidates := make([]*snapshot.Issuer, 0, 3)
	if issuer, accepted := ownIssuer(s, token, now); accepted {
		candidates = append(candidates, issuer)
	}
	declared, unique := declaredIssuer(s, token.issuer, token.audiences)
	if declared != nil {
		candidates = append(candidates, declared)
	}
	if len(candidates) == 0 && unique { // the Kubernetes API decides about its tokens itself
		if cluster, _ := declaredIssuer(s, "", token.audiences); cluster != nil {
			candidates = append(candidates, cluster)
		}
	}
	return candidates
}

// ownIssuer returns the OAuth app whose issuer a token names, with the token's client, where the app's deployment accepts such tokens for one
// of the audiences.
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

// declaredIssuer returns the issuer that a deployment declares for one of the audiences ("" is the Kubernetes API), nil if none does.
// unique is false if several deployments do.
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

// clientOf returns an app's client that is in use.
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

// claimPermissions is where a client's own token says what the client was declared for when it was given.
const claimPermissions = "permissions"

// heldNow is a token's payload with those permissions alone that its client is declared for still: what was taken from it counts no more.
func heldNow(issuer *snapshot.Issuer, payload map[string]any) map[string]any {
	if issuer.Client == nil {
		return payload
	}
	declared := permission.NewSet(snapshot.ContentOf[snapshot.Client](issuer.Client).MachinePermissions)
	held := []any{}
	for _, name := range permission.NewSet(claimpermission.FromClaim(payload, claimPermissions)).Within(declared) {
		held = append(held, name)
	}
	payload = maps.Clone(payload)
	payload[claimPermissions] = held
	return payload
}

// ofItself reports whether a token of an authorization server is a client's own: what a person lets a client do is no management.
func ofItself(issuer *snapshot.Issuer, subject, client string) bool {
	return issuer.App == nil || subject == client
}

// same reports whether two are one unchanged entry of an issuer, and of the client whose tokens they are.
func same(a, b *snapshot.Issuer) bool {
	return a == b || a.App != nil && a.App == b.App && a.Client == b.Client && a.Deployment == b.Deployment
}

// NewClientPrincipal returns a client of a deployment's authorization server, for a user ("" for none), limited by a
// scheme of a name ("" for the deployment's). It is a principal of decisions only: its permissions are names that
// belong to an application.
func NewClientPrincipal(deployment *snapshot.Entry, settings *document.Deployment, client, user, scheme string, permissions []string) *Principal {
	return &Principal{
		Deployment: deployment, Settings: settings, Subject: user, Client: client, Scheme: scheme,
		granted: permission.NewSet(permissions), ceiling: permission.NewSet([]string{permission.All}),
	}
}
