package enduser_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// Both deployments are clients of one provider, with the same client id: only the deployment keeps them apart.
func TestConnectionsOfTwoDeploymentsAreApart(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		var theirs document.Connection
		conn := w.connection("globex", p, func(c *document.Connection) { globexDomain(c); theirs = *c })
		id := ids.Derive(v1alpha1.KindConnection, "acme", "theirs")
		theirs.Slug = "theirs"
		declare := func(secretOf string) string {
			t.Helper()
			theirs.Client.Sealed = w.Keyring.Seal(document.SealedConnectionSecret, secretOf, []byte(identityprovider.ClientSecret))
			return ids.Format(w.Put(v1alpha1.KindConnection, "theirs", anotherName, "theirs", theirs))
		}
		other := declare(ids.Format(id))
		elsewhere := func() *browser {
			b := w.browser()
			b.host = "other.localhost"
			return b
		}
		owner, attacker := w.browser(), elsewhere()
		values, own := owner.authorized(conn, p, ann), attacker.authorized(other, p, identityprovider.User{"sub": "eve", "email": "eve@globex.example"})
		for name, path := range map[string]string{
			"the response at its path":               callback(conn, values),
			"the response at the other's path":       callback(other, values),
			"the other's response at the first path": callback(conn, own),
		} {
			if a := attacker.do("GET", path, ""); a.Status != http.StatusBadRequest || a.code() != "INVALID_ATTEMPT" || a.user() != "" {
				t.Errorf("%s: %s", name, a.Raw)
			}
		}
		attacker.refused(404, "CONNECTION_NOT_FOUND", "POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, conn))
		if p.Redeemed() != 0 {
			t.Errorf("%d codes were redeemed", p.Redeemed())
		}
		if a := attacker.do("GET", callback(other, with(own, "code", values.Get("code"))), ""); a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
			t.Errorf("the code: %s", a.Raw)
		}
		signedIn, theirUser := w.browser(), elsewhere()
		signedIn.sso(conn, p, ann)
		theirUser.sso(other, p, ann)
		if !signedIn.isSignedIn() || !theirUser.isSignedIn() {
			t.Fatalf("not signed in: %s, %s", signedIn.last.Raw, theirUser.last.Raw)
		}
		logout := url.Values{"logout_token": {p.LogoutToken(map[string]any{"sub": "1"})}}
		if status := w.post("/sso/"+conn+"/backchannel-logout", logout, "Host", "other.localhost").StatusCode; status < 400 || !signedIn.isSignedIn() || !theirUser.isSignedIn() {
			t.Errorf("the logout token at a connection that the deployment does not have: %d", status)
		}
		if status := w.post("/sso/"+other+"/backchannel-logout", logout, "Host", "other.localhost").StatusCode; status != http.StatusOK || !signedIn.isSignedIn() || theirUser.isSignedIn() {
			t.Errorf("the logout token at the other's connection: %d", status)
		}

		declare(conn) // the secret is that of the first connection, copied
		redeemed := p.Redeemed()
		w.Eventually("the secret is known", func() bool {
			a := elsewhere().sso(other, p, ann)
			return a.user() == "" && a.Status == http.StatusServiceUnavailable
		})
		if p.Redeemed() != redeemed {
			t.Error("the secret of another connection is sent")
		}
	})
}
