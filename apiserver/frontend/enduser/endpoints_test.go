package enduser_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

func TestHosts(t *testing.T) {
	onSQLite(t, func(w *world) {
		b := w.browser()
		for host, served := range map[string]bool{
			"localhost": true, "LOCALHOST": true, "localhost.": true, "localhost:1234": true, "app.localhost": true, "other.localhost:80": true,
			"x.localhost": false, "evil.example": false, "127.0.0.1": false, "localhost.evil.example": false,
		} {
			b.host = host
			if served {
				b.ok("GET", "/session", "")
				continue
			}
			b.refused(404, "DEPLOYMENT_NOT_FOUND", "GET", "/session", "")
			b.refused(404, "DEPLOYMENT_NOT_FOUND", "GET", "/nothing", "")
		}
	})
}

func TestOrderOfChecks(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		unrelated := w.browser()
		const path = "/session/switch-organization"
		big := `{"organization_id":"` + strings.Repeat("1", 1<<20) + `"}`
		unrelated.refused(404, "NOT_FOUND", "POST", "/nothing", big, "Content-Type", "")
		unrelated.refused(404, "NOT_FOUND", "GET", "/me/", "")
		unrelated.refused(404, "NOT_FOUND", "GET", "//me", "")
		if a := unrelated.refused(405, "METHOD_NOT_ALLOWED", "DELETE", path, ""); a.Header.Get("Allow") != "POST" {
			t.Errorf("Allow: %q", a.Header.Get("Allow"))
		}
		unrelated.refused(415, "UNSUPPORTED_MEDIA_TYPE", "POST", path, big, "Content-Type", "", "Content-Type", "text/plain", "Origin", "https://evil.example")
		unrelated.refused(413, "PAYLOAD_TOO_LARGE", "POST", path, big, "Origin", "https://evil.example")
		unrelated.refused(403, "ORIGIN_NOT_ALLOWED", "POST", path, `{`, "Origin", "https://evil.example")
		unrelated.refused(401, "NOT_AUTHENTICATED", "POST", path, `{`)
		b.refused(400, "VALIDATION_ERROR", "POST", path, `{`)
		b.refused(415, "UNSUPPORTED_MEDIA_TYPE", "GET", "/me", `{}`, "Content-Type", "", "Content-Type", "text/plain")
		b.refused(400, "VALIDATION_ERROR", "POST", "/me/phone-numbers/1/attempt-verification", `{}`)
		b.refused(404, "PHONE_NOT_FOUND", "POST", "/me/phone-numbers/1/attempt-verification", `{"code":"123456"}`)
	})
}

func TestGarbageCookies(t *testing.T) {
	onSQLite(t, func(w *world) {
		unknown, _, err := session.Mint(strings.NewReader(strings.Repeat("y", 32)))
		w.Must(err)
		for _, value := range []string{"x", "", "%00", strings.Repeat("a", 5000), "null", "../../etc", unknown, unknown + "=", "eyJhbGciOiJub25lIn0.e30."} {
			for path, want := range map[string]int{"/session": 200, "/me": 401} {
				req, err := http.NewRequest("GET", w.Server.URL+path, nil)
				w.Must(err)
				req.Host = "localhost"
				req.Header.Set("Cookie", "__session="+value)
				resp, err := http.DefaultClient.Do(req)
				w.Must(err)
				w.Must(resp.Body.Close())
				cleared := strings.Contains(resp.Header.Get("Set-Cookie"), "Max-Age=0")
				if resp.StatusCode != want || !cleared {
					t.Errorf("cookie %.20q on %s: %d, cleared: %v", value, path, resp.StatusCode, cleared)
				}
			}
		}
	})
}

func TestSignUpCreatesExactlyOneAccount(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		// Two browsers begin with one address: each attempt has its own code, and one account is created.
		one, two := w.browser(), w.browser()
		one.ok("POST", "/auth/signup", `{"email":"ada@example.com"}`)
		first := one.last.Body.Session.SignUpAttempts[0]["id"]
		codes := []string{w.CodeFor("ada@example.com", 1)}
		w.Clock.Advance(31 * time.Second)
		two.ok("POST", "/auth/signup", `{"email":"ADA@example.com"}`)
		second := two.last.Body.Session.SignUpAttempts[0]["id"]
		codes = append(codes, w.CodeFor("ada@example.com", 2))
		body := func(attempt any, code string) string {
			return fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, attempt, code)
		}
		one.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", body(second, codes[1]))
		one.refused(400, "INVALID_CODE", "POST", "/auth/attempt-verification", body(first, codes[1]))
		two.ok("POST", "/auth/attempt-verification", body(second, codes[1]))
		two.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", body(second, codes[1]))
		one.refused(400, "EMAIL_EXISTS", "POST", "/auth/attempt-verification", body(first, codes[0]))
		// The response only shows after verification that the address was taken meanwhile.
		w.Clock.Advance(time.Hour)
		three := w.browser()
		three.ok("POST", "/auth/signup", `{"email":"bob@example.com"}`)
		attempt := three.last.Body.Session.SignUpAttempts[0]["id"]
		w.tx(func(tx people.Tx) error {
			return tx.Users().InsertUser(people.User{ID: 5, CreatedAt: w.Clock.Now()}, people.Email{ID: 5, User: 5, Address: "Bob@Example.com", Primary: true, CreatedAt: w.Clock.Now()})
		})
		three.refused(400, "EMAIL_EXISTS", "POST", "/auth/attempt-verification", body(attempt, w.CodeFor("bob@example.com", 1)))
		for _, bad := range []string{`{"code":"123456"}`, `{"signup_attempt_id":"1","signin_attempt_id":"1","code":"123456"}`, `{"signup_attempt_id":"x","code":"123456"}`, `{"signup_attempt_id":"1"}`} {
			three.refused(400, "VALIDATION_ERROR", "POST", "/auth/attempt-verification", bad)
		}
		w.browser().refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", body(attempt, "123456"))
		w.browser().refused(400, "INVALID_ATTEMPT", "POST", "/auth/prepare-verification", fmt.Sprintf(`{"signup_attempt_id":%q}`, attempt))
	})
}

func TestSignUpAndSignInBodies(t *testing.T) {
	onSQLite(t, func(w *world) {
		for _, body := range []string{
			`{}`, `{"email":"x"}`, `{"email":"a b@example.com"}`, `{"email":"Ada <ada@example.com>"}`, `{"email":"ada@example.com\u0000"}`, `{"email":null}`, `{"email":5}`,
			`{"email":"` + strings.Repeat("a", 250) + `@example.com"}`, `{"email":"a@example.com","first_name":"x\u202ey"}`, `{"email":"a@example.com","organization_name":""}`,
			`{"email":"a@example.com","first_name":"` + strings.Repeat("x", 81) + `"}`, `{"email":"a@example.com","passwort":"x"}`, `{"email":"a@example.com","password":null}`,
			`{"email":"a@example.com","invitation_token":"x","organization_name":"y"}`,
		} {
			w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signup", body)
		}
		for _, body := range []string{
			`{}`, `{"strategy":"password","email":"a@example.com"}`, `{"strategy":"","email":"a@example.com"}`, `{"strategy":"sso","email":"a@example.com"}`, `{"strategy":null,"email":"a@example.com"}`,
			`{"strategy":"email_otp"}`, `{"strategy":"email_otp","email":"a@example.com","password":"x"}`, `{"email":"a@example.com","password":"x"}`,
		} {
			w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", body)
		}
		d := w.Settings()
		d.SignIn = &document.SignInSettings{Password: false, PasswordMinLength: 15, EmailCode: true}
		w.Declare(d)
		w.Eventually("passwords are off", func() bool {
			return w.browser().do("POST", "/auth/signup", fmt.Sprintf(`{"email":"a@example.com","password":%q}`, goodPassword)).code() == "VALIDATION_ERROR"
		})
		w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"a@example.com","password":%q}`, goodPassword))
		d.SignIn = &document.SignInSettings{Password: true, PasswordMinLength: 8, EmailCode: false}
		w.Declare(d)
		w.Eventually("codes are off", func() bool {
			return w.browser().do("POST", "/auth/signin", `{"strategy":"email_otp","email":"a@example.com"}`).code() == "VALIDATION_ERROR"
		})
		w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signup", `{"email":"a@example.com"}`)
		w.browser().ok("POST", "/auth/signup", `{"email":"eight@example.com","password":"8 chars!"}`)
		d.Email = nil
		w.Declare(d)
		w.Eventually("no mail", func() bool {
			return w.browser().do("POST", "/auth/signup", `{"email":"b@example.com","password":"8 chars!"}`).code() == "EMAIL_DISABLED"
		})
	})
}

func TestSignInByCodeAndDisabledUsers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, user := w.signedUp("ada@example.com")
		byCode := func(b *browser, nth int) answer {
			t.Helper()
			b.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"ada@example.com"}`)
			attempt := b.last.Body.Session.SignInAttempts[0]
			if attempt["method"] != "email_otp" || attempt["current_step"] != "verify_email_otp" || attempt["completed"] != false {
				t.Fatalf("attempt %v", attempt)
			}
			return b.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt["id"], w.CodeFor("ada@example.com", nth)))
		}
		b := w.browser()
		if a := byCode(b, 2); a.Status != 200 || a.Body.Session.ActiveSignIn["user_id"] != user || len(a.Body.Session.SignInAttempts) != 0 {
			t.Fatalf("signed in: %s", a.Raw)
		}
		// A second account joins the session. The first can sign in again with a code.
		w.signedUp("bob@example.com")
		b.signIn("bob@example.com")
		w.Clock.Advance(time.Hour)
		if a := byCode(b, 3); a.Status != 200 || len(a.Body.Session.SignIns) != 2 {
			t.Fatalf("a known account again: %s", a.Raw)
		}
		w.tx(func(tx people.Tx) error {
			return tx.Users().UpdateUser(people.User{ID: parseID(user), Disabled: true, UpdatedAt: w.Clock.Now()})
		})
		// The response only shows after verification that the account is disabled.
		w.Clock.Advance(time.Hour)
		c := w.browser()
		c.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", `{"strategy":"password","email":"ada@example.com","password":"a wrong password of length"}`)
		c.refused(403, "USER_DISABLED", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"ada@example.com","password":%q}`, goodPassword))
		if c.cookie() != "" {
			t.Error("a disabled user got a session")
		}
		if a := byCode(c, 4); a.Status != 403 || a.code() != "USER_DISABLED" {
			t.Fatalf("disabled, by code: %s", a.Raw)
		}
	})
}

func TestPendingSessionsAreBoundedPerAddress(t *testing.T) {
	onSQLite(t, func(w *world) {
		address := w.browser().address
		for i := range 20 {
			w.browserAt(address).ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"email_otp","email":"user%d@example.com"}`, i))
		}
		a := w.browserAt(address).refused(429, "RATE_LIMITED", "POST", "/auth/signin", `{"strategy":"email_otp","email":"more@example.com"}`)
		if a.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		for range 3 { // a failed password leaves no pending session
			w.browserAt(address).refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", `{"strategy":"password","email":"x@example.com","password":"a wrong password of length"}`)
		}
		w.Clock.Advance(time.Hour)
		b := w.browserAt(address)
		b.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"more@example.com"}`)
		// An IPv6 client counts as its /64.
		for i := range 20 {
			w.browserAt(fmt.Sprintf("2001:db8::%x", i+1)).ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"email_otp","email":"six%d@example.com"}`, i))
		}
		w.browserAt("2001:db8::ffff:1").refused(429, "RATE_LIMITED", "POST", "/auth/signin", `{"strategy":"email_otp","email":"seven@example.com"}`)
		w.browserAt("2001:db8:0:1::1").ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"seven@example.com"}`)
	})
}

// away is a store that can be unavailable.
type away struct {
	store.Store
	gone atomic.Bool
}

func (a *away) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if a.gone.Load() {
		return fmt.Errorf("%w: the test took it away", store.ErrUnavailable)
	}
	return a.Store.View(ctx, deployment, do)
}

func (a *away) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if a.gone.Load() {
		return fmt.Errorf("%w: the test took it away", store.ErrUnavailable)
	}
	return a.Store.Change(ctx, deployment, do)
}

func TestStoreUnavailableDuringSignIn(t *testing.T) {
	onSQLite(t, func(w *world) {
		st := &away{Store: w.Store}
		server := w.serve(st)
		b := w.browser()
		b.base = server.URL
		b.signUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		organization := b.organization("Org")
		cookie := b.cookie()
		st.gone.Store(true)
		for _, request := range [][3]string{
			{"GET", "/session", ""}, {"GET", "/me", ""}, {"POST", verifyPath(phone), codeBody(code)}, {"POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, organization)},
			{"POST", "/auth/signup", `{"email":"x@example.com"}`}, {"POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"ada@example.com","password":%q}`, goodPassword)}, {"POST", "/session/sign-out", `{}`},
		} {
			a := b.refused(503, "UNAVAILABLE", request[0], request[1], request[2])
			if a.Header.Get("Retry-After") == "" || a.Header.Get("Set-Cookie") != "" || strings.Contains(a.Raw, "the test took it away") {
				t.Errorf("%s: %s %v", request[1], a.Raw, a.Header)
			}
		}
		// Without a cookie, the session can be answered without the store.
		out := w.browser()
		out.base = server.URL
		out.ok("GET", "/session", "")
		st.gone.Store(false)
		if b.cookie() != cookie {
			t.Error("the cookie was lost")
		}
		b.ok("POST", verifyPath(phone), codeBody(code))
	})
}

func TestClocksAMinuteApart(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		slow := servertest.NewClock(w.Clock.Now().Add(-time.Minute))
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		original := w.Clock
		w.Clock = slow
		server := w.serve(w.Store)
		w.Clock = original
		there := b.as(b.cookie())
		there.base = server.URL
		if !there.alive() {
			t.Fatal("a session is dead for a server whose clock is a minute slow")
		}
		there.ok("POST", verifyPath(phone), codeBody(code))
		one := there.organization("One")
		b.setCookie(there.cookie())
		b.switchTo(one)
		if !b.alive() {
			t.Fatal("the session was lost between servers a minute apart")
		}
	})
}

// Live responses must match the interface contract (sections 2.8 to 2.10): names, JSON types, nullability and form.
func TestContractMembers(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		verified := b.ok("POST", verifyPath(phone), codeBody(b.prepare(phone, number, 1)))
		expectMembers(t, "verification result", verified, map[string]string{"verified": "bool", "phone_number": "object"})
		expectMembers(t, "phone number", verified["phone_number"].(map[string]any), map[string]string{
			"id": "id", "phone_number": "string", "verified": "bool", "primary": "bool", "created_at": "time", "verified_at": "time",
		})
		var envelope map[string]any
		w.Must(json.Unmarshal([]byte(b.last.Raw), &envelope))
		expectMembers(t, "envelope", envelope, map[string]string{"status": "number", "message": "string", "data": "object", "session": "object", "errors": "array"})
		s := envelope["session"].(map[string]any)
		expectMembers(t, "session", s, map[string]string{"signin_attempts": "array", "signins": "array", "signup_attempts": "array", "active_signin": "object"})
		signIn := map[string]string{"id": "id", "user_id": "id", "created_at": "time"}
		expectMembers(t, "active sign-in", s["active_signin"].(map[string]any), signIn)
		expectMembers(t, "sign-in", s["signins"].([]any)[0].(map[string]any), signIn)
		b.organization("Org")
		switched := b.switchTo(b.organization("Other"))
		expectMembers(t, "switch", switched, map[string]string{"organization": "object", "workspace": "object"})
		expectMembers(t, "organization", switched["organization"].(map[string]any), map[string]string{"id": "id", "name": "string", "slug": "string", "image_url": "string"})
		expectMembers(t, "workspace", switched["workspace"].(map[string]any), map[string]string{"id": "id", "name": "string", "slug": "string"})
		refused := b.refused(400, "INVALID_ORGANIZATION", "POST", "/session/switch-organization", `{"organization_id":"1"}`)
		w.Must(json.Unmarshal([]byte(refused.Raw), &envelope))
		expectMembers(t, "error", envelope["errors"].([]any)[0].(map[string]any), map[string]string{"code": "string", "message": "string"})
		me := b.ok("GET", "/me", "")
		expectMembers(t, "user", me, map[string]string{"id": "id", "email": "string", "first_name": "string", "last_name": "string", "primary_phone_number": "string", "created_at": "time", "has_password": "bool"})
		out := w.browser()
		out.ok("POST", "/auth/signup", `{"email":"x@example.com"}`)
		w.Must(json.Unmarshal([]byte(out.last.Raw), &envelope))
		expectMembers(t, "sign-up attempt", envelope["session"].(map[string]any)["signup_attempts"].([]any)[0].(map[string]any), map[string]string{"id": "id", "email": "string", "current_step": "string", "created_at": "time"})
		out.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"y@example.com"}`)
		w.Must(json.Unmarshal([]byte(out.last.Raw), &envelope))
		expectMembers(t, "sign-in attempt", envelope["session"].(map[string]any)["signin_attempts"].([]any)[0].(map[string]any), map[string]string{"id": "id", "method": "string", "current_step": "string", "completed": "bool", "created_at": "time"})
	})
}

// expectMembers checks that an object has exactly its documented members.
func expectMembers(t *testing.T, what string, got map[string]any, want map[string]string) {
	t.Helper()
	for name, kind := range want {
		value, found := got[name]
		if !found {
			t.Errorf("%s lacks %s: %v", what, name, got)
			continue
		}
		text, isText := value.(string)
		ok := false
		switch kind {
		case "string":
			ok = isText
		case "id":
			ok = isText && parseID(text) > 0
		case "time":
			at, err := time.Parse(time.RFC3339Nano, text)
			ok = err == nil && strings.HasSuffix(text, "Z") && !at.IsZero()
		case "bool":
			_, ok = value.(bool)
		case "number":
			_, ok = value.(float64)
		case "object":
			_, ok = value.(map[string]any)
		case "array":
			_, ok = value.([]any)
		}
		if !ok {
			t.Errorf("%s: %s is %v, want a %s", what, name, value, kind)
		}
	}
	for name := range got {
		if !slices.Contains(slicesOf(want), name) {
			t.Errorf("%s has the undocumented member %s", what, name)
		}
	}
}

func slicesOf(m map[string]string) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	return names
}
