package bench

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	scaleResources = 10_000
	foreignSecrets = 1000
	foreignSize    = 100 << 10
	drainWithin    = 5 * time.Minute
)

// TestBenchScale activates 10,000 schemes over PostgreSQL, compares that with as many bare writes, and restarts the
// operator over these schemes.
func TestBenchScale(t *testing.T) {
	w := newWorld(t)
	bareBefore := w.bareWrites(t, "bare-before")

	url := pgtest.ForTest(t)
	st := openStore(t, url)
	operator := w.start(t, testkit.Launch{Role: "operator", Store: url})
	w.tenant(t)
	created, ready := w.createAll(t, operator)
	check(t, operator.Stop(30*time.Second))
	bareAfter := w.bareWrites(t, "bare-after")
	bare := (bareBefore + bareAfter) / 2
	row("10,000 RateLimitSchemes created by 8 workers, all Ready, to as many bare writes (3 an object)", "<= 1.5",
		"%.2f (%.1f s, of which the creates took %.1f s, to %.1f s: the mean of %.1f s before and %.1f s after)",
		ready.Seconds()/bare.Seconds(), ready.Seconds(), created.Seconds(), bare.Seconds(), bareBefore.Seconds(), bareAfter.Seconds())

	operator = w.restart(t, url, st, "operator, PostgreSQL")
	check(t, operator.Stop(30*time.Second))
	w.foreignSecrets(t)
	operator = w.restart(t, url, st, "operator, PostgreSQL, with 1,000 foreign Secrets of 100 KiB")
	check(t, operator.Stop(30*time.Second))
	w.freshDuringRestart(t, url)
	w.processes.KillAll()

	w.standalone(t)
}

// bareWrites creates, finalizes and reports 10,000 resources of the same kind as Cardea's operator would, while no
// operator runs. It returns how long that took and deletes the resources.
func (w *world) bareWrites(t *testing.T, namespace string) time.Duration {
	t.Helper()
	check(t, w.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	begin := time.Now()
	each(t, scaleResources, func(ctx context.Context, i int) error {
		obj := testkit.Scheme(namespace, deployment, fmt.Sprintf("scheme-%05d", i))
		if err := w.Client.Create(ctx, obj); err != nil {
			return err
		}
		finalizer := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"finalizers":["example.com/bench"],"resourceVersion":%q}}`, obj.ResourceVersion))
		if err := w.Client.Patch(ctx, obj, finalizer); err != nil {
			return err
		}
		status := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":%s}`, obj.ResourceVersion, likeStatus))
		return w.Client.Status().Patch(ctx, obj, status)
	})
	took := time.Since(begin)
	each(t, scaleResources, func(ctx context.Context, i int) error {
		obj := testkit.Scheme(namespace, deployment, fmt.Sprintf("scheme-%05d", i))
		if err := w.Client.Patch(ctx, obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
			return err
		}
		return w.Client.Delete(ctx, obj)
	})
	return took
}

// likeStatus has the size of a status that the operator writes.
const likeStatus = `{"observedGeneration":1,"id":"1234567890123456789","contentHash":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",` +
	`"updatedAt":"2026-01-01T00:00:00.000000Z","claims":["id/RateLimitScheme/1234567890123456789","slug/RateLimitScheme/test-1/acme/scheme-00000"],"conditions":[` +
	`{"type":"Accepted","status":"True","reason":"Accepted","message":"valid, and not in conflict with another resource","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"},` +
	`{"type":"Ready","status":"True","reason":"Ready","message":"the declared state is active","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"},` +
	`{"type":"ReferencesResolved","status":"True","reason":"Resolved","message":"every reference was found","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"},` +
	`{"type":"Synced","status":"True","reason":"Synced","message":"the store has this generation","observedGeneration":1,"lastTransitionTime":"2026-01-01T00:00:00Z"}]}`

// createAll creates the schemes and returns the time until all were created, and the time until all were Ready.
func (w *world) createAll(t *testing.T, operator *testkit.Cardea) (created, ready time.Duration) {
	t.Helper()
	before := reconciles(t, operator)
	begin := time.Now()
	each(t, scaleResources, func(ctx context.Context, i int) error {
		return w.Client.Create(ctx, testkit.Scheme(w.namespace, deployment, fmt.Sprintf("scheme-%05d", i)))
	})
	created = time.Since(begin)
	// Polling the operator's counters is cheap; listing all schemes would distort the measurement.
	for {
		await(t, drainWithin, 20*time.Millisecond, func() bool {
			return reconciles(t, operator) >= before+scaleResources && idle(t, operator)
		})
		ready = time.Since(begin)
		if w.countReady(t) == scaleResources {
			return created, ready
		}
	}
}

// countReady counts the schemes that are Ready for their current generation.
func (w *world) countReady(t *testing.T) int {
	t.Helper()
	var list v1alpha1.RateLimitSchemeList
	check(t, w.Client.List(t.Context(), &list, client.InNamespace(w.namespace)))
	count := 0
	for i := range list.Items {
		for _, c := range list.Items[i].Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue && c.ObservedGeneration == list.Items[i].Generation {
				count++
			}
		}
	}
	return count
}

// restart starts an operator over all schemes, waits until it has reconciled them, and prints its writes and its
// memory.
func (w *world) restart(t *testing.T, url string, st store.Store, setting string) *testkit.Cardea {
	t.Helper()
	log := w.auditEnd(t)
	_, position, err := st.Load(t.Context())
	check(t, err)
	begin := time.Now()
	operator := w.start(t, testkit.Launch{Role: "operator", Store: url})
	w.drain(t, operator)
	took := time.Since(begin)
	// Late writes of the operator follow within three seconds.
	await(t, time.Minute, 100*time.Millisecond, func() bool { return time.Since(begin) > took+3*time.Second })
	_, after, err := st.Load(t.Context())
	check(t, err)
	now, most := memory(t, operator.PID())
	row("restart over 10,000: API writes, store writes; "+setting, "0, 0", "%d, %d", w.writesSince(t, log, "cardea-operator"), after.Revision-position.Revision)
	row("restart over 10,000: from the start of the process until each was reconciled; "+setting, "seconds", "%.1f s", took.Seconds())
	row("resident memory after that; "+setting, "< 200 MiB", "%.0f MiB (at most %.0f MiB)", now, most)
	return operator
}

// freshDuringRestart creates a scheme while a new operator reconciles the others.
func (w *world) freshDuringRestart(t *testing.T, url string) {
	t.Helper()
	operator := w.start(t, testkit.Launch{Role: "operator", Store: url})
	await(t, time.Minute, 5*time.Millisecond, func() bool { return reconciles(t, operator) > 0 })
	begun := reconciles(t, operator)
	fresh := testkit.Scheme(w.namespace, deployment, "fresh")
	check(t, w.Client.Create(t.Context(), fresh))
	took := await(t, time.Minute, 2*time.Millisecond, func() bool {
		ready, err := w.Ready(t.Context(), fresh)
		check(t, err)
		return ready
	})
	behind := reconciles(t, operator)
	w.drain(t, operator)
	row("a scheme created during a restart over 10,000: Ready after", "< 2 s", "%s (created after %.0f passes, Ready after %.0f)", ms(took), begun, behind)
}

// standalone fills an empty SQLite file from the same resources, and then restarts over it.
func (w *world) standalone(t *testing.T) {
	t.Helper()
	launch := testkit.Launch{Role: "standalone", Store: w.sqliteURL()}
	log := w.auditEnd(t)
	begin := time.Now()
	standalone := w.start(t, launch)
	w.drain(t, standalone)
	await(t, time.Minute, 10*time.Millisecond, func() bool {
		documents, err := standalone.Metric("cardea_snapshot_documents")
		check(t, err)
		return documents > scaleResources
	})
	row("an empty store filled from 10,000 resources; SQLite, standalone", "-", "%.1f s, %d API writes", time.Since(begin).Seconds(), w.writesSince(t, log, "cardea-standalone"))
	check(t, standalone.Stop(30*time.Second))

	log = w.auditEnd(t)
	begin = time.Now()
	standalone = w.start(t, launch)
	w.drain(t, standalone)
	row("restart over 10,000: until each was reconciled, API writes; SQLite, standalone", "seconds, 0", "%.1f s, %d", time.Since(begin).Seconds(), w.writesSince(t, log, "cardea-standalone"))
	now, most := memory(t, standalone.PID())
	row("resident memory after that; operator and server in one process, with the foreign Secrets", "-", "%.0f MiB (at most %.0f MiB)", now, most)
}

// drain waits until an operator has reconciled every scheme and its queues are empty.
func (w *world) drain(t *testing.T, operator *testkit.Cardea) {
	t.Helper()
	await(t, drainWithin, 20*time.Millisecond, func() bool { return reconciles(t, operator) >= scaleResources && idle(t, operator) })
}

// reconciles returns how many reconciles of schemes an operator has completed.
func reconciles(t *testing.T, operator *testkit.Cardea) float64 {
	t.Helper()
	total, err := operator.Metric("controller_runtime_reconcile_total", `controller="RateLimitScheme"`)
	if err != nil {
		return 0 // before the first reconcile
	}
	return total
}

// idle reports whether no controller has a queued or active reconcile.
func idle(t *testing.T, operator *testkit.Cardea) bool {
	t.Helper()
	queued, err := operator.Metric("workqueue_depth")
	check(t, err)
	active, err := operator.Metric("controller_runtime_active_workers")
	check(t, err)
	return queued+active == 0
}

// foreignSecrets creates Secrets that Cardea does not use, in the namespace of its APIKey.
func (w *world) foreignSecrets(t *testing.T) {
	t.Helper()
	content := make([]byte, foreignSize)
	_, _ = rand.Read(content)
	each(t, foreignSecrets, func(ctx context.Context, i int) error {
		return w.Client.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: fmt.Sprintf("foreign-%04d", i)}, Data: map[string][]byte{"content": content},
		})
	})
}

func openStore(t *testing.T, url string) store.Store {
	t.Helper()
	st, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	check(t, err)
	t.Cleanup(func() { report(t, st.Close()) })
	return st
}

// auditEnd returns the current length of the audit log in bytes.
func (w *world) auditEnd(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(w.AuditLog())
	check(t, err)
	return info.Size()
}

// writesSince counts the Kubernetes writes of one of Cardea's ServiceAccounts since an offset in the audit log. It
// ignores Leases and events.
func (w *world) writesSince(t *testing.T, since int64, account string) int {
	t.Helper()
	file, err := os.Open(w.AuditLog())
	check(t, err)
	defer file.Close()
	_, err = file.Seek(since, 0)
	check(t, err)
	writes, seen := 0, 0
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		if !bytes.Contains(line, []byte(account)) {
			continue
		}
		var entry struct {
			Verb      string
			User      struct{ Username string }
			ObjectRef struct{ Resource string }
		}
		check(t, json.Unmarshal(line, &entry))
		if !strings.HasSuffix(entry.User.Username, ":"+account) {
			continue
		}
		seen++
		switch entry.Verb {
		case "get", "list", "watch":
			continue
		}
		if entry.ObjectRef.Resource != "leases" && entry.ObjectRef.Resource != "events" {
			writes++
		}
	}
	if seen == 0 {
		t.Fatalf("the audit log knows no request of %s", account)
	}
	return writes
}
