package enduser_test

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// signedUp returns a browser that is signed in to a new account, and the user's id.
func (w *world) signedUp(email string) (*browser, string) {
	w.T.Helper()
	b := w.browser()
	return b, b.signUp(email)
}

// organization creates an organization and returns its id.
func (b *browser) organization(name string) string {
	b.w.T.Helper()
	return b.ok("POST", "/organizations", fmt.Sprintf(`{"name":%q}`, name))["organization"].(map[string]any)["id"].(string)
}

func (b *browser) switchTo(organization string) map[string]any {
	b.w.T.Helper()
	return b.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, organization))
}

// as returns a browser that presents one token and stores the tokens that it receives.
func (b *browser) as(token string) *browser {
	other := b.w.browserAt(b.address)
	other.setCookie(token)
	return other
}

func (b *browser) alive() bool {
	b.w.T.Helper()
	return b.do("GET", "/me", "").Status == 200
}

func TestTokensAre256BitsAndOnlyTheirHashIsStored(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		token := b.cookie()
		hash, formed := session.Hash(token)
		if len(token) != 43 || !formed {
			t.Fatalf("the token has %d characters of base64, want 43 for 256 bits", len(token))
		}
		w.tx(func(tx people.Tx) error {
			if _, found, err := tx.Sessions().SessionByToken(hash); err != nil || !found {
				t.Errorf("the session is not known by the token's SHA-256: %v", err)
			}
			return nil
		})
		for _, secret := range []string{token, hex.EncodeToString([]byte(token))} {
			if dump := w.dump(); strings.Contains(dump, secret) {
				t.Error("the store holds the token itself")
			}
		}
	})
}

func TestCookieAttributes(t *testing.T) {
	onSQLite(t, func(w *world) {
		cookie := func(a answer) *http.Cookie {
			t.Helper()
			cookies := (&http.Response{Header: a.Header}).Cookies()
			if len(cookies) != 1 || cookies[0].Name != "__session" {
				t.Fatalf("cookies %v", cookies)
			}
			return cookies[0]
		}
		b := w.browser()
		b.signUp("ada@example.com")
		c := cookie(b.last)
		if !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 7*24*3600 || c.Secure {
			t.Errorf("on localhost of a Staging deployment: %s", c.Raw)
		}
		d := w.Settings()
		d.Mode, d.FrontendHosts = "Production", []string{"app.example.com"}
		d.SMS = nil
		w.Put("IdentityDeployment", "production", "acme/production", "production", d)
		p := w.browser()
		p.host = "app.example.com"
		w.Eventually("the new host is served", func() bool { return p.do("GET", "/session", "").Status == 200 })
		p.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"ada@example.com"}`)
		if c := cookie(p.last); !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.MaxAge != 600 {
			t.Errorf("in production: %s", c.Raw)
		}
		if p.last.Header.Get("Strict-Transport-Security") == "" {
			t.Error("in production there is no HSTS")
		}
		// Two cookies: another host set one of them.
		for _, path := range []string{"/session", "/me"} {
			req, err := http.NewRequest("GET", w.Server.URL+path, nil)
			w.Must(err)
			req.Host = "localhost"
			req.Header.Set("Cookie", "__session="+b.cookie()+"; __session="+b.cookie())
			resp, err := http.DefaultClient.Do(req)
			w.Must(err)
			w.Must(resp.Body.Close())
			if resp.StatusCode != 401 {
				t.Errorf("two cookies on %s: %d", path, resp.StatusCode)
			}
		}
	})
}

func TestTokensAreNotInBodiesLogsOrCachedResponses(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		first := b.cookie()
		b.organization("One")
		for _, path := range []string{"/session", "/me", "/me/phone-numbers", "/me/organization-memberships"} {
			a := b.do("GET", path, "")
			if strings.Contains(a.Raw, b.cookie()) || strings.Contains(a.Raw, first) || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: %s %v", path, a.Raw, a.Header)
			}
		}
		if logs := w.Logs.String(); strings.Contains(logs, first) || strings.Contains(logs, b.cookie()) {
			t.Error("a token is in the log")
		}
	})
}

func TestRotationGraceAndReuse(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		one, two := b.organization("One"), b.organization("Two")
		old := b.cookie()
		b.switchTo(one)
		successor := b.cookie()
		if successor == old {
			t.Fatal("a switch gave no new token")
		}
		// While the successor is unused, the old token stays valid, and siblings do not end each other.
		w.Clock.Advance(time.Hour)
		sibling := b.as(old)
		sibling.switchTo(two)
		if !b.as(old).alive() {
			t.Fatal("the old token died before a successor was used")
		}
		if !b.alive() {
			t.Fatal("the successor does not work")
		}
		// Now the old token expires in 10 s.
		w.Clock.Advance(9 * time.Second)
		if !b.as(old).alive() || !sibling.alive() {
			t.Fatal("a parallel tab lost its session within the grace, or a sibling was killed")
		}
		w.Clock.Advance(2 * time.Second)
		if !sibling.alive() || !b.alive() {
			t.Fatal("successors died with the one they replaced")
		}
		// A use of the old token after its expiry means that it was copied: the session ends.
		b.as(old).refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		b.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		sibling.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		if !strings.Contains(w.dump(), "session.token_reused") {
			t.Error("the reuse is not in the audit")
		}
	})
}

func TestTokensPerSessionAreBounded(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		one, two := b.organization("One"), b.organization("Two")
		if !b.alive() {
			t.Fatal("not signed in")
		}
		old := b.cookie()
		var siblings []*browser
		for i := range 12 {
			w.Clock.Advance(time.Second)
			tab := b.as(old)
			tab.switchTo([]string{one, two}[i%2])
			siblings = append(siblings, tab)
		}
		if !b.as(old).alive() {
			t.Error("the presented token was evicted in favor of its successors")
		}
		live := 0
		for i, tab := range siblings {
			if w.tokenExists(tab.cookie()) {
				live++
			} else if i >= 5 {
				t.Errorf("sibling %d of 12 was evicted before older ones", i)
			}
		}
		if live != session.MaxTokens-1 {
			t.Errorf("%d successors live beside the presented token, want %d", live, session.MaxTokens-1)
		}
		// An evicted token is invalid, but its use does not count as theft.
		siblings[0].refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		if !b.as(old).alive() {
			t.Error("the use of an evicted token ended the session")
		}
	})
}

func (w *world) tokenExists(token string) (exists bool) {
	hash, _ := session.Hash(token)
	w.tx(func(tx people.Tx) (err error) {
		_, exists, err = tx.Sessions().SessionByToken(hash)
		return err
	})
	return exists
}

func TestSignInReplacesTokens(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		// An attacker plants an anonymous session's token ...
		attacker := w.browser()
		attacker.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"nobody@example.com"}`)
		planted := attacker.cookie()
		w.signedUp("ada@example.com")
		victim := attacker.as(planted)
		victim.signIn("ada@example.com")
		if victim.cookie() == planted || attacker.as(planted).alive() {
			t.Fatal("a planted anonymous token is still valid")
		}
		if !victim.alive() {
			t.Fatal("the victim is not signed in")
		}
		// ... or the token of a session signed in to the attacker's own account.
		mallory, _ := w.signedUp("mallory@example.com")
		planted = mallory.cookie()
		victim = mallory.as(planted)
		victim.signIn("ada@example.com")
		if mallory.as(planted).alive() {
			t.Fatal("a planted token of a signed-in session is still valid")
		}
		// A token that belongs to no session is ignored, and never becomes the token of a session.
		victim = w.browser()
		made, _, err := session.Mint(strings.NewReader(strings.Repeat("x", 32)))
		w.Must(err)
		victim.setCookie(made)
		victim.signIn("ada@example.com")
		if victim.cookie() == made {
			t.Fatal("a made-up token became a session's")
		}
	})
}

func TestIdleAndAbsoluteBounds(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		w.Clock.Advance(24*time.Hour - time.Second)
		if !b.alive() {
			t.Fatal("idle for less than 24 h")
		}
		w.Clock.Advance(24 * time.Hour)
		b.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		if b.cookie() != "" {
			t.Error("the dead cookie was not cleared")
		}
		b.signIn("ada@example.com")
		for range 7*2 - 1 {
			w.Clock.Advance(12 * time.Hour)
			if !b.alive() {
				t.Fatal("in use, and less than 7 days old")
			}
		}
		w.Clock.Advance(12 * time.Hour)
		b.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")

		d := w.Settings()
		d.Session = &document.SessionSettings{IdleTimeoutSeconds: 120, LifetimeSeconds: 600, MaxSignIns: 5}
		w.Declare(d)
		w.Eventually("the declared bounds apply", func() bool {
			b = w.browser()
			b.signIn("ada@example.com")
			return strings.Contains(b.last.Header.Get("Set-Cookie"), "Max-Age=600")
		})
		w.Clock.Advance(121 * time.Second)
		b.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
	})
}

func TestUseIsRecordedAtMostOncePerMinute(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		used := func() (at time.Time) {
			hash, _ := session.Hash(b.cookie())
			w.tx(func(tx people.Tx) error {
				s, _, err := tx.Sessions().SessionByToken(hash)
				at = s.UsedAt
				return err
			})
			return at
		}
		start := used()
		for range 59 {
			w.Clock.Advance(time.Second)
			b.alive()
		}
		if !used().Equal(start) {
			t.Error("use was written within a minute")
		}
		w.Clock.Advance(20 * time.Second)
		b.alive()
		if used().Equal(start) {
			t.Error("use was not written after a minute and the jitter")
		}
		w.Clock.Advance(25 * time.Hour)
		b.do("GET", "/me", "")
		b.do("GET", "/session", "")
		w.Clock.Advance(-25 * time.Hour)
		if used().After(w.Clock.Now()) {
			t.Error("an expired session was written")
		}
	})
}

func TestSessionEndsOnEveryServer(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		second := w.serve(w.Store)
		b, user := w.signedUp("ada@example.com")
		there := b.as(b.cookie())
		there.base = second.URL
		there.setCookie(b.cookie())
		if !there.alive() {
			t.Fatal("the session is not known to the second server")
		}
		b.ok("POST", "/session/sign-out", `{}`)
		there.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		there.signIn("ada@example.com")
		w.tx(func(tx people.Tx) error { _, err := tx.Sessions().EndSessionsOf(parseID(user)); return err })
		there.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		there.signIn("ada@example.com")
		disable := func(disabled bool) {
			w.tx(func(tx people.Tx) error {
				if _, err := tx.Sessions().EndSessionsOf(parseID(user)); err != nil {
					return err
				}
				return tx.Users().UpdateUser(people.User{ID: parseID(user), Disabled: disabled, UpdatedAt: w.Clock.Now()})
			})
		}
		disable(true)
		there.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		there.refused(403, "USER_DISABLED", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"ada@example.com","password":%q}`, goodPassword))
		disable(false)
		there.signIn("ada@example.com")
		w.tx(func(tx people.Tx) error { return tx.Users().DeleteUser(parseID(user)) })
		there.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
	})
}

func parseID(text string) (id int64) {
	_, _ = fmt.Sscan(text, &id)
	return id
}

func TestBoundsOfSignInsAndSessions(t *testing.T) {
	onSQLite(t, func(w *world) {
		for i := range 6 {
			w.signedUp(fmt.Sprintf("user%d@example.com", i))
		}
		b := w.browser()
		for i := range 6 {
			w.Clock.Advance(time.Second)
			b.signIn(fmt.Sprintf("user%d@example.com", i))
		}
		if got := b.last.Body.Session.SignIns; len(got) != 5 {
			t.Fatalf("%d sign-ins, want the newest 5", len(got))
		}
		// The same account twice is one sign-in.
		b.signIn("user3@example.com")
		users := map[any]bool{}
		for _, g := range b.last.Body.Session.SignIns {
			users[g["user_id"]] = true
		}
		if len(users) != 5 || len(b.last.Body.Session.SignIns) != 5 {
			t.Fatalf("an account has two sign-ins: %s", b.last.Raw)
		}
		// A user's 21st session evicts the oldest.
		var tabs []*browser
		for range session.MaxPerUser + 1 {
			w.Clock.Advance(time.Second)
			tab := w.browser()
			tab.signIn("user0@example.com")
			tabs = append(tabs, tab)
		}
		if tabs[0].alive() {
			t.Error("the oldest of 21 sessions lives")
		}
		for i, tab := range tabs[1:] {
			if !tab.alive() {
				t.Errorf("session %d of the newest 20 is gone", i)
			}
		}
		if strings.Count(w.dump(), "session.evicted") < 2 {
			t.Error("evictions are not in the audit")
		}
	})
}

func TestSnapshotsShowThisSessionOnly(t *testing.T) {
	onSQLite(t, func(w *world) {
		a, ada := w.signedUp("ada@example.com")
		b, _ := w.signedUp("bob@example.com")
		_ = a
		b.signIn("ada@example.com")
		s := b.last.Body.Session
		if len(s.SignIns) != 2 || s.ActiveSignIn["user_id"] != ada {
			t.Fatalf("two accounts in one session: %s", b.last.Raw)
		}
		first := s.SignIns[0]["id"].(string)
		b.ok("POST", "/session/switch-sign-in", fmt.Sprintf(`{"signin_id":%q}`, first))
		if b.last.Body.Session.ActiveSignIn["id"] != first {
			t.Fatalf("not switched: %s", b.last.Raw)
		}
		foreign := a.do("GET", "/session", "").Body.Session.SignIns[0]["id"].(string)
		b.refused(400, "INVALID_SIGNIN", "POST", "/session/switch-sign-in", fmt.Sprintf(`{"signin_id":%q}`, foreign))
		if b.last.Body.Session.ActiveSignIn["id"] != first {
			t.Fatalf("a refused switch shows in the snapshot: %s", b.last.Raw)
		}
		b.refused(400, "INVALID_SIGNIN", "POST", "/session/sign-out", fmt.Sprintf(`{"signin_id":%q}`, foreign))
		b.ok("POST", "/session/sign-out", fmt.Sprintf(`{"signin_id":%q}`, first))
		if s := b.last.Body.Session; len(s.SignIns) != 1 || s.ActiveSignIn["user_id"] != ada {
			t.Fatalf("signed out of one account: %s", b.last.Raw)
		}
		b.ok("POST", "/session/sign-out", `{}`)
		if s := b.last.Body.Session; len(s.SignIns) != 0 || s.ActiveSignIn != nil || b.cookie() != "" {
			t.Fatalf("signed out: %s", b.last.Raw)
		}
	})
}

func TestCrossSiteRequestsAreRefused(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		body := `{"organization_id":"1"}`
		const path = "/session/switch-organization"
		for _, form := range []string{"application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "application/json; charset=latin1", ""} {
			b.refused(415, "UNSUPPORTED_MEDIA_TYPE", "POST", path, body, "Content-Type", "", "Content-Type", form)
		}
		for _, origin := range []string{"https://evil.example", "null", "http://app.example.com", "https://app.example.com.evil.example", "https://localhost.evil.example", "https://app.example.com:444", "http://localhost:1", "https://app.example.com/"} {
			b.refused(403, "ORIGIN_NOT_ALLOWED", "POST", path, body, "Origin", origin)
			b.refused(403, "ORIGIN_NOT_ALLOWED", "GET", "/session", "", "Origin", origin)
		}
		b.refused(403, "ORIGIN_NOT_ALLOWED", "POST", path, body, "Sec-Fetch-Site", "cross-site")
		b.refused(403, "ORIGIN_NOT_ALLOWED", "POST", path, body, "Origin", "https://app.example.com", "Origin", "https://evil.example")
		for _, origin := range []string{"https://app.example.com", "http://localhost", "https://app.localhost"} {
			b.refused(400, "INVALID_ORGANIZATION", "POST", path, body, "Origin", origin, "Sec-Fetch-Site", "cross-site")
		}
		b.refused(400, "INVALID_ORGANIZATION", "POST", path, body)
	})
}

func TestCORSForDeclaredOriginsOnly(t *testing.T) {
	onSQLite(t, func(w *world) {
		b := w.browser()
		a := b.do("GET", "/session", "", "Origin", "https://app.example.com")
		if a.Header.Get("Access-Control-Allow-Origin") != "https://app.example.com" || a.Header.Get("Access-Control-Allow-Credentials") != "true" || !strings.Contains(a.Header.Get("Vary"), "Origin") {
			t.Errorf("declared: %v", a.Header)
		}
		a = b.do("OPTIONS", "/session/switch-organization", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type")
		if a.Status != 204 || !strings.Contains(a.Header.Get("Access-Control-Allow-Methods"), "POST") || a.Header.Get("Access-Control-Allow-Headers") == "" {
			t.Errorf("preflight: %d %v", a.Status, a.Header)
		}
		for _, origin := range []string{"https://evil.example", "null"} {
			for _, request := range [][]string{{"GET", "/session"}, {"OPTIONS", "/session/switch-organization", "Access-Control-Request-Method", "POST"}} {
				a = b.do(request[0], request[1], "", append(request[2:], "Origin", origin)...)
				if a.Status != 403 || a.Header.Get("Access-Control-Allow-Origin") != "" || a.Header.Get("Access-Control-Allow-Credentials") != "" {
					t.Errorf("%s %s: %d %v", origin, request, a.Status, a.Header)
				}
			}
		}
	})
}

func TestFailedSignInsRevealNothingAndAreThrottled(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.signedUp("ada@example.com")
		body := `{"strategy":"password","email":%q,"password":"a wrong password of length"}`
		for _, email := range []string{"ada@example.com", "nobody@example.com"} {
			b := w.browser()
			for range 10 {
				b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", fmt.Sprintf(body, email))
			}
			for _, wait := range []int{1, 2, 4, 8} {
				a := b.refused(429, "RATE_LIMITED", "POST", "/auth/signin", fmt.Sprintf(body, email))
				if got := *a.Body.Errors[0].RetryAfterSeconds; got != wait || a.Header.Get("Retry-After") != fmt.Sprint(wait) {
					t.Errorf("%s: retry after %d s, want %d", email, got, wait)
				}
				// Within the wait, no password is compared, not even the right one.
				if email == "ada@example.com" {
					b.refused(429, "RATE_LIMITED", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, email, goodPassword))
				}
				w.Clock.Advance(time.Duration(wait) * time.Second)
			}
		}
		// Another address does not wait, and a success resets the count.
		other := w.browser()
		other.signIn("ada@example.com")
		w.Eventually("the owner is notified", func() bool {
			for _, m := range w.Carrier.Messages("ada@example.com") {
				if strings.Contains(strings.ToLower(m.Subject), "sign-in") && frontendtest.CodeIn(m.Body) == "" {
					return true
				}
			}
			return false
		})
		if n := len(w.Carrier.Messages("nobody@example.com")); n != 0 {
			t.Errorf("%d messages to an address without an account", n)
		}
	})
}

func TestUnknownAccountsGetTheSameResponse(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("ada@example.com")
		shape := func(a answer) string {
			text := a.Raw
			for _, attempts := range [][]map[string]any{a.Body.Session.SignInAttempts, a.Body.Session.SignUpAttempts} {
				for _, attempt := range attempts {
					for _, value := range attempt {
						if s, ok := value.(string); ok && (len(s) > 15 || strings.Contains(s, "@")) {
							text = strings.ReplaceAll(text, s, "X")
						}
					}
				}
			}
			return fmt.Sprint(a.Status, text)
		}
		for _, request := range [][2]string{
			{"/auth/signin", `{"strategy":"email_otp","email":%q}`},
			{"/auth/signup", `{"email":%q,"password":"correct horse battery staple"}`},
		} {
			var shapes []string
			for _, email := range []string{"ada@example.com", "new@example.com"} {
				b := w.browser()
				w.Clock.Advance(2 * time.Hour) // earlier mails do not count
				first := shape(b.do("POST", request[0], fmt.Sprintf(request[1], email)))
				kind, attempts := "signin_attempt_id", b.last.Body.Session.SignInAttempts
				if len(attempts) == 0 {
					kind, attempts = "signup_attempt_id", b.last.Body.Session.SignUpAttempts
				}
				attempted := shape(b.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{%q:%q,"code":"000000"}`, kind, attempts[0]["id"])))
				again := shape(b.do("POST", "/auth/prepare-verification", fmt.Sprintf(`{%q:%q}`, kind, attempts[0]["id"])))
				shapes = append(shapes, first+attempted+again)
			}
			if shapes[0] != shapes[1] {
				t.Errorf("%s reveals which accounts exist:\n%s\n%s", request[0], shapes[0], shapes[1])
			}
		}
		w.Eventually("the owner of a taken address is notified", func() bool {
			for _, m := range w.Carrier.Messages("ada@example.com") {
				if strings.Contains(m.Body, "already") {
					return true
				}
			}
			return false
		})
	})
}

func TestConcurrentWrongPasswordsAreCounted(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.signedUp("ada@example.com")
		const tries = 40
		address := w.browser().address
		var refused, slowed atomic.Int64
		var group sync.WaitGroup
		for range tries {
			group.Go(func() {
				switch w.browserAt(address).do("POST", "/auth/signin", `{"strategy":"password","email":"ada@example.com","password":"a wrong password of length"}`).Status {
				case 401:
					refused.Add(1)
				case 429, 503:
					slowed.Add(1)
				}
			})
		}
		group.Wait()
		if refused.Load() == 0 || refused.Load() > 10 || refused.Load()+slowed.Load() != tries {
			t.Errorf("%d of %d tries at once were answered 401 and %d held back; at most 10 may be compared freely", refused.Load(), tries, slowed.Load())
		}
	})
}

func TestPasswords(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.PasswordCost = password.DefaultCost
		w.Server = w.serve(w.Store)
		b := w.browser()
		weak := []string{"short", "exactly14chars", strings.Repeat("x", 129), strings.Repeat("password", 3), "passwordpassword", "aaaaaaaaaaaaaaaaaaaa", "abababababababababab"}
		for _, password := range weak {
			b.refused(400, "WEAK_PASSWORD", "POST", "/auth/signup", fmt.Sprintf(`{"email":"ada@example.com","password":%q}`, password))
		}
		b.refused(400, "WEAK_PASSWORD", "POST", "/auth/signup", `{"email":"ada.lovelace@example.com","password":"Ada.Lovelace@example.com"}`)
		if b.cookie() != "" {
			t.Error("a refused sign-up began a session")
		}
		for i, password := range []string{"exactly 15 chars", strings.Repeat("long ", 25), "пароль из пятнадцати букв", "all lower case and no digit"} {
			b := w.browser()
			b.ok("POST", "/auth/signup", fmt.Sprintf(`{"email":"user%d@example.com","password":%q}`, i, password))
			b.completeSignUp(fmt.Sprintf("user%d@example.com", i))
			b.ok("POST", "/session/sign-out", `{}`)
			b.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"user%d@example.com","password":%q}`, i, password))
		}
		if dump := w.dump(); !strings.Contains(dump, "$argon2id$v=19$m=19456,t=2,p=1$") || strings.Contains(dump, "exactly 15 chars") {
			t.Error("passwords are not kept as argon2id with 19 MiB, 2 passes, 1 lane")
		}
	})
}

func TestOwnerIsNotifiedOfFailuresOncePerDay(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("ada@example.com")
		mails := func() (n int) {
			for _, m := range w.Carrier.Messages("ada@example.com") {
				if strings.Contains(strings.ToLower(m.Subject), "sign-in") {
					n++
				}
			}
			return n
		}
		for range 3 {
			b := w.browser()
			for range 11 {
				b.do("POST", "/auth/signin", `{"strategy":"password","email":"Ada@example.com","password":"a wrong password of length"}`)
			}
		}
		w.Eventually("a notice arrives", func() bool { return mails() > 0 })
		if n := strings.Count(w.dump(), " void "); n != 2 || mails() != 1 {
			t.Errorf("%d notices went out and %d were void, want 1 and 2", mails(), n)
		}
	})
}

func TestAFailedSignOutKeepsTheCookie(t *testing.T) {
	onSQLite(t, func(w *world) {
		f := &failing{Store: w.Store}
		server := w.serve(f)
		b := w.browser()
		b.base = server.URL
		b.signUp("ada@example.com")
		f.left.Store(0)
		f.armed.Store(true)
		a := b.do("POST", "/session/sign-out", `{}`)
		f.armed.Store(false)
		if a.Status != 500 || a.Header.Get("Set-Cookie") != "" || len(a.Body.Session.SignIns) != 1 {
			t.Errorf("a sign-out that failed: %s %v", a.Raw, a.Header)
		}
		if !b.alive() {
			t.Error("the session is out of reach")
		}
	})
}

func TestSignInLeavesNothingPending(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		hash, _ := session.Hash(b.cookie())
		w.tx(func(tx people.Tx) error {
			s, _, err := tx.Sessions().SessionByToken(hash)
			if s.Attempting {
				t.Error("the session is still marked as having attempts")
			}
			return err
		})
	})
}

func TestRefusedRequestUsesItsToken(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		one := b.organization("One")
		old := b.cookie()
		b.switchTo(one)
		b.refused(400, "INVALID_ORGANIZATION", "POST", "/session/switch-organization", `{"organization_id":"1"}`)
		w.Clock.Advance(11 * time.Second)
		b.as(old).refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
	})
}

func TestDoubleSubmitKeepsNewCookie(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b := w.browser()
		b.ok("POST", "/auth/signup", `{"email":"ada@example.com"}`)
		attempt, code := b.last.Body.Session.SignUpAttempts[0]["id"], w.CodeFor("ada@example.com", 1)
		before := b.as(b.cookie())
		body := fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, attempt, code)
		b.ok("POST", "/auth/attempt-verification", body)
		if a := before.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", body); a.Header.Get("Set-Cookie") != "" {
			t.Errorf("the second click is answered with %s", a.Header.Get("Set-Cookie"))
		}
		if before.alive() || !b.alive() {
			t.Error("the old cookie lives, or the new one does not")
		}
		w.Clock.Advance(session.Grace)
		if a := before.refused(401, "NOT_AUTHENTICATED", "GET", "/me", ""); !strings.Contains(a.Header.Get("Set-Cookie"), "Max-Age=0") {
			t.Error("a dead cookie is not cleared")
		}
		if !b.alive() {
			t.Error("a cookie from before the sign-in ended the session")
		}
	})
}

func TestUncomparedPasswordTryIsNotCounted(t *testing.T) {
	onSQLite(t, func(w *world) {
		address, round := w.browser().address, 0
		w.Eventually("one client finds the queue of hashes full", func() bool {
			round++
			statuses := make([]int, 24)
			email := func(i int) string { return fmt.Sprintf("user%d-%d@example.com", round, i) }
			var group sync.WaitGroup
			for i := range statuses {
				group.Go(func() {
					statuses[i] = w.browserAt(address).do("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":"a wrong password of length"}`, email(i))).Status
				})
			}
			group.Wait()
			busy := false
			for i, status := range statuses {
				want := map[int]int{401: 1, 503: 0}[status]
				w.tx(func(tx people.Tx) error {
					failure, err := tx.Limits().LockFailure("password", email(i)+" "+address, w.Clock.Now())
					if failure.Count != want {
						t.Errorf("a try answered %d counts %d, want %d", status, failure.Count, want)
					}
					return err
				})
				busy = busy || status == 503
			}
			return busy
		})
	})
}
