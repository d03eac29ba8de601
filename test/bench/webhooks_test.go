package bench

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// sentRound is how many deliveries a round has.
	sentRound = 2000
	// coldSends is how many events are sent one by one, and coldPause the pause before each, after which no server has the
	// endpoint any more.
	coldSends, coldPause = 30, 2500 * time.Millisecond
	// besideSends is how many events a round beside deadEndpoints has.
	besideSends, deadEndpoints = 200, 99
	// slowReceiver is how long a receiver takes for a request that is not on the same machine, or that does something.
	slowReceiver = 5 * time.Millisecond
	// idleEndpoints is how many endpoints have nothing to send, and idleFor how long they are watched.
	idleEndpoints, idleFor = 1000, 20 * time.Second
)

var signingSecret = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{'a'}, 32))

// webhookWorld is a server that sends to a receiver.
type webhookWorld struct {
	*eventWorld
	receiver *httptest.Server
	// slow is how long the receiver takes for a request, in nanoseconds.
	slow    atomic.Int64
	arrived atomic.Int64
	body    atomic.Pointer[[]byte]
}

// TestBenchWebhooks measures how fast events are delivered to webhook endpoints, and what idle endpoints cost.
func TestBenchWebhooks(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		// The servers of one part end before the next one.
		t.Run(engine, func(t *testing.T) {
			w := newWebhookWorld(t, engine)
			before := w.idle()
			w.begin(t)
			w.cold(t, engine)
			w.deliveries(t, engine, "")
			w.slow.Store(int64(slowReceiver))
			w.deliveries(t, engine, fmt.Sprintf(", to a receiver that takes %s", slowReceiver))
			w.slow.Store(0)
			w.many(t, engine, before)
		})
		t.Run(engine+"/beside", func(t *testing.T) {
			w := newWebhookWorld(t, engine)
			w.begin(t)
			w.beside(t, engine)
		})
	}
}

func newWebhookWorld(t *testing.T, engine string) *webhookWorld {
	t.Helper()
	w := &webhookWorld{eventWorld: &eventWorld{peopleWorld: newEmptyWorld(t, engine)}}
	w.receiver = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.body.Store(&body)
		if slow := time.Duration(w.slow.Load()); slow > 0 {
			time.Sleep(slow)
		}
		w.arrived.Add(1)
		rw.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(w.receiver.Close)
	return w
}

// begin declares an endpoint, and waits until it has an event.
func (w *webhookWorld) begin(t *testing.T) {
	t.Helper()
	w.declare(t, 1, "receiver", w.receiver.URL)
	check(t, w.log(t.Context()))
	await(t, time.Minute, 10*time.Millisecond, func() bool { return w.arrived.Load() == 1 })
}

// beside compares how soon a receiver has events alone, and beside endpoints whose receivers never respond.
func (w *webhookWorld) beside(t *testing.T, engine string) {
	t.Helper()
	released := make(chan struct{})
	dead := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-released:
		case <-r.Context().Done():
		}
	}))
	defer dead.Close()
	defer close(released)
	round := func() time.Duration {
		var took []time.Duration
		for range besideSends {
			before := w.arrived.Load()
			check(t, w.log(t.Context()))
			start := time.Now()
			await(t, time.Minute, time.Millisecond, func() bool { return w.arrived.Load() > before })
			took = append(took, time.Since(start))
			time.Sleep(5 * time.Millisecond)
		}
		return quantile(took, 0.99)
	}
	round()
	var alone, beside []time.Duration
	for range 3 {
		alone = append(alone, round())
	}
	for n := range deadEndpoints {
		w.declare(t, 100+n, fmt.Sprintf("dead%d", n), dead.URL)
	}
	round()
	for range 3 {
		beside = append(beside, round())
	}
	row(fmt.Sprintf("%s, from the commit to the receiver beside %d dead endpoints, to alone: p99", engine, deadEndpoints), "<= 1.2", "%.2f: %s to %s",
		middle(beside).Seconds()/middle(alone).Seconds(), ms(middle(beside)), ms(middle(alone)))
}

// middle returns the median of durations.
func middle(all []time.Duration) time.Duration { return quantile(all, 0.5) }

// declare declares an endpoint, and waits until a server has its state.
func (w *webhookWorld) declare(t *testing.T, n int, name, url string) {
	t.Helper()
	id := int64(1000 + n)
	check(t, w.filler.put(t.Context(), v1alpha1.KindWebhookEndpoint, name, "", id, document.WebhookEndpoint{
		Name: name, URL: url, Types: []string{"*"}, Format: document.WebhookStandard, Scheme: document.WebhookHMAC, Ordering: document.WebhookByEntity, TimeoutSeconds: 5, MaxConcurrent: workers,
		RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
		Secrets: []document.SealedSecret{{Sealed: w.keyring.Seal(document.SealedEndpointSecret, ids.Format(id), []byte(signingSecret))}},
	}))
	await(t, time.Minute, 10*time.Millisecond, func() (seen bool) {
		check(t, w.store.View(t.Context(), benchDeployment, func(tx people.Tx) (err error) { _, seen, err = tx.Webhooks().WebhookState(id); return err }))
		return seen
	})
}

// cold measures how soon the receiver has an event after its commit, if no server has the endpoint.
func (w *webhookWorld) cold(t *testing.T, engine string) {
	t.Helper()
	var took []time.Duration
	for range coldSends {
		time.Sleep(coldPause)
		before := w.arrived.Load()
		check(t, w.log(t.Context()))
		start := time.Now()
		await(t, time.Minute, time.Millisecond, func() bool { return w.arrived.Load() > before })
		took = append(took, time.Since(start))
	}
	row(engine+", from the commit to the receiver of a webhook, idle: p50", "<= 150 ms", "%s", ms(quantile(took, 0.5)))
	row("... p99", "<= 1 s", "%s", ms(quantile(took, 0.99)))
}

// deliveries compares deliveries with a loop of signed POST requests to the same receiver, 8 at once.
func (w *webhookWorld) deliveries(t *testing.T, engine, receiver string) {
	t.Helper()
	key, err := webhook.ParseSecret(signingSecret)
	check(t, err)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	defer client.CloseIdleConnections()
	body := *w.body.Load()
	bare := func() time.Duration {
		var next atomic.Int64
		var sending sync.WaitGroup
		start := time.Now()
		for range workers {
			sending.Go(func() {
				for next.Add(1) <= sentRound {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.receiver.URL, bytes.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					webhook.Sign(r.Header, "evt_1", time.Now(), body, key)
					answer, err := client.Do(r)
					if err != nil {
						t.Error(err)
						return
					}
					_ = answer.Body.Close()
				}
			})
		}
		sending.Wait()
		return time.Since(start)
	}
	ours := func() time.Duration {
		var list []people.LoggedEvent
		for range sentRound {
			e, err := w.event()
			check(t, err)
			list = append(list, e)
		}
		before := w.arrived.Load()
		check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error { return tx.Records().LogEvents(list) }))
		start := time.Now()
		await(t, 5*time.Minute, time.Millisecond, func() bool { return w.arrived.Load() == before+sentRound })
		return time.Since(start)
	}
	var ratios, rates []float64
	for range 4 * peopleRounds { // each is short
		floor, took := bare(), ours()
		ratios, rates = append(ratios, floor.Seconds()/took.Seconds()), append(rates, sentRound/took.Seconds())
	}
	row(engine+", deliveries from their commit on, to bare signed POSTs, 8 at once"+receiver, ">= 0.5", "%.2f (%s; %.0f a second)", median(ratios), spread(ratios), median(rates))
}

// idle returns the part of a processor that the process uses while it has nothing to do.
func (w *webhookWorld) idle() float64 {
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it cannot fail for the process itself
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	time.Sleep(idleFor)
	return (used() - before).Seconds() / idleFor.Seconds()
}

// many measures what endpoints without events cost.
func (w *webhookWorld) many(t *testing.T, engine string, before float64) {
	t.Helper()
	for n := range idleEndpoints {
		check(t, w.filler.put(context.Background(), v1alpha1.KindWebhookEndpoint, fmt.Sprintf("idle%d", n), "", int64(10_000+n), document.WebhookEndpoint{
			Name: "idle", URL: strings.Replace(w.receiver.URL, "127.0.0.1", "127.0.0.2", 1), Types: []string{"user.deleted"}, Format: document.WebhookStandard, Scheme: document.WebhookHMAC,
			Ordering: document.WebhookByEntity, TimeoutSeconds: 5, MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
			Secrets: []document.SealedSecret{{Sealed: w.keyring.Seal(document.SealedEndpointSecret, ids.Format(int64(10_000+n)), []byte(signingSecret))}},
		}))
	}
	await(t, 5*time.Minute, 100*time.Millisecond, func() bool { // new endpoints read the events of the last minutes first
		refs, err := w.store.ListWebhooks(t.Context(), people.WebhookRef{}, 2*idleEndpoints)
		check(t, err)
		due, err := w.store.DueWebhooks(t.Context(), time.Now().Add(time.Hour), idleEndpoints, idleEndpoints)
		check(t, err)
		return len(refs) >= idleEndpoints+1 && len(due) == 0
	})
	time.Sleep(5 * time.Second) // servers give the endpoints back
	after := w.idle()
	row(fmt.Sprintf("%s, %d idle endpoints, of a processor", engine, idleEndpoints), "< 1 %", "%.2f %% (%.2f %%; before, with none: %.2f %%)", 100*(after-before), 100*after, 100*before)
}
