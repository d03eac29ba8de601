package oauth_test

import (
	"net/url"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// An authorization may outlive its sign-in, but not the connection by which the user signed in.
func TestAuthorizationEndsWithItsConnection(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		tokens := p.tokens(c, c.request("openid offline_access"))
		active := func() any {
			return c.post("/introspect", url.Values{"token": {tokens.text("access_token")}}).body["active"]
		}
		declare := func(active bool) {
			w.Put(v1alpha1.KindConnection, "globex", frontendtest.Deployment, "globex", document.Connection{Slug: "globex", Active: active})
		}
		db := w.Open()
		defer func() { _ = db.Close() }()
		of := func(connection int64) {
			_, err := db.ExecContext(t.Context(), `UPDATE oauth_families SET connection_id = $1`, connection)
			w.Must(err)
		}
		if active() != true {
			t.Fatal("the token of a sign-in without a connection is not active")
		}
		of(ids.Derive(v1alpha1.KindConnection, "acme", "globex"))
		if active() != false {
			t.Error("the token is active although its connection does not exist")
		}
		declare(true)
		w.Eventually("the connection is declared", func() bool { return active() == true })
		declare(false)
		w.Put(v1alpha1.KindConnection, "later", frontendtest.Deployment, "later", document.Connection{Slug: "later", Active: true})
		later := ids.Derive(v1alpha1.KindConnection, "acme", "later")
		of(later)
		w.Eventually("the configuration is followed", func() bool { return active() == true })
		of(ids.Derive(v1alpha1.KindConnection, "acme", "globex"))
		if active() != true {
			t.Error("an inactive connection does not keep its authorizations")
		}
		of(77)
		if active() != false {
			t.Error("the token of an unknown connection is active")
		}
		w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
			return tx.Connections().InsertConnection(people.Connection{ID: 77, Slug: "row", Settings: "{}", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
		}))
		if active() != true {
			t.Error("the token of a connection that is a row is not active")
		}
		of(ids.Derive(v1alpha1.KindConnection, "acme", "globex"))
		w.Withdraw(v1alpha1.KindConnection, "acme", "globex")
		w.Eventually("the deletion reaches the server", func() bool { return active() == false })
		if a := c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens.text("refresh_token")}}); a.text("error") != "invalid_grant" {
			t.Errorf("refreshed after the deletion: %s", a.raw)
		}
	})
}
