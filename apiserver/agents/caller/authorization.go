package caller

import (
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/store"
)

const (
	// Prefix is the path of agents on the end-user listener.
	Prefix = "/mcp/"
	// MetadataPrefix is the path of agents' metadata: the well-known path before the path of the resource (RFC 9728 3.1).
	MetadataPrefix = "/.well-known/oauth-protected-resource" + Prefix
)

// App returns the OAuth app whose tokens an agent accepts, and reports whether it is active and has an issuer.
func App(s *snapshot.Snapshot, agent *snapshot.Entry) (*consent.App, bool) {
	content := snapshot.ContentOf[snapshot.Agent](agent)
	entry, found := s.Get(store.Identity{Kind: v1alpha1.KindOAuthApp, Namespace: agent.Namespace, Name: content.OAuthApp})
	if !found || entry.Deployment != agent.Deployment || content.URL == "" {
		return nil, false
	}
	app := consent.NewApp(s, entry)
	return app, app.Content.Active && app.Content.Issuer != ""
}

// MetadataURL returns the address of the metadata of an agent with a URL.
func MetadataURL(agent *snapshot.Entry) string {
	return strings.TrimSuffix(snapshot.ContentOf[snapshot.Agent](agent).URL, Prefix+agent.Name) + MetadataPrefix + agent.Name
}

// ScopesOf returns the scopes of an app that give permissions, sorted.
func ScopesOf(app *consent.App, permissions []string) (scopes []string) {
	if len(permissions) == 0 {
		return nil
	}
	for scope, declared := range app.Scopes {
		gives := slices.ContainsFunc(app.PermissionsOf(scope), func(name string) bool { return slices.Contains(permissions, name) })
		if gives && !declared.Archived && scope != consent.ScopeOffline {
			scopes = append(scopes, scope)
		}
	}
	slices.Sort(scopes)
	return scopes
}
