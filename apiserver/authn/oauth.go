package authn

import (
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/store/document"
)

// presented is what a token says that decides who vouches for it.
type presented struct {
	issuer    string
	audiences []string
	// client is of whom an authorization server's token says that it is, "" in tokens of others.
	client string
}

// issuerOf finds the one issuer of a token: a declared one, or an OAuth app of the deployment that the deployment accepts. A token for two
// deployments is refused: it would be a guess.
func issuerOf(s *snapshot.Snapshot, token presented, now time.Time) (*snapshot.Issuer, error) {
	app, own := s.AppByIssuer(token.issuer)
	if !own {
		return selectIssuer(s, token.issuer, token.audiences)
	}
	issuer, accepted := s.OAuthIssuer(app, token.audiences, now)
	if !accepted || !inUse(s, app, token.client) {
		return nil, errRefused
	}
	return issuer, nil
}

// inUse tells whether an app has a client that is in use.
func inUse(s *snapshot.Snapshot, app *snapshot.Entry, client string) bool {
	id, err := ids.Parse(client)
	if err != nil {
		return false
	}
	entry, found := s.ByID(v1alpha1.KindOAuthClient, app.Deployment, id)
	if !found {
		return false
	}
	content := snapshot.ContentOf[snapshot.Client](entry)
	return content.App == app.Name && content.Active
}

// ofItself tells whether a token of an authorization server is a client's own: what a person lets a client do is no management.
func ofItself(issuer *snapshot.Issuer, subject, client string) bool {
	return issuer.App == nil || subject == client
}

// same tells whether two are one unchanged entry of an issuer.
func same(a, b *snapshot.Issuer) bool {
	return a == b || a.App != nil && a.App == b.App && a.Deployment == b.Deployment
}

// NewClientPrincipal is a client of a deployment's authorization server, for a user ("" for nobody), limited by a scheme of a name ("" for the
// deployment's). It is a principal of decisions alone: whose permissions are names of an application's own.
func NewClientPrincipal(deployment *snapshot.Entry, settings *document.Deployment, client, user, scheme string, permissions []string) *Principal {
	return &Principal{
		Deployment: deployment, Settings: settings, Subject: user, Client: client, Scheme: scheme,
		granted: permission.NewSet(permissions), ceiling: permission.NewSet([]string{permission.All}),
	}
}
