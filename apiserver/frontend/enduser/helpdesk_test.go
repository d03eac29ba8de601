package enduser_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
)

// desk is a client of the backend API with a key.
type desk struct {
	w   *world
	key string
}

// desk declares a key of a deployment with permissions.
func (w *world) desk(name, deployment string, permissions ...string) *desk {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIAuthApp, "desk-"+name, deployment, "desk-"+name, document.APIAuthApp{Slug: "desk-" + name, Active: true, Permissions: []string{"*"}})
	w.Put(v1alpha1.KindAPIKey, name, deployment, "", document.APIKey{App: "desk-" + name, Permissions: permissions, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	d := &desk{w, minted.Plain()}
	w.Eventually("the key is known", func() bool { status, _ := d.send("GET", "/users", ""); return status != 401 })
	return d
}

// helpDesk is a desk with the permissions of a help desk.
func (w *world) helpDesk() *desk {
	return w.desk("helpdesk", deploymentName, "users:read", "user_factors:read", "user_factors:write", "audit:read")
}

func (d *desk) send(method, path, body string) (status int, raw string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+d.key)
	r.Header.Set("Content-Type", "application/json")
	r.RemoteAddr = "198.51.100.7:1234"
	recorder := httptest.NewRecorder()
	d.w.Backend.ServeHTTP(recorder, r)
	return recorder.Code, recorder.Body.String()
}

// expect sends a request that must get a status, and returns the body as an object.
func (d *desk) expect(status int, method, path, body string) (out map[string]any) {
	d.w.T.Helper()
	got, raw := d.send(method, path, body)
	if got != status {
		d.w.T.Fatalf("%s %s: want %d, got %d %s", method, path, status, got, raw)
	}
	_ = json.Unmarshal([]byte(raw), &out) // 204 has no body
	return out
}

// audited returns the detail of the audit record of an action on a user, and its address.
func (d *desk) audited(action, user string) (detail, address string, found bool) {
	d.w.T.Helper()
	for _, record := range d.expect(200, "GET", "/audit?action="+action+"&object=user:"+user, "")["data"].([]any) {
		r := record.(map[string]any)
		return r["detail"].(string), r["ip_address"].(string), strings.HasPrefix(r["actor"].(string), "key:")
	}
	return "", "", false
}

// mailed waits for a mail to an address that contains a text, and not the address of the help desk.
func (w *world) mailed(to, text string) {
	w.T.Helper()
	w.Eventually("a mail: "+text, func() bool {
		for _, m := range w.Carrier.Messages(to) {
			if strings.Contains(m.Body, "198.51.100.7") {
				w.T.Errorf("a mail names the address of the help desk: %s", m.Body)
			}
			if strings.Contains(strings.Join(strings.Fields(m.Body), " "), text) {
				return true
			}
		}
		return false
	})
}

func TestTemporaryCodeReplacesSecondFactorOnce(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		id := ada.signUp("ada@example.com")
		ada.addApp()
		help, path := w.helpDesk(), "/users/"+id+"/temporary-code"
		for _, body := range []string{`{"lifetime_seconds":599}`, `{"lifetime_seconds":86401}`, `{"lifetime_seconds":"600"}`, `{"seconds":600}`} {
			help.expect(400, "POST", path, body)
		}
		first := help.expect(200, "POST", path, "")["code"].(string)
		made := help.expect(200, "POST", path, `{"lifetime_seconds":3600}`)
		code := made["code"].(string)
		if expires, err := time.Parse(time.RFC3339, made["expires_at"].(string)); err != nil || expires.Sub(w.Clock.Now()).Round(time.Minute) != time.Hour {
			t.Errorf("expires at %v", made["expires_at"])
		}
		w.mailed("ada@example.com", "made a temporary code for your account")
		unknown := w.browser()
		unknown.refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"recovery_code","email":"ada@example.com","code":%q}`, code))
		unknown.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-second-factor", secondStep("1", "recovery_code", code))
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		b.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", first))
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", strings.ToUpper(code)))
		if !b.isSignedIn() || !ada.isSignedIn() {
			t.Error("the temporary code does not sign in, or it ended another session")
		}
		w.mailed("ada@example.com", "The temporary code of your account was used")
		again := w.browser()
		again.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(again.firstStep("ada@example.com"), "recovery_code", code))
		late := help.expect(200, "POST", path, `{"lifetime_seconds":600}`)["code"].(string)
		w.Clock.Advance(10 * time.Minute)
		again.refused(400, "EXPIRED_CODE", "POST", "/auth/attempt-second-factor", secondStep(again.firstStep("ada@example.com"), "recovery_code", late))
		if _, address, byKey := help.audited("user.temporary_code_created", id); !byKey || address != "198.51.100.7" {
			t.Errorf("the audit has the address %q of the creation", address)
		}
		_, audit := help.send("GET", "/audit?limit=100", "")
		for _, secret := range []string{code, late, strings.ReplaceAll(code, "-", "")} {
			if strings.Contains(audit, secret) || strings.Contains(w.Logs.String(), secret) {
				t.Error("the audit or the log has a temporary code")
			}
		}
	})
}

func TestResetRemovesFactorsAndEndsSessions(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, bob := w.browser(), w.browser()
		id := ada.signUp("ada@example.com")
		bob.signUp("bob@example.com")
		bob.addApp()
		_, codes := ada.addApp()
		d := w.device()
		ada.addPasskey(d)
		phone := ada.addPhone("+12025550100")
		ada.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		ada.ok("POST", "/me/phone-numbers/"+phone+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, w.CodeFor("+12025550100", 1)))
		ada.ok("POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, phone))
		other := w.browser()
		other.signInByPasskey(d)
		pending := w.browser()
		attempt := pending.firstStep("ada@example.com")
		help := w.helpDesk()
		temporary := help.expect(200, "POST", "/users/"+id+"/temporary-code", "")["code"].(string)
		sessions := help.expect(200, "GET", "/users/"+id+"/sessions", "")["data"].([]any)
		var levels []string
		for _, s := range sessions {
			levels = append(levels, s.(map[string]any)["level"].(string))
			if proofs := s.(map[string]any)["proofs"].([]any); len(proofs) == 0 {
				t.Error("a session has no proofs")
			}
		}
		if !slices.Contains(levels, "phishing_resistant") || len(levels) != 2 {
			t.Errorf("levels %v", levels)
		}
		help.expect(400, "POST", "/users/"+id+"/second-factors/reset", `{"reason":" "}`)
		help.expect(400, "POST", "/users/"+id+"/second-factors/reset", `{"reason":"`+strings.Repeat("x", 501)+`"}`)
		answer := help.expect(200, "POST", "/users/"+id+"/second-factors/reset", `{"reason":"Ticket 4711"}`)
		if answer["removed"] != 3.0 || answer["sessions_revoked"] != 2.0 {
			t.Errorf("the reset returns %v", answer)
		}
		if ada.isSignedIn() || other.isSignedIn() || !bob.isSignedIn() {
			t.Error("the reset did not end exactly the sessions of the user")
		}
		for _, code := range []string{temporary, codes[0].(string)} {
			pending.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", code))
		}
		b := w.browser()
		b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(b.ok("POST", "/auth/passkey-options", `{}`))))
		b.signIn("ada@example.com")
		if !b.isSignedIn() {
			t.Error("a second step is asked for after the reset")
		}
		_, raw := help.send("GET", "/users/"+id+"/second-factors", "")
		if raw != `{"two_step":false,"required":"one_factor","totp":[],"sms":[],"passkeys":[],"recovery_codes":null}` {
			t.Errorf("after the reset: %s", raw)
		}
		if len(help.expect(200, "GET", "/users/"+id, "")["phone_numbers"].([]any)) != 1 {
			t.Error("the reset removed the phone number itself")
		}
		w.mailed("ada@example.com", "removed all second factors and passkeys of your account")
		if detail, address, byKey := help.audited("user.factors_reset", id); detail != "Ticket 4711" || address != "198.51.100.7" || !byKey {
			t.Errorf("the audit has the detail %q, address %q", detail, address)
		}
		if answer := help.expect(200, "POST", "/users/"+id+"/second-factors/reset", ""); answer["removed"] != 0.0 {
			t.Errorf("a second reset returns %v", answer)
		}
	})
}

// A removal by the help desk is not refused where the deployment requires two factors: the user must add another one.
func TestHelpDeskRemovesSingleFactors(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, bob := w.browser(), w.browser()
		id := ada.signUp("ada@example.com")
		bobs := bob.signUp("bob@example.com")
		a, _ := ada.addApp()
		key := ada.addPasskey(w.device())
		w.open(func(d *document.Deployment) { d.Assurance.Required = &document.Requirement{Level: "two_factors"} })
		help := w.helpDesk()
		overview := help.expect(200, "GET", "/users/"+id+"/second-factors", "")
		raw, _ := json.Marshal(overview)
		if overview["required"] != "two_factors" || overview["two_step"] != true || !strings.Contains(string(raw), a.id) || !strings.Contains(string(raw), key) {
			t.Errorf("the overview is %s", raw)
		}
		if secret := w.sealedSecret(id); secret == "" || strings.Contains(string(raw), secret) || strings.Contains(string(raw), "public_key") {
			t.Error("the overview has a secret, or none is stored")
		}
		help.expect(404, "DELETE", "/users/"+bobs+"/second-factors/totp/"+a.id, "")
		help.expect(404, "DELETE", "/users/"+id+"/second-factors/totp/"+key, "")
		help.expect(404, "DELETE", "/users/"+id+"/passkeys/x", "")
		help.expect(204, "DELETE", "/users/"+id+"/second-factors/totp/"+a.id, "")
		help.expect(404, "DELETE", "/users/"+id+"/second-factors/totp/"+a.id, "")
		if detail, _, _ := help.audited("user.factor_removed", id); detail != "totp:"+a.id {
			t.Errorf("the audit has the detail %q", detail)
		}
		w.mailed("ada@example.com", "removed an authenticator app from your account")
		left := help.expect(200, "GET", "/users/"+id+"/second-factors", "")
		if left["two_step"] != true || left["recovery_codes"] == nil {
			t.Errorf("with a passkey left: %v", left)
		}
		help.expect(204, "DELETE", "/users/"+id+"/passkeys/"+key, "")
		w.mailed("ada@example.com", "removed a passkey from your account")
		if left := help.expect(200, "GET", "/users/"+id+"/second-factors", ""); left["two_step"] != false || left["recovery_codes"] != nil {
			t.Errorf("after the last factor: %v", left)
		}
		b := w.browser()
		b.signIn("ada@example.com")
		b.refused(403, "ENROLLMENT_REQUIRED", "GET", "/me/organization-memberships", "")
	})
}

// sealedSecret returns the stored secret of a user's authenticator.
func (w *world) sealedSecret(user string) (sealed string) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), "SELECT sealed FROM totp_authenticators WHERE user_id = "+user).Scan(&sealed))
	return sealed
}

// moveRelyingParty makes a user's passkeys those of a former relying party.
func (w *world) moveRelyingParty(user string) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	_, err := db.ExecContext(w.T.Context(), "UPDATE passkeys SET rp_id = 'old.example' WHERE user_id = "+user)
	w.Must(err)
}

func TestUsersAreListedByTheirFactors(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ids := map[string]string{}
		for _, name := range []string{"none", "waiting", "app", "passkey", "both"} {
			b := w.browser()
			ids[name] = b.signUp(name + "@example.com")
			switch name {
			case "waiting":
				b.ok("POST", "/me/second-factors/totp", `{}`)
			case "app":
				b.addApp()
			case "passkey":
				b.addPasskey(w.device())
			case "both":
				b.addApp()
				b.addPasskey(w.device())
			}
		}
		// A passkey of a former relying party is not usable.
		stale := w.browser()
		ids["stale"] = stale.signUp("stale@example.com")
		stale.addPasskey(w.device())
		w.moveRelyingParty(ids["stale"])
		help := w.desk("lister", deploymentName, "users:read")
		expect := func(when, level string, want ...string) {
			t.Helper()
			list := help.expect(200, "GET", "/users?second_factor="+level, "")
			var got []string
			for _, u := range list["data"].([]any) {
				user := u.(map[string]any)
				got = append(got, strings.TrimSuffix(user["email"].(string), "@example.com"))
				if two := user["two_step"]; two != (user["id"] == ids["app"] || user["id"] == ids["both"]) {
					t.Errorf("%s: two_step of %s is %v", when, user["email"], two)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, want) || list["total"] != float64(len(want)) {
				t.Errorf("%s: %s lists %v of %v, want %v", when, level, got, list["total"], want)
			}
		}
		expect("every kind is enabled", "none", "none", "stale", "waiting")
		expect("every kind is enabled", "two_factors", "app")
		expect("every kind is enabled", "phishing_resistant", "both", "passkey")
		page := help.expect(200, "GET", "/users?second_factor=none&limit=2&offset=2", "")
		if len(page["data"].([]any)) != 1 || page["total"] != 3.0 || page["has_more"] != false {
			t.Errorf("the second page is %v", page)
		}
		if found := help.expect(200, "GET", "/users?second_factor=none&search=wait", ""); found["total"] != 1.0 {
			t.Errorf("with a search: %v", found)
		}
		w.open(func(d *document.Deployment) { d.Assurance.TOTP = false })
		expect("authenticators are disabled", "none", "app", "none", "stale", "waiting")
		expect("authenticators are disabled", "phishing_resistant", "both", "passkey")
		w.open(func(d *document.Deployment) { d.Assurance.Passkey = false })
		expect("passkeys are disabled", "two_factors", "app", "both")
		expect("passkeys are disabled", "phishing_resistant")
		help.expect(400, "GET", "/users?second_factor=one_factor", "")
	})
}

func TestHelpDeskNeedsItsOwnPermissions(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		id := ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		key := ada.addPasskey(w.device())
		users, reader := w.desk("users", deploymentName, "users:read", "users:write"), w.desk("reader", deploymentName, "user_factors:read")
		foreign, help := w.desk("foreign", anotherName, "*"), w.helpDesk()
		const read = "GET /users/%s/second-factors"
		for _, operation := range []string{
			read, "DELETE /users/%s/second-factors/totp/" + a.id, "DELETE /users/%s/passkeys/" + key,
			"POST /users/%s/second-factors/reset", "POST /users/%s/temporary-code",
		} {
			method, path, _ := strings.Cut(operation, " ")
			status, raw := users.send(method, fmt.Sprintf(path, id), "")
			if status != 403 || !strings.Contains(raw, "user_factors:") {
				t.Errorf("%s with users:write: %d %s", operation, status, raw)
			}
			want := 403
			if operation == read {
				want = 200
			}
			reader.expect(want, method, fmt.Sprintf(path, id), "")
			// The other deployment takes no second factors, and an unknown user comes first.
			foreign.expect(404, method, fmt.Sprintf(path, id), "")
			for _, unknown := range []string{"1", "x"} {
				if status, raw := help.send(method, fmt.Sprintf(path, unknown), ""); status != 404 || !strings.Contains(raw, ":user_id") {
					t.Errorf("%s of an unknown user: %d %s", operation, status, raw)
				}
			}
		}
		if !ada.isSignedIn() || len(ada.ok("GET", "/me/second-factors", "")["totp"].([]any)) != 1 {
			t.Error("a refused request changed something")
		}
	})
}

// Without settings of factors, whatever exists can be read and removed, and nothing new is made.
func TestHelpDeskRemovesFactorsBeforeTheOperatorIsUpgraded(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		id := ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		w.Declare(w.signedDeployment())
		help := w.helpDesk()
		if status, raw := help.send("POST", "/users/"+id+"/temporary-code", ""); status != 403 || !strings.Contains(raw, "SECOND_FACTORS_DISABLED") {
			t.Errorf("a temporary code: %d %s", status, raw)
		}
		if len(help.expect(200, "GET", "/users/"+id+"/second-factors", "")["totp"].([]any)) != 1 {
			t.Error("the overview is empty")
		}
		help.expect(204, "DELETE", "/users/"+id+"/second-factors/totp/"+a.id, "")
		if answer := help.expect(200, "POST", "/users/"+id+"/second-factors/reset", ""); answer["sessions_revoked"] != 1.0 {
			t.Errorf("the reset returns %v", answer)
		}
	})
}
