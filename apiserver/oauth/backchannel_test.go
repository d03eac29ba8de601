package oauth_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/store/document"
)

// TestClientsAreToldOfTheEndOfASignIn: OpenID Connect Back-Channel Logout, to a client that does not answer the first time.
func TestClientsAreToldOfTheEndOfASignIn(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		at := newSite(t)
		var mu sync.Mutex
		var tokens []string
		at.answers(func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			tokens = append(tokens, r.PostFormValue("logout_token"))
			if len(tokens) == 1 {
				w.WriteHeader(http.StatusBadGateway)
			}
		})
		c := w.web("reports", func(d *document.OAuthClient) { d.BackchannelLogoutURI = at.URL + "/logout" })
		silent, p := w.web("silent", nil), w.signUp("ada@example.com")
		id := claimsIn(t, w, c.post("/token", redeem(p.allow(c.request("openid")).Get("code"))).text("id_token"))
		silent.post("/token", redeem(p.allow(silent.request("openid")).Get("code")))
		p.ask("POST", "/session/sign-out", map[string]any{})
		w.Eventually("the client is told, and told again", func() bool {
			w.Clock.Advance(50 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			return len(tokens) == 2
		})
		mu.Lock()
		defer mu.Unlock()
		if tokens[0] != tokens[1] {
			t.Error("a retry is another token")
		}
		parsed, err := jwt.ParseSigned(tokens[1], []jose.SignatureAlgorithm{jose.ES256})
		w.Must(err)
		said := claimsIn(t, w, tokens[1])
		events, _ := said["events"].(map[string]any)
		if parsed.Headers[0].ExtraHeaders[jose.HeaderType] != "logout+jwt" || said["iss"] != issuer || fmt.Sprint(said["aud"]) != fmt.Sprint(id["aud"]) || said["sub"] != p.id || said["sid"] != id["sid"] || said["nonce"] != nil || said["jti"] == "" ||
			events["http://schemas.openid.net/event/backchannel-logout"] == nil {
			t.Errorf("%v", said)
		}
	})
}
