package agents_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/scheme"
)

func TestRequestsAreCountedByTheSchemeOfTheKey(t *testing.T) {
	w := newWorld(t)
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindRateLimitScheme, "few", frontendtest.Deployment, "few", document.RateLimitScheme{Slug: "few", Name: "few", Rules: []scheme.Rule{{Unit: "day", Duration: 1, MaxRequests: 3}}})
	w.Put(v1alpha1.KindAPIAuthApp, "limited", frontendtest.Deployment, "limited", document.APIAuthApp{Slug: "limited", Active: true, Permissions: []string{"*"}, Scheme: "few"})
	w.Put(v1alpha1.KindAPIKey, "limited", frontendtest.Deployment, "", document.APIKey{App: "limited", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	served := 0
	w.Eventually("the limit is used up", func() bool {
		a := w.post("support", minted.Plain(), ping)
		if a.status == 200 {
			served++
		}
		if a.status == 429 && a.header.Get("Retry-After") == "" {
			t.Errorf("no Retry-After: %v", a.header)
		}
		return a.status == 429
	})
	if served != 3 {
		t.Errorf("%d requests were served", served)
	}
	if _, count := w.up.last(); count != 0 {
		t.Error("a tool was called")
	}
}

func TestToolsBeyondTheBoundOfAnAgentAreNotListed(t *testing.T) {
	w := newWorld(t)
	var names []string
	for n := range 4 { // three of them fit into 2 MiB
		tool := document.AITool{Name: "large", Method: "GET", Endpoint: "https://c.example/"}
		for f := range 300 {
			tool.URLParamsSchema = append(tool.URLParamsSchema, schemafield.Field{Name: fmt.Sprint("field", f), FieldType: "STRING", Description: strings.Repeat("d", 2000)})
		}
		names = append(names, fmt.Sprint("large-", n))
		w.declareTool(names[n], tool)
	}
	w.declareAgent("large", append(names, "find-order")...)
	a := w.post("large", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if tools := a.body["result"].(map[string]any)["tools"].([]any); len(tools) != 4 || len(a.raw) > 2<<20+1000 {
		t.Errorf("%d tools in %d bytes", len(tools), len(a.raw))
	}
}

// The listener's deadlines are for short requests; a tool may take longer.
func TestSlowCallOutlastsDeadlinesOfTheListener(t *testing.T) {
	w := newWorld(t)
	const deadline = 300 * time.Millisecond
	short := httptest.NewUnstartedServer(w.Handler)
	short.Config.ReadTimeout, short.Config.WriteTimeout = deadline, deadline
	short.Start()
	t.Cleanup(short.Close)
	w.up.mu.Lock()
	w.up.answer = func(rw http.ResponseWriter, _ *http.Request) {
		<-time.After(3 * deadline) // the slow tool
		rw.WriteHeader(204)
	}
	w.up.mu.Unlock()
	w.Server = short
	if text, code := w.call("cancel-order", `{"number":"1"}`); code != "" || text != "Done (204)." {
		t.Errorf("%s %s", code, text)
	}
}
