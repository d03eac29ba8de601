package frontendtest

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// Provider starts an identity provider that has the world's clock.
func (w *World) Provider() *identityprovider.Provider {
	p := identityprovider.Start(w.Clock.Now)
	w.T.Cleanup(p.Close)
	return p
}

// DeclareConnection declares a connection of the type OIDC to a provider, which change may change, and returns its id.
func (w *World) DeclareConnection(slug string, p *identityprovider.Provider, change func(*document.Connection)) string {
	w.T.Helper()
	id := ids.Derive(v1alpha1.KindConnection, "acme", slug)
	c := document.Connection{
		Slug: slug, Type: string(v1alpha1.ConnectionTypeOIDC), Name: slug, Active: true, Shown: true, Enforcement: string(v1alpha1.ConnectionEnforcementOptional),
		Attributes: document.ConnectionAttributes{Email: "email", FirstName: "given_name", LastName: "family_name"},
		Membership: document.ConnectionMembership{JustInTime: true}, Scopes: []string{"openid", "email", "profile"},
		Client: document.ConnectionClient{
			ID: identityprovider.ClientID, Authentication: string(v1alpha1.UpstreamAuthenticationBasic),
			Sealed: w.Keyring.Seal(document.SealedConnectionSecret, ids.Format(id), []byte(identityprovider.ClientSecret)),
		},
		Provider: document.UpstreamProvider{Issuer: p.URL, Userinfo: document.UserinfoIfMissing, Algs: []string{"RS256"}},
	}
	if change != nil {
		change(&c)
	}
	w.Put(v1alpha1.KindConnection, slug, Deployment, slug, c)
	return ids.Format(id)
}
