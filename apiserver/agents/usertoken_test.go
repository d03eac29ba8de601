package agents_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/client/guard"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// atHost sends requests to a server under the host of the deployment.
type atHost struct{}

func (atHost) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Host = "localhost"
	return http.DefaultTransport.RoundTrip(r)
}

func (w *peopleWorld) userTokens(audience string) *guard.Tokens {
	w.T.Helper()
	verifier, err := guard.NewUserTokens(guard.TokensOptions{
		Issuer: "https://localhost", Audiences: []string{audience}, KeysURL: w.Server.URL + "/.well-known/jwks.json", Clock: w.Clock.Now, HTTPClient: &http.Client{Transport: atHost{}},
	})
	w.Must(err)
	return verifier
}

func TestToolGetsTheUsersOwnToken(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"find-order", "mine"} })
	session := w.sessions()
	w.declareTool("mine", document.AITool{
		Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Permissions: []string{"orders:read"}, Authorization: document.ToolAuthorization{AuthorizeAsUser: true},
	})
	const mine = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mine","_meta":{"sub":"1","user_id":"1"},"arguments":{}}}`
	verifier := w.userTokens(w.up.URL)
	agent := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	soon := w.Clock.Now().Add(20 * time.Second).Truncate(time.Second)
	for name, tc := range map[string]struct {
		credential, client, actor, organization string
		expires                                 time.Time
	}{
		"an OAuth token":                {w.token("orders:read"), w.family.Client, "client:" + w.family.Client, "50", w.Clock.Now().Add(time.Minute).Truncate(time.Second)},
		"an OAuth token that ends soon": {w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = jwt.NewNumericDate(soon) }), w.family.Client, "client:" + w.family.Client, "50", soon},
		"a session token":               {session(agentURL, "orders:read"), "session", "session:12", "", w.Clock.Now().Add(time.Minute).Truncate(time.Second)},
	} {
		w.Eventually(name, func() bool {
			return strings.Contains(w.post("support", tc.credential, mine, "X-User-Id", "1").raw, `open`)
		})
		sent, _ := w.up.last()
		raw, found := strings.CutPrefix(sent.header.Get("Authorization"), "Bearer ")
		who, err := verifier.Verify(t.Context(), raw)
		if !found || err != nil {
			t.Fatalf("%s: the tool got %q: %v", name, sent.header.Get("Authorization"), err)
		}
		if who.UserID != "7" || who.ClientID != tc.client || who.OrganizationID != tc.organization || !who.Can("orders:read") || who.Can("orders:write") || !who.ExpiresAt.Equal(tc.expires) {
			t.Errorf("%s: the token is that of %+v", name, who)
		}
		if who.Actor == nil || who.Actor.Kind+":"+who.Actor.ID != "agent:"+agent || who.Actor.Actor == nil || who.Actor.Actor.Kind+":"+who.Actor.Actor.ID != tc.actor {
			t.Errorf("%s: the actor is %+v", name, who.Actor)
		}
		if _, err := w.userTokens("https://else.example").Verify(t.Context(), raw); err == nil {
			t.Errorf("%s: another audience accepts the token", name)
		}
		if a := w.post("support", raw, listing); a.status != 401 {
			t.Errorf("%s: the agent accepts the tool's token: %d", name, a.status)
		}
		w.answering(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = rw.Write([]byte("open: " + r.Header.Get("Authorization")))
		})
		if a := w.post("support", tc.credential, mine); strings.Contains(a.raw, "eyJ") || !strings.Contains(a.raw, "[redacted]") {
			t.Errorf("%s: the answer repeats the token: %s", name, a.raw)
		}
	}
}

func TestWithoutAUserNoTokenIsSent(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) { a.Tools = []string{"find-order", "mine"} })
	w.sessions()
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	_, before := w.up.last()
	w.Eventually("the tool is declared", func() bool {
		return strings.Contains(w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mine"}}`).raw, `"code":"user_required"`)
	})
	if _, after := w.up.last(); after != before {
		t.Error("the tool was called")
	}
	if list := names(w.post("support", w.key, listing)); len(list) != 1 || list[0] != "find-order" {
		t.Errorf("the list is %v", list)
	}
}
