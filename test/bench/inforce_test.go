package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	schemeChanges = 200
	revocations   = 200
)

// TestBenchInForce measures two delays with an operator and two servers over PostgreSQL. The first is from the API
// server's response to a change of a scheme until decisions of both servers use it. The second is from the response to
// a revocation until the other server refuses the key.
func TestBenchInForce(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	w.start(t, testkit.Launch{Role: "operator", Store: url})
	w.tenant(t)
	servers := []*testkit.Cardea{w.start(t, testkit.Launch{Role: "server", Store: url}), w.start(t, testkit.Launch{Role: "server", Store: url})}
	scheme := testkit.Scheme(w.namespace, deployment, "bound")
	app := testkit.App(w.namespace, deployment, "shop", "orders:read")
	app.Spec.RateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: scheme.Name}
	for _, obj := range []client.Object{scheme, app} {
		check(t, w.Client.Create(t.Context(), obj))
	}
	keys := "/api-auth/apps/shop/keys"
	await(t, time.Minute, 20*time.Millisecond, func() bool {
		answer, err := testkit.Do("GET", servers[0].Backend+keys, w.key, "")
		return err == nil && answer.Status == http.StatusOK
	})
	id, secret := w.give(t, servers[0].Backend+keys)

	var bound []time.Duration
	for i := range schemeChanges {
		limit := 1_000_000 + i
		patch := fmt.Sprintf(`{"spec":{"rules":[{"unit":"minute","duration":1,"maxRequests":%d}]}}`, limit)
		check(t, w.Client.Patch(t.Context(), testkit.Scheme(w.namespace, deployment, "bound"), client.RawPatch(types.MergePatchType, []byte(patch))))
		bound = append(bound, await(t, 10*time.Second, resolution, func() bool {
			return decided(t, servers[0], secret, 0).limit == limit && decided(t, servers[1], secret, 0).limit == limit
		}))
		settle(t, w, "bound")
	}
	row("change of a scheme accepted by the API server to active on two servers, PostgreSQL: p50, p99, most", "p99 1 s", "%s, %s, %s (%d changes)",
		ms(quantile(bound, 0.5)), ms(quantile(bound, 0.99)), ms(quantile(bound, 1)), len(bound))

	var refused []time.Duration
	for i := range revocations {
		// Each key has its own client address, because lookups of a client that repeatedly presents bad keys are
		// refused.
		await(t, 10*time.Second, resolution, func() bool { return decided(t, servers[1], secret, i).status == http.StatusOK })
		answer, err := testkit.Do("POST", servers[0].Backend+keys+"/"+id+"/revoke", w.key, `{}`)
		check(t, err)
		if answer.Status != http.StatusOK {
			t.Fatal(answer.Status, string(answer.Raw))
		}
		refused = append(refused, await(t, 10*time.Second, resolution, func() bool {
			return decided(t, servers[1], secret, i).status == http.StatusUnauthorized
		}))
		id, secret = w.give(t, servers[0].Backend+keys)
	}
	row("key revoked, answered by one server, to refused by another, PostgreSQL: p50, p99, most", "p99 1 s", "%s, %s, %s (%d keys)",
		ms(quantile(refused, 0.5)), ms(quantile(refused, 0.99)), ms(quantile(refused, 1)), len(refused))
	row("load average then", "-", "%s", loadAverage())
}

// give creates a runtime key.
func (w *world) give(t *testing.T, keys string) (id, secret string) {
	t.Helper()
	answer, err := testkit.Do("POST", keys, w.key, `{"name":"Customer","permissions":["orders:read"]}`)
	check(t, err)
	var made struct {
		Key    struct{ ID string }
		Secret string
	}
	check(t, json.Unmarshal(answer.Raw, &made))
	if made.Secret == "" {
		t.Fatal(answer.Status, string(answer.Raw))
	}
	return made.Key.ID, made.Secret
}

// decision is a server's decision about a key that a client presents.
type decision struct{ status, limit int }

func decided(t *testing.T, server *testkit.Cardea, key string, client int) decision {
	t.Helper()
	answer, err := testkit.Do("POST", server.Decision+"/v1/authz/check", "", checkBody(key, clientName(client)))
	check(t, err)
	var body struct {
		RateLimits []struct{ Limit int } `json:"rate_limits"`
	}
	check(t, json.Unmarshal(answer.Raw, &body))
	d := decision{status: answer.Status}
	if len(body.RateLimits) > 0 {
		d.limit = body.RateLimits[0].Limit
	}
	return d
}
