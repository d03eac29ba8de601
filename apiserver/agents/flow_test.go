package agents_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

const (
	// redirectURI is that of the tests' client. No program listens there: the test hands the address on.
	redirectURI = "http://127.0.0.1:33418/callback"
	// verifier and challenge are those of RFC 7636, appendix B.
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// flowWorld is a world whose users, clients and tokens come from the server itself: clients register, users sign up in
// browsers, and the agent and its authorization server have the address of the server.
type flowWorld struct {
	*world
	base string
}

func newFlowWorld(t *testing.T, in *world) *flowWorld {
	t.Helper()
	w := &flowWorld{world: in, base: strings.Replace(in.Server.URL, "127.0.0.1", "localhost", 1)}
	app := w.DeclareOAuthApp(w.base)
	app.AllowDynamicClientRegistration = true
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", app)
	w.DeclareOAuthScope("read", document.OAuthScope{Scope: "orders:read", DisplayName: "See orders"})
	w.DeclareOAuthScope("write", document.OAuthScope{Scope: "orders:write", DisplayName: "Change orders"})
	w.declareTool("cancel-order", document.AITool{
		Name: "Cancel an order", Method: "POST", Endpoint: w.up.URL + "/cancellations", Permissions: []string{"orders:write"},
		RequestBodySchema: []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}},
	})
	w.declareTool("pay", document.AITool{
		Name: "Pay", Method: "POST", Endpoint: w.up.URL + "/payments", RequiresUserApproval: true,
		RequestBodySchema: []schemafield.Field{{Name: "cents", FieldType: "INTEGER", Required: true}, {Name: "note", FieldType: "STRING"}},
	})
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, Tools: []string{"find-order", "cancel-order", "pay"}, URL: w.at("support"), OAuthApp: "portal", Permissions: []string{"orders:read"},
	})
	w.Eventually("the agent accepts tokens", func() bool {
		return strings.Contains(w.post("support", "", listing).header.Get("Www-Authenticate"), `scope="orders:read"`)
	})
	return w
}

// browser is a user's browser.
type browser struct {
	w      *flowWorld
	client *http.Client
}

func (w *flowWorld) browser() *browser {
	w.T.Helper()
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &browser{w, &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// send sends a request with a body of a media type, "" for none, as a page of the host does.
func (b *browser) send(method, address, mediaType, body string) (status int, location, raw string) {
	b.w.T.Helper()
	r, err := http.NewRequestWithContext(b.w.T.Context(), method, address, strings.NewReader(body))
	b.w.Must(err)
	r.Header.Set("Accept", "text/html")
	if mediaType != "" {
		r.Header.Set("Content-Type", mediaType)
		r.Header.Set("Origin", b.w.base)
	}
	resp, err := b.client.Do(r)
	b.w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	b.w.Must(err)
	return resp.StatusCode, resp.Header.Get("Location"), string(text)
}

// ask sends JSON to the end-user API, which must accept it, and returns the response.
func (b *browser) ask(path string, body map[string]any) (answer struct {
	Data    map[string]any
	Session struct {
		SignupAttempts []struct{ ID string } `json:"signup_attempts"`
	}
}) {
	b.w.T.Helper()
	sent, err := json.Marshal(body)
	b.w.Must(err)
	status, _, raw := b.send("POST", b.w.base+path, "application/json", string(sent))
	if status != http.StatusOK {
		b.w.T.Fatalf("POST %s: %d %s", path, status, raw)
	}
	b.w.Must(json.Unmarshal([]byte(raw), &answer))
	return answer
}

// signUp creates an account, which is signed in.
func (b *browser) signUp(email string) {
	b.w.T.Helper()
	begun := b.ask("/auth/signup", map[string]any{"email": email, "password": "correct horse battery staple"})
	b.ask("/auth/attempt-verification", map[string]any{"signup_attempt_id": begun.Session.SignupAttempts[0].ID, "code": b.w.CodeFor(email, 1)})
}

// authorize opens an authorization request, allows it, and returns the address to which the browser is redirected.
func (b *browser) authorize(address string) *url.URL {
	b.w.T.Helper()
	status, location, raw := b.send("GET", address, "", "")
	page, err := url.Parse(location)
	b.w.Must(err)
	request, isPage := strings.CutPrefix(page.Path, "/authorize/")
	if status != http.StatusSeeOther || !isPage {
		b.w.T.Fatalf("%s: %d %s %s", address, status, location, raw)
	}
	decided := b.ask("/session/authorizations/"+request, map[string]any{"decision": "allow"})
	back, err := url.Parse(fmt.Sprint(decided.Data["redirect_to"]))
	b.w.Must(err)
	return back
}

// formOf returns the fields of the first form of a page that has a button, and its address.
func formOf(page, button string) (action string, fields url.Values) {
	root, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return "", nil
	}
	attribute := func(n *html.Node, name string) string {
		for _, one := range n.Attr {
			if one.Key == name {
				return one.Val
			}
		}
		return ""
	}
	for form := range root.Descendants() {
		if form.Data != "form" {
			continue
		}
		values, found := url.Values{}, false
		for n := range form.Descendants() {
			if n.Data == "input" {
				values.Set(attribute(n, "name"), attribute(n, "value"))
			}
			found = found || n.Data == "button" && attribute(n, "value") == button
		}
		if found {
			values.Set("action", button)
			return attribute(form, "action"), values
		}
	}
	return "", nil
}

// decide opens the page of an approval and presses a button. It returns the page as it was shown before.
func (b *browser) decide(address, button string) (shown string) {
	b.w.T.Helper()
	status, _, shown := b.send("GET", address, "", "")
	action, fields := formOf(shown, button)
	if status != http.StatusOK || fields == nil {
		b.w.T.Fatalf("%s has no button %s: %d %s", address, button, status, shown)
	}
	if status, _, raw := b.send("POST", b.w.base+action, "application/x-www-form-urlencoded", fields.Encode()); status != http.StatusSeeOther && status != http.StatusOK {
		b.w.T.Fatalf("%s: %d %s", button, status, raw)
	}
	return shown
}

// register registers a public client, and returns its id.
func (w *flowWorld) register() string {
	w.T.Helper()
	status, _, raw := w.browser().send("POST", w.base+"/oauth/portal/register", "application/json",
		`{"client_name":"Agent","redirect_uris":["`+redirectURI+`"],"token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`)
	var made struct {
		ClientID string `json:"client_id"`
	}
	w.Must(json.Unmarshal([]byte(raw), &made))
	if status != http.StatusCreated {
		w.T.Fatalf("the registration: %d %s", status, raw)
	}
	return made.ClientID
}

// tokenFor lets the user of a browser authorize a client, and returns the client's access token for the agent.
func (w *flowWorld) tokenFor(b *browser, client, scope string) string {
	w.T.Helper()
	back := b.authorize(w.base + "/oauth/portal/authorize?" + url.Values{
		"client_id": {client}, "redirect_uri": {redirectURI}, "response_type": {"code"}, "scope": {scope}, "state": {"st"}, "resource": {w.at("support")},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}.Encode())
	status, _, raw := w.browser().send("POST", w.base+"/oauth/portal/token", "application/x-www-form-urlencoded", url.Values{
		"grant_type": {"authorization_code"}, "client_id": {client}, "code": {back.Query().Get("code")}, "redirect_uri": {redirectURI}, "code_verifier": {verifier}, "resource": {w.at("support")},
	}.Encode())
	var issued struct {
		AccessToken string `json:"access_token"`
	}
	w.Must(json.Unmarshal([]byte(raw), &issued))
	if status != http.StatusOK || issued.AccessToken == "" {
		w.T.Fatalf("the token: %d %s", status, raw)
	}
	return issued.AccessToken
}

// continued is a modern call of pay, with the requestState of the call before ("" for a new call).
func (w *flowWorld) continued(token string, cents int, state string) (answer, string, string) {
	w.T.Helper()
	parameters := map[string]any{"name": "pay", "arguments": map[string]any{"cents": cents, "note": "for the order"}, "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"url": map[string]any{}}},
	}}
	if state != "" {
		parameters["requestState"], parameters["inputResponses"] = state, map[string]any{"approval": map[string]any{"action": "accept"}}
	}
	var body bytes.Buffer
	w.Must(json.NewEncoder(&body).Encode(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": parameters}))
	a := w.post("support", token, body.String(), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "pay")
	var got struct {
		Result struct {
			InputRequests struct {
				Approval struct{ Params struct{ URL string } }
			}
			RequestState string
		}
	}
	w.Must(json.Unmarshal([]byte(a.raw), &got))
	return a, got.Result.InputRequests.Approval.Params.URL, got.Result.RequestState
}

// sentTo returns how many requests a path of the API got.
func (u *upstream) sentTo(path string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.requests {
		if one.url == path {
			n++
		}
	}
	return n
}

func TestUserApprovesACallOnItsPage(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newFlowWorld(t, newWorldOver(t, engine))
		ada, eve := w.browser(), w.browser()
		ada.signUp("ada@example.com")
		eve.signUp("eve@example.com")
		client := w.register()
		token := w.tokenFor(ada, client, "orders:read")

		a, page, state := w.continued(token, 1234, "")
		if !strings.HasPrefix(page, w.base+"/approvals/") || state == "" || w.up.sentTo("/payments") != 0 {
			t.Fatalf("the call: %s", a.raw)
		}
		if status, location, _ := w.browser().send("GET", page, "", ""); status != http.StatusSeeOther || !strings.Contains(location, "/sign-in") {
			t.Errorf("without a session: %d %s", status, location)
		}
		if status, _, raw := eve.send("GET", page, "", ""); status != http.StatusNotFound || strings.Contains(raw, "1234") {
			t.Errorf("another user sees the call: %d %s", status, raw)
		}
		shown := ada.decide(page, "approve")
		for _, want := range []string{"1234", "for the order", "Pay", "Support", "127.0.0.1"} {
			if !strings.Contains(strings.ToLower(shown), strings.ToLower(want)) {
				t.Errorf("the page does not show %q", want)
			}
		}
		if a, _, _ := w.continued(token, 1234, state); !strings.Contains(a.raw, `"open"`) || w.up.sentTo("/payments") != 1 {
			t.Fatalf("the approved call: %s", a.raw)
		}
		if request, _ := w.up.last(); request.body != `{"cents":1234,"note":"for the order"}` || request.header.Get("Cookie") != "" || request.header.Get("Authorization") != "" {
			t.Errorf("the tool got %+v", request)
		}
		if a, _, _ := w.continued(token, 1234, state); strings.Contains(a.raw, `"open"`) || w.up.sentTo("/payments") != 1 {
			t.Errorf("the approval is used twice: %s", a.raw)
		}

		// A client of an older revision gets the address as a text, and calls again.
		a = w.post("support", token, pay(99))
		code, _, page := failureOf(a)
		if code != "approval_required" {
			t.Fatalf("the older client: %s", a.raw)
		}
		ada.decide(page, "approve")
		if a := w.post("support", token, pay(99)); !strings.Contains(a.raw, `"open"`) || w.up.sentTo("/payments") != 2 {
			t.Errorf("the approved call of the older client: %s", a.raw)
		}

		_, page, state = w.continued(token, 5, "")
		ada.decide(page, "deny")
		if a, _, _ := w.continued(token, 5, state); !strings.Contains(a.raw, `"code":"approval_denied"`) || w.up.sentTo("/payments") != 2 {
			t.Errorf("the denied call: %s", a.raw)
		}
	})
}
