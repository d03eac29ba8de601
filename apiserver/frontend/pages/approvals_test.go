package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// userOf returns the id of the account with an address.
func (w *world) userOf(email string) (id int64) {
	w.T.Helper()
	w.Must(w.Store.View(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		e, _, err := tx.Users().Email(people.FoldEmail(email))
		id = e.User
		return err
	}))
	return id
}

func (w *world) calls(email string) people.Approval {
	return people.Approval{Caller: people.ToolCaller{Kind: people.CallerKey, ID: "7Gk2hPz0QwXe", User: w.userOf(email)}}
}

func TestApprovalPage(t *testing.T) {
	w := newWorld(t, nil)
	tool := w.DeclareApprovable(nil)
	ada := w.browser()
	ada.signUp("ada@example.com")
	ada.open("/approvals")
	ada.says("No agent asks for anything.")
	asked := tool.Ask(w.calls("ada@example.com"), `{"number":"1007","note":"<script>alert(1)</script> https://evil.example \u202egnp.exe","lines":[{"sku":"a"}],"none":""}`)
	path := frontendtest.Path("/approvals", asked)

	// Without a session, the sign-in leads back to the approval.
	other := w.browser()
	other.open(path)
	other.at("/sign-in")
	other.signIn("ada@example.com")
	other.at(path)

	for _, what := range []string{
		"support asks for your approval", "7Gk2hPz0QwXe is not verified by Acme", "Cancel an order", "POST", "api.acme.example", "number", "1007", "<script>alert(1)</script> https://evil.example ",
		"U+202E", "lines › 1 › sku", "empty", asked.EndsAt.Format("2 Jan 2006, 15:04 UTC"), "Signed in as ada@example.com",
	} {
		other.says(what)
	}
	if strings.Contains(other.page.raw, "\u202e") || strings.Contains(other.page.raw, "<script>alert") || strings.Contains(other.page.raw, `href="https://evil`) {
		t.Errorf("an argument is more than text: %s", other.page.raw)
	}
	if strings.Contains(path, asked.Digest) || strings.Contains(other.page.url.String(), "evil") {
		t.Error("the address has data of the call")
	}
	other.submit("approve")
	other.at(path)
	other.says("Approved. The agent can make this call once.")
	if form, _ := other.page.form("approve"); form != nil {
		t.Error("a decided approval can be decided")
	}
	ada.open("/approvals")
	ada.says("Approved")

	denied := tool.Ask(w.calls("ada@example.com"), `{}`)
	ada.open("/approvals")
	ada.says("Waiting")
	ada.open(frontendtest.Path("/approvals", denied))
	ada.says("Nothing is sent with it.")
	second := w.browser()
	second.open(frontendtest.Path("/approvals", denied))
	second.signIn("ada@example.com")
	ada.submit("deny")
	ada.says("Denied. The agent cannot make this call.")
	second.submit("approve")
	second.refused(http.StatusBadRequest, "", "This request was decided already.")

	late := tool.Ask(w.calls("ada@example.com"), `{}`)
	ada.open(frontendtest.Path("/approvals", late) + "?ui_locales=de")
	ada.says("Freigeben")
	w.Clock.Advance(11 * time.Minute)
	ada.submit("approve")
	ada.says("Diese Anfrage ist abgelaufen")
	ada.says("Abgelaufen")
}

// navigates returns the text of the navigation's link to the approvals, "" if there is none, and reports whether it is
// marked as the current place.
func (b *browser) navigates() (label string, current bool) {
	link := b.page.find(func(n *node) bool {
		return n.Data == "a" && strings.HasPrefix(attr(n, "href"), "/approvals") && attr(n.Parent, "class") == "places"
	})
	if link == nil {
		return "", false
	}
	return (shown{root: link}).text(), attr(link, "aria-current") == "true"
}

func TestNavigationLinksToApprovalsWhereCallsCanNeedThem(t *testing.T) {
	w := newWorld(t, nil)
	ada := w.browser()
	ada.signUp("ada@example.com")
	w.Put(v1alpha1.KindAITool, "reads", frontendtest.Deployment, "", document.AITool{Name: "Reads", Active: true})
	w.Put(v1alpha1.KindAITool, "retired", frontendtest.Deployment, "", document.AITool{Name: "Retired", RequiresUserApproval: true})
	w.Put(v1alpha1.KindAITool, "foreign", "acme/other", "", document.AITool{Name: "Foreign", Active: true, RequiresUserApproval: true})
	w.DeclareB2B(document.B2BSettings{})
	w.Eventually("the tools are known", func() bool { // changes are applied in their order
		ada.open("/account")
		return !strings.Contains(ada.page.raw, `href="/organizations"`)
	})
	for path, want := range map[string]string{"/account": "", "/account/emails": "", "/approvals": "Approvals"} {
		ada.open(path)
		if label, current := ada.navigates(); label != want || current != (path == "/approvals") {
			t.Errorf("%s without such tools: %q, current %t", path, label, current)
		}
	}
	w.DeclareApprovable(nil)
	w.Eventually("the tool is known", func() bool {
		ada.open("/account")
		label, _ := ada.navigates()
		return label != ""
	})
	for path, want := range map[string]string{"/account/sessions": "Approvals", "/account?ui_locales=de": "Freigaben", "/approvals": "Approvals", "/account/emails": "Approvals"} {
		ada.open(path)
		if label, current := ada.navigates(); label != want || current != (path == "/approvals") {
			t.Errorf("%s: %q, current %t", path, label, current)
		}
	}
}

func TestApprovalPageOfAnotherUserIsNotFound(t *testing.T) {
	w := newWorld(t, nil)
	tool := w.DeclareApprovable(nil)
	alice, bob := w.browser(), w.browser()
	alice.signUp("alice@example.com")
	bob.signUp("bob@example.com")
	const number = "the order of alice" // no id or token of a page contains it
	path := frontendtest.Path("/approvals", tool.Ask(w.calls("alice@example.com"), `{"number":"`+number+`"}`))
	alice.open(path)
	to, values := alice.fill("approve")
	for _, address := range []string{path, "/approvals/1", "/approvals/none"} {
		if bob.open(address); bob.page.status != http.StatusNotFound || strings.Contains(bob.page.raw, number) {
			t.Errorf("%s: %d", address, bob.page.status)
		}
	}
	bob.open("/account")
	_, own := bob.fill("rename")
	for _, member := range []string{"form_token", "form_user"} {
		values.Set(member, own.Get(member))
	}
	if page := bob.send(http.MethodPost, to, values.Encode()); page.status != http.StatusNotFound {
		t.Errorf("bob approves alice's call: %d", page.status)
	}
	alice.open(path)
	alice.says(number)
	alice.submit("deny")
}

func TestApprovalPageAsksForARecentProof(t *testing.T) {
	w := newWorld(t, nil)
	tool := w.DeclareApprovable(&document.ToolApproval{Fresh: true})
	b := w.browser()
	b.signUp("ada@example.com")
	w.Clock.Advance(11 * time.Minute)
	asked := tool.Ask(w.calls("ada@example.com"), `{"number":"1007"}`)
	path := frontendtest.Path("/approvals", asked)
	b.open(path)
	b.submit("approve")
	b.at("/reauthenticate")
	b.submit("password", "password", goodPassword)
	b.at(path)
	b.submit("approve")
	b.says("Approved.")
}

func TestApproverSeesTheOrganization(t *testing.T) {
	w := newWorld(t, nil)
	tool := w.DeclareApprovable(&document.ToolApproval{Permission: "billing:read"})
	owner := w.browser()
	owner.signUp("owner@example.com")
	owner.open("/organizations/new")
	owner.submit("create", "name", "מנועים")
	asked := people.Approval{Permission: "billing:read", Caller: people.ToolCaller{Kind: people.CallerToken, ID: "build"}}
	w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		members, err := tx.Organizations().MembershipsOf(w.userOf("owner@example.com"))
		asked.Caller.Organization = members[0].Organization.ID
		return err
	}))
	bob := w.browser()
	bob.signUp("bob@example.com")
	asked.Caller.User = w.userOf("bob@example.com")
	asked = tool.Ask(asked, `{"ע":"שלום"}`)
	owner.open("/approvals")
	owner.says("\u2068מנועים\u2069")
	owner.open(frontendtest.Path("/approvals", asked))
	owner.says("\u2068מנועים\u2069")
	bob.open(frontendtest.Path("/approvals", asked))
	bob.says("This call waits for the approval of a member of the organization")
	if form, _ := bob.page.form("approve"); form != nil {
		t.Error("the user of the call can approve it without the permission")
	}
	owner.submit("approve")
	owner.says("Approved.")
	if want := fmt.Sprint("/approvals/", ids.Format(asked.ID)); owner.page.url.Path != want {
		t.Errorf("the owner is at %s", owner.page.url.Path)
	}
}
