package agents_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
)

// A server that starts and runs while the Kubernetes API fails serves every list and every call, by every credential,
// and follows the store.
func TestWithoutTheKubernetesAPIEveryCallSucceeds(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newPeopleWorldIn(t, newWorldOver(t, engine), nil)
		session := w.sessions()(agentURL)
		var asked atomic.Int64
		failing := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			asked.Add(1)
			rw.WriteHeader(http.StatusServiceUnavailable)
		}))
		t.Cleanup(failing.Close)
		kubernetes, err := apiserver.NewKubernetes(&rest.Config{Host: failing.URL})
		w.Must(err)
		w.serveWith(kubernetes, netip.MustParsePrefix("127.0.0.0/8"))
		credentials := map[string]string{"an API key": w.key, "an API key of a user": w.declareKeyOf(7).Plain(), "an access token": w.token("orders:read"), "a session token": session}
		var group sync.WaitGroup
		const rounds = 25
		for name, credential := range credentials { // one after the other for each credential: no call finds its slots taken
			group.Go(func() {
				for range rounds {
					w.expectServed(t, name, credential)
				}
			})
		}
		group.Wait()
		w.recorded(4 * rounds * len(credentials))
		w.Put(v1alpha1.KindAITool, "find-order", frontendtest.Deployment, "", document.AITool{Name: "Find", Type: "api", Active: true, Method: "GET", Endpoint: w.up.URL + "/moved", TimeoutSeconds: 10})
		w.Eventually("a change reaches the server", func() bool {
			w.post("support", w.key, callBody("find-order", `{}`))
			return w.up.sentTo("/moved") > 0
		})
		if n := asked.Load(); n != 0 {
			t.Errorf("calls of tools asked the Kubernetes API %d times", n)
		}
	})
}

// expectServed lists the tools with a credential, and calls two of them over both protocols.
func (w *world) expectServed(t *testing.T, name, credential string) {
	t.Helper()
	for _, tool := range []string{"find-order", "cancel-order"} {
		if a := w.post("support", credential, callBody(tool, `{"number":"7"}`)); !strings.Contains(a.raw, `"open"`) {
			t.Errorf("%s calls %s: %d %s", name, tool, a.status, a.raw)
		}
		if a := w.directAnswer(credential, "acme", "support", tool, findingOrder); a.Code != http.StatusOK {
			t.Errorf("%s calls %s without MCP: %d %s", name, tool, a.Code, a.Body)
		}
	}
	if a := w.post("support", credential, listing); len(names(a)) != 2 {
		t.Errorf("%s lists %d %s", name, a.status, a.raw)
	}
}
