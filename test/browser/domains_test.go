package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// An owner proves a domain of the organization and removes it, by keyboard, with and without scripts.
func TestOwnerProvesADomain(t *testing.T) {
	for _, tt := range []struct {
		look    look
		scripts bool
	}{{look{360, true}, true}, {look{1280, false}, false}} {
		t.Run(tt.look.String(), func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, func(d *document.Deployment) {
				connections := document.DefaultConnections()
				connections.SelfService = true
				d.Connections = &connections
			})
			v := arrives(t, w, tt.look, tt.scripts)
			v.signsUp("ada@example.com")
			v.goes("/organizations/new")
			v.at("New organization", "new-organization")
			v.types("Name of the organization", "Globex")
			v.keys(kb.Enter)
			v.sees("The organization was created")
			v.presses("Domains")
			v.at("Domains", "domains-empty")
			v.types("Domain", "globex.example")
			v.keys(kb.Enter)
			v.sees("The domain was added")
			v.at("Domains", "domains-pending")
			value := eval[string](v.tab, `document.querySelector("code[id^=value-]").textContent`)
			w.Carrier.DNS().Set(domain.RecordName("globex.example"), "v=spf1 -all")
			v.presses("Verify now: globex.example")
			v.sees("There are records of this name, but none has the value")
			v.at("Domains", "domains-refused")
			w.Carrier.DNS().Set(domain.RecordName("globex.example"), "v=spf1 -all", value)
			v.presses("Verify now: globex.example")
			v.sees("The domain is verified")
			v.at("Domains", "domains-verified")
			v.presses("Remove: globex.example")
			v.sees("The domain was removed")
		})
	}
}
