package reseal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// ring returns a ring of root keys, one for each byte.
func ring(t *testing.T, fills ...byte) *seal.Keyring {
	t.Helper()
	var files []string
	for _, fill := range fills {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, bytes.Repeat([]byte{fill}, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	r, err := seal.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// hooked is a store that runs functions of a test before its calls and counts the calls.
type hooked struct {
	Store
	beforeChange   func() error
	lists, changes int
	lastAfter      people.SealedSecret
}

func (h *hooked) SealedSecrets(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
	h.lists, h.lastAfter = h.lists+1, after
	return h.Store.SealedSecrets(ctx, after, limit)
}

func (h *hooked) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	h.changes++
	if h.beforeChange != nil {
		if err := h.beforeChange(); err != nil {
			return err
		}
	}
	return h.Store.Change(ctx, deployment, do)
}

// world is a store with sealed secrets.
type world struct {
	*servertest.World
	store *hooked
	logs  strings.Builder
}

func onEngines(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := &world{World: servertest.New(t, url, nil)}
		w.store = &hooked{Store: w.Store}
		story(t, w)
	})
}

func (w *world) worker(keys *seal.Keyring) *Worker {
	return New(Options{Store: w.store, Keyring: keys, Clock: w.Clock.Now, Registry: prometheus.NewRegistry(),
		Log: funcr.New(func(prefix, args string) { w.logs.WriteString(prefix + args + "\n") }, funcr.Options{})})
}

func secretOf(deployment string, id int64) string {
	return fmt.Sprintf("secret %d of %s", id, deployment)
}

// fill inserts authenticators from first to last, sealed by a ring.
func (w *world) fill(keys *seal.Keyring, deployment string, first, last int64) {
	w.T.Helper()
	w.Must(w.Store.Change(w.T.Context(), deployment, func(tx people.Tx) error {
		for id := first; id <= last; id++ {
			sealed := keys.Seal(people.SealedAuthenticator, people.SealedFor(deployment, id), []byte(secretOf(deployment, id)))
			if err := tx.Factors().InsertAuthenticator(w.authenticator(id, sealed)); err != nil {
				return err
			}
		}
		return nil
	}))
}

func (w *world) authenticator(id int64, sealed string) people.Authenticator {
	return people.Authenticator{ID: id, User: id, Sealed: sealed, Algorithm: "SHA1", Digits: 6, Period: 30 * time.Second, CreatedAt: w.Clock.Now()}
}

func (w *world) insert(deployment string, id int64, sealed string) {
	w.T.Helper()
	w.Must(w.Store.Change(w.T.Context(), deployment, func(tx people.Tx) error { return tx.Factors().InsertAuthenticator(w.authenticator(id, sealed)) }))
}

func (w *world) sealed(deployment string, id int64) string {
	w.T.Helper()
	var all []people.Authenticator
	w.Must(w.Store.View(w.T.Context(), deployment, func(tx people.Tx) (err error) { all, err = tx.Factors().AuthenticatorsOf(id); return err }))
	if len(all) != 1 {
		w.T.Fatalf("authenticator %d of %s: %d rows", id, deployment, len(all))
	}
	return all[0].Sealed
}

// opens requires that a ring opens the secrets of authenticators.
func (w *world) opens(keys *seal.Keyring, deployment string, first, last int64) {
	w.T.Helper()
	for id := first; id <= last; id++ {
		text, err := keys.Open(people.SealedAuthenticator, people.SealedFor(deployment, id), w.sealed(deployment, id))
		if err != nil || string(text) != secretOf(deployment, id) {
			w.T.Fatalf("authenticator %d of %s: %q, %v", id, deployment, text, err)
		}
	}
}

// counts requires the series of the metric.
func (w *world) counts(worker *Worker, want map[string]int) {
	w.T.Helper()
	if n := testutil.CollectAndCount(worker.counts); n != len(want) {
		w.T.Errorf("%d series, want %v", n, want)
	}
	for key, n := range want {
		if got := testutil.ToFloat64(worker.counts.WithLabelValues(key)); got != float64(n) {
			w.T.Errorf("key %s seals %v secrets, want %d", key, got, n)
		}
	}
}

func TestOldRootKeySealsNothingAfterAWalk(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		before, rotated, after := ring(t, 1), ring(t, 2, 1), ring(t, 2)
		oldKey, newKey := before.IDs()[0], after.IDs()[0]
		w.fill(before, "acme/a", 1, 7)
		w.fill(before, "acme/b", 1, 4)
		w.fill(rotated, "acme/b", 5, 6)
		worker := w.worker(rotated)
		worker.batch, worker.writes = 3, 5
		w.Must(worker.Pass(t.Context()))
		w.counts(worker, map[string]int{})
		if w.store.changes != 6 {
			t.Errorf("a pass of two batches wrote %d secrets", w.store.changes)
		}
		w.Must(worker.Pass(t.Context()))
		w.Must(worker.Pass(t.Context()))
		w.counts(worker, map[string]int{oldKey: 0, newKey: 13})
		w.opens(after, "acme/a", 1, 7)
		w.opens(after, "acme/b", 1, 6)
		if w.store.changes != 11 {
			t.Errorf("%d writes for 11 secrets", w.store.changes)
		}
		// A server that still has the old key first adds one; the next walk, an hour later, finds it.
		w.fill(before, "acme/a", 8, 8)
		lists := w.store.lists
		w.Must(worker.Pass(t.Context()))
		if w.store.lists != lists {
			t.Error("a second walk within the hour")
		}
		w.Clock.Advance(walkEvery)
		w.Must(worker.Pass(t.Context()))
		w.opens(after, "acme/a", 8, 8)
		w.counts(worker, map[string]int{oldKey: 0, newKey: 14})
		w.Clock.Advance(walkEvery)
		changes := w.store.changes
		w.Must(worker.Pass(t.Context()))
		if w.store.changes != changes || w.logs.Len() > 0 {
			t.Errorf("a walk that finds nothing to do wrote %d times and logged %q", w.store.changes-changes, w.logs.String())
		}
	})
}

func TestConcurrentChangeIsNotOverwritten(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		before, rotated, after := ring(t, 1), ring(t, 2, 1), ring(t, 2)
		oldKey, newKey := before.IDs()[0], after.IDs()[0]
		w.fill(before, "acme/a", 1, 3)
		newer := after.Seal(people.SealedAuthenticator, people.SealedFor("acme/a", 1), []byte("another secret"))
		w.store.beforeChange = func() error {
			w.store.beforeChange = nil
			return w.Store.Change(t.Context(), "acme/a", func(tx people.Tx) error {
				_, err1 := tx.Factors().ResealAuthenticator(1, w.sealed("acme/a", 1), newer)
				_, err2 := tx.Factors().DeleteAuthenticator(2)
				return errors.Join(err1, err2)
			})
		}
		worker := w.worker(rotated)
		w.Must(worker.Pass(t.Context()))
		if got := w.sealed("acme/a", 1); got != newer {
			t.Errorf("the concurrent change was overwritten by %s", got)
		}
		w.opens(after, "acme/a", 3, 3)
		w.counts(worker, map[string]int{oldKey: 2, newKey: 1})
		w.Must(worker.Pass(t.Context())) // at once, because the counts were too high
		w.counts(worker, map[string]int{oldKey: 0, newKey: 2})
	})
}

func TestSecretThatNoKeyOpensIsSkipped(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		lost, before, rotated, after := ring(t, 9), ring(t, 1), ring(t, 2, 1), ring(t, 2)
		lostKey, oldKey, newKey := lost.IDs()[0], before.IDs()[0], after.IDs()[0]
		w.fill(lost, "acme/a", 1, 1)
		w.fill(before, "acme/a", 2, 2)
		w.insert("acme/a", 3, "no sealed text")
		w.insert("acme/a", 4, w.sealed("acme/a", 2)) // the text of another object
		w.fill(before, "acme/a", 5, 5)
		kept := map[int64]string{1: w.sealed("acme/a", 1), 3: w.sealed("acme/a", 3), 4: w.sealed("acme/a", 4)}
		worker := w.worker(rotated)
		w.Must(worker.Pass(t.Context()))
		w.opens(after, "acme/a", 2, 2)
		w.opens(after, "acme/a", 5, 5)
		for id, sealed := range kept {
			if got := w.sealed("acme/a", id); got != sealed {
				t.Errorf("authenticator %d was written: %s", id, got)
			}
		}
		w.counts(worker, map[string]int{lostKey: 1, unknownKey: 1, oldKey: 1, newKey: 2})
		if logs := w.logs.String(); strings.Count(logs, "\n") != 1 || !strings.Contains(logs, lostKey) || strings.Contains(logs, "sealed text") || strings.Contains(logs, kept[1]) {
			t.Errorf("logged %q", logs)
		}
		w.Must(w.Store.Change(t.Context(), "acme/a", func(tx people.Tx) error { _, err := tx.Factors().DeleteAuthenticator(1); return err }))
		w.Clock.Advance(walkEvery)
		w.Must(worker.Pass(t.Context()))
		w.counts(worker, map[string]int{unknownKey: 1, oldKey: 1, newKey: 2})
	})
}

func TestPassContinuesAfterAnOutage(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		before, rotated, after := ring(t, 1), ring(t, 2, 1), ring(t, 2)
		w.fill(before, "acme/a", 1, 4)
		worker := w.worker(rotated)
		down := errors.New("unavailable")
		w.store.beforeChange = func() error {
			if w.store.changes == 3 {
				return down
			}
			return nil
		}
		if err := worker.Pass(t.Context()); !errors.Is(err, down) {
			t.Fatal(err)
		}
		w.counts(worker, map[string]int{})
		w.Must(worker.Pass(t.Context()))
		if w.store.lastAfter.ID != 2 {
			t.Errorf("the second pass began after authenticator %d", w.store.lastAfter.ID)
		}
		w.opens(after, "acme/a", 1, 4)
		w.counts(worker, map[string]int{before.IDs()[0]: 0, after.IDs()[0]: 4})
	})
}

func TestServerWithoutRootKeyReadsNothing(t *testing.T) {
	t.Parallel()
	store := &hooked{}
	worker := New(Options{Store: store, Keyring: &seal.Keyring{}, Clock: time.Now, Registry: prometheus.NewRegistry()})
	if err := worker.Pass(t.Context()); err != nil || store.lists != 0 || testutil.CollectAndCount(worker.counts) != 0 {
		t.Errorf("%v, %d lists", err, store.lists)
	}
}

func TestOldRootKeySealsNoConnectionAfterAWalk(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		before, rotated, after := ring(t, 1), ring(t, 2, 1), ring(t, 2)
		seals := func(keys *seal.Keyring, deployment string, id int64) string {
			return keys.Seal(people.SealedConnection, people.SealedFor(deployment, id), []byte(secretOf(deployment, id)))
		}
		for _, deployment := range []string{"acme/a", "acme/b"} {
			for id := int64(1); id <= 3; id++ {
				sealed := ""
				if id != 2 { // one has no secret yet
					sealed = seals(before, deployment, id)
				}
				w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
					return tx.Connections().InsertConnection(people.Connection{ID: id, Organization: 1, Slug: fmt.Sprint("c-", id), Settings: "{}", Secrets: sealed, CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
				}))
			}
		}
		worker := NewForConnections(Options{Store: w.store, Keyring: rotated, Clock: w.Clock.Now, Registry: prometheus.NewRegistry()})
		w.Must(worker.Pass(t.Context()))
		for _, deployment := range []string{"acme/a", "acme/b"} {
			for id := int64(1); id <= 3; id += 2 {
				var row people.Connection
				w.Must(w.Store.View(t.Context(), deployment, func(tx people.Tx) (err error) { row, _, err = tx.Connections().Connection(id); return err }))
				text, err := after.Open(people.SealedConnection, people.SealedFor(deployment, id), row.Secrets)
				if err != nil || string(text) != secretOf(deployment, id) {
					t.Errorf("connection %d of %s: %q, %v", id, deployment, text, err)
				}
			}
		}
		w.counts(worker, map[string]int{before.IDs()[0]: 0, after.IDs()[0]: 4})
	})
}

// Rows of type SAML have a private key in place of a client secret.
func TestPrivateKeysOfConnectionsAreSealedAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		before, rotated, after := ring(t, 1), ring(t, 2, 1), ring(t, 2)
		key, err := saml.GenerateKey("acme.example", w.Clock.Now())
		w.Must(err)
		private, certificate, err := key.PEM()
		w.Must(err)
		settings := connection.Settings{Type: connection.TypeSAML, Name: "Globex", SAML: &connection.SAMLSettings{Certificate: string(certificate)}}
		row := people.Connection{
			ID: 7, Organization: 1, Slug: "c-7", Settings: settings.String(), Secrets: before.Seal(people.SealedConnection, people.SealedFor("acme/a", 7), private),
			CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now(),
		}
		w.Must(w.Store.Change(t.Context(), "acme/a", func(tx people.Tx) error { return tx.Connections().InsertConnection(row) }))
		worker := NewForConnections(Options{Store: w.store, Keyring: rotated, Clock: w.Clock.Now, Registry: prometheus.NewRegistry()})
		w.Must(worker.Pass(t.Context()))
		w.Must(w.Store.View(t.Context(), "acme/a", func(tx people.Tx) (err error) { row, _, err = tx.Connections().Connection(7); return err }))
		opened, err := after.Open(people.SealedConnection, people.SealedFor("acme/a", 7), row.Secrets)
		w.Must(err)
		if _, err := saml.ParseKey(opened, certificate); err != nil || row.Settings != settings.String() {
			t.Errorf("%v, settings %s", err, row.Settings)
		}
		w.counts(worker, map[string]int{before.IDs()[0]: 0, after.IDs()[0]: 1})
	})
}
