package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// views are the views in the console's menu, each with a text that it shows once it is loaded.
var views = []struct{ name, title, shows string }{
	{"overview", "Overview", "Newest sign-ins"}, {"decisions", "Decisions", "100000/1min"}, {"people", "People", "person2@example.com"},
	{"people/1", "People", "person1@example.com"}, {"organizations", "Organizations", "organization-2"}, {"keys", "Keys", "auditor"},
	{"apps", "OAuth apps", "orders:write"}, {"agents", "Agents", "https://id.acme.example/mcp/support"}, {"agents/AGENT", "Agents", "By tool"}, {"calls", "Calls", "invalid_arguments"},
	{"calls/CALL", "Calls", "Digest of the arguments"}, {"approvals", "Approvals", "cancel-order"},
	{"webhooks", "Webhooks", "Disabled"}, {"webhooks/HOOK", "Webhooks", "HTTP status"}, {"deliveries/DELIVERY", "Webhooks", "no complete response within the timeout"}, {"resources", "Resources", "RateLimitScheme"}, {"audit", "Audit", "user.created"},
}

// entered opens the console and signs in by keyboard.
func (w *consoleWorld) entered(t *testing.T, l look, languages, key string) *tab {
	t.Helper()
	tb := open(t, l, languages)
	tb.run(chromedp.Navigate(w.backend.URL + "/console"))
	tb.until(`document.activeElement?.type === "password"`)
	tb.keys(key + kb.Enter)
	tb.until(`document.querySelector("#main h1") !== null`)
	return tb
}

// goTo opens a view by its address, and waits until it shows a text.
func (tb *tab) goTo(view, shows string) {
	tb.t.Helper()
	tb.do(`location.hash = "#/` + view + `"`)
	tb.sees(shows)
	tb.until(`document.querySelector("[aria-busy]") === null`)
}

func TestEveryViewOfTheConsoleIsAccessibleAtEverySize(t *testing.T) {
	w := newConsoleWorld(t)
	for _, l := range []look{{360, false}, {360, true}, {1280, false}, {1280, true}} {
		t.Run(l.String(), func(t *testing.T) {
			tb := open(t, l, "en")
			tb.run(chromedp.Navigate(w.backend.URL + "/"))
			tb.sees("This is the backend listener")
			tb.expectAccessible("welcome")
			tb.expectNarrow("welcome")
			tb.picture("welcome-" + l.String())
			tb.run(chromedp.Navigate(w.backend.URL + "/console"))
			tb.sees("Sign in with an API key")
			tb.expectAccessible("sign-in")
			tb.expectNarrow("sign-in")
			tb.picture("console-signin-" + l.String())
			tb.keys(w.admin + kb.Enter)
			for _, view := range views {
				tb.goTo(w.address(view.name), view.shows)
				if view.name == "resources" {
					tb.do(`document.querySelector("details").open = true`)
				}
				tb.expectAccessible(view.name)
				tb.expectNarrow(view.name)
				tb.picture("console-" + strings.ReplaceAll(view.name, "/", "-") + "-" + l.String())
			}
		})
	}
}

func TestTheConsoleSpeaksGerman(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "de-CH,de", w.admin)
	tb.sees("Angemeldete Personen")
	if got := eval[string](tb, `document.documentElement.lang`); got != "de" {
		t.Errorf("the page says that it is %q", got)
	}
	tb.picture("console-overview-german")
	tb.tabTo("Sprache")
	tb.keys("E")
	tb.sees("People who signed in")
	if got := eval[string](tb, `document.documentElement.lang`); got != "en" {
		t.Errorf("the page says that it is %q", got)
	}
}

func TestConsoleNumbersMatchTheAPI(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	now := time.Now().UTC()
	for _, period := range [][2]time.Time{
		{now.Add(-10 * 24 * time.Hour), now.Add(-3*24*time.Hour - 90*time.Minute)}, {now.Add(-25 * 24 * time.Hour), now}, {now.Add(-30 * time.Hour), now.Add(-20 * time.Hour)},
	} {
		from, to := period[0].Truncate(time.Second), period[1].Truncate(time.Second)
		tb.goTo("overview", "Newest sign-ins")
		const form = "2006-01-02T15:04:05"
		tb.do(fmt.Sprintf(`(() => { const [from, to] = document.querySelectorAll(".period input"); from.value = %q; to.value = %q;
			document.querySelector(".numbers").remove(); document.querySelector(".period").requestSubmit(); return true; })()`, from.Format(form), to.Format(form)))
		tb.until(`document.querySelectorAll("[data-number]").length === 5`)
		var summary map[string]any
		w.ask("GET", "/analytics?from="+from.Format(time.RFC3339)+"&to="+to.Format(time.RFC3339), "", &summary)
		for name, shown := range eval[map[string]string](tb, `Object.fromEntries([...document.querySelectorAll("[data-number]")].map((e) => [e.dataset.number, e.textContent]))`) {
			if want := fmt.Sprint(summary[name]); shown != want {
				t.Errorf("%v: %s is %s, the API says %s", period, name, shown, want)
			}
		}
		days := eval[[][]string](tb, `[...document.querySelectorAll(".scrolled tbody tr")].map((r) => [...r.cells].slice(1).map((c) => c.textContent)).reverse()`)
		metrics := summary["daily_metrics"].([]any)
		if len(days) != len(metrics) {
			t.Fatalf("%d days are shown, the API says %d", len(days), len(metrics))
		}
		for i, metric := range metrics {
			of := metric.(map[string]any)
			if days[i][0] != fmt.Sprint(of["signins"]) || days[i][1] != fmt.Sprint(of["signups"]) {
				t.Errorf("%v: %v is shown as %v", period, of, days[i])
			}
		}
	}
}

// A user that was disabled in the console is signed out within a second; the administrator uses only the keyboard.
func TestDisabledUserIsSignedOutWithinASecond(t *testing.T) {
	w := newConsoleWorld(t)
	if status := w.ask("PUT", "/users/2/password", `{"password":"a slow train through the hills"}`, nil); status != 204 {
		t.Fatal(status)
	}
	person := w.visitor()
	if status, user := person.send("POST", "/auth/signin", `{"strategy":"password","email":"person2@example.com","password":"a slow train through the hills"}`); status != 200 || user != "2" {
		t.Fatalf("%d, signed in is %q", status, user)
	}
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.tabTo("People")
	tb.keys(kb.Enter)
	tb.sees("person2@example.com")
	tb.tabTo("Search people")
	tb.keys("person2@" + kb.Enter)
	tb.sees("1 in total")
	tb.tabTo("Person 2 Example")
	tb.keys(kb.Enter)
	tb.sees("Signed in")
	tb.tabTo("Disable")
	tb.keys(kb.Enter)
	tb.sees("is signed out everywhere immediately")
	tb.picture("console-disable")
	tb.expectAccessible("the dialog")
	tb.tabTo("Disable")
	tb.keys(kb.Enter)
	tb.sees("Disabled and signed out everywhere.")
	shown := time.Now()
	for {
		_, user := person.send("GET", "/session", "")
		if user == "" {
			break
		}
		if time.Since(shown) > time.Second {
			t.Fatalf("a second later %q is still signed in", user)
		}
	}
	tb.sees("Not signed in.")
}

func TestUserIsDeletedOnlyAfterNameWasTyped(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("people/3", "person3@example.com")
	tb.tabTo("Delete")
	tb.keys(kb.Enter)
	tb.sees("This cannot be undone")
	tb.keys("person3@example.co" + kb.Enter)
	if !eval[bool](tb, `document.querySelector("dialog button[type=submit]").disabled`) {
		t.Error("the button works before the whole name is typed")
	}
	tb.keys("m" + kb.Enter)
	tb.sees("The account of person3@example.com is deleted.")
	if status := w.ask("GET", "/users/3", "", nil); status != 404 {
		t.Errorf("the account is %d", status)
	}
	tb.goTo("people/4", "person4@example.com")
	tb.tabTo("Delete")
	tb.keys(kb.Enter)
	tb.sees("This cannot be undone")
	tb.keys(kb.Escape)
	tb.until(`document.querySelector("dialog") === null && document.activeElement.textContent === "Delete"`)
	if status := w.ask("GET", "/users/4", "", nil); status != 200 {
		t.Errorf("the account is %d", status)
	}
}

func TestHelpDeskUsesTheConsole(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("people/5", "person5@example.com")
	tb.sees("Authenticator app")
	tb.tabTo("Create a temporary code")
	tb.keys(kb.Enter)
	tb.sees("changes nothing else")
	tb.expectAccessible("the dialog of a temporary code")
	tb.tabTo("Create a temporary code")
	tb.keys(kb.Enter)
	tb.sees("is not shown again")
	if code := eval[string](tb, `document.querySelector(".notice code").textContent`); len(code) != len("k3pd-9x0m-7tqa") {
		t.Errorf("the code is %q", code)
	}
	tb.expectAccessible("a temporary code")
	tb.picture("console-temporary-code")
	tb.tabTo("Remove Phone")
	tb.keys(kb.Enter)
	tb.sees("Sessions continue")
	tb.tabTo("Remove")
	tb.keys(kb.Enter)
	tb.sees("Phone is removed.")
	tb.tabTo("Reset second factors")
	tb.keys(kb.Enter)
	tb.sees("needs only the first factor")
	tb.keys("person5@example.com" + kb.Enter)
	tb.sees("Factors removed: 1.")
	tb.sees("No second factor.")
	var left struct {
		TwoStep  bool `json:"two_step"`
		Passkeys []any
	}
	if status := w.ask("GET", "/users/5/second-factors", "", &left); status != 200 || left.TwoStep || len(left.Passkeys) != 0 {
		t.Errorf("%d: %+v", status, left)
	}
}

func TestAKeyIsFoundInTheConsoleByTheIDThatDecisionsShow(t *testing.T) {
	w := newConsoleWorld(t)
	var made struct {
		Key struct {
			KeyID string `json:"key_id"`
		}
	}
	for _, name := range []string{"Customer 16", "Customer 17"} {
		if status := w.ask("POST", "/api-auth/apps/shop/keys", `{"name":"`+name+`","permissions":["orders:read"]}`, &made); status != 200 {
			t.Fatal(status)
		}
	}
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("keys", "auditor")
	tb.tabTo("App")
	tb.keys("S")
	tb.sees("Customer 16")
	tb.tabTo("Key ID")
	tb.keys(made.Key.KeyID + kb.Enter)
	tb.until(`!document.body.innerText.includes("Customer 16") && document.body.innerText.includes("Customer 17")`)
	tb.tabTo(made.Key.KeyID)
	tb.keys(kb.Enter)
	tb.sees("api_key.created")
	if rows := eval[int](tb, `document.querySelectorAll("tbody tr").length`); rows != 1 {
		t.Errorf("%d audit records are of the key, want 1", rows)
	}
}

func TestRuntimeKeyIsRevoked(t *testing.T) {
	w := newConsoleWorld(t)
	var made struct{ Secret string }
	if status := w.ask("POST", "/api-auth/apps/shop/keys", `{"name":"Customer 17","permissions":["orders:read"]}`, &made); status != 200 {
		t.Fatal(status)
	}
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("keys", "auditor")
	if eval[int](tb, `document.querySelectorAll("td button").length`) != 0 {
		t.Error("declared keys can be revoked")
	}
	tb.tabTo("App")
	tb.keys("S")
	tb.sees("Customer 17")
	tb.tabTo("Revoke Customer 17")
	tb.keys(kb.Enter)
	tb.tabTo("Reason (optional)")
	tb.keys("leaked" + kb.Enter)
	tb.sees("Customer 17 is revoked.")
	tb.sees("The app has no such keys.")
	var list struct {
		Keys []struct {
			RevokedReason string `json:"revoked_reason"`
		}
	}
	w.ask("GET", "/api-auth/apps/shop/keys?include_inactive=true", "", &list)
	if len(list.Keys) != 1 || list.Keys[0].RevokedReason != "leaked" {
		t.Errorf("%+v", list)
	}
}

func TestMarkupInNamesIsShownAsText(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	for _, view := range views {
		tb.goTo(w.address(view.name), view.shows)
		if view.name != "audit" && view.name != "overview" { // the other views show such a name
			if view.name == "resources" {
				tb.do(`document.querySelector("details").open = true`)
			}
			tb.sees(`onerror="document.title='taken'"`)
		}
		if got := eval[string](tb, `document.title + document.querySelectorAll("#console img, #console script").length`); strings.Contains(got, "taken") && !strings.Contains(got, "<") || !strings.HasSuffix(got, "0") {
			t.Errorf("%s: markup took effect: %s", view.name, got)
		}
	}
}

func TestConsoleKeyIsOnlyInMemory(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("people", "person2@example.com")
	kept := eval[string](tb, `JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href, history.state, document.documentElement.outerHTML,
		[...document.querySelectorAll("input")].map((i) => i.value)])`)
	if strings.Contains(kept, w.admin) {
		t.Error("the key is kept somewhere")
	}
	tb.run(chromedp.Reload())
	tb.until(`document.activeElement?.type === "password" && document.activeElement.value === ""`)
	tb.expects("401")
	tb.keys("ck_nothing" + kb.Enter)
	tb.sees("The key is not accepted")
	tb.keys(strings.Repeat(kb.Backspace, 10) + "not a key!" + kb.Enter)
	tb.sees("only letters, digits and underscores")
}

// The key is kept for the tab only if the user chooses so, and only as long as the tab is signed in.
func TestConsoleKeyIsKeptForTheTabOnRequest(t *testing.T) {
	w := newConsoleWorld(t)
	tb := open(t, look{width: 1280}, "en")
	tb.run(chromedp.Navigate(w.backend.URL + "/console"))
	tb.until(`document.activeElement?.type === "password"`)
	tb.sees("anyone at this computer can read it")
	if eval[bool](tb, `document.querySelector("input[type=checkbox]").checked`) {
		t.Error("the option to keep the key is checked by default")
	}
	tb.keys(w.admin)
	tb.tabTo("Keep the key for this tab")
	tb.keys(" ")
	tb.tabTo("Sign in")
	tb.keys(kb.Enter)
	tb.until(`document.querySelector("#main h1") !== null`)
	tb.goTo("people", "person2@example.com")
	tb.run(chromedp.Reload())
	tb.until(`document.querySelector("#main h1")?.textContent === "People"`)
	tb.sees("person2@example.com")
	elsewhere := eval[string](tb, `JSON.stringify([{...localStorage}, document.cookie, location.href, history.state, document.documentElement.outerHTML])`)
	if strings.Contains(elsewhere, w.admin) {
		t.Error("the key is kept outside the session storage")
	}
	other := open(t, look{width: 1280}, "en")
	other.run(chromedp.Navigate(w.backend.URL + "/console"))
	other.until(`document.activeElement?.type === "password"`)
	tb.tabTo("Sign out")
	tb.keys(kb.Enter)
	tb.until(`document.activeElement?.type === "password" && sessionStorage.length === 0`)
	tb.run(chromedp.Reload())
	tb.until(`document.activeElement?.type === "password"`)
	// A kept key that the server no longer accepts is dropped.
	tb.expects("401")
	tb.do(`sessionStorage.setItem("cardea-console-key", "ck_nothing")`)
	tb.run(chromedp.Reload())
	tb.sees("The key is no longer accepted")
	tb.until(`sessionStorage.length === 0`)
}

func TestOAuthClientsAreDisabledAndGrantsRevoked(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("apps", "orders:write")
	tb.sees("Registered itself")
	tb.sees("Declared")
	if eval[int](tb, `[...document.querySelectorAll("button")].filter((b) => b.getAttribute("aria-label")?.startsWith("Disable Reports")).length`) != 0 {
		t.Error("a declared client can be disabled")
	}
	tb.tabTo("Disable Agent")
	tb.keys(kb.Enter)
	tb.sees("and its tokens immediately")
	tb.picture("console-disable-client")
	tb.expectAccessible("the dialog")
	tb.tabTo("Disable")
	tb.keys(kb.Enter)
	tb.sees("Agent is disabled.")
	var list struct {
		Clients []struct {
			Name   string `json:"client_name"`
			Active bool   `json:"is_active"`
		}
	}
	w.ask("GET", "/oauth/apps/portal/clients", "", &list)
	for _, c := range list.Clients {
		if c.Active == (c.Name == "Agent") {
			t.Errorf("%s: active %t", c.Name, c.Active)
		}
	}
	tb.tabTo("Grants of Agent")
	tb.keys(kb.Enter)
	tb.until(`document.querySelectorAll("a[href^='#/people/']").length === 1`)
	tb.tabTo("Revoke the grant of user 2 to client 77")
	tb.keys(kb.Enter)
	tb.sees("ends immediately, with all its tokens")
	tb.tabTo("Revoke")
	tb.keys(kb.Enter)
	tb.sees("The grant is revoked.")
	tb.sees("No grant matches.")
	var grants struct{ Grants []map[string]any }
	w.ask("GET", "/oauth/apps/portal/grants", "", &grants)
	if len(grants.Grants) != 1 || grants.Grants[0]["granted_by_user_id"] != "3" {
		t.Errorf("%v", grants)
	}
}

func TestViewWithoutPermissionNamesThePermission(t *testing.T) {
	w := newConsoleWorld(t)
	tb := open(t, look{width: 1280}, "en")
	tb.expects("403")
	tb.run(chromedp.Navigate(w.backend.URL + "/console"))
	tb.sees("Sign in with an API key")
	tb.until(`document.activeElement?.type === "password"`)
	tb.keys(w.auditor + kb.Enter)
	for view, permission := range map[string]string{
		"overview": "analytics:read", "decisions": "decisions:read", "people": "users:read", "organizations": "organizations:read", "keys": "api_auth_apps:read", "apps": "oauth_apps:read", "resources": "resources:read",
		"agents": "ai_agents:read", "agents/1": "ai_agents:read", "approvals": "ai_agents:read",
	} {
		tb.goTo(view, "It needs the permission "+permission)
	}
	tb.picture("console-forbidden")
	tb.goTo("audit", "user.created")
	tb.goTo("calls", "invalid_arguments")
	tb.goTo(w.address("calls/CALL"), "Digest of the arguments")
	// An agent is shown without the numbers that the key may not read.
	tb.run(chromedp.Reload())
	tb.until(`document.activeElement?.type === "password"`)
	tb.keys(w.reader + kb.Enter)
	tb.goTo(w.address("agents/AGENT"), "cancel-order")
	tb.sees("It needs the permission analytics:read")
	for _, view := range []string{"calls", w.address("calls/CALL")} {
		tb.goTo(view, "It needs the permission audit:read")
	}
}

func TestAgentOfTheConsoleShowsItsToolsAndNumbers(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("agents", "2 in total")
	tb.tabTo("Search agents")
	tb.keys("support" + kb.Enter)
	tb.sees("1 in total")
	tb.tabTo("Support " + hostile)
	tb.keys(kb.Enter)
	tb.until(`document.querySelectorAll("[data-number]").length === 8`)
	for tool, want := range map[string]string{
		"cancel-order": "api|POST api.acme.example|Needed|No|orders:write|Callable", "find-order": "api|GET api.acme.example:8443|Not needed|Yes|None|Callable", "draw-chart": "function|None|Not needed|No|None|Not callable",
	} {
		got := eval[string](tb, `[...[...document.querySelectorAll("tbody tr")].find((r) => r.cells[0].querySelector("code")?.textContent === `+quoted(tool)+`).cells].slice(1).map((c) => c.textContent).join("|")`)
		if got != want {
			t.Errorf("%s is shown as %s, want %s", tool, got, want)
		}
	}
	to := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	for days, label := range map[int]string{7: "7 days", 30: "30 days"} {
		tb.do(`document.querySelector(".numbers").remove(); [...document.querySelectorAll("button")].find((b) => b.textContent === ` + quoted(label) + `).click()`)
		tb.until(`document.querySelectorAll("[data-number]").length === 8`)
		var summary struct {
			Calls, Failed, Denied int
			RateLimited           int `json:"rate_limited"`
			Approvals             struct{ Requested, Approved, Denied, Expired int }
		}
		w.ask("GET", fmt.Sprintf("/ai/agents/%d/analytics?from=%s&to=%s", w.agent, to.AddDate(0, 0, -days).Format(time.RFC3339), to.Format(time.RFC3339)), "", &summary)
		want := fmt.Sprint(summary.Calls, summary.Failed, summary.Denied, summary.RateLimited, summary.Approvals.Requested, summary.Approvals.Approved, summary.Approvals.Denied, summary.Approvals.Expired)
		if got := eval[string](tb, `[...document.querySelectorAll("[data-number]")].map((e) => e.textContent).join(" ")`); got != want || summary.Calls == 0 {
			t.Errorf("%s: %s is shown, the API says %s", label, got, want)
		}
		if rows := eval[int](tb, `document.querySelectorAll(".scrolled tbody tr").length`); rows != days {
			t.Errorf("%s: %d days are shown", label, rows)
		}
	}
}

// Calls are found by agent, tool, user and outcome, page by page; each opens with its whole record.
func TestCallsAreFoundInTheConsole(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	rows := `document.querySelectorAll("tbody tr").length`
	tb.goTo("calls", "invalid_arguments")
	tb.until(rows + ` === 25`)
	for _, page := range []struct {
		button string
		rows   int
	}{{"Older", 5}, {"Newest", 25}} {
		tb.do(`[...document.querySelectorAll("button")].find((b) => b.textContent === ` + quoted(page.button) + `).click()`)
		tb.until(fmt.Sprint(rows, " === ", page.rows))
	}
	tb.goTo("calls?user_id=99", "No matching calls.")
	tb.goTo("calls?", "invalid_arguments")
	tb.tabTo("User ID")
	tb.keys("2" + kb.Enter)
	tb.until(rows + ` === 1`)
	tb.tabTo("Clear")
	tb.keys(kb.Enter)
	tb.until(rows + ` === 25`)
	tb.goTo(w.address("calls?agent_id=AGENT"), "invalid_arguments")
	tb.tabTo("Outcome")
	tb.keys("F")
	tb.tabTo("Show")
	tb.keys(kb.Enter)
	tb.until(rows + ` === 1`)
	tb.goTo("calls?agent_id=17", "No matching calls.")
	tb.goTo("calls?tool_id=17", "No matching calls.")
	tb.goTo(w.address("calls/CALL"), "Digest of the arguments")
	for _, what := range []string{"Call of cancel-order", "Duration (ms) 48", "Of this, the tool (ms) 41", "Bytes sent 23", "Bytes received 19", "Status of the tool 502", "Failed", "API key 7Gk2hPz0QwXe", "192.0.2.7", "2026-07-28", "note", "Not kept."} {
		tb.sees(what)
	}
	tb.expects("404")
	tb.goTo("calls/999", "is the id of no recorded call of the deployment")
	tb.goTo("agents/17", "is the id of no agent of the deployment")
}

func TestApprovalsAreFoundInTheConsole(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	rows := `document.querySelectorAll("tbody tr").length`
	tb.goTo("approvals", "cancel-order")
	tb.until(rows + ` === 2`)
	if eval[bool](tb, `document.body.innerText.includes("sealed")`) {
		t.Error("arguments are shown")
	}
	tb.tabTo("State")
	tb.keys("D")
	tb.until(rows + ` === 1 && document.querySelector("tbody .badge").textContent === "Denied"`)
	tb.goTo("approvals?agent_id=17", "No matching approvals.")
	tb.goTo(w.address("approvals?agent_id=AGENT"), "cancel-order")
	tb.until(rows + ` === 2`)
}

func TestFailedViewShowsRequestIDAndRetries(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.expects("503")
	for prefix, view := range map[string]string{"/users": "people", "/audit": "audit", "/resources": "resources", "/analytics": "overview", "/decisions": "decisions", "/organizations": "organizations", "/api-auth": "keys", "/oauth/apps": "apps", "/ai/mcp-servers": "agents", "/ai/tool-calls": "calls", "/ai/tool-approvals": "approvals", "/webhooks": "webhooks"} {
		w.refuses.Store(&prefix)
		tb.goTo(view, "the store is unavailable: try again")
		if id := eval[string](tb, `document.querySelector("[role=alert] code").textContent`); len(id) != 32 {
			t.Errorf("%s: the request is %q", view, id)
		}
		tb.expectAccessible("a failed " + view)
		w.refuses.Store(nil)
		tb.tabTo("Try again")
		tb.keys(kb.Enter)
		tb.until(`document.querySelector("[role=alert]:not(.problem)") === null && document.querySelector("[aria-busy]") === null`)
	}
	tb.picture("console-after-failure")
}

func TestDecisionsAreLive(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	tb.goTo("decisions", "100000/1min")
	allowed := `Number(document.querySelector("tbody tr td:nth-child(4) div").firstChild.textContent.replace(/\D/g, ""))`
	before := eval[int](tb, allowed)
	for range 5 {
		w.ask("GET", "/audit", "", nil)
	}
	tb.until(fmt.Sprintf("%s >= %d", allowed, before+5))
	tb.tabTo("Pause")
	tb.keys(" ")
	tb.sees("Resume")
}

// The reference page shows every document, and an operation can be tried with a key.
func TestReferencePageSendsRequests(t *testing.T) {
	w := newConsoleWorld(t)
	for _, l := range []look{{1280, false}, {360, true}} {
		tb := open(t, l, "en")
		for _, at := range []struct{ path, shows string }{{"/end-user/docs", "They can be read here"}, {"/decision/docs", "They can be read here"}, {"/docs", "Cardea management API"}} {
			tb.run(chromedp.Navigate(w.backend.URL + at.path))
			tb.sees(at.shows)
			tb.until(`document.querySelectorAll(".opblock").length > 1`)
		}
		opens := func(operation string) {
			t.Helper()
			tb.run(chromedp.Navigate(w.backend.URL + "/docs#/API%20keys/" + operation))
			tb.until(`document.querySelector("#operations-API_keys-` + operation + `.is-open .try-out button") !== null`)
		}
		// The page follows a link both if it is already open and if the link loads it.
		opens("createApiAuthApp")
		tb.run(chromedp.Navigate("about:blank"))
		opens("listApiAuthApps")
		tb.sees("Permission: api_auth_apps:read")
		tb.sees("Keys of our customers")
		tb.glimpse("reference-" + l.String())
		tb.run(
			chromedp.Click(chromedp.CSS(`.scheme-container .authorize`)), chromedp.WaitVisible(chromedp.CSS(`.auth-container input`)),
			chromedp.SendKeys(chromedp.CSS(`.auth-container input`), w.admin), chromedp.Click(chromedp.CSS(`.auth-btn-wrapper button[type=submit]`)),
			chromedp.Click(chromedp.CSS(`.btn-done`)), chromedp.Click(chromedp.CSS(`.opblock.is-open .try-out button`)),
			chromedp.WaitVisible(chromedp.CSS(`.opblock.is-open button.execute`)), chromedp.Click(chromedp.CSS(`.opblock.is-open button.execute`)),
		)
		tb.until(`document.querySelector(".live-responses-table .response .response-col_status")?.textContent.startsWith("200") === true`)
		tb.sees("operations")
	}
}
