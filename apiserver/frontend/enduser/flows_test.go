package enduser_test

import (
	"fmt"
	"testing"
)

func TestSignUpSignInPhoneOrganizationSwitch(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b := w.browser()
		b.ok("GET", "/session", "")
		b.signUp("Ada@example.com", `,"first_name":"Ada"`)
		if s := b.last.Body.Session; len(s.SignIns) != 1 || s.ActiveSignIn == nil || len(s.SignUpAttempts) != 0 {
			t.Fatalf("after sign-up: %s", b.last.Raw)
		}
		if n := w.count(`SELECT COUNT(*) FROM audit WHERE action = 'user.created' AND actor = object AND actor LIKE 'user:%'`); n != 1 {
			t.Errorf("%d audit records of the sign-up", n)
		}
		if me := b.ok("GET", "/me", ""); me["email"] != "Ada@example.com" || me["first_name"] != "Ada" || me["primary_phone_number"] != nil {
			t.Fatalf("me: %v", me)
		}
		phone := b.addPhone("+12025550123")
		b.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		code := w.CodeFor("+12025550123", 1)
		b.refused(400, "INVALID_CODE", "POST", "/me/phone-numbers/"+phone+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, wrong(code)))
		data := b.ok("POST", "/me/phone-numbers/"+phone+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, code))
		if data["verified"] != true || data["phone_number"].(map[string]any)["primary"] != true || data["phone_number"].(map[string]any)["verified_at"] == nil {
			t.Fatalf("verified: %v", data)
		}
		first := b.ok("POST", "/organizations", `{"name":"First Org"}`)["organization"].(map[string]any)["id"].(string)
		b.ok("POST", "/organizations", `{"name":"Second Org"}`)
		data = b.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, first))
		if data["organization"].(map[string]any)["slug"] != w.Numbered("first-org") || data["workspace"].(map[string]any)["slug"] != "default" {
			t.Fatalf("switched: %v", data)
		}
		if s := b.ok("GET", "/session", ""); s["organization"].(map[string]any)["id"] != first {
			t.Fatalf("session: %v", s)
		}
		b.ok("POST", "/session/sign-out", `{}`)
		b.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		b.signIn("ada@EXAMPLE.com")
		if s := b.ok("GET", "/session", ""); s["organization"].(map[string]any)["id"] != first {
			t.Fatalf("the next sign-in starts where the user left: %v", s)
		}
	})
}
