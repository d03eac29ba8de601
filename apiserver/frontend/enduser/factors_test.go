package enduser_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/store/people"
)

func decoded(w *world, text string) []byte {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	w.Must(err)
	return raw
}

// level returns the level of the active sign-in.
func (b *browser) level() string { return b.ok("GET", "/session/assurance", "")["level"].(string) }

func TestSecondStepByAuthenticator(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, codes := ada.addApp()
		if len(codes) != 10 || ada.level() != "two_factors" {
			t.Fatalf("%d recovery codes, level %s", len(codes), ada.level())
		}
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		planted := b.cookie()
		if b.isSignedIn() {
			t.Fatal("a password signs in to an account with a second factor")
		}
		b.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		offered := b.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q}`, attempt))
		if raw, _ := json.Marshal(offered["factors"]); string(raw) != `[{"type":"totp"},{"type":"recovery_code"}]` || offered["public_key"] != nil {
			t.Errorf("offered %s", raw)
		}
		b.refused(400, "CODE_USED", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
		b.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", wrong(a.next())))
		if left := b.last.Body.Errors[0].AttemptsRemaining; left == nil || *left != 4 {
			t.Errorf("a code that was used counts as a failure: %v left", left)
		}
		b.refused(400, "VALIDATION_ERROR", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", "12345"))
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
		if !b.isSignedIn() || b.level() != "two_factors" {
			t.Fatal("the second step does not sign in")
		}
		other := w.browser()
		other.setCookie(planted)
		if other.isSignedIn() {
			t.Error("the token of the first step is signed in after the second")
		}
		b.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.next()))
	})
}

// A password alone never changes the factors, addresses or numbers of a guarded account.
func TestPasswordChangesNothingOfGuardedAccount(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		w.Clock.Advance(time.Hour)
		ada.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		for _, operation := range [][2]string{
			{"POST /me/second-factors/totp", `{}`}, {"POST /me/passkeys/options", `{}`}, {"DELETE /me/second-factors/totp/" + a.id, ""},
			{"PATCH /me/second-factors", `{"two_step":false}`}, {"POST /me/second-factors/recovery-codes", `{}`},
			{"POST /me/email-addresses", `{"email":"new@example.com"}`}, {"POST /me/phone-numbers", `{"phone_number":"+12025550100"}`},
		} {
			method, path, _ := strings.Cut(operation[0], " ")
			ada.refused(403, "REAUTHENTICATION_REQUIRED", method, path, operation[1])
			if got := ada.last.Raw; !strings.Contains(got, `"strategies":["totp","recovery_code"]`) {
				t.Errorf("%s: strategies in %s", operation[0], got)
			}
		}
		options := ada.ok("POST", "/session/reauthentication-options", `{}`)
		if raw, _ := json.Marshal(options["strategies"]); string(raw) != `["totp","recovery_code"]` {
			t.Errorf("strategies %s", raw)
		}
		ada.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"totp","code":%q}`, a.code()))
		ada.ok("POST", "/me/email-addresses", `{"email":"new@example.com"}`)
		ada.ok("DELETE", "/me/second-factors/totp/"+a.id, "")
		overview := ada.ok("GET", "/me/second-factors", "")
		if overview["two_step"] != false || overview["recovery_codes"] != nil {
			t.Errorf("after the last factor: %v", overview)
		}
	})
}

// A password does not enroll the first factor where the deployment sends mail: a stolen password must not add a phone.
func TestPasswordDoesNotEnrollFirstFactor(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		w.browser().signUp("ada@example.com")
		thief := w.browser()
		thief.signIn("ada@example.com")
		for path, body := range map[string]string{"/me/second-factors/totp": `{}`, "/me/passkeys/options": `{}`} {
			thief.refused(403, "REAUTHENTICATION_REQUIRED", "POST", path, body)
			if !strings.Contains(thief.last.Raw, `"strategies":["email_otp"]`) {
				t.Errorf("%s: %s", path, thief.last.Raw)
			}
		}
	})
}

func TestRecoveryCodes(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		_, codes := ada.addApp()
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		typed := strings.ToUpper(strings.NewReplacer("0", "O", "1", "l", "-", " ").Replace(codes[3].(string)))
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", typed))
		if !b.isSignedIn() {
			t.Fatal("a recovery code does not end the second step")
		}
		again := w.browser()
		attempt = again.firstStep("ada@example.com")
		again.refused(400, "CODE_USED", "POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", codes[3].(string)))
		made := ada.ok("POST", "/me/second-factors/recovery-codes", `{}`)["codes"].([]any)
		again.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", codes[4].(string)))
		again.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", made[0].(string)))
		w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", `{"strategy":"recovery_code","email":"ada@example.com"}`)
		if logs := w.Logs.String(); strings.Contains(logs, made[0].(string)) || strings.Contains(logs, codes[3].(string)) {
			t.Error("the log has a recovery code")
		}
	})
}

func TestPasskeySignsInAlone(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		d := w.device()
		id := ada.addPasskey(d)
		if ada.level() != "phishing_resistant" {
			t.Errorf("the registration is no proof: level %s", ada.level())
		}
		b := w.browser()
		b.signInByPasskey(d)
		if !b.isSignedIn() || b.level() != "phishing_resistant" {
			t.Fatal("a passkey does not sign in")
		}
		password := w.browser()
		password.signIn("ada@example.com")
		if !password.isSignedIn() {
			t.Error("a passkey alone turns the second step on")
		}
		ada.addApp()
		again := w.browser()
		again.signInByPasskey(d)
		if !again.isSignedIn() {
			t.Error("a passkey needs a second factor beside it")
		}
		options := again.ok("POST", "/auth/passkey-options", `{}`)
		answer := fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(options))
		again.ok("POST", "/auth/signin", answer)
		w.browser().refused(400, "EXPIRED_CHALLENGE", "POST", "/auth/signin", answer)
		foreign := w.device()
		w.browser().refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, foreign.shown(options)))
		old := w.browser().ok("POST", "/auth/passkey-options", `{}`)
		w.Clock.Advance(16 * time.Minute)
		w.browser().refused(400, "EXPIRED_CHALLENGE", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(old)))
		renamed := ada.ok("PATCH", "/me/passkeys/"+id, `{"name":"Desk"}`)
		if renamed["passkey"].(map[string]any)["name"] != "Desk" {
			t.Errorf("renamed to %v", renamed)
		}
	})
}

func TestPasskeyOfSecondStep(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		d := w.device()
		ada.addPasskey(d)
		ada.ok("PATCH", "/me/second-factors", `{"two_step":true}`)
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		offered := b.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q}`, attempt))
		show := fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"passkey","credential":%s}`, attempt, d.shown(offered))
		w.browser().refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-second-factor", show)
		signIn := fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(offered))
		w.browser().refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", signIn)
		b.ok("POST", "/auth/attempt-second-factor", show)
		if !b.isSignedIn() || b.level() != "phishing_resistant" {
			t.Error("the passkey does not complete the second step")
		}
	})
}

func TestTextAsSecondStep(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		phone := ada.addPhone("+12025550123")
		ada.refused(400, "PHONE_NOT_VERIFIED", "POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, phone))
		ada.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		ada.ok("POST", "/me/phone-numbers/"+phone+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, w.CodeFor("+12025550123", 1)))
		ada.ok("POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, phone))
		w.Clock.Advance(5 * time.Minute)
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		b.refused(400, "EXPIRED_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "sms", "123456"))
		sent := b.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"sms"}`, attempt))
		if text := sent["sms"].(map[string]any); text["phone_number"] != "••••23" || text["sent"] != true {
			t.Errorf("sent %v", text)
		}
		code := w.CodeFor("+12025550123", 2)
		b.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "sms", wrong(code)))
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "sms", code))
		if !b.isSignedIn() {
			t.Fatal("the text does not sign in")
		}
		// The session that added the number must show it too.
		ada.refused(403, "STEP_UP_REQUIRED", "POST", "/me/api-keys", `{}`)
		ada.ok("POST", "/session/reauthenticate", `{"strategy":"sms"}`)
		pending := ada.last.Body.Session.SignInAttempts[0]
		if pending["method"] != "reauthentication" || pending["current_step"] != "second_factor" {
			t.Fatalf("pending %v", pending)
		}
		w.Clock.Advance(time.Minute)
		ada.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"sms"}`, pending["id"]))
		ada.ok("POST", "/auth/attempt-second-factor", secondStep(pending["id"].(string), "sms", w.CodeFor("+12025550123", 3)))
		if ada.level() != "two_factors" {
			t.Error("the text does not raise the level")
		}
	})
}

// Turning the second step on holds the account's other sessions at once, until each shows a factor.
func TestTwoStepHoldsOtherSessions(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		other := w.browser()
		other.signIn("ada@example.com")
		a, _ := ada.addApp()
		if other.isSignedIn() {
			t.Error("GET /session shows a held user")
		}
		other.refused(403, "STEP_UP_REQUIRED", "POST", "/session/token", `{}`)
		if raw := other.last.Raw; !strings.Contains(raw, `"required_assurance":"two_factors"`) || !strings.Contains(raw, `"strategies":["totp","recovery_code"]`) {
			t.Errorf("the refusal does not say what to show: %s", raw)
		}
		scene := &scene{browser: other, live: map[string]string{"client": w.publicClient()}}
		scene.asks()
		other.refused(403, "STEP_UP_REQUIRED", "GET", "/session/authorizations/"+scene.live["{request}"], "")
		for _, decision := range []string{"allow", "continue"} {
			other.refused(403, "STEP_UP_REQUIRED", "POST", "/session/authorizations/"+scene.live["{request}"], fmt.Sprintf(`{"decision":%q}`, decision))
		}
		other.ok("GET", "/me", "")
		if got := other.ok("GET", "/session/assurance", ""); got["satisfied"] != false || got["required_by"] != "account" {
			t.Errorf("assurance %v", got)
		}
		before := other.cookie()
		other.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"totp","code":%q}`, a.next()))
		if !other.isSignedIn() || other.cookie() == before {
			t.Error("the factor does not release the session with a new token")
		}
		other.ok("POST", "/session/token", `{}`)
	})
}

// publicClient declares an OAuth app with a public client, and returns the client's id.
func (w *world) publicClient() string {
	w.T.Helper()
	w.DeclareOAuthApp("http://localhost:8081")
	id := w.Put(v1alpha1.KindOAuthClient, "public", deploymentName, "", document.OAuthClient{
		App: "portal", Name: "Reports", Authentication: string(v1alpha1.ClientAuthenticationNone), RedirectURIs: []string{"https://client.example/callback"},
		AccessTokenSeconds: 600, Active: true, GrantTypes: []string{string(v1alpha1.GrantTypeAuthorizationCode), string(v1alpha1.GrantTypeDeviceCode)},
	})
	w.Eventually("app and client are known", func() bool { return w.client(id) })
	return fmt.Sprint(id)
}

// Every operation that needs a sign-in is refused to a held one, except those that the document opens.
func TestHeldSignInReachesOnlyOpenOperations(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.open(nil)
		ada := w.browser()
		ada.signUp("ada@example.com")
		held := w.browser()
		held.signIn("ada@example.com")
		w.open(func(d *document.Deployment) {
			d.Assurance.Required = &document.Requirement{Level: "phishing_resistant"}
		})
		contract, err := openapi.LoadEndUser()
		if err != nil {
			t.Fatal(err)
		}
		open := []string{}
		for pattern, needs := range contract.Routes() {
			if needs.Session < openapi.SignedIn {
				continue
			}
			if needs.Held {
				open = append(open, pattern)
				continue
			}
			method, path, _ := strings.Cut(pattern, " ")
			path = strings.NewReplacer("{id}", "1", "{request}", "x", "{membership_id}", "1", "{invitation_id}", "1").Replace(path)
			body := ""
			if method == http.MethodPost || method == http.MethodPatch {
				body = `{}`
			}
			if a := held.do(method, path, body); a.Status != 403 || a.code() != "ENROLLMENT_REQUIRED" || !strings.Contains(a.Raw, `"enroll":["passkey"]`) {
				t.Errorf("%s: %s", pattern, a.Raw)
			}
		}
		slices.Sort(open)
		want := []string{
			"DELETE /me/passkeys/{id}", "DELETE /me/second-factors/sms/{id}", "DELETE /me/second-factors/totp/{id}", "GET /me", "GET /me/passkeys",
			"GET /me/second-factors", "GET /session/accounts", "GET /session/assurance", "PATCH /me/passkeys/{id}", "PATCH /me/second-factors",
			"POST /me/passkeys", "POST /me/passkeys/options", "POST /me/second-factors/recovery-codes", "POST /me/second-factors/sms",
			"POST /me/second-factors/totp", "POST /me/second-factors/totp/{id}/confirm", "POST /session/reauthenticate",
			"POST /session/reauthentication-options", "POST /session/sign-out", "POST /session/switch-sign-in",
		}
		if !slices.Equal(open, want) {
			t.Errorf("open are %v", open)
		}
		// A user who adds a factor is released.
		held.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
		attempt := held.last.Body.Session.SignInAttempts[0]["id"].(string)
		held.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		d := w.device()
		id := held.addPasskey(d)
		if !held.isSignedIn() {
			t.Error("the passkey does not release the sign-in")
		}
		held.refused(400, "FACTOR_REQUIRED", "DELETE", "/me/passkeys/"+id, "")
		w.open(nil)
		if !ada.isSignedIn() {
			t.Error("a lifted policy is not obeyed at once")
		}
	})
}

// An organization that requires more than the sign-in shows is withheld: it is not active, and is not entered.
func TestOrganizationIsWithheld(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		organization := ada.organization("Acme")
		outsider := w.browser()
		outsider.signUp("bob@example.com")
		w.DeclareB2B(document.B2BSettings{
			Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, OwnerAssurance: &document.Requirement{Level: "two_factors"},
		})
		w.Eventually("the organization is withheld", func() bool { return ada.ok("GET", "/session", "")["organization"] == nil })
		if !ada.isSignedIn() {
			t.Fatal("the person is not signed in")
		}
		before := ada.cookie()
		enter := fmt.Sprintf(`{"organization_id":%q}`, organization)
		ada.refused(403, "ENROLLMENT_REQUIRED", "POST", "/session/switch-organization", enter)
		if ada.cookie() != before {
			t.Error("a refused switch changes the cookie")
		}
		ada.refused(403, "ENROLLMENT_REQUIRED", "POST", "/session/token", `{}`)
		ada.refused(403, "ENROLLMENT_REQUIRED", "GET", "/organizations/"+organization+"/members", "")
		ada.refused(403, "ENROLLMENT_REQUIRED", "POST", "/organizations", `{"name":"Another"}`)
		outsider.refused(400, "INVALID_ORGANIZATION", "POST", "/session/switch-organization", enter)
		ada.ok("GET", "/me/organization-memberships", "")
		ada.addApp()
		if got := ada.ok("GET", "/session", "")["organization"]; got == nil {
			t.Error("a proof does not bring the active organization back")
		}
		ada.ok("POST", "/session/switch-organization", enter)
		if got := ada.ok("GET", "/session/assurance", ""); got["required"] != "two_factors" || got["satisfied"] != true {
			t.Errorf("assurance %v", got)
		}
	})
}

// Of many requests at once with one code, exactly one signs in, whatever attempt it belongs to.
func TestOneCodeOneSignIn(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, codes := ada.addApp()
		code := a.next()
		for _, kind := range []string{"totp", "recovery_code"} {
			if kind == "recovery_code" {
				code = codes[0].(string)
			}
			const tries = 12
			browsers, attempts := make([]*browser, tries), make([]string, tries)
			for i := range tries {
				browsers[i] = w.browser()
				attempts[i] = browsers[i].firstStep("ada@example.com")
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			answers := map[string]int{}
			for i := range tries {
				wg.Go(func() {
					resp, err := browsers[i].raw("POST", "/auth/attempt-second-factor", secondStep(attempts[i], kind, code))
					if err != nil {
						t.Error(err)
						return
					}
					defer func() { _ = resp.Body.Close() }()
					var out struct{ Errors []struct{ Code string } }
					_ = json.NewDecoder(resp.Body).Decode(&out)
					mu.Lock()
					defer mu.Unlock()
					answer := "signed in"
					if len(out.Errors) > 0 {
						answer = out.Errors[0].Code
					}
					answers[answer]++
				})
			}
			wg.Wait()
			if answers["signed in"] != 1 || answers["signed in"]+answers["CODE_USED"] != tries {
				t.Errorf("%s: %v", kind, answers)
			}
		}
	})
}

func TestWrongSecondFactorsAreLimited(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		thief := w.browser()
		attempt := thief.firstStep("ada@example.com")
		w.Clock.Advance(31 * time.Second)
		for range 5 {
			thief.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", wrong(a.code())))
		}
		thief.refused(429, "TOO_MANY_ATTEMPTS", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
		thief.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
		for range 3 {
			attempt = thief.firstStep("ada@example.com")
			for range 5 {
				thief.do("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", wrong(a.code())))
			}
		}
		attempt = thief.firstStep("ada@example.com")
		thief.refused(429, "TOO_MANY_ATTEMPTS", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
		if thief.last.Header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %s", thief.last.Raw)
		}
		known := w.browserAt(ada.address)
		attempt = known.firstStep("ada@example.com")
		known.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
		w.Eventually("the owner is notified", func() bool {
			for _, m := range w.Carrier.Messages("ada@example.com") {
				if strings.Contains(m.Body, "another person knows your password") {
					return true
				}
			}
			return false
		})
	})
}

// Until the operator writes the settings of factors, no user adds one; factors that were added before are asked for.
func TestNobodyEnrollsBeforeTheOperatorIsUpgraded(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		bob := w.browser()
		bob.signUp("bob@example.com")
		w.sign()
		w.Eventually("the settings are gone", func() bool {
			return w.browser().ok("GET", "/auth/config", "")["passkey"].(map[string]any)["enabled"] == false
		})
		for path, body := range map[string]string{"/me/second-factors/totp": `{}`, "/me/passkeys/options": `{}`} {
			bob.refused(403, "SECOND_FACTORS_DISABLED", "POST", path, body)
		}
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.next()))
	})
}

// Neither a reset nor a password that a backend sets leads around the second step.
func TestResetPasswordKeepsSecondStep(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		ada.addApp()
		b := w.browser()
		attempt := b.forgot("ada@example.com")
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		b.ok("POST", "/auth/reset-password", fmt.Sprintf(`{"signin_attempt_id":%q,"password":"another long and quiet sentence"}`, attempt))
		if b.isSignedIn() {
			t.Fatal("a reset signs in")
		}
		b.ok("POST", "/auth/signin", `{"strategy":"password","email":"ada@example.com","password":"another long and quiet sentence"}`)
		if b.isSignedIn() || b.last.Body.Session.SignInAttempts[0]["current_step"] != "second_factor" {
			t.Error("a reset removes the second step")
		}
	})
}

// Before the first proof, no response and no statement depends on the factors of an account.
func TestFactorsAreNotRevealedBeforeTheFirstProof(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		for _, email := range []string{"none@example.com", "app@example.com", "key@example.com"} {
			b := w.browser()
			b.signUp(email)
			switch email {
			case "app@example.com":
				b.addApp()
			case "key@example.com":
				b.addPasskey(w.device())
			}
		}
		for _, request := range []string{
			`/auth/signin {"strategy":"password","email":%q,"password":"this is a wrong password"}`, `/auth/signin {"strategy":"email_otp","email":%q}`,
			`/auth/forgot-password {"email":%q}`, `/auth/signup {"email":%q,"password":"correct horse battery staple"}`,
		} {
			path, body, _ := strings.Cut(request, " ")
			var first []string
			for _, email := range []string{"none@example.com", "app@example.com", "key@example.com"} {
				b := w.browser()
				statements := w.traced.of(func() { b.do("POST", path, fmt.Sprintf(body, email)) })
				statements = append(statements, fmt.Sprint(b.last.Status, b.last.code()))
				if first == nil {
					first = statements
				} else if !slices.Equal(first, statements) {
					t.Errorf("%s: %s gets another answer or other statements", path, email)
				}
			}
		}
		asked := w.traced.of(func() { w.browser().ok("POST", "/auth/passkey-options", `{}`) })
		if len(asked) != 0 {
			t.Errorf("asking for options runs %v", asked)
		}
	})
}

// The session token states what the sign-in has proven.
func TestSessionTokenStatesAssurance(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		ada.addApp()
		token, err := jwt.ParseSigned(ada.ok("POST", "/session/token", `{}`)["token"].(string), []jose.SignatureAlgorithm{jose.ES256})
		w.Must(err)
		var claims struct {
			ACR      string   `json:"acr"`
			AMR      []string `json:"amr"`
			AuthTime int64    `json:"auth_time"`
		}
		w.Must(token.UnsafeClaimsWithoutVerification(&claims))
		if claims.ACR != "2" || !slices.Equal(claims.AMR, []string{"mfa", "otp"}) || claims.AuthTime != w.Clock.Now().Unix() {
			t.Errorf("claims %+v", claims)
		}
	})
}

// The row of an authenticator does not have its secret, as bytes or in base32.
func TestSecretOfAuthenticatorIsSealed(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		user := parseID(ada.signUp("ada@example.com"))
		a, _ := ada.addApp()
		w.tx(func(tx people.Tx) error {
			stored, err := tx.Factors().AuthenticatorsOf(user)
			if err == nil && (len(stored) != 1 || strings.Contains(stored[0].Sealed, string(a.secret)) || strings.Contains(stored[0].Sealed, totp.FormatSecret(a.secret))) {
				t.Errorf("stored %+v", stored)
			}
			return err
		})
	})
}

// The owner of an account cannot fill the store with sign-ins by passkey; sessions that are there stay.
func TestSignInsByPasskeyAreBoundedADay(t *testing.T) {
	w := newWorld(t, "")
	w.open(nil)
	b, d := w.browser(), w.device()
	b.signUp("ada@example.com")
	b.addPasskey(d)
	again := w.browser()
	for range 300 {
		again.signInByPasskey(d)
		again.ok("POST", "/session/sign-out", `{}`)
	}
	options := again.ok("POST", "/auth/passkey-options", `{}`)
	a := again.refused(429, "RATE_LIMITED", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(options)))
	if a.Header.Get("Retry-After") == "" || !b.isSignedIn() {
		t.Errorf("at the bound: %v", a.Header)
	}
	w.Clock.Advance(24 * time.Hour)
	w.browser().signInByPasskey(d)
}
