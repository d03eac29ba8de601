package agents_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
)

// failingKubernetes is a Kubernetes API that fails, and counts its requests.
type failingKubernetes struct{ asked atomic.Int64 }

func (f *failingKubernetes) fail() error {
	f.asked.Add(1)
	return errors.New("the Kubernetes API is unavailable")
}

func (f *failingKubernetes) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.fail()
}

func (f *failingKubernetes) Create(context.Context, client.Object, ...client.CreateOption) error {
	return f.fail()
}

func (f *failingKubernetes) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return f.fail()
}

func (f *failingKubernetes) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	return f.fail()
}

// A server that starts and runs while the Kubernetes API fails serves every list and every call, by every credential,
// and follows the store.
func TestWithoutTheKubernetesAPIEveryCallSucceeds(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newPeopleWorldIn(t, newWorldOver(t, engine), nil)
		session := w.sessions()(agentURL)
		kubernetes := &failingKubernetes{}
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
		if n := kubernetes.asked.Load(); n != 0 {
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
