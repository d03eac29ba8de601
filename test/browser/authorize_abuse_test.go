package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// Attacks on the page that grants access, and unusual but harmless uses of it.
func TestConsentPageResistsAbuse(t *testing.T) {
	t.Parallel()
	w := authorizing(t, nil)
	reports := w.party("Reports", nil)
	v := arrives(t, w.World, look{width: 1280}, true)
	v.signsUpOnTheWay(reports)
	v.isFramedByNobody(reports)
	v.isForgedByNobody(reports)
	v.decidesOnceInTwoTabs(reports)
	v.decidesTooLate(w, reports)
	v.isToldWhoIsUnverified(w)
	v.belongsNowhere(reports)
	v.isLedToNobodyUnproven(reports)
	v.leavesNothingBehind(reports)
}

// elsewhere serves a page of another origin.
func elsewhere(t *testing.T, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Elsewhere</title><style>:focus{outline:3px solid}</style><h1>Elsewhere</h1>`+body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// opensConsent starts another authorization request, and returns the address of the consent page.
func (v *person) opensConsent(p *party) string {
	v.t.Helper()
	v.asks(p, "openid email jobs:run", "prompt", "consent")
	v.reaches(p.name + " would like access")
	return eval[string](v.tab, "location.href")
}

func (v *person) isFramedByNobody(p *party) {
	v.t.Helper()
	page := v.opensConsent(p)
	v.expects("frame-ancestors")
	v.run(chromedp.Navigate(elsewhere(v.t.(*testing.T), `<iframe title="prize" src="`+html.EscapeString(page)+`"></iframe>`)))
	v.reaches("Elsewhere")
	v.complains("frame-ancestors")
}

// isForgedByNobody posts the form of the person's own page, with its token, from another origin.
func (v *person) isForgedByNobody(p *party) {
	v.t.Helper()
	page, before := v.opensConsent(p), p.times()
	token, user := eval[string](v.tab, `document.querySelector("[name=form_token]").value`), eval[string](v.tab, `document.querySelector("[name=form_user]").value`)
	v.run(chromedp.Navigate(elsewhere(v.t.(*testing.T), fmt.Sprintf(`<form method="post" action="%s"><input type="hidden" name="form_token" value="%s">
		<input type="hidden" name="form_user" value="%s"><input type="hidden" name="action" value="allow"><button>A prize</button></form>`, html.EscapeString(page), token, user))))
	v.reaches("Elsewhere")
	v.expects("status of 403")
	v.presses("A prize")
	v.reaches("This form came from elsewhere")
	if p.times() != before {
		v.t.Error("another site's page granted something")
	}
	v.run(chromedp.Navigate(page)) // the request still waits for a decision
	v.reaches(p.name + " would like access")
}

func (v *person) decidesOnceInTwoTabs(p *party) {
	v.t.Helper()
	page := v.opensConsent(p)
	other := *v
	other.tab = openIn(v.ctx, v.t, look{width: 1280}, "en")
	other.run(chromedp.Navigate(page))
	other.reaches(p.name + " would like access")
	v.presses("Allow")
	v.isBack(p, v.email, "")
	other.expects("status of 404")
	other.presses("Allow")
	other.beholds("This request is over", "consent-over")
	other.sees("Begin again at the app you came from")
}

func (v *person) decidesTooLate(w *oauthWorld, p *party) {
	v.t.Helper()
	v.opensConsent(p)
	w.Clock.Advance(11 * time.Minute)
	v.expects("status of 404")
	v.presses("Allow")
	v.reaches("This request is over")
	v.sees("Begin again at the app you came from")
}

// hostileName is markup in right-to-left text, which would reverse the text after it unless the page isolates the name.
const hostileName = `אבג <img src=x onerror="document.title='taken'"><b>Acme`

func (v *person) isToldWhoIsUnverified(w *oauthWorld) {
	v.t.Helper()
	for name, want := range map[string]int{"\u202eemcA": http.StatusBadRequest, hostileName: http.StatusCreated} {
		raw, err := json.Marshal(map[string]any{"client_name": name, "redirect_uris": []string{"http://127.0.0.1/callback"}, "token_endpoint_auth_method": "none"})
		w.Must(err)
		answer, err := http.Post(w.app.Issuer+"/register", "application/json", bytes.NewReader(raw))
		w.Must(err)
		var made struct {
			ID string `json:"client_id"`
		}
		_ = json.NewDecoder(answer.Body).Decode(&made) // a refused registration has none
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			v.t.Fatalf("%q registered: %d", name, answer.StatusCode)
		}
		if made.ID == "" {
			continue
		}
		stranger := newParty(v.t, "Stranger", w.app.Issuer, made.ID, "", w.Clock.Now)
		v.asks(stranger, "openid email")
		v.beholds("\u2068"+name+"\u2069 would like access", "consent-unverified")
		v.sees("Not verified by Acme")
		v.sees("Allow it only if you began this at " + stranger.server.Listener.Addr().String())
		v.readsGerman()
		if title := eval[string](v.tab, "document.title"); title == "taken" || eval[int](v.tab, `document.querySelectorAll("main img, main b").length`) > 0 {
			v.t.Errorf("the app's name is rendered as markup: the title is %q", title)
		}
		v.presses("Allow")
		v.isBack(stranger, v.email, "")
		v.asks(stranger, "openid email") // any program on the machine can pose as a client without a secret
		v.reaches("\u2068" + name + "\u2069 would like access")
		v.presses("Refuse")
		v.reaches("Refused: access_denied")
	}
}

// readsGerman switches the consent page to German and back.
func (v *person) readsGerman() {
	v.t.Helper()
	v.presses("Deutsch")
	v.sees("möchte Zugriff")
	v.sees("Von Acme nicht geprüft")
	v.wears(look{width: 360})
	v.expectNarrow("consent in German")
	v.picture("pages-consent-german-360-light")
	v.expectAccessible("consent in German")
	v.presses("English")
	v.sees("would like access")
}

// belongsNowhere has a user without an organization follow a request for claims of an organization.
func (v *person) belongsNowhere(p *party) {
	v.t.Helper()
	v.asks(p, "openid orders:read")
	v.beholds(p.name+" would like access", "consent-nowhere")
	v.sees("You belong to no organization in which you may grant this")
	if v.shows("Allow") {
		v.t.Error("the page has an Allow button for a user without an organization")
	}
	v.presses("Refuse")
	v.reaches("Refused: access_denied")
}

func (v *person) isLedToNobodyUnproven(p *party) {
	v.t.Helper()
	stranger := elsewhere(v.t.(*testing.T), "")
	v.expects("status of 400")
	v.asks(p, "openid", "redirect_uri", stranger+"/elsewhere")
	v.beholds("This app cannot be answered", "authorize-refused")
	v.asks(p, "openid", "client_id", "12345")
	v.reaches("This app is not known here")
}

// leavesNothingBehind goes back in the browser's history after signing out.
func (v *person) leavesNothingBehind(p *party) {
	v.t.Helper()
	v.opensConsent(p)
	v.goes("/sign-out")
	v.reaches("Sign out?")
	v.presses("Sign out")
	v.sees("You are signed out")
	v.run(chromedp.NavigateBack(), chromedp.NavigateBack())
	v.until(`document.readyState === "complete" && document.querySelector("h1")`)
	if v.shows(v.email) || v.shows(p.name) {
		v.t.Errorf("going back after signing out shows the user or the request:\n%s", v.text())
	}
}
