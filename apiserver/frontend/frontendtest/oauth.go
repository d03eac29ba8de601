package frontendtest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// OAuthKey returns a signing key of an OAuth app, as the operator creates it.
func (w *World) OAuthKey(algorithm jose.SignatureAlgorithm) document.SigningKey {
	w.T.Helper()
	var private crypto.Signer
	var err error
	if algorithm == jose.RS256 {
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	} else {
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	w.Must(err)
	id := "key-" + string(algorithm) + "-" + rand.Text()
	raw, err := json.Marshal(jose.JSONWebKey{Key: private.Public(), KeyID: id, Algorithm: string(algorithm), Use: "sig"})
	w.Must(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	w.Must(err)
	return document.SigningKey{ID: id, Public: raw, Sealed: w.Keyring.Seal(document.SealedOAuthKey, id, der)}
}

// DeclareOAuthApp declares the app "portal" under a frontend URL, with an issuer below it, and returns its content.
func (w *World) DeclareOAuthApp(frontend string) document.OAuthApp {
	w.T.Helper()
	app := document.OAuthApp{
		Slug: "portal", Name: "Portal", Active: true, Issuer: frontend + "/oauth/portal", FrontendURL: frontend,
		Resources: []string{"https://api.acme.example", "https://mcp.acme.example/mcp"}, SigningKeys: []document.SigningKey{w.OAuthKey(jose.ES256), w.OAuthKey(jose.RS256)},
	}
	w.Put(v1alpha1.KindOAuthApp, "portal", Deployment, "portal", app)
	return app
}

// DeclareOAuthScope declares a scope of the app "portal".
func (w *World) DeclareOAuthScope(name string, scope document.OAuthScope) {
	w.T.Helper()
	scope.App = "portal"
	w.Put(v1alpha1.KindOAuthScope, name, Deployment, document.ScopeKey("portal", scope.Scope), scope)
}
