package credential

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

func documentOf(t *testing.T, kind, deployment, name string, id int64, content any) store.Document {
	t.Helper()
	payload, err := document.Encode(document.Meta{}, content)
	if err != nil {
		t.Fatal(err)
	}
	return store.Document{
		Owner:      store.Owner{Identity: store.Identity{Kind: kind, Namespace: "ns", Name: name}, UID: kind + name},
		Deployment: deployment, ID: id, Key: name, Payload: payload,
	}
}

// appDocuments are an OAuth app, its machine client, and the deployment that accepts the app's tokens for an audience.
func appDocuments(t *testing.T, keys issuerKeys, issuer, audience string) []store.Document {
	t.Helper()
	public, err := json.Marshal(jose.JSONWebKey{Key: keys.ec.Public(), KeyID: "ec", Algorithm: "ES256"})
	if err != nil {
		t.Fatal(err)
	}
	return []store.Document{
		documentOf(t, "IdentityDeployment", "ns/owner", "owner", 50, document.Deployment{JWTIssuers: []document.JWTIssuer{
			{Name: "own", OAuthApp: "login", Audiences: []string{audience}, Algorithms: []string{"ES256"}, PermissionsClaim: "permissions"},
		}}),
		documentOf(t, "OAuthApp", "ns/owner", "login", 51, document.OAuthApp{
			Slug: "login", Active: true, FQDN: "idp.example", Issuer: issuer, SigningKeys: []document.SigningKey{{ID: "ec", Public: public}},
		}),
		documentOf(t, "OAuthClient", "ns/owner", "machine", 52, document.OAuthClient{App: "login", Active: true, MachinePermissions: []string{"ai_agents:read"}}),
	}
}

func TestOAuthAppCannotTakeOverDeclaredIssuer(t *testing.T) {
	keys, rival := newKeys(t), newKeys(t)
	for name, audience := range map[string]string{"its own audience": "other-api", "the same audience": "cardea:ns:acme"} {
		t.Run("for "+name, func(t *testing.T) {
			s := testSnapshot(t, keys, appDocuments(t, rival, "https://idp.example", audience)...)
			if _, own := s.AppByIssuer("https://idp.example"); !own {
				t.Fatal("the app does not have the issuer: this proves nothing")
			}
			tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, func() time.Time { return now }), func() time.Time { return now })
			for _, client := range []any{nil, ids.Format(52)} {
				for range 2 { // the second time from the cache
					p, err := tokens.Authenticate(context.Background(), s, keys.token(claim("client_id", client), claim("sub", "52")))
					if err != nil || p.Deployment.Name != "acme" || !p.Allows("ai_agents:read") {
						t.Errorf("client %v: got %v, %v", client, p, err)
					}
				}
			}
		})
	}
}

func TestDeclarationCannotTakeOverTokensOfAnApp(t *testing.T) {
	rival, keys := newKeys(t), newKeys(t) // acme declares the issuer with its own keys
	s := testSnapshot(t, rival, appDocuments(t, keys, "https://idp.example", "cardea:ns:acme")...)
	tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, func() time.Time { return now }), func() time.Time { return now })
	token := keys.token(header("alg", "ES256"), header("kid", "ec"), claim("client_id", ids.Format(52)), claim("sub", ids.Format(52)), claim("permissions", []string{"ai_agents:read"}))
	for range 2 {
		p, err := tokens.Authenticate(context.Background(), s, token)
		if err != nil || p.Deployment.Name != "owner" || !p.Allows("ai_agents:read") {
			t.Errorf("got %v, %v", p, err)
		}
	}
}
