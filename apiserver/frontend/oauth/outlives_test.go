package oauth_test

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// mailed counts the mails to an address with a text, and waits until there are as many as wanted.
func (w *world) mailed(to, saying string, want int) {
	w.T.Helper()
	w.Eventually("the mails are sent", func() bool {
		n := 0
		for _, m := range w.Carrier.Messages(to) {
			if strings.Contains(m.Body, saying) {
				n++
			}
		}
		return n == want
	})
}

// A copy of an old session cannot grant access that outlives it. A mail notifies the user of the first such access.
func TestFirstOfflineGrantNeedsRecentProofAndSendsMail(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		step := func(scope string, decision string) any {
			return p.decide(p.authorize(c.request(scope)), map[string]any{"decision": decision})["step"]
		}
		w.Clock.Advance(2 * time.Hour)
		if got := step("openid", "continue"); got != "decide" {
			t.Errorf("what ends with the session: %v, want decide", got)
		}
		if got := step("openid offline_access", "continue"); got != "reauthenticate" {
			t.Errorf("what outlives the session: %v, want reauthenticate", got)
		}
		page := p.authorize(c.request("openid offline_access"))
		if status, _, raw := p.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"}); status == 200 && !strings.Contains(string(raw), `"step":"reauthenticate"`) {
			t.Errorf("a decision without a proof: %d %s", status, raw)
		}
		p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
		p.allow(c.request("openid offline_access"))
		w.mailed("ada@example.com", "The app “", 1)
		// There is no second proof and no second mail, because the client has offline access already.
		w.Clock.Advance(2 * time.Hour)
		if got := step("openid offline_access", "continue"); got != "answer" {
			t.Errorf("once it was granted: %v, want answer", got)
		}
		w.mailed("ada@example.com", "The app “", 1)
	})
}

func TestPasswordResetEndsRecentOfflineGrants(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, other := w.web("reports", nil), w.web("mirror", nil)
		for i, keep := range []bool{false, true} {
			email := []string{"ada@example.com", "bob@example.com"}[i]
			p := w.signUp(email)
			access := func(c *client) string {
				return c.post("/token", redeem(p.allow(c.request("jobs:read offline_access")).Get("code"))).text("refresh_token")
			}
			lives := func(c *client, token string) bool {
				return c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}).status == 200
			}
			before := access(other)
			w.Clock.Advance(time.Minute)
			p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
			w.Clock.Advance(time.Minute)
			since := access(c)

			b := w.anonymous()
			begun := b.ask("POST", "/auth/forgot-password", map[string]any{"email": email})
			attempt := begun["session"].(map[string]any)["signin_attempts"].([]any)[0].(map[string]any)["id"]
			b.ask("POST", "/auth/attempt-verification", map[string]any{"signin_attempt_id": attempt, "code": w.CodeFor(email, 2)})
			reset := map[string]any{"signin_attempt_id": attempt, "password": "a better sentence than before"}
			if keep {
				reset["revoke_access"] = false
			}
			b.ask("POST", "/auth/reset-password", reset)
			if !lives(other, before) {
				t.Errorf("keep %t: access from before the last proof is gone", keep)
			}
			if lives(c, since) != keep {
				t.Errorf("keep %t: access since the last proof lives: %t", keep, !keep)
			}
		}
	})
}
