package enduser_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// An organization whose providers do not answer, when its admin sets them up, has the share of an organization of the
// requests, so that those of others begin.
func TestConnectionsThatAnOrganizationSetsUpHaveItsShareOfRequests(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.managesConnections(nil)
		_, id, _ := w.customer("globex")
		var open, most atomic.Int64
		ends := make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			now := open.Add(1)
			defer open.Add(-1)
			for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
			}
			select {
			case <-ends:
			case <-r.Context().Done():
			}
		}))
		defer silent.Close()
		defer close(ends)
		var all sync.WaitGroup
		const connections, share = 4, 2
		for n := range connections {
			owner := w.browser()
			owner.signIn("owner@globex.example")
			all.Go(func() {
				body := fmt.Sprintf(`{"type":"OIDC","display_name":"Globex","issuer":"%s/%d","client_id":"id","client_secret":"secret"}`, silent.URL, n)
				if a := owner.do("POST", "/organizations/"+id+"/connections", body); a.Status != http.StatusOK {
					w.T.Errorf("%d %s", a.Status, a.Raw)
				}
			})
		}
		all.Wait()
		if n := most.Load(); n != share {
			w.T.Errorf("%d requests to providers of an organization were open at once, want %d", n, share)
		}
	})
}
