package snapshot

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// The data of an app is rebuilt after a change of the app, its scopes or its clients. Otherwise snapshots share it.
func TestAuthorizationServerIsRebuiltAfterChange(t *testing.T) {
	t.Parallel()
	app := func(name string, id int64) store.Document {
		return doc(t, "OAuthApp", name, id, name, time.Unix(1, 0), document.OAuthApp{Slug: name, Active: true})
	}
	scope := func(name, of string, id int64) store.Document {
		return doc(t, "OAuthScope", name, id, document.ScopeKey(of, name), time.Unix(1, 0), document.OAuthScope{App: of, Scope: name})
	}
	client := func(active bool, origins ...string) store.Document {
		return doc(t, "OAuthClient", "page", 9, "", time.Unix(1, 0), document.OAuthClient{App: "portal", Active: active, AllowedOrigins: origins})
	}
	gone := func(d store.Document) store.Change {
		return store.Change{Document: store.Document{Owner: d.Owner}, Deleted: true}
	}
	current, err := build([]store.Document{client(true, "https://a.example", "https://b.example"), scope("read", "portal", 3), scope("other", "tools", 4), app("portal", 1), app("tools", 2)}, store.Position{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	entry, _ := current.BySlug("OAuthApp", "ns/acme", "portal")
	tools, _ := current.BySlug("OAuthApp", "ns/acme", "tools")
	for i, step := range []struct {
		change          store.Change
		scopes, origins []string
	}{
		{store.Change{Document: scope("write", "portal", 5)}, []string{"read", "write"}, []string{"https://a.example", "https://b.example"}},
		{gone(scope("read", "portal", 3)), []string{"write"}, []string{"https://a.example", "https://b.example"}},
		{store.Change{Document: client(true, "https://b.example")}, []string{"write"}, []string{"https://b.example"}},
		{store.Change{Document: client(false, "https://b.example")}, []string{"write"}, nil},
		{gone(app("portal", 1)), nil, nil},
		{store.Change{Document: app("portal", 1)}, []string{"write"}, nil},
	} {
		next, err := current.apply([]store.Change{step.change}, store.Position{Revision: int64(i + 2)})
		if err != nil {
			t.Fatal(err)
		}
		if next.AuthorizationServer(tools) != current.AuthorizationServer(tools) {
			t.Errorf("step %d: the data of another app is rebuilt", i)
		}
		current = next
		server := current.AuthorizationServer(entry)
		scopes, origins := slices.Sorted(maps.Keys(server.Scopes)), slices.Sorted(maps.Keys(server.Origins))
		if !slices.Equal(scopes, step.scopes) || !slices.Equal(origins, step.origins) {
			t.Errorf("step %d: scopes %v, origins %v, want %v, %v", i, scopes, origins, step.scopes, step.origins)
		}
	}
}

// A deployment that accepts tokens of an OAuth app for an audience does not change the issuer of another deployment
// that has the audience.
func TestChangeOfDeploymentKeepsIssuersOfOthers(t *testing.T) {
	const audience = "billing"
	owner := doc(t, "IdentityDeployment", "owner", 7, "owner", time.Unix(1, 0), document.Deployment{
		JWTIssuers: []document.JWTIssuer{{Name: "cluster", Audiences: []string{audience}}},
	})
	other := doc(t, "IdentityDeployment", "other", 8, "other", time.Unix(1, 0), document.Deployment{
		JWTIssuers: []document.JWTIssuer{{Name: "app", OAuthApp: "portal", Audiences: []string{audience}}},
	})
	owner.Deployment, other.Deployment = "ns/owner", "ns/other"
	s, err := build([]store.Document{owner, other}, store.Position{Revision: 1})
	if err != nil {
		t.Fatal(err)
	}
	for revision, change := range []store.Change{
		{Document: other},
		{Document: store.Document{Owner: other.Owner}, Deleted: true},
		{Document: owner},
	} {
		if s, err = s.apply([]store.Change{change}, store.Position{Revision: int64(revision + 2)}); err != nil {
			t.Fatal(err)
		}
		if issuer, found := s.Issuer("", audience); !found || issuer.Deployment.Name != "owner" {
			t.Errorf("change %d: the issuer of the owner is lost", revision+1)
		}
	}
	if s, err = s.apply([]store.Change{{Document: store.Document{Owner: owner.Owner}, Deleted: true}}, store.Position{Revision: 5}); err != nil {
		t.Fatal(err)
	}
	if _, found := s.Issuer("", audience); found {
		t.Error("the issuer of a deleted deployment is still indexed")
	}
}
