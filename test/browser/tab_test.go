// Package browser tests the pages and the console in a real browser, headless Chromium.
package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed axe-core/axe.min.js
var axe string

// patience is how long a tab waits for an expected state.
const patience = time.Minute

// browsers are the programs that are tried in turn. Chromium without windows comes first: the other draws a window for
// each tab, also with --headless, and takes about three times the processor time.
var browsers = []string{"chromium-headless-shell", "chromium"}

// chromium starts one browser for all tests of a package.
var chromium = sync.OnceValues(func() (context.Context, error) {
	program, err := exec.LookPath(browsers[0])
	if err != nil {
		if program, err = exec.LookPath(browsers[1]); err != nil {
			return nil, err
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.Flag("disable-dev-shm-usage", true))
	allocated, _ := chromedp.NewExecAllocator(context.Background(), options...)
	browser, _ := chromedp.NewContext(allocated)
	return browser, chromedp.Do(browser)
})

func TestMain(m *testing.M) {
	status := m.Run()
	if started, err := chromium(); err == nil {
		_ = chromedp.Cancel(started)
	}
	os.Exit(status)
}

// look is a screen width and a color scheme.
type look struct {
	width int64
	dark  bool
}

func (l look) String() string {
	if l.dark {
		return fmt.Sprintf("%d-dark", l.width)
	}
	return fmt.Sprintf("%d-light", l.width)
}

// tab is a tab of the browser. Problems that its pages report fail the test.
type tab struct {
	t   testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	// expected are parts of problems that the test causes.
	expected []string
}

// open opens a tab of a new browser profile.
func open(t testing.TB, l look, languages string) *tab {
	t.Helper()
	browser, err := chromium()
	if err != nil {
		t.Fatalf("no Chromium (hack/install-deps.sh installs it): %v", err)
	}
	return openIn(browser, t, l, languages, chromedp.WithNewBrowserContext())
}

// openIn opens a tab in the browser context of another, or in a new one if an option says so.
func openIn(beside context.Context, t testing.TB, l look, languages string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(beside, options...)
	t.Cleanup(cancel)
	tb := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, tb.listen); err != nil {
		t.Fatal(err)
	}
	tb.run(set(emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: "Mozilla/5.0 (X11; Linux x86_64) Chromium", AcceptLanguage: languages}))
	tb.wears(l)
	t.Cleanup(tb.expectCalm)
	return tb
}

// wears sets the screen width and the color scheme of the pages.
func (tb *tab) wears(l look) {
	tb.t.Helper()
	scheme := "light"
	if l.dark {
		scheme = "dark"
	}
	tb.run(
		set(emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: l.width, Height: 900, DeviceScaleFactor: 1, Mobile: l.width < 600}),
		set(emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
		}),
	)
}

// set sends a protocol command without a result.
func set[P any](command cdp.Command[P, cdp.Empty], params P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, command, params)
		return err
	})
}

// listen records problems of a page: console errors, exceptions, and violations of its security policy.
func (tb *tab) listen(event any) {
	note := func(format string, args ...any) {
		tb.mu.Lock()
		defer tb.mu.Unlock()
		tb.problems = append(tb.problems, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == "error" || e.Type == "warning" {
			raw, _ := json.Marshal(e.Args)
			note("console %s: %s", e.Type, raw)
		}
	case *cdpruntime.EventExceptionThrown:
		note("exception: %v", e.ExceptionDetails)
	case *log.EventEntryAdded:
		if e.Entry.Level == "error" || e.Entry.Level == "warning" || e.Entry.Source == "security" {
			note("log %s %s: %s %s", e.Entry.Source, e.Entry.Level, e.Entry.Text, e.Entry.URL)
		}
	}
}

// expects records that the test causes a problem.
func (tb *tab) expects(part string) { tb.expected = append(tb.expected, part) }

// expectCalm fails the test for every unexpected problem.
func (tb *tab) expectCalm() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
next:
	for _, problem := range tb.problems {
		for _, part := range tb.expected {
			if strings.Contains(problem, part) {
				continue next
			}
		}
		tb.t.Errorf("the page complains: %s", problem)
	}
	tb.problems = nil
}

// run runs actions, and fails the test if they fail or take longer than patience.
func (tb *tab) run(actions ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		tb.fail(err)
	}
}

// fail ends the test, with the text of the page in the message.
func (tb *tab) fail(err error) {
	tb.t.Helper()
	tb.keep("failed-"+strings.ReplaceAll(tb.t.Name(), "/", "-"), chromedp.FullScreenshot(100))
	tb.t.Fatalf("%v\n%s", err, tb.text())
}

// text returns what the page shows now, for messages.
func (tb *tab) text() string {
	ctx, cancel := context.WithTimeout(tb.ctx, 5*time.Second)
	defer cancel()
	shown, err := chromedp.Run(ctx, chromedp.Evaluate[string](`document.activeElement.outerHTML.slice(0, 300) + "\n" + document.body.innerText.slice(0, 2000)`))
	if err != nil {
		return err.Error()
	}
	return shown
}

// eval evaluates an expression in the page.
func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		tb.fail(err)
	}
	return value
}

// do runs statements in the page.
func (tb *tab) do(statements string) {
	tb.t.Helper()
	eval[bool](tb, statements+"; true")
}

// until waits until an expression is true in the page. It polls from outside, because a page without scripts cannot
// wait.
func (tb *tab) until(expression string) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		// A script that fails because its page unloads is repeated on the next page.
		if is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")")); err == nil && is {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.fail(fmt.Errorf("the condition never became true: %s", expression))
		}
	}
}

// whole waits until the page is read to its end. Before that, a field or its label can be missing.
func (tb *tab) whole() {
	tb.t.Helper()
	tb.until(`document.readyState === "complete"`)
}

// sees waits until a whole page shows a text.
func (tb *tab) sees(text string) {
	tb.t.Helper()
	tb.until(`document.readyState === "complete" && document.body.innerText.replace(/\s+/g, " ").includes(` + quoted(text) + `)`)
}

func quoted(text string) string {
	raw, _ := json.Marshal(text)
	return string(raw)
}

// keys presses keys.
func (tb *tab) keys(pressed string) {
	tb.t.Helper()
	tb.run(chromedp.KeyEvent(pressed))
}

// tabTo presses Tab until an element of the whole page has the focus, named by its label or its text. It never uses a
// pointer.
func (tb *tab) tabTo(name string) {
	tb.t.Helper()
	tb.whole()
	for range 120 {
		tb.keys(kb.Tab)
		if eval[bool](tb, `(() => { const e = document.activeElement; const named = [e.getAttribute("aria-label"), e.labels?.[0]?.textContent, e.innerText];
			return named.some((n) => n?.trim() === `+quoted(name)+`); })()`) {
			if !eval[bool](tb, `(() => { const s = getComputedStyle(document.activeElement); return s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2; })()`) {
				tb.t.Errorf("the focus on %q is not visible", name)
			}
			return
		}
	}
	tb.t.Fatalf("Tab never comes to %q\n%s", name, tb.text())
}

// picture writes a picture of the whole page if CARDEA_PICTURES is set. Pictures take a seventh of the browser's time.
func (tb *tab) picture(name string) {
	if os.Getenv("CARDEA_PICTURES") != "" {
		tb.keep(name, chromedp.FullScreenshot(100))
	}
}

// glimpse writes a picture of the visible part of the page if CARDEA_PICTURES is set.
func (tb *tab) glimpse(name string) {
	if os.Getenv("CARDEA_PICTURES") != "" {
		tb.keep(name, chromedp.CaptureScreenshot())
	}
}

// keep writes a picture into the folder pictures.
func (tb *tab) keep(name string, take chromedp.Action[[]byte]) {
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	taken, err := chromedp.Run(ctx, take)
	if err == nil {
		err = os.MkdirAll("pictures", 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join("pictures", name+".png"), taken, 0o600)
	}
	if err != nil {
		tb.t.Logf("no picture of %s: %v", name, err)
	}
}

// finding is a problem that axe reports.
type finding struct {
	ID, Impact, Help string
	Nodes            []struct{ HTML, FailureSummary string }
}

// expectAccessible fails the test for serious or critical findings of axe, and logs the others.
func (tb *tab) expectAccessible(where string) {
	tb.t.Helper()
	tb.do(axe)
	found := eval[[]finding](tb, `axe.run(document, {resultTypes: ["violations"]}).then((r) =>
		r.violations.map((v) => ({ID: v.id, Impact: v.impact, Help: v.help, Nodes: v.nodes.map((n) => ({HTML: n.html, FailureSummary: n.failureSummary}))})))`)
	for _, f := range found {
		say := tb.t.Logf
		if f.Impact == "serious" || f.Impact == "critical" {
			say = tb.t.Errorf
		}
		say("%s: %s (%s): %s: %+v", where, f.ID, f.Impact, f.Help, f.Nodes)
	}
}

// expectNarrow fails the test if the page is wider than the screen.
func (tb *tab) expectNarrow(where string) {
	tb.t.Helper()
	if over := eval[int](tb, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		tb.t.Errorf("%s: the page is %d pixels wider than the screen", where, over)
	}
}

// complains waits until the page has reported a problem.
func (tb *tab) complains(part string) {
	tb.t.Helper()
	ctx, cancel := context.WithTimeout(tb.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !tb.complained(part) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			tb.fail(fmt.Errorf("the page never complained of %s", part))
		}
	}
}

func (tb *tab) complained(part string) bool {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	return slices.ContainsFunc(tb.problems, func(problem string) bool { return strings.Contains(problem, part) })
}
