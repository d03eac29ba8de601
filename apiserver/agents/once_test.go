package agents_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// brokenAnswers are the ways in which the connection or the answer of a tool breaks, with the outcome of the call.
func brokenAnswers(t *testing.T) map[string]struct {
	answer        http.HandlerFunc
	outcome, code string
} {
	type broken = struct {
		answer        http.HandlerFunc
		outcome, code string
	}
	status := func(code int) http.HandlerFunc {
		return func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(code) }
	}
	return map[string]broken{
		"closed before a byte":  {respondingRaw(t, func(io.Writer) {}), people.CallFailed, "unreachable"},
		"aborted":               {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, people.CallFailed, "unreachable"},
		"closed in the header":  {respondingRaw(t, func(w io.Writer) { _, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nX-") }), people.CallFailed, "unreachable"},
		"closed in the body":    {respondingRaw(t, func(w io.Writer) { _, _ = io.WriteString(w, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{") }), people.CallFailed, "unreachable"},
		"no HTTP":               {respondingRaw(t, func(w io.Writer) { _, _ = io.WriteString(w, "220 mail.example ESMTP\r\n") }), people.CallFailed, "unreachable"},
		"no answer":             {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, people.CallTimeout, "timeout"},
		"408 Request Timeout":   {status(408), people.CallFailed, "upstream_status"},
		"421 Misdirected":       {status(421), people.CallFailed, "upstream_status"},
		"425 Too Early":         {status(425), people.CallFailed, "upstream_status"},
		"429 Too Many Requests": {status(429), people.CallFailed, "upstream_status"},
		"500":                   {status(500), people.CallFailed, "upstream_status"},
		"503 with Retry-After": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", "0")
			rw.WriteHeader(503)
		}, people.CallFailed, "upstream_status"},
		"307 Temporary Redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "/again", http.StatusTemporaryRedirect)
		}, people.CallFailed, "redirected"},
		"401 with a challenge": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Www-Authenticate", "Basic")
			rw.WriteHeader(401)
		}, people.CallFailed, "upstream_status"},
		"too much": {responding("text/plain", strings.Repeat("y", 300<<10)), people.CallFailed, "response_too_large"},
	}
}

// A call that may change something is sent once whatever breaks, on a new connection and on one that was kept. Its
// record was written before, and says how the call ended.
func TestUnsafeCallIsSentOnceWhateverBreaks(t *testing.T) {
	w := newWorld(t)
	safe := true
	w.declareTool("change", document.AITool{Name: "Change", Method: "POST", Endpoint: w.up.URL + "/change", TimeoutSeconds: 60})
	w.declareTool("hurry", document.AITool{Name: "Hurry", Method: "POST", Endpoint: w.up.URL + "/hurry", TimeoutSeconds: 2})
	w.declareTool("read", document.AITool{Name: "Read", Method: "POST", Endpoint: w.up.URL + "/read", TimeoutSeconds: 60, Annotations: &document.ToolAnnotations{ReadOnly: &safe}})
	w.declareAgent("support", "change", "hurry", "read")
	for name, tc := range brokenAnswers(t) {
		tool := map[bool]string{true: "hurry", false: "change"}[tc.code == "timeout"]
		for _, kept := range []bool{false, true} {
			at := fmt.Sprintf("%s, on a kept connection: %t", name, kept)
			w.afterGoodCall(tool, kept)
			var during atomic.Pointer[[]people.ToolCall]
			w.answering(func(rw http.ResponseWriter, r *http.Request) {
				calls := w.recordsOf(tool)
				during.Store(&calls)
				tc.answer(rw, r)
			})
			before := w.up.sentTo("/" + tool)
			w.Clock.Advance(time.Millisecond)
			_, code := w.call(tool, `{}`)
			if n := w.up.sentTo("/"+tool) - before; n != 1 || code != tc.code || w.up.sentTo("/again") != 0 {
				t.Errorf("%s: %d requests, %s", at, n, code)
			}
			running := *during.Load()
			if len(running) == 0 || running[len(running)-1].Outcome != people.CallStarted {
				t.Errorf("%s: the record while the tool worked is %+v", at, running)
			}
			calls := w.recordsOf(tool)
			if last := calls[len(calls)-1]; len(calls) != len(running) || last.Outcome != tc.outcome || last.Code != tc.code || last.Decision != people.CallAllowed {
				t.Errorf("%s: the record is %+v", at, last)
			}
		}
	}
	// A call that only reads is sent again only if no byte of an answer came.
	for _, name := range []string{"closed in the header", "closed in the body", "500", "307 Temporary Redirect"} {
		w.afterGoodCall("read", false)
		w.answering(brokenAnswers(t)[name].answer)
		before := w.up.sentTo("/read")
		if _, code := w.call("read", `{}`); w.up.sentTo("/read")-before != 1 || code != brokenAnswers(t)[name].code {
			t.Errorf("%s: a call that reads was sent %d times, %s", name, w.up.sentTo("/read")-before, code)
		}
	}
}

// afterGoodCall makes a call that succeeds. Its connection is kept for the next call, or closed.
func (w *world) afterGoodCall(tool string, kept bool) {
	w.T.Helper()
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		if !kept {
			rw.Header().Set("Connection", "close")
		}
		responding("application/json", `{"state":"open"}`)(rw, r)
	})
	w.Clock.Advance(time.Millisecond)
	if text, code := w.call(tool, `{}`); code != "" {
		w.T.Errorf("the call before: %s %s", code, text)
	}
}

// recordsOf returns the stored records of a tool, the oldest first.
func (w *world) recordsOf(tool string) (calls []people.ToolCall) {
	for _, one := range w.records(w.Store) {
		if one.ToolName == tool {
			calls = append(calls, one)
		}
	}
	return calls
}

// A caller that sends its request again while the first one runs makes a second call: each has its own idempotency key
// and record, unless the client names the key.
func TestRepeatedRequestsAreCallsOfTheirOwn(t *testing.T) {
	w := newWorld(t)
	keys := map[string]int{}
	for range 3 {
		w.call("cancel-order", `{"number":"1"}`)
		got, _ := w.up.last()
		keys[got.header.Get("Idempotency-Key")]++
	}
	if len(keys) != 3 || keys[""] != 0 {
		t.Errorf("the idempotency keys are %v", keys)
	}
	named := strings.Replace(callBody("cancel-order", `{"number":"1"}`), `"params":{`, `"params":{"_meta":{"dev.cardea.iam/idempotency-key":"order-7"},`, 1)
	for range 2 {
		w.post("support", w.key, named)
		if got, _ := w.up.last(); got.header.Get("Idempotency-Key") != "order-7" || got.header.Get("Cardea-Call-Id") == "order-7" {
			t.Errorf("the tool got %v", got.header)
		}
	}
	if calls := w.recordsOf("cancel-order"); len(calls) != 5 {
		t.Errorf("%d calls are recorded", len(calls))
	}
}

// While 64 callers wait for a tool that never answers, calls of another tool of the agent wait for none of them.
func TestDeadToolDelaysNoOtherTool(t *testing.T) {
	w := newWorld(t)
	w.declareTool("dead", document.AITool{Name: "Dead", Method: "GET", Endpoint: w.up.URL + "/dead", TimeoutSeconds: 60})
	w.declareAgent("support", "find-order", "dead")
	release := make(chan struct{})
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dead" {
			<-release
		}
		responding("application/json", `{"state":"open"}`)(rw, r)
	})
	took := func() time.Duration {
		began := time.Now()
		for range 20 {
			if text, code := w.call("find-order", `{"number":"1"}`); code != "" {
				t.Errorf("%s %s", code, text)
			}
		}
		return time.Since(began)
	}
	alone := took()
	codes := make(chan string, 64)
	for range 64 {
		go func() {
			code, _, _ := failureOf(w.post("support", w.key, callBody("dead", `{}`)))
			codes <- code
		}()
	}
	w.Eventually("the slots of the dead tool are used", func() bool { return w.up.sentTo("/dead") == 16 })
	if beside := took(); beside > 10*alone+time.Second { // a call that waits for a slot takes a second
		t.Errorf("20 calls beside a dead tool took %s, alone %s", beside, alone)
	}
	for range 64 - 16 {
		if code := <-codes; code != "busy" {
			t.Errorf("a call of the dead tool beyond its slots: %q", code)
		}
	}
	close(release)
	for range 16 {
		if code := <-codes; code != "" {
			t.Errorf("a call of the dead tool within its slots: %q", code)
		}
	}
}
