package oauth_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestDeviceAuthorizationGrant(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c := w.web("terminal", func(d *document.OAuthClient) {
			d.GrantTypes = append(d.GrantTypes, string(v1alpha1.GrantTypeDeviceCode))
			d.Authentication, d.Verifiers = string(v1alpha1.ClientAuthenticationNone), nil
		})
		other, p := w.web("reports", nil), w.signUp("ada@example.com")
		begin := func() answer {
			a := c.post("/device_authorization", url.Values{"scope": {"openid jobs:read"}})
			if a.status != 200 || a.body["interval"] != 5.0 || a.body["expires_in"] != 600.0 || a.text("verification_uri") != "http://localhost:8081/device" {
				t.Fatalf("%d %s", a.status, a.raw)
			}
			return a
		}
		poll := func(c *client, begun answer) answer {
			return c.post("/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "device_code": {begun.text("device_code")}})
		}
		meet := func(code string) string {
			return p.ask("POST", "/session/devices", map[string]any{"user_code": code})["data"].(map[string]any)["request"].(string)
		}
		if a := other.post("/device_authorization", url.Values{}); a.text("error") != "unauthorized_client" {
			t.Errorf("a client without the grant: %s", a.raw)
		}
		if a := c.post("/device_authorization", url.Values{"scope": {"nope"}}); a.text("error") != "invalid_scope" {
			t.Errorf("an unknown scope: %s", a.raw)
		}
		begun := begin()
		steps := []struct {
			after time.Duration
			want  string
		}{{0, "authorization_pending"}, {time.Second, "slow_down"}, {6 * time.Second, "slow_down"}, {16 * time.Second, "authorization_pending"}}
		for i, step := range steps {
			w.Clock.Advance(step.after)
			if a := poll(c, begun); a.text("error") != step.want {
				t.Errorf("%d: %s, want %s", i, a.raw, step.want)
			}
		}
		typed := strings.ToLower(strings.ReplaceAll(begun.text("user_code"), "-", " "))
		request := meet(typed)
		shown := p.ask("GET", "/session/authorizations/"+request, nil)["data"].(map[string]any)
		if shown["step"] != "decide" || len(shown["scopes"].([]any)) != 2 || shown["redirect_host"] != "" {
			t.Errorf("%v", shown)
		}
		done := p.ask("POST", "/session/authorizations/"+request, map[string]any{"decision": "allow"})["data"].(map[string]any)
		if done["redirect_to"] != "/device?granted" {
			t.Errorf("%v", done)
		}
		if a := poll(other, begun); a.text("error") == "" || a.text("error") == "authorization_pending" {
			t.Errorf("another client: %s", a.raw)
		}
		w.Clock.Advance(20 * time.Second)
		answers := atOnce(20, func() answer { return poll(c, begun) })
		won := 0
		for _, a := range answers {
			if a.status == 200 {
				won++
				if a.text("id_token") == "" || a.text("refresh_token") == "" || a.text("scope") != "openid jobs:read" {
					t.Errorf("%s", a.raw)
				}
			} else if a.text("error") != "invalid_grant" {
				t.Errorf("%s", a.raw)
			}
		}
		if won != 1 {
			t.Errorf("%d of twenty won", won)
		}

		denied := begin()
		p.ask("POST", "/session/authorizations/"+meet(denied.text("user_code")), map[string]any{"decision": "deny"})
		if a := poll(c, denied); a.text("error") != "access_denied" {
			t.Errorf("denied: %s", a.raw)
		}
		// An earlier grant must not answer a device: an attacker may have sent the user code.
		again := p.ask("POST", "/session/authorizations/"+meet(begin().text("user_code")), map[string]any{"decision": "continue"})["data"].(map[string]any)
		if again["step"] != "decide" {
			t.Errorf("granted before: %v", again)
		}
		late := begin()
		w.Clock.Advance(10 * time.Minute)
		if a := poll(c, late); a.text("error") != "expired_token" {
			t.Errorf("after its time: %s", a.raw)
		}
		if status, _, raw := p.send("POST", "/session/devices", map[string]any{"user_code": late.text("user_code")}); status != 400 || !strings.Contains(string(raw), "INVALID_USER_CODE") {
			t.Errorf("its code after its time: %d %s", status, raw)
		}
		for range 19 {
			p.send("POST", "/session/devices", map[string]any{"user_code": "BBBB-BBBB"})
		}
		if status, _, raw := p.send("POST", "/session/devices", map[string]any{"user_code": "BBBB-BBBB"}); status != 429 {
			t.Errorf("after twenty unknown ones: %d %s", status, raw)
		}
	})
}
