package webhooks_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// The variables of a server in its own process: the URL of its store, its time, its root key, and the statement before
// which it kills itself, 0: it ends once all is delivered.
const killedURL, killedClock, killedKey, killedAt = "CARDEA_TEST_WEBHOOKS_URL", "CARDEA_TEST_WEBHOOKS_CLOCK", "CARDEA_TEST_WEBHOOKS_KEY", "CARDEA_TEST_WEBHOOKS_KILL_AT"

func TestMain(m *testing.M) {
	if os.Getenv(killedURL) != "" {
		if err := sendsUntilKilled(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(pgtest.Main(m))
}

// leastStatements is how many statements a server has at least that numbers and delivers events.
const leastStatements = 20

// sendsUntilKilled numbers and sends the events of the store, and kills this process before a statement.
func sendsUntilKilled() error {
	micros, err := strconv.ParseInt(os.Getenv(killedClock), 10, 64)
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(os.Getenv(killedAt), 10, 64)
	if err != nil {
		return err
	}
	keyring, err := seal.Load([]string{os.Getenv(killedKey)})
	if err != nil {
		return err
	}
	began := time.Now()
	clock := func() time.Time { return time.UnixMicro(micros).UTC().Add(time.Since(began)) }
	var left atomic.Int64
	st, err := sqlstore.Open(context.Background(), os.Getenv(killedURL), sqlstore.Options{Clock: clock, Logger: logr.Discard(), Trace: func(string, []any) {
		if left.Add(-1) == 0 {
			fmt.Print(clock().UnixMicro())
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}})
	if err != nil {
		return err
	}
	defer func() { _ = st.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	follower := snapshot.NewFollower(st, time.Hour, clock, logr.Discard())
	go func() { _ = follower.Run(ctx) }()
	<-follower.Loaded()
	left.Store(at)
	numbering := newSequencer(st, clock)
	d := webhooks.New(webhooks.Options{
		Store: st, Snapshots: follower, Keyring: keyring, Signer: tokensigner.New(keyring), Clock: clock, Log: logr.Discard(), Server: strconv.Itoa(os.Getpid()), Version: "test",
		Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil),
	})
	numbering.OnNumbered(d.Wake)
	go func() { _ = numbering.Run(ctx) }()
	go func() { _ = d.Run(ctx) }()
	// The statements of this look count too: the first look of a server that is to be killed comes when it has delivered
	// all.
	every := 20 * time.Millisecond
	if at > 0 {
		every = 2 * time.Second
	}
	for {
		if err := pause.For(ctx, every); err != nil {
			return fmt.Errorf("neither killed at statement %d nor all delivered: %w", at, err)
		}
		if allDelivered(ctx, st) {
			return nil
		}
	}
}

// allDelivered reports whether no event and no delivery waits.
func allDelivered(ctx context.Context, st people.Store) (all bool) {
	unnumbered, err := st.UnnumberedEvents(ctx)
	if err != nil || len(unnumbered) > 0 {
		return false
	}
	err = st.View(ctx, deployment, func(tx people.Tx) error {
		bounds, err := tx.EventLog().EventBounds()
		if err != nil {
			return err
		}
		refs, err := st.ListWebhooks(ctx, people.WebhookRef{}, 10)
		if err != nil || len(refs) == 0 {
			return err
		}
		state, _, err := tx.Webhooks().WebhookState(refs[0].Endpoint)
		if err != nil {
			return err
		}
		open, err := tx.Webhooks().OpenDeliveries(refs[0].Endpoint, 10)
		all = state.Position == bounds.Last && len(open) == 0
		return err
	})
	return all && err == nil
}

// sendsInOtherProcess runs a server until it is killed before a statement, and returns when; or until all is delivered,
// and returns zero.
func (w *world) sendsInOtherProcess(key string, at int) (killed time.Time) {
	w.t.Helper()
	running := exec.CommandContext(w.t.Context(), os.Args[0])
	running.Env = append(os.Environ(), killedURL+"="+w.URL, killedKey+"="+key, killedAt+"="+strconv.Itoa(at), killedClock+"="+strconv.FormatInt(w.Clock.Now().UnixMicro(), 10))
	running.Stderr = os.Stderr
	out, err := running.Output()
	status, _ := running.ProcessState.Sys().(syscall.WaitStatus)
	if err != nil && (at == 0 || status.Signal() != syscall.SIGKILL) {
		w.t.Fatalf("the server that is to be killed before statement %d: %v", at, err)
	}
	if err != nil {
		micros, err := strconv.ParseInt(string(out), 10, 64)
		w.Must(err)
		killed = time.UnixMicro(micros)
	}
	return killed
}

// record records an event of each user without a number, in a store that is open only meanwhile.
func (w *world) record(users ...int64) {
	w.Store = w.OpenStore()
	var list []people.LoggedEvent
	for _, user := range users {
		e, err := events.OfAccount(user, "password").Log(w.Clock.Now(), "system")
		w.Must(err)
		list = append(list, e)
	}
	w.Must(w.Store.Change(w.t.Context(), deployment, func(tx people.Tx) error { return tx.Records().LogEvents(list) }))
	w.Must(w.Store.Close())
}

// A server that is killed before any of its statements, from the first look for events to the result of the last
// delivery, loses no event and keeps the order of each user. It sends those again whose results were not written.
func TestServerThatIsKilledBeforeAnyStatementLosesNothing(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		id := w.endpoint("crm", r.URL, nil)
		key := filepath.Join(t.TempDir(), "root.key")
		w.Must(os.WriteFile(key, servertest.RootKey, 0o600))
		step, recorded := 2, int64(0)
		if os.Getenv("CARDEA_TEST_ENGINES") == "all" {
			step = 1
		}
		w.Must(w.Store.Close()) // SQLite permits one open store
		at := 1
		for killed := true; killed; at += step {
			w.record(1, 2, 1, 3)
			recorded += 4
			killed = !w.sendsInOtherProcess(key, at).IsZero()
			w.Clock.Advance(time.Minute) // the lease of the server that was killed ends
		}
		if at < leastStatements {
			t.Errorf("a server that delivers all has %d statements at most", at)
		}
		w.sendsInOtherProcess(key, 0)
		w.Store = w.OpenStore()
		hook, err := standardwebhooks.NewWebhook(secrets[0])
		w.Must(err)
		seen := map[string]string{}
		for _, one := range r.all() {
			w.Must(hook.VerifyIgnoringTimestamp(one.body, one.header)) // the clock is ahead
			if earlier, again := seen[one.event.ID]; again && earlier != one.event.Sequence {
				t.Errorf("event %s has the numbers %s and %s", one.event.ID, earlier, one.event.Sequence)
			}
			seen[one.event.ID] = one.event.Sequence
		}
		if n := int64(expectOrder(t, r.all())); n != recorded || int64(len(seen)) != recorded {
			t.Errorf("%d of %d events arrived", n, recorded)
		}
		rows := map[int64]int{}
		for _, d := range w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered}) {
			rows[d.Event]++
		}
		for event, n := range rows {
			if n != 1 {
				t.Errorf("event %d has %d deliveries", event, n)
			}
		}
		if int64(len(rows)) != recorded {
			t.Errorf("%d of %d events have a delivery", len(rows), recorded)
		}
		t.Logf("%d requests for %d events, killed before up to %d statements", len(r.all()), recorded, at-step)
	})
}

// A server is killed while it has the lease, which lasts 15 s. Another server delivers all events within 20 s, and
// sends none before the lease ends.
func TestAnotherServerContinuesWithin20SecondsAfterOneIsKilled(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		id := w.endpoint("crm", r.URL, nil)
		key := filepath.Join(t.TempDir(), "root.key")
		w.Must(os.WriteFile(key, servertest.RootKey, 0o600))
		w.Must(w.Store.Close()) // SQLite permits one open store
		leased := 0
		for n, at := range []int{10, 14, 18, 22, 26} {
			w.record(1, 2, 1, 3)
			killed := w.sendsInOtherProcess(key, at)
			if killed.IsZero() {
				t.Fatalf("the server delivered all before statement %d", at)
			}
			w.Store = w.OpenStore()
			w.sequencer = newSequencer(w.Store, w.Clock.Now)
			until, requests := w.state(id).LeasedUntil, len(r.all())
			held := until.After(w.Clock.Now())
			if held {
				leased++
			}
			stop := w.serves(fmt.Sprintf("server %d", n))
			w.Eventually("the lease is about to end", func() bool {
				if held && len(r.all()) > requests {
					t.Errorf("killed at statement %d: another server sends during the lease", at)
				}
				over := !held || !w.Clock.Now().Before(until.Add(-time.Second))
				if !over {
					w.Clock.Advance(250 * time.Millisecond)
				}
				return over
			})
			w.Eventually("the events arrive", func() bool {
				w.Clock.Advance(10 * time.Millisecond) // as often as in real time
				w.numbers()
				return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 4*(n+1)
			})
			if pause := w.Clock.Now().Sub(killed); pause > 20*time.Second {
				t.Errorf("killed at statement %d: the events arrived after %v", at, pause)
			}
			stop()
			w.Must(w.Store.Close())
		}
		if leased < 2 {
			t.Errorf("%d of the servers were killed while they had the lease", leased)
		}
		if n := expectOrder(t, r.all()); n != 20 {
			t.Errorf("%d of 20 events arrived", n)
		}
		w.Store = w.OpenStore()
	})
}
