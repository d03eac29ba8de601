package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// A domain requires its connection while attempts wait for their codes.
func TestAttemptsThatBeganBeforeADomainWasEnforcedDoNotComplete(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, _, slug := w.customer("globex")
		known := w.browser()
		known.signUp("ann@globex.example")
		p, social := w.provider(), w.provider()
		everybody := w.connection("social", social, nil)

		codesBefore := map[string]int{"ann@globex.example": 1} // of the sign-up
		byCode, signUp, reset, linked := w.browser(), w.browser(), w.browser(), w.browser()
		byCode.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"ann@globex.example"}`)
		signUp.ok("POST", "/auth/signup", fmt.Sprintf(`{"email":"bob@globex.example","password":%q}`, goodPassword))
		reset.ok("POST", "/auth/forgot-password", `{"email":"ann@globex.example"}`)
		if a := linked.sso(everybody, social, identityprovider.User{"sub": "s", "email": "carl@globex.example"}); a.Status != 200 {
			t.Fatalf("%s", a.Raw)
		}
		w.connection("globex", p, func(c *document.Connection) { ofOrganization(slug, "globex.example")(c); c.Enforcement = "Domains" })

		for name, b := range map[string]*browser{"ann@globex.example": byCode, "carl@globex.example": linked} {
			if a := b.verify(name, 1+codesBefore[name]); a.Status != 403 || a.code() != "SSO_REQUIRED" || a.user() != "" {
				t.Errorf("%s: %s", name, a.Raw)
			}
		}
		if a := reset.verify("ann@globex.example", 3); a.Status != 403 || a.code() != "SSO_REQUIRED" {
			t.Errorf("a reset: %s", a.Raw)
		}
		id := signUp.last.Body.Session.SignUpAttempts[0]["id"].(string)
		signUp.refused(403, "SSO_REQUIRED", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, id, w.CodeFor("bob@globex.example", 1)))
	})
}

func TestSecondFactorDoesNotCompleteASignInOfADomainThatWasEnforcedMeanwhile(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		owner := w.browser()
		owner.signUp("ann@globex.example")
		app, _ := owner.addApp()
		b := w.browser()
		id := b.firstStep("ann@globex.example")
		p := w.provider()
		w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.Enforcement = "Domains" })
		b.refused(403, "SSO_REQUIRED", "POST", "/auth/attempt-second-factor", secondStep(id, "totp", app.next()))
	})
}

// A member has a further address in the domain that another organization enforces.
func TestDomainOfAnotherOrganizationIsNotRequiredHere(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, globex, slug := w.customer("globex")
		_, _, otherSlug := w.customer("initech")
		id := owner.ok("POST", "/me/email-addresses", `{"email":"owner@third.example"}`)["id"].(string)
		owner.ok("POST", "/me/email-addresses/"+id+"/prepare-verification", `{}`)
		owner.ok("POST", "/me/email-addresses/"+id+"/attempt-verification", fmt.Sprintf(`{"code":%q}`, w.CodeFor("owner@third.example", 1)))
		p := w.provider()
		enforce := func(slug, domain string) func(*document.Connection) {
			return func(c *document.Connection) { ofOrganization(slug, domain)(c); c.Enforcement = "Domains" }
		}
		w.connection("globex", p, enforce(slug, "unrelated.example"))
		w.connection("initech", p, enforce(otherSlug, "third.example"))
		if got, is := owner.ok("GET", "/session", "")["organization"].(map[string]any); !is || got["id"] != globex {
			t.Errorf("%v", got)
		}
		w.connection("globex", p, enforce(slug, "globex.example"))
		if got := owner.ok("GET", "/session", "")["organization"]; got != nil {
			t.Errorf("the own domain is not required: %v", got)
		}
	})
}
