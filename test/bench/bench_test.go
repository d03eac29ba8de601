// Package bench takes the measurements of docs/benchmarks.md: whole processes on a real control plane, each figure next
// to the bare one it is compared with, in the same run. A benchmark does not fail for being slow; it fails if the work
// was not done.
package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	schemesPath = "/api-auth/rate-limit-schemes"
	deployment  = "acme"
	workers     = 8
)

func TestMain(m *testing.M) {
	if address := os.Getenv(bareAddress); address != "" {
		serveBare(address)
		return
	}
	if os.Getenv(busyLoop) != "" {
		spin()
		return
	}
	log.SetLogger(logr.Discard())
	leave, err := inOneGroup()
	if err != nil {
		fmt.Println("PostgreSQL's connections compete one by one for the processors, and figures with busy loops suffer:", err)
		leave = func() error { return nil }
	}
	code := pgtest.Main(m, pgtest.Durable)
	if err := leave(); err != nil {
		fmt.Println(err)
	}
	os.Exit(code)
}

// world is a control plane with Cardea's processes, and one tenant with a key that may do everything.
type world struct {
	*testkit.Cluster
	processes *testkit.Processes
	namespace string
	key       string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	cluster, err := testkit.StartClusterWith(t.Context(), controlplane.Options{
		// The log is read from its beginning, so it must not be rotated.
		AuditLog: true, APIServerArgs: []string{"--audit-log-maxsize=100000"},
	})
	check(t, err)
	t.Cleanup(func() { report(t, cluster.Stop()) })
	processes, err := testkit.NewProcesses(t.Context(), cluster)
	check(t, err)
	t.Cleanup(func() { report(t, processes.Close()) })
	w := &world{Cluster: cluster, processes: processes}
	w.namespace, err = cluster.Namespace(t.Context())
	check(t, err)
	return w
}

// start runs a role until the test ends and waits until it is ready.
func (w *world) start(t *testing.T, launch testkit.Launch) *testkit.Cardea {
	t.Helper()
	c, err := w.processes.Start(t.Context(), launch)
	check(t, err)
	check(t, c.AwaitReady(t.Context()))
	return c
}

// tenant creates a deployment, an app and a key, and waits until the key is there.
func (w *world) tenant(t *testing.T) {
	t.Helper()
	binding, err := os.ReadFile(filepath.Join(testkit.Root(), "config", "samples", "secrets_role_binding.yaml"))
	check(t, err)
	out, err := w.Kubectl(t.Context(), strings.Replace(string(binding), "namespace: acme", "namespace: "+w.namespace, 1), "apply", "-f", "-")
	if err != nil {
		t.Fatal(err, out)
	}
	key := testkit.Key(w.namespace, "backend", "key", "*")
	for _, obj := range []client.Object{testkit.Deployment(w.namespace, deployment), testkit.App(w.namespace, deployment, "backend", "*"), key} {
		check(t, w.Client.Create(t.Context(), obj))
	}
	await(t, time.Minute, 20*time.Millisecond, func() bool {
		ready, err := w.Ready(t.Context(), key)
		check(t, err)
		return ready
	})
	w.key = w.APIKey(t.Context(), w.namespace, "key")
}

// sqliteURL returns the URL of a store in the world's folder.
func (w *world) sqliteURL() string { return "sqlite://" + w.processes.Path("cardea.db") }

// each calls work for 0 to n-1 from several workers and ends the test on the first error.
func each(t *testing.T, n int, work func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	next := make(chan int)
	done := make(chan struct{})
	for range workers {
		go func() {
			for i := range next {
				if err := work(ctx, i); err != nil {
					cancel(fmt.Errorf("%d: %w", i, err))
				}
			}
			done <- struct{}{}
		}()
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		next <- i
	}
	close(next)
	for range workers {
		<-done
	}
	check(t, context.Cause(ctx))
}

// await calls done until it returns true, and ends the test after patience. It returns the time that took.
func await(t *testing.T, patience, pause time.Duration, done func() bool) time.Duration {
	t.Helper()
	begin := time.Now()
	for !done() {
		if time.Since(begin) > patience {
			t.Fatalf("not done after %s", patience)
		}
		time.Sleep(pause) // the resolution of the measured time
	}
	return time.Since(begin)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func report(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// row prints a line of the table of docs/benchmarks.md.
func row(what, target, format string, values ...any) {
	fmt.Printf("| %s | %s | %s |\n", what, target, fmt.Sprintf(format, values...))
}

// quantile returns the q-quantile of samples.
func quantile(samples []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(samples))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
