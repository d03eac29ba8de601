package agents_test

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/seal"
)

const canary = "hush-canary-5f2a"

// declareSealed declares a tool whose header X-Api-Token has a value sealed by a keyring, and an agent with the tool.
func (w *world) declareSealed(name string, keys *seal.Keyring, value string) {
	w.T.Helper()
	tool := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", name))
	w.declareTool(name, document.AITool{
		Name: "Find an order", Method: "GET", Endpoint: w.up.URL + "/orders", URLParamsSchema: []schemafield.Field{{Name: "q", FieldType: "STRING"}},
		Headers: []document.ToolHeader{{
			Name: "X-Api-Token", Secret: true, Sealed: keys.Seal(document.SealedToolHeader, document.ToolHeaderID(tool, "X-Api-Token"), []byte(value)),
		}},
	})
	w.declareAgent("support", name)
}

func (w *world) answering(answer func(http.ResponseWriter, *http.Request)) {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	w.up.answer = answer
}

func TestValueOfASecretReachesTheToolAndNothingElse(t *testing.T) {
	w := newWorld(t)
	w.declareSealed("sealed", w.Keyring, "Bearer "+canary)
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", r.URL.Query().Get("q"))
		if r.URL.Query().Get("q") == "error" {
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(403)
			_, _ = fmt.Fprintf(rw, `{"message":"%s is no token"}`, r.Header.Get("X-Api-Token"))
			return
		}
		_, _ = fmt.Fprintf(rw, `{"sent":%q,"part":%q,%q:[%q]}`, r.Header.Get("X-Api-Token"), "of "+canary, canary, canary)
	})
	list := w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	for q, want := range map[string]string{
		"application/json": `{"[redacted]":["[redacted]"],"part":"of [redacted]","sent":"[redacted]"}`,
		"text/plain":       `{"sent":"[redacted]","part":"of [redacted]","[redacted]":["[redacted]"]}`,
		"error":            `The tool answered 403 Forbidden. [redacted] is no token`,
		"image/png":        "",
	} {
		a := w.post("support", w.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sealed","arguments":{"q":%q}}}`, q))
		if text, _ := w.call("sealed", fmt.Sprintf(`{"q":%q}`, q)); text != want || strings.Contains(a.raw, "canary") {
			t.Errorf("%s: %s", q, a.raw)
		}
		if request, _ := w.up.last(); request.header.Get("X-Api-Token") != "Bearer "+canary {
			t.Errorf("sent %v", request.header)
		}
	}
	if !strings.Contains(list.raw, `"sealed"`) || strings.Contains(list.raw, "canary") || strings.Contains(list.raw, "X-Api-Token") {
		t.Errorf("the list is %s", list.raw)
	}
	w.declareSealed("sealed", w.Keyring, "another-"+canary)
	w.call("sealed", `{"q":"text/plain"}`)
	if request, _ := w.up.last(); request.header.Get("X-Api-Token") != "another-"+canary {
		t.Errorf("after a change of the value, sent %v", request.header)
	}
	w.answering(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	if text, code := w.call("sealed", `{"q":"x"}`); code != "unreachable" || strings.Contains(text, "canary") {
		t.Errorf("%s %s", code, text)
	}
	if strings.Contains(w.Logs.String(), "canary") {
		t.Errorf("the log has the value: %s", w.Logs)
	}
}

func TestValueThatCannotBeOpenedSendsNothing(t *testing.T) {
	w := newWorld(t)
	file := filepath.Join(t.TempDir(), "root-key")
	w.Must(os.WriteFile(file, []byte(strings.Repeat("o", 32)), 0o600))
	other, err := seal.Load([]string{file})
	w.Must(err)
	w.declareSealed("sealed", other, canary)
	for _, arguments := range []string{`{}`, `{"q":"x"}`} {
		if text, code := w.call("sealed", arguments); code != "not_configured" || !strings.Contains(text, "nothing was sent") {
			t.Errorf("%s %s", code, text)
		}
	}
	if text, code := w.call("sealed", `{"q":1}`); code != "invalid_arguments" {
		t.Errorf("%s %s", code, text)
	}
	if _, count := w.up.last(); count != 0 {
		t.Errorf("%d requests were sent", count)
	}
	if log := w.Logs.String(); !strings.Contains(log, "cannot be opened") || !strings.Contains(log, `"header"="X-Api-Token"`) || strings.Contains(log, "v2.") {
		t.Errorf("the log is %s", log)
	}
}

// The value of another header, of another tool, and one that was altered, do not open.
func TestSealedValueIsThatOfItsToolAndHeader(t *testing.T) {
	w := newWorld(t)
	w.declareSealed("sealed", w.Keyring, canary)
	foreign := w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "other")), "X-Api-Token"), []byte(canary))
	own := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "sealed"))
	for name, sealed := range map[string]string{
		"another tool": foreign, "altered": "v2.00000000.AAAA", "no sealed text": canary,
		"another header": w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(own, "X-Other"), []byte(canary)),
		"another kind":   w.Keyring.Seal(document.SealedSMTPPassword, document.ToolHeaderID(own, "X-Api-Token"), []byte(canary)),
	} {
		w.declareTool("sealed", document.AITool{
			Name: "Find an order", Method: "GET", Endpoint: w.up.URL, Headers: []document.ToolHeader{{Name: "X-Api-Token", Secret: true, Sealed: sealed}},
		})
		if text, code := w.call("sealed", `{}`); code != "not_configured" || strings.Contains(text, "canary") {
			t.Errorf("%s: %s %s", name, code, text)
		}
	}
	if _, count := w.up.last(); count != 0 {
		t.Errorf("%d requests were sent", count)
	}
}

func TestImageWithASecretValueIsRedacted(t *testing.T) {
	w := newWorld(t)
	w.declareSealed("sealed", w.Keyring, canary)
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(rw, "\x89PNG"+r.Header.Get("X-Api-Token"))
	})
	a := w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"sealed","arguments":{}}}`)
	if !strings.Contains(a.raw, `"data":"iVBOR1tyZWRhY3RlZF0="`) { // the first bytes and [redacted]
		t.Errorf("the answer is %s", a.raw)
	}
}
