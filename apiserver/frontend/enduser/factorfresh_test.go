package enduser_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/document"
)

// freshOperations returns a valid body of every operation that needs a recent proof, by its pattern in the contract
// with the ids of the world. The last ones need the proof for some bodies only, so that the contract does not name
// them.
func (b *browser) freshOperations() (always, sometimes map[string]string) {
	b.w.T.Helper()
	organization := b.organization("Harbour")
	_, membership, _ := b.w.joins(b, organization, "bob@example.com")
	b.ok("PATCH", "/organizations/"+organization+"/members/"+membership, `{"owner":true}`)
	phone, key := b.addPhone(number), b.addPasskey(b.w.device())
	b.ok("POST", verifyPath(phone), codeBody(b.prepare(phone, number, 1)))
	address := b.ok("POST", "/me/email-addresses", `{"email":"other@example.com"}`)["id"].(string)
	// The challenge of a registration expires before a proof is no longer recent.
	b.w.Clock.Advance(9 * time.Minute)
	credential := b.w.device().created(b.ok("POST", "/me/passkeys/options", `{}`))
	b.w.Clock.Advance(61 * time.Second)
	always = map[string]string{
		"POST /me/phone-numbers":                            `{"phone_number":"+12025550177"}`,
		"POST /me/phone-numbers/" + phone + "/make-primary": `{}`, "DELETE /me/phone-numbers/" + phone: "",
		"POST /me/api-keys": laptop, "PATCH /me/second-factors": `{"two_step":false}`, "POST /me/second-factors/totp": `{}`,
		"DELETE /me/second-factors/totp/1": "", "POST /me/second-factors/sms": fmt.Sprintf(`{"phone_number_id":%q}`, phone),
		"DELETE /me/second-factors/sms/" + phone: "", "POST /me/second-factors/recovery-codes": `{}`,
		"POST /me/passkeys": fmt.Sprintf(`{"credential":%s}`, credential), "POST /me/passkeys/options": `{}`, "DELETE /me/passkeys/" + key: "",
		"DELETE /me/account":       `{"confirmation":"DELETE_MY_ACCOUNT"}`,
		"POST /me/email-addresses": `{"email":"new@example.com"}`, "POST /me/email-addresses/" + address + "/make-primary": `{}`,
		"DELETE /me/email-addresses/" + address: "", "DELETE /me/identities/1": "",
		"POST /organizations/" + organization + "/connections":     `{"type":"OIDC","display_name":"Globex"}`,
		"PATCH /organizations/" + organization + "/connections/1":  `{"display_name":"Globex"}`,
		"DELETE /organizations/" + organization + "/connections/1": "",
		"POST /organizations/" + organization + "/setup-links":     `{"email":"it@example.com","intents":["sso"]}`,
		"DELETE /organizations/" + organization + "/setup-links/1": "",
		"DELETE /organizations/" + organization:                    fmt.Sprintf(`{"confirmation":%q}`, b.w.Numbered("harbour")),
	}
	domains := "/organizations/" + organization + "/domains"
	maps.Copy(always, map[string]string{"POST " + domains: `{"name":"acme.example"}`, "DELETE " + domains + "/1": "", "POST " + domains + "/1/verify": `{}`})
	directories := directoriesOf(organization)
	maps.Copy(always, map[string]string{
		"POST " + directories: `{}`, "PATCH " + directories + "/1": `{"is_active":false}`, "DELETE " + directories + "/1": "", "POST " + directories + "/1/tokens": `{}`,
		"DELETE " + directories + "/1/tokens/1": "",
	})
	member := "/organizations/" + organization + "/members/" + membership
	return always, map[string]string{
		"PATCH /organizations/" + organization: `{"required_assurance":"two_factors"}`, "PATCH " + member: `{"owner":false}`, "DELETE " + member: "",
	}
}

// pattern returns an operation with its ids replaced by {id}, as the contract names them.
func pattern(operation string) string {
	parts := strings.Split(operation, "/")
	for i, part := range parts {
		if strings.Trim(part, "0123456789") != "" || part == "" {
			continue
		}
		switch parts[i] = "{id}"; parts[i-1] {
		case "connections":
			parts[i] = "{connection_id}"
		case "directories":
			parts[i] = "{directory_id}"
		case "tokens":
			parts[i] = "{token_id}"
		case "setup-links":
			parts[i] = "{setup_link_id}"
		case "domains":
			parts[i] = "{domain_id}"
		}
	}
	return strings.Join(parts, "/")
}

// Neither a password nor an emailed code is a recent proof of a guarded account, for any operation that needs one. The
// operations are those that the contract marks, and those that need the proof for some bodies.
func TestPasswordIsNoRecentProofOfGuardedAccount(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		w.keyApps(10)
		ada := w.browser()
		ada.signUp("ada@example.com")
		ada.addApp()
		always, sometimes := ada.freshOperations()
		ada.reauthenticate()
		ada.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
		attempt := ada.last.Body.Session.SignInAttempts[0]["id"].(string)
		ada.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))

		contract, err := openapi.LoadEndUser()
		w.Must(err)
		var marked, tried []string
		for operation, needs := range contract.Routes() {
			if needs.Session == openapi.Fresh {
				marked = append(marked, operation)
			}
		}
		for operation := range always {
			tried = append(tried, pattern(operation))
		}
		slices.Sort(marked)
		slices.Sort(tried)
		if len(marked) < 15 || !slices.Equal(marked, tried) {
			t.Errorf("the contract marks %v, the test tries %v", marked, tried)
		}
		maps.Copy(sometimes, always)
		before := w.dumpOf("users", "emails", "phones", "passkeys", "totp_authenticators", "recovery_codes", "organizations", "organization_memberships", "api_keys")
		for operation, body := range sometimes {
			method, path, _ := strings.Cut(operation, " ")
			ada.refused(403, "REAUTHENTICATION_REQUIRED", method, path, body)
			if !strings.Contains(ada.last.Raw, `"strategies":["passkey","totp","recovery_code"]`) {
				t.Errorf("%s: %s", operation, ada.last.Raw)
			}
		}
		if w.dumpOf("users", "emails", "phones", "passkeys", "totp_authenticators", "recovery_codes", "organizations", "organization_memberships", "api_keys") != before {
			t.Error("a refused operation changed something")
		}
	})
}

// The thief of a password gets no factor of an account with only a passkey. Neither turning two-step on, which makes
// recovery codes, nor new recovery codes, nor an address of the thief, to which codes of sign-ins go, is a way.
func TestPasswordIsNoWayToFactorsOfPasskeyAccount(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, d := w.browser(), w.device()
		ada.signUp("ada@example.com")
		ada.addPasskey(d)
		thief := w.browser()
		thief.signIn("ada@example.com")
		before := w.dumpOf("users", "emails", "recovery_codes")
		for _, operation := range [][3]string{
			{"PATCH", "/me/second-factors", `{"two_step":true}`}, {"POST", "/me/second-factors/recovery-codes", `{}`},
			{"POST", "/me/email-addresses", `{"email":"thief@example.com"}`},
		} {
			thief.refused(403, "REAUTHENTICATION_REQUIRED", operation[0], operation[1], operation[2])
			if !strings.Contains(thief.last.Raw, `"strategies":["passkey","email_otp"]`) {
				t.Errorf("%s: %s", operation[1], thief.last.Raw)
			}
		}
		if w.dumpOf("users", "emails", "recovery_codes") != before {
			t.Error("a refused operation changed something")
		}
		owner := w.browser()
		owner.signInByPasskey(d)
		owner.ok("POST", "/me/email-addresses", `{"email":"second@example.com"}`)
		owner.ok("POST", "/me/second-factors/recovery-codes", `{}`)
		owner.ok("PATCH", "/me/second-factors", `{"two_step":true}`)
	})
}

// Where users do not sign in by emailed codes, such a code still proves who adds a first factor.
func TestFirstFactorWithoutSignInByCode(t *testing.T) {
	passwords := func(d *document.Deployment) {
		d.SignIn = &document.SignInSettings{Password: true, PasswordMinLength: 15}
	}
	onFactors(t, passwords, func(t *testing.T, w *world) {
		w.browser().signUp("ada@example.com")
		ada := w.browser()
		ada.signIn("ada@example.com")
		ada.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/me/second-factors/totp", `{}`)
		if !strings.Contains(ada.last.Raw, `"strategies":["email_otp"]`) {
			t.Fatalf("no way to add a factor: %s", ada.last.Raw)
		}
		options := ada.ok("POST", "/session/reauthentication-options", `{}`)
		if got := fmt.Sprint(options["strategies"]); got != "[password email_otp]" {
			t.Errorf("strategies %s", got)
		}
		ada.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
		attempt := ada.last.Body.Session.SignInAttempts[0]["id"].(string)
		ada.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		ada.addApp()
		w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", `{"strategy":"email_otp","email":"ada@example.com"}`)
	})
}

// A password alone does not turn two-step off, nor removes a factor, while the deployment disables the only kind of
// factor that the account has.
func TestPasswordChangesNothingWhileNoFactorIsUsable(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		w.open(func(d *document.Deployment) { d.Assurance.TOTP = false })
		thief := w.browser()
		thief.signIn("ada@example.com")
		for _, operation := range [][3]string{
			{"PATCH", "/me/second-factors", `{"two_step":false}`}, {"DELETE", "/me/second-factors/totp/" + a.id, ""},
		} {
			thief.refused(403, "REAUTHENTICATION_REQUIRED", operation[0], operation[1], operation[2])
			if !strings.Contains(thief.last.Raw, `"strategies":["email_otp"]`) {
				t.Errorf("%s: %s", operation[1], thief.last.Raw)
			}
		}
		thief.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
		attempt := thief.last.Body.Session.SignInAttempts[0]["id"].(string)
		thief.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		thief.ok("PATCH", "/me/second-factors", `{"two_step":false}`)
	})
}
