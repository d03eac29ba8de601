package snapshot

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// AuthorizationServer is the data that an OAuth app collects from entries that refer to it. It never changes, so
// requests share it.
type AuthorizationServer struct {
	// Scopes are its declared scopes by name; nil if there are none.
	Scopes map[string]*document.OAuthScope
	// Origins are the origins whose pages may read its responses: those of its active declared clients; nil if there are
	// none.
	Origins map[string]bool
}

// AuthorizationServer returns the data of an OAuth app from entries that refer to it.
func (s *Snapshot) AuthorizationServer(app *Entry) *AuthorizationServer {
	if server, found := s.servers.Get(identityKey(app.Identity)); found {
		return server
	}
	return &AuthorizationServer{} // the entry is of another snapshot, which had the app
}

// touch records the app of an added, removed or changed entry.
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

// updateServers rebuilds the data of the touched apps.
func (b *builder) updateServers() {
	for id := range b.touched {
		if app, found := b.entries.Get(identityKey(id)); found {
			b.servers.Insert(identityKey(id), b.server(app))
		} else {
			b.servers.Delete(identityKey(id))
		}
	}
}

func (b *builder) server(app *Entry) *AuthorizationServer {
	server := &AuthorizationServer{}
	for _, entry := range scopesIn(&b.slugs, app) {
		if server.Scopes == nil {
			server.Scopes = map[string]*document.OAuthScope{}
		}
		content := ContentOf[document.OAuthScope](entry)
		server.Scopes[content.Scope] = content
	}
	for _, entry := range referrersIn(&b.referrers, app.Identity) {
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

// scopesIn returns the scopes of an app, ordered by value.
func scopesIn(slugs *index[*Entry], app *Entry) (scopes []*Entry) {
	slugs.WithPrefix(joined(v1alpha1.KindOAuthScope, app.Deployment, document.ScopePrefix(app.Name)), func(e *Entry) bool {
		scopes = append(scopes, e)
		return true
	})
	return scopes
}

// referrersIn returns the entries that refer to an identity.
func referrersIn(all *index[*Entry], id store.Identity) (referrers []*Entry) {
	all.WithPrefix(append(identityKey(id), 0), func(e *Entry) bool {
		referrers = append(referrers, e)
		return true
	})
	return referrers
}
