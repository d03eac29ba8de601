package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

func TestPasskeyOfAnEnforcedDomainDoesNotSignIn(t *testing.T) {
	for name, addresses := range map[string]struct {
		signsUp, adds string
		proves        bool
		refused       bool
	}{
		"primary":    {signsUp: "ann@globex.example", refused: true},
		"proven":     {signsUp: "ann@example.com", adds: "ann@globex.example", proves: true, refused: true},
		"not proven": {signsUp: "ann@example.com", adds: "ann@globex.example"},
		"elsewhere":  {signsUp: "ann@example.com", adds: "ann@eu.globex.example", proves: true},
	} {
		t.Run(name, func(t *testing.T) {
			onFactors(t, nil, func(t *testing.T, w *world) {
				owner := w.browser()
				owner.signUp(addresses.signsUp)
				if addresses.adds != "" {
					path := "/me/email-addresses/" + owner.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":%q}`, addresses.adds))["id"].(string)
					if addresses.proves {
						owner.ok("POST", path+"/prepare-verification", `{}`)
						owner.ok("POST", path+"/attempt-verification", codeBody(w.CodeFor(addresses.adds, 1)))
					}
				}
				d := w.device()
				owner.addPasskey(d)
				p := w.provider()
				w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.Enforcement = "Domains" })
				b := w.browser()
				body := d.signInBody(b.ok("POST", "/auth/passkey-options", `{}`))
				if !addresses.refused {
					b.ok("POST", "/auth/signin", body)
					return
				}
				b.refused(403, "SSO_REQUIRED", "POST", "/auth/signin", body)
			})
		})
	}
}
