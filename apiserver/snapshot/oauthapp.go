package snapshot

import (
	iradix "github.com/hashicorp/go-immutable-radix/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// AuthorizationServer is what an OAuth app is of what refers to it. It never changes: requests share it.
type AuthorizationServer struct {
	// Scopes are those it declares, by their names; nil: none.
	Scopes map[string]*document.OAuthScope
	// Origins are those whose pages may read its answers: of its active declared clients; nil: none.
	Origins map[string]bool
}

// AuthorizationServer returns what an OAuth app is of what refers to it.
func (s *Snapshot) AuthorizationServer(app *Entry) *AuthorizationServer {
	if server, found := s.servers.Get(identityKey(app.Identity)); found {
		return server
	}
	return &AuthorizationServer{} // the entry is of another snapshot, which had the app
}

// touch notes the app of which an entry that came, went or changed is a part.
func (b *builder) touch(e *Entry) {
	switch e.Kind {
	case v1alpha1.KindOAuthApp:
		b.touched[e.Identity] = struct{}{}
	case v1alpha1.KindOAuthScope, v1alpha1.KindOAuthClient:
		for _, id := range e.refersTo {
			if id.Kind == v1alpha1.KindOAuthApp {
				b.touched[id] = struct{}{}
			}
		}
	}
}

// commitServers makes anew what the apps are of which a part changed.
func (b *builder) commitServers() *iradix.Tree[*AuthorizationServer] {
	for id := range b.touched {
		if app, found := b.entries.Get(identityKey(id)); found {
			b.servers.Insert(identityKey(id), b.server(app))
		} else {
			b.servers.Delete(identityKey(id))
		}
	}
	return b.servers.Commit()
}

func (b *builder) server(app *Entry) *AuthorizationServer {
	server := &AuthorizationServer{}
	for _, entry := range scopesIn(b.slugs.Root(), app) {
		if server.Scopes == nil {
			server.Scopes = map[string]*document.OAuthScope{}
		}
		content := ContentOf[document.OAuthScope](entry)
		server.Scopes[content.Scope] = content
	}
	for _, entry := range referrersIn(b.referrers.Root(), app.Identity) {
		client, is := entry.Content.(*Client)
		if !is || !client.Active {
			continue
		}
		for _, origin := range client.AllowedOrigins {
			if server.Origins == nil {
				server.Origins = map[string]bool{}
			}
			server.Origins[origin] = true
		}
	}
	return server
}

// scopesIn are the scopes of an app, in the order of their values.
func scopesIn(slugs *iradix.Node[*Entry], app *Entry) (scopes []*Entry) {
	slugs.WalkPrefix(joined(v1alpha1.KindOAuthScope, app.Deployment, document.ScopePrefix(app.Name)), func(_ []byte, e *Entry) bool {
		scopes = append(scopes, e)
		return false
	})
	return scopes
}

// referrersIn are the entries that refer to an identity.
func referrersIn(all *iradix.Node[*Entry], id store.Identity) (referrers []*Entry) {
	all.WalkPrefix(append(identityKey(id), 0), func(_ []byte, e *Entry) bool {
		referrers = append(referrers, e)
		return false
	})
	return referrers
}
