package browser

import (
	"testing"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/store/people"
)

// A person reads all that an agent's call sends, and decides by keyboard: on a phone without scripts, and on a dark
// desktop.
func TestPersonDecidesAnAgentsCall(t *testing.T) {
	w := frontendtest.New(t, nil)
	tool := w.DeclareApprovable(nil)
	for _, tc := range []struct {
		look    look
		scripts bool
		email   string
	}{{look{360, false}, false, "ada@example.com"}, {look{1280, true}, true, "bob@example.com"}} {
		v := arrives(t, w, tc.look, tc.scripts)
		v.signsUp(tc.email)
		of := people.Approval{Caller: people.ToolCaller{Kind: people.CallerKey, ID: "7Gk2hPz0QwXe"}}
		w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
			e, _, err := tx.Users().Email(people.FoldEmail(tc.email))
			of.Caller.User = e.User
			return err
		}))
		asked := tool.Ask(of, `{"number":"1007","note":"Two lines\nof text \u202egnp.exe","lines":[{"sku":"a long one without any blanks 0123456789012345678901234567890123456789"}],"now":true,"for":"שלום"}`)
		denied := tool.Ask(of, `{}`)
		v.goes(frontendtest.Path("/approvals", asked))
		v.at("support asks for your approval", "approval")
		for _, what := range []string{"Cancel an order", "api.acme.example", "1007", "U+202E", "lines › 1 › sku"} {
			v.sees(what)
		}
		v.presses("Approve")
		v.sees("Approved. The agent can make this call once.")
		v.at("support asks for your approval", "approval-approved")
		v.presses("All approvals")
		v.at("Approvals", "approvals")
		v.goes("/account")
		v.presses("Approvals")
		v.at("Approvals", "approvals-by-navigation")
		v.goes(frontendtest.Path("/approvals", denied))
		v.at("support asks for your approval", "approval-empty")
		v.presses("Deny")
		v.sees("Denied. The agent cannot make this call.")
	}
}
