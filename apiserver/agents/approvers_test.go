package agents_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// approvalOf returns an approval as it is stored.
func (w *world) approvalOf(id int64) (a people.Approval) {
	w.T.Helper()
	w.Must(w.Store.View(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) (err error) {
		a, _, err = tx.Approvals().Approval(id)
		return err
	}))
	return a
}

// approvalAt returns the id at the end of the address of an approval.
func (w *world) approvalAt(address string) int64 {
	w.T.Helper()
	id, err := ids.Parse(address[strings.LastIndexByte(address, '/')+1:])
	w.Must(err)
	return id
}

// attempt is a request that tries to decide an approval without the user's browser session.
type attempt struct {
	name   string
	header []string
}

// withoutBrowser returns each credential of a user, in each place of a request where one could be taken.
func (w *flowWorld) withoutBrowser(credentials map[string]string, session string) (all []attempt) {
	own := []string{"Origin", w.base}
	for name, credential := range credentials {
		for _, header := range [][2]string{
			{"Authorization", "Bearer " + credential}, {"Cookie", "__session=" + credential}, {"X-Api-Key", credential}, {"X-Session-Token", credential}, {"Authorization", credential},
		} {
			all = append(all, attempt{name + " as " + header[0], append([]string{header[0], header[1]}, own...)}, attempt{name + " as " + header[0] + " without an origin", header[:]})
		}
	}
	for name, header := range map[string][]string{
		"another site":                    {"Origin", "https://evil.example"},
		"a page without an origin":        {"Origin", "null"},
		"a host that begins like ours":    {"Origin", w.base + ".evil.example"},
		"our host with another port":      {"Origin", "http://localhost:1"},
		"another site that is not named":  {"Sec-Fetch-Site", "cross-site"},
		"another site beside an API key":  {"Origin", "https://evil.example", "Authorization", "Bearer " + w.key},
		"another site that is said twice": {"Origin", w.base + ", https://evil.example"},
	} {
		all = append(all, attempt{"the session from " + name, append([]string{"Cookie", "__session=" + session}, header...)})
	}
	return append(all, attempt{"nothing", own}, attempt{"an unknown session", append([]string{"Cookie", "__session=unknown"}, own...)}, attempt{
		"names of the user", append([]string{"X-User-Id", "1", "X-Approved", "true", "X-Active-User", "1"}, own...),
	})
}

// sessionCookie returns the value of the session cookie of a browser.
func (b *browser) sessionCookie() string {
	b.w.T.Helper()
	address, err := url.Parse(b.w.base)
	b.w.Must(err)
	for _, cookie := range b.client.Jar.Cookies(address) {
		if cookie.Name == "__session" {
			return cookie.Value
		}
	}
	b.w.T.Fatal("the browser has no session")
	return ""
}

// credentialsOf declares an agent that takes every credential of a user, and returns one of each kind.
func (w *flowWorld) credentialsOf(b *browser, email string) map[string]string {
	w.T.Helper()
	w.declareSessionKey()
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, Tools: []string{"pay"}, URL: w.at("support"), OAuthApp: "portal", Sessions: true,
	})
	session := b.ask("/session/token", map[string]any{})
	return map[string]string{
		"an access token":              w.tokenFor(b, w.register(), "orders:read"),
		"a session token for an agent": fmt.Sprint(b.ask("/session/token", map[string]any{"resource": w.at("support")}).Data["token"]),
		"a session token":              fmt.Sprint(session.Data["token"]),
		"an API key with all rights":   w.declareKey("mighty", frontendtest.Deployment, "*"),
		"the user's API key":           w.declareKeyOf(w.userOf(email)).Plain(),
	}
}

// undecided is an approval that waits for the user of a browser.
type undecided struct {
	*flowWorld
	id int64
	// path is that of the API, and seen the body that approves.
	path, seen string
	digest     string
}

// expectPending checks that the approval still waits, and that nothing was sent.
func (u *undecided) expectPending(what string) {
	u.T.Helper()
	if a := u.approvalOf(u.id); a.Status != people.ApprovalPending || a.DecidedBy != 0 || u.up.sentTo("/payments") != 0 {
		u.T.Fatalf("%s: the approval is %s by %d, and the tool got %d calls", what, a.Status, a.DecidedBy, u.up.sentTo("/payments"))
	}
}

// expectRefused sends both decisions and the form of the page with the headers of an attempt.
func (u *undecided) expectRefused(one attempt) {
	u.T.Helper()
	page, fields := "/approvals/"+ids.Format(u.id), url.Values{"action": {"approve"}, "arguments_digest": {u.digest}}.Encode()
	for _, decision := range [][3]string{
		{u.path + "/approve", "application/json", u.seen}, {u.path + "/deny", "application/json", `{}`}, {page, "application/x-www-form-urlencoded", fields},
	} {
		status, text := u.frontendAnswer("POST", decision[0], decision[1], decision[2], one.header...)
		if toSignIn := status == http.StatusSeeOther && decision[0] == page; status < 400 && !toSignIn {
			u.T.Errorf("%s with %s: %d %s", decision[0], one.name, status, text)
		}
		u.expectPending(one.name)
	}
}

// expectRefusedOnBackend sends decisions with a credential to the backend listener.
func (u *undecided) expectRefusedOnBackend(name, credential string) {
	u.T.Helper()
	for _, path := range []string{u.path + "/approve", u.path + "/deny", "/ai/tool-approvals/" + ids.Format(u.id) + "/approve"} {
		if a := u.backendAnswer("POST", path, credential, u.seen); a.Code != http.StatusNotFound && a.Code != http.StatusUnauthorized && a.Code != http.StatusMethodNotAllowed {
			u.T.Errorf("%s with %s on the backend listener: %d %s", path, name, a.Code, a.Body)
		}
		u.expectPending(name)
	}
}

// expectRefusedForms sends what a form of another site can send with the user's cookie.
func (u *undecided) expectRefusedForms(session string) {
	u.T.Helper()
	for _, mediaType := range []string{"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"} {
		if status, text := u.frontendAnswer("POST", u.path+"/approve", mediaType, u.seen, "Cookie", "__session="+session); status < 400 {
			u.T.Errorf("the session with the media type %q: %d %s", mediaType, status, text)
		}
		u.expectPending("the media type " + mediaType)
	}
	if status, text := u.frontendAnswer("GET", u.path+"/approve", "", "", "Cookie", "__session="+session); status < 400 {
		u.T.Errorf("the session with GET: %d %s", status, text)
	}
}

func TestOnlyTheBrowserSessionOfTheUserDecides(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newFlowWorld(t, newWorldOver(t, engine))
		ada, eve := w.browser(), w.browser()
		ada.signUp("ada@example.com")
		eve.signUp("eve@example.com")
		credentials := w.credentialsOf(ada, "ada@example.com")
		token := credentials["an access token"]
		_, page, state := w.continued(token, 500, "")
		u := &undecided{flowWorld: w, id: w.approvalAt(page)}
		u.digest = w.approvalOf(u.id).Digest
		u.path, u.seen = "/me/tool-approvals/"+ids.Format(u.id), fmt.Sprintf(`{"arguments_digest":%q}`, u.digest)
		retried := make(chan answer, 1)
		go func() { a, _, _ := w.continued(token, 500, state); retried <- a }() // it accepts the input request, and waits

		attempts := w.withoutBrowser(credentials, ada.sessionCookie())
		attempts = append(attempts, attempt{"another user's session", []string{"Cookie", "__session=" + eve.sessionCookie(), "Origin", w.base}})
		for _, one := range attempts {
			u.expectRefused(one)
		}
		for name, credential := range credentials {
			u.expectRefusedOnBackend(name, credential)
		}
		u.expectRefusedForms(ada.sessionCookie())
		w.expectNoApprovalByCall(token, u.expectPending)

		if status, _, text := ada.send("POST", w.base+u.path+"/approve", "application/json", u.seen); status != http.StatusOK {
			t.Fatalf("the user's session: %d %s", status, text)
		}
		if a := w.approvalOf(u.id); a.Status != people.ApprovalApproved && a.Status != people.ApprovalUsed || a.DecidedBy != w.userOf("ada@example.com") {
			t.Errorf("the approval is %s by %d", a.Status, a.DecidedBy)
		}
		a := <-retried
		if !strings.Contains(a.raw, `"open"`) { // it waited for longer than a call waits
			a, _, _ = w.continued(token, 500, state)
		}
		if !strings.Contains(a.raw, `"open"`) || w.up.sentTo("/payments") != 1 {
			t.Errorf("the approved call: %s", a.raw)
		}
	})
}

// expectNoApprovalByCall sends calls that claim to be approved: by responses to the input request, by arguments, by
// _meta and by headers.
func (w *flowWorld) expectNoApprovalByCall(token string, pending func(string)) {
	w.T.Helper()
	const own = `"name":"pay","arguments":{"cents":500,"note":"for the order"}`
	const capabilities = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{"url":{},"form":{}}}`
	for name, params := range map[string]string{
		"an accepted response":       own + `,"inputResponses":{"approval":{"action":"accept"}}`,
		"an accepted form":           own + `,"inputResponses":{"approval":{"action":"accept","content":{"approved":true,"status":"approved"}}}`,
		"a response that approves":   own + `,"inputResponses":{"approval":{"action":"approve"}}`,
		"a response by another name": own + `,"inputResponses":{"approved":{"action":"accept"},"approval":true}`,
		"_meta":                      own,
	} {
		meta := `,"_meta":{` + capabilities + `,"approved":true,"dev.cardea.iam/approval":{"status":"approved"},"dev.cardea.iam/approved":true}`
		a := w.post("support", token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+meta+`}}`,
			"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "pay", "X-Approved", "true", "X-Approval", "approved")
		if !strings.Contains(a.raw, `"resultType":"input_required"`) && a.status != 400 {
			w.T.Errorf("%s: %d %s", name, a.status, a.raw)
		}
		pending(name)
		older := w.post("support", token, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+params+`}}`, "X-Approved", "true")
		if code, _, _ := failureOf(older); code != "approval_required" && older.status != 400 {
			w.T.Errorf("%s under an older revision: %d %s", name, older.status, older.raw)
		}
		pending(name + " under an older revision")
	}
	for _, arguments := range []string{`{"cents":500,"note":"for the order","approved":true}`, `{"cents":500,"note":"for the order","approval":"approved"}`} {
		if a := w.post("support", token, callBody("pay", arguments)); !strings.Contains(a.raw, `"code":"invalid_arguments"`) {
			w.T.Errorf("the arguments %s: %s", arguments, a.raw)
		}
		pending("an argument")
	}
	if a := w.directWith(token, "pay", `{"arguments":{"cents":500,"note":"for the order"},"approved":true}`); a.Code != 400 {
		w.T.Errorf("a member without MCP: %d %s", a.Code, a.Body)
	}
	pending("a member without MCP")
}
