package browser

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

// sentRequests are the addresses and headers of the requests of a tab, without their bodies.
type sentRequests struct {
	mu   sync.Mutex
	sent []string
}

// records records the requests of the person's tab from now on.
func (v *person) records() *sentRequests {
	v.t.Helper()
	r := &sentRequests{}
	if err := chromedp.Listen(v.ctx, func(event any) {
		if e, is := event.(*network.EventRequestWillBeSent); is {
			headers, _ := json.Marshal(e.Request.Headers)
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sent = append(r.sent, e.Request.Method+" "+e.Request.URL+e.Request.URLFragment+" "+string(headers))
		}
	}); err != nil {
		v.t.Fatal(err)
	}
	v.run(set(network.Enable, network.EnableParams{}))
	return r
}

// remains returns what the browser keeps beside the shown page: its history, the cookies, and what scripts store.
func (v *person) remains() []string {
	v.t.Helper()
	var kept any
	v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		history, err := cdp.Call(ctx, t, page.GetNavigationHistory, cdp.Empty{})
		if err != nil {
			return err
		}
		cookies, err := cdp.Call(ctx, t, network.GetCookies, network.GetCookiesParams{})
		kept = []any{history, cookies}
		return err
	}))
	raw, err := json.Marshal(kept)
	if err != nil {
		v.t.Fatal(err)
	}
	return []string{string(raw), eval[string](v.tab, `JSON.stringify([localStorage, sessionStorage, history.state, window.name, document.cookie, document.referrer])`)}
}

// goesBack presses the button back, and does not wait for the page.
func (v *person) goesBack() {
	v.t.Helper()
	v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		history, err := cdp.Call(ctx, t, page.GetNavigationHistory, cdp.Empty{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, page.NavigateToHistoryEntry, page.NavigateToHistoryEntryParams{EntryID: history.Entries[history.CurrentIndex-1].ID})
		return err
	}))
}

// expectSecret fails the test if a secret is in an address or a header of a request, or remains in the browser.
func (v *person) expectSecret(r *sentRequests, secrets ...string) {
	v.t.Helper()
	r.mu.Lock()
	places := slices.Clone(r.sent)
	r.mu.Unlock()
	if len(places) == 0 {
		v.t.Error("no request was recorded")
	}
	places = append(places, v.remains()...)
	for _, secret := range secrets {
		written := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(secret) + `\b`)
		for _, place := range places {
			if written.MatchString(place) {
				v.t.Errorf("%s is in %s", secret, place)
			}
		}
	}
}

// expectGone fails the test if a secret is in the page, shown or not.
func (v *person) expectGone(secrets ...string) {
	v.t.Helper()
	content := eval[string](v.tab, `document.documentElement.outerHTML + [...document.querySelectorAll("input")].map((i) => i.value).join(" ")`)
	for _, secret := range secrets {
		if secret != "" && strings.Contains(content, secret) {
			v.t.Errorf("%s is in the page at %s", secret, eval[string](v.tab, "location.href"))
		}
	}
}

// Secrets and codes of second factors are in no address, history, cookie or storage of the browser. Input that is kept
// while the user signs in again has none of them, and the button back does not show them again.
func TestSecretsOfFactorsStayOnTheirPages(t *testing.T) {
	for _, scripts := range []bool{true, false} {
		name := map[bool]string{true: "with scripts", false: "without scripts"}[scripts]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, strong)
			v := arrivesReading(t, map[bool]string{true: "en", false: "de"}[scripts], localhost(w.Server), w, look{width: 360}, scripts)
			v.expects("net::ERR_CACHE_MISS") // the button back leads to a page that was sent a form
			requests := v.records()
			v.becomesUser("ada@example.com")
			lost := v.losesTheSessionWhileAdding(w)

			v.goes("/account/security/totp?continue=%2Forganizations")
			a := v.addsApp(w)
			secrets := append([]string{lost, a.shown, groups(a.shown), a.code()}, a.codes...)
			v.expectSecret(requests, secrets...)
			v.goesBack()
			v.until(`document.readyState === "complete" && location.protocol === "chrome-error:"`)
			v.expectGone(secrets...)
			v.opens("/account/security/codes", "codes.title")
			v.expectGone(secrets...)

			v.withoutAutofill()
			v.signsOut()
			v.entersPassword()
			v.reaches(v.says("secondfactor.title"))
			v.presses(v.says("way.recovery_code"))
			v.types(v.says("recovery.label"), a.codes[0])
			v.presses(v.says("code.confirm"))
			v.sees(v.says("notice.recovery_used"))
			v.expectGone(secrets...)
			v.expectSecret(requests, append(secrets, passphrase)...)
		})
	}
}

// groups returns a secret as the page shows it, in the encoding of a query.
func groups(secret string) string {
	return strings.TrimSuffix(regexp.MustCompile(`.{4}`).ReplaceAllString(secret, "$0+"), "+")
}

// code returns the code that the app shows now.
func (a authenticatorApp) code() string { return a.at(a.w.Clock.Now()) }

// losesTheSessionWhileAdding lets the session end while the page shows the secret of a new app, and returns the secret.
// After the sign-in, and the emailed code that the addition needs, the page has kept the name only.
func (v *person) losesTheSessionWhileAdding(w *frontendtest.World) string {
	v.t.Helper()
	v.opens("/account/security/totp", "authenticator.title")
	v.until(`document.activeElement?.name === "name"`) // browsers set the focus when they first draw a page
	v.keys(kb.Enter)
	v.until(`document.readyState === "complete" && document.querySelector("#secret") !== null`)
	secret := eval[string](v.tab, `document.querySelector("#secret").textContent`)
	w.Clock.Advance(8 * 24 * time.Hour)
	v.types(v.says("field.code"), "123456")
	v.keys(kb.Enter)
	v.entersPassword()
	v.reaches(v.says("authenticator.title"))
	v.expectGone(secret, strings.ReplaceAll(secret, " ", ""), "123456")
	v.types(v.says("field.name"), "Kept name")
	v.keys(kb.Enter)
	v.reaches(v.says("reauthenticate.title"))
	v.presses(v.says("reauthenticate.send"))
	v.reaches(v.says("code.title"))
	v.types(v.says("field.code"), v.mail.CodeFor(v.email, 2))
	v.keys(kb.Enter)
	v.reaches(v.says("authenticator.title"))
	v.sees(v.says("form.restored"))
	v.until(`document.querySelector("input[name=name]").value === "Kept name"`)
	v.expectGone(secret, strings.ReplaceAll(secret, " ", ""), "123456")
	return strings.ReplaceAll(secret, " ", "")
}
