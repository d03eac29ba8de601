package browser

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

func TestButtonsOfARowHaveTheSameHeight(t *testing.T) {
	w := frontendtest.New(t, nil)
	v := arrives(t, w, look{1280, false}, true)
	v.signsUp("ada@example.com")
	for _, page := range []string{"/account/emails", "/account/phones", "/account"} {
		v.goes(page)
		v.until(`document.querySelector("main h1") !== null`)
		uneven := eval[[]string](v.tab, `[...document.querySelectorAll(".row, .acts, .head")].flatMap((row) => {
			const buttons = [...row.querySelectorAll("button, .button")].map((e) => [e.textContent.trim(), e.getBoundingClientRect()]);
			return buttons.slice(1).filter(([, r]) => r.top < buttons[0][1].bottom && r.top !== buttons[0][1].top).map(([text, r]) => text + ": " + (r.top - buttons[0][1].top) + " px");
		})`)
		if len(uneven) > 0 {
			t.Errorf("%s: %q stand lower than the button before", page, uneven)
		}
	}
	if n := eval[int](v.tab, `document.querySelectorAll(".row button, .row .button").length`); n != 2 {
		t.Errorf("/account has %d buttons in a row, want 2", n)
	}
}

func TestAChangeOfThemeIsSeenAtOnce(t *testing.T) {
	w := frontendtest.New(t, nil)
	v := arrives(t, w, look{1280, false}, true)
	wears := func(scheme string) {
		v.run(set(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "no-preference"},
		}}))
	}
	wears("light")
	v.goes("/sign-in")
	v.until(`document.querySelector("h1")?.innerText === "Sign in to Acme"`)
	v.do(`document.title = "0"; document.addEventListener("transitionrun", () => { document.title = String(Number(document.title) + 1); })`)
	before := eval[string](v.tab, `getComputedStyle(document.body).backgroundColor`)
	wears("dark")
	v.until(`getComputedStyle(document.body).backgroundColor !== ` + quoted(before))
	if n := eval[string](v.tab, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.title))))`); n != "0" {
		t.Errorf("%s transitions run", n)
	}
}
