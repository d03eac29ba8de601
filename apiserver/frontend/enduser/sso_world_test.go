package enduser_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// provider starts an identity provider.
func (w *world) provider() *identityprovider.Provider { return w.Provider() }

// connection declares a connection to a provider and returns its id.
func (w *world) connection(slug string, p *identityprovider.Provider, change func(*document.Connection)) string {
	w.T.Helper()
	return w.DeclareConnection(slug, p, change)
}

// begin begins a sign-in by a connection and returns the address of the provider. more are members of the body.
func (b *browser) begin(connection, more string) string {
	b.w.T.Helper()
	return b.ok("POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q%s}`, connection, more))["authorization_url"].(string)
}

// callback is the path at which the provider of a connection sends the browser back.
func callback(connection string, values url.Values) string {
	return "/sso/" + connection + "/callback?" + values.Encode()
}

// sso signs in by a connection as a user of its provider, and returns the response to the callback.
func (b *browser) sso(connection string, p *identityprovider.Provider, user identityprovider.User) answer {
	b.w.T.Helper()
	return b.ssoFor(connection, p, user, "")
}

// ssoFor is sso with further members of the body of POST /auth/sso.
func (b *browser) ssoFor(connection string, p *identityprovider.Provider, user identityprovider.User, more string) answer {
	b.w.T.Helper()
	values, err := p.Authorize(b.begin(connection, more), user)
	b.w.Must(err)
	return b.do(http.MethodGet, callback(connection, values), "", "Sec-Fetch-Site", "cross-site")
}

// reauthenticateAfter returns how long a proof counts as fresh.
func (w *world) reauthenticateAfter() time.Duration {
	settings := w.Settings()
	return settings.EffectiveSession().ReauthenticateWithin()
}

// attempt returns the newest attempt of the last response.
func (a answer) attempt() map[string]any {
	if len(a.Body.Session.SignInAttempts) == 0 {
		return nil
	}
	return a.Body.Session.SignInAttempts[0]
}

// user returns the id of the account that is signed in after a response, "" for none.
func (a answer) user() string {
	if a.Body.Session.ActiveSignIn == nil {
		return ""
	}
	return a.Body.Session.ActiveSignIn["user_id"].(string)
}

// signedInOperations returns the operations that need a signed-in user.
func signedInOperations(t *testing.T) map[string]openapi.Route {
	t.Helper()
	contract, err := openapi.LoadEndUser()
	if err != nil {
		t.Fatal(err)
	}
	routes := maps.Clone(contract.Routes())
	maps.DeleteFunc(routes, func(_ string, needs openapi.Route) bool { return needs.Session < openapi.SignedIn })
	return routes
}

// failures returns the recorded failures of a connection.
func (w *world) failures(conn string) (all []people.ConnectionFailure) {
	w.T.Helper()
	id, err := ids.Parse(conn)
	w.Must(err)
	w.tx(func(tx people.Tx) (err error) {
		all, err = tx.Connections().ConnectionFailures(id, 100)
		return err
	})
	return all
}
