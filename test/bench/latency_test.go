package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	latencyResources = 1000
	latencySamples   = 300
	// resolution is the pause between polls for a change: short compared with the measured time, long enough to leave
	// the two processors to the measured processes.
	resolution = 200 * time.Microsecond
)

// TestBenchLatency measures at 1,000 resources and over each store (1) the time from the API server's response to a
// change until the server process serves it, and (2) the round trip of PATCH 4.8 and of a bare merge patch.
func TestBenchLatency(t *testing.T) {
	t.Run("SQLite, standalone", func(t *testing.T) {
		w := newWorld(t)
		measureLatency(t, w, w.start(t, testkit.Launch{Role: "standalone", Store: w.sqliteURL()}), "SQLite, standalone")
	})
	t.Run("PostgreSQL, operator and server", func(t *testing.T) {
		url := pgtest.ForTest(t)
		w := newWorld(t)
		w.start(t, testkit.Launch{Role: "operator", Store: url})
		measureLatency(t, w, w.start(t, testkit.Launch{Role: "server", Store: url}), "PostgreSQL, operator and server")
	})
}

func measureLatency(t *testing.T, w *world, server *testkit.Cardea, setting string) {
	w.tenant(t)
	slug := func(i int) string { return fmt.Sprintf("scheme-%04d", i) }
	each(t, latencyResources, func(ctx context.Context, i int) error {
		return w.Client.Create(ctx, testkit.Scheme(w.namespace, deployment, slug(i)), client.FieldOwner(v1alpha1.FieldManagerHTTP))
	})
	probe := &probe{server: server, key: w.key, client: &http.Client{Timeout: 5 * time.Second}}
	for i := range latencyResources {
		await(t, time.Minute, 10*time.Millisecond, func() bool { return probe.limit(slug(i)) == 60 })
	}
	await(t, time.Minute, 100*time.Millisecond, func() bool {
		depth, err := server.Metric("cardea_snapshot_documents")
		check(t, err)
		return depth >= latencyResources
	})

	measureAccepted := func(setting string, from int) {
		accepted := measureAcceptance(t, w, probe, slug, from)
		row("change accepted by the API server to served, p50 and p99 at 1,000 resources; "+setting, "<= 10 ms, <= 50 ms",
			"%s, %s (%d samples)", ms(quantile(accepted, 0.5)), ms(quantile(accepted, 0.99)), len(accepted))
	}
	measureAccepted(setting, 1000)
	besideBusyLoops(t, func() { measureAccepted(setting+", with two busy loops", 2000) })

	round, bare := measurePatch(t, w, probe, slug)
	row("PATCH 4.8 round trip, p50 and p99; "+setting, "-", "%s, %s (%d samples; bare client-go merge patch: %s, %s)",
		ms(quantile(round, 0.5)), ms(quantile(round, 0.99)), len(round), ms(quantile(bare, 0.5)), ms(quantile(bare, 0.99)))
	row("PATCH 4.8 to bare patch at p50; "+setting, "<= 3", "%.2f", float64(quantile(round, 0.5))/float64(quantile(bare, 0.5)))
}

// measureAcceptance changes schemes one by one, to limits counted up from from, and waits until each change is served.
func measureAcceptance(t *testing.T, w *world, probe *probe, slug func(int) string, from int) []time.Duration {
	var samples []time.Duration
	for i := range latencySamples {
		name, limit := slug(i*7%latencyResources), from+i
		check(t, bareLimit(t.Context(), w, name, limit))
		samples = append(samples, await(t, 10*time.Second, resolution, func() bool { return probe.limit(name) == limit }))
		settle(t, w, name)
	}
	return samples
}

// measurePatch alternates PATCH 4.8 and a bare patch of the same field of the same resource.
func measurePatch(t *testing.T, w *world, probe *probe, slug func(int) string) (round, bare []time.Duration) {
	for i := range latencySamples {
		name, limit := slug(i*11%latencyResources), 5000+2*i
		begin := time.Now()
		status, synced := probe.patch(t, name, limit)
		round = append(round, time.Since(begin))
		if status != http.StatusOK || synced != "true" || probe.limit(name) != limit {
			t.Fatalf("PATCH answered %d, synced %s, and %d is served", status, synced, probe.limit(name))
		}
		settle(t, w, name)

		begin = time.Now()
		check(t, bareLimit(t.Context(), w, name, limit+1))
		bare = append(bare, time.Since(begin))
		await(t, 10*time.Second, resolution, func() bool { return probe.limit(name) == limit+1 })
		settle(t, w, name)
	}
	return round, bare
}

// settle waits until the operator has reported the status of the last change, so that it does not disturb the next
// sample.
func settle(t *testing.T, w *world, name string) {
	t.Helper()
	scheme := testkit.Scheme(w.namespace, deployment, name)
	await(t, 10*time.Second, 2*time.Millisecond, func() bool {
		ready, err := w.Ready(t.Context(), scheme)
		check(t, err)
		return ready
	})
}

// bareLimit changes the limit of a scheme as the field manager of the HTTP API, so that both kinds of patch own the
// field.
func bareLimit(ctx context.Context, w *world, name string, limit int) error {
	patch := fmt.Sprintf(`{"spec":{"rules":[{"unit":"minute","duration":1,"maxRequests":%d}]}}`, limit)
	return w.Client.Patch(ctx, testkit.Scheme(w.namespace, deployment, name), client.RawPatch(types.MergePatchType, []byte(patch)),
		client.FieldOwner(v1alpha1.FieldManagerHTTP))
}

// probe sends requests to a server over one kept-alive connection.
type probe struct {
	server *testkit.Cardea
	key    string
	client *http.Client
}

// limit returns the limit that is served for a scheme with one rule, 0 if it is not served.
func (p *probe) limit(slug string) int {
	status, body, _ := p.do(http.MethodGet, slug, "")
	if status != http.StatusOK {
		return 0
	}
	_, after, _ := strings.Cut(body, `"max_requests":`)
	limit := 0
	_, _ = fmt.Sscanf(after, "%d", &limit)
	return limit
}

func (p *probe) patch(t *testing.T, slug string, limit int) (int, string) {
	t.Helper()
	status, body, header := p.do(http.MethodPatch, slug, fmt.Sprintf(`{"rules":[{"unit":"minute","duration":1,"max_requests":%d}]}`, limit))
	if status != http.StatusOK {
		t.Log(body)
	}
	return status, header.Get("Cardea-Synced")
}

func (p *probe) do(method, slug, body string) (int, string, http.Header) {
	request, err := http.NewRequest(method, p.server.Backend+schemesPath+"/"+slug, strings.NewReader(body))
	if err != nil {
		return 0, err.Error(), nil
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	answer, err := p.client.Do(request)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err.Error(), nil
	}
	return answer.StatusCode, string(raw), answer.Header
}
