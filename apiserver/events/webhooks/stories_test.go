package webhooks_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const deployment = "acme/acme"

// secrets are the signing secrets of receivers.
var secrets = []string{
	"whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32))), "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("b", 32))),
}

// received is a request that a receiver got.
type received struct {
	header http.Header
	body   []byte
	// open is how many requests were open at the receiver, with this one.
	open int
	// gone is closed when the sender ends the request.
	gone  <-chan struct{}
	event struct {
		ID, Type, Sequence string
		Subject            struct{ Type, ID string }
		Data               map[string]any
	}
}

// receiver is a server that records requests and responds as respond says; nil: 204.
type receiver struct {
	*httptest.Server
	mu      sync.Mutex
	got     []received
	open    int
	most    int
	respond func(w http.ResponseWriter, r received)
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		one := received{header: request.Header.Clone(), gone: request.Context().Done()}
		one.body, _ = io.ReadAll(request.Body)
		_ = json.Unmarshal(one.body, &one.event)
		r.mu.Lock()
		r.open++
		r.most = max(r.most, r.open)
		one.open = r.open
		r.got = append(r.got, one)
		respond := r.respond
		r.mu.Unlock()
		if respond == nil {
			w.WriteHeader(http.StatusNoContent)
		} else {
			respond(w, one)
		}
		r.mu.Lock()
		r.open--
		r.mu.Unlock()
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) answers(respond func(w http.ResponseWriter, one received)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.respond = respond
}

func (r *receiver) all() []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

// atOnce is how many requests were open at once at most.
func (r *receiver) atOnce() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most
}

// ids are the ids of the events of all requests, in the order of their arrival.
func (r *receiver) ids() (all []string) {
	for _, one := range r.all() {
		all = append(all, one.header.Get("webhook-id"))
	}
	return all
}

// world is a store with a server that numbers and sends events.
type world struct {
	*servertest.World
	t         *testing.T
	follower  *snapshot.Follower
	sequencer *sequencer.Worker
	// replayed counts replays, for their ids.
	replayed int64
}

func newWorld(t *testing.T, url string) *world {
	w := &world{World: servertest.New(t, url, nil), t: t}
	w.follower = snapshot.NewFollower(w.Store, 10*time.Millisecond, w.Clock.Now, logr.Discard())
	w.Put(v1alpha1.KindIdentityDeployment, "acme", deployment, "acme", document.Deployment{DisplayName: "Acme"})
	w.Follow(w.follower)
	w.sequencer = newSequencer(w.Store, w.Clock.Now)
	return w
}

func newSequencer(store people.Store, clock func() time.Time) *sequencer.Worker {
	return sequencer.New(sequencer.Options{Store: store, Clock: clock, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
}

// serves runs a server that sends webhooks until stop is called or the test ends.
func (w *world) serves(name string) (stop func()) { return w.servesOn(w.Store, name) }

// servesOn is serves with a store that stands before that of the world. change may change the dispatcher.
func (w *world) servesOn(store people.Store, name string, change ...func(*webhooks.Dispatcher)) (stop func()) {
	d := webhooks.New(webhooks.Options{
		Store: store, Snapshots: w.follower, Keyring: w.Keyring, Signer: tokensigner.New(w.Keyring), Clock: w.Clock.Now, Log: logr.Discard(), Server: name, Version: "test",
		Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil),
	})
	for _, do := range change {
		do(d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = d.Run(ctx) })
	stop = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.t.Cleanup(stop)
	return stop
}

// endpoint declares an endpoint and returns its id. change may change its content.
func (w *world) endpoint(name, url string, change func(*document.WebhookEndpoint)) int64 {
	id := ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", name)
	content := document.WebhookEndpoint{
		Name: name, URL: url, Types: []string{"*"}, Format: document.WebhookStandard, Scheme: document.WebhookHMAC, Ordering: document.WebhookByEntity,
		TimeoutSeconds: 5, MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
		Secrets: []document.SealedSecret{{Sealed: w.Keyring.Seal(document.SealedEndpointSecret, ids.Format(id), []byte(secrets[0]))}},
	}
	if change != nil {
		change(&content)
	}
	w.Put(v1alpha1.KindWebhookEndpoint, name, deployment, "", content)
	w.Eventually("the endpoint is served", func() bool {
		e, found := w.follower.Current().ByID(v1alpha1.KindWebhookEndpoint, deployment, id)
		return found && snapshot.ContentOf[document.WebhookEndpoint](e).URL == url && snapshot.ContentOf[document.WebhookEndpoint](e).Active == content.Active
	})
	return id
}

// follows waits until a server has the state of an endpoint.
func (w *world) follows(id int64) {
	w.Eventually("a server has the endpoint's state", func() bool { return w.state(id).Endpoint == id })
}

func (w *world) state(id int64) (state people.WebhookState) {
	w.Must(w.Store.View(w.t.Context(), deployment, func(tx people.Tx) (err error) {
		state, _, err = tx.Webhooks().WebhookState(id)
		return err
	}))
	return state
}

// passes advances the clock by at most 10 seconds, unless a server has the lease of an endpoint and must renew it
// first: a test looks more often than a busy server renews.
func (w *world) passes(by time.Duration, id int64) {
	const left = 5 * time.Second // the server renews before
	if held := w.state(id).LeasedUntil.Sub(w.Clock.Now()); held <= 0 || held >= by+left {
		w.Clock.Advance(by)
	}
}

func (w *world) deliveries(id int64, of people.DeliveryFilter) (all []people.WebhookDelivery) {
	w.Must(w.Store.View(w.t.Context(), deployment, func(tx people.Tx) (err error) {
		all, err = tx.Webhooks().Deliveries(id, of, 10_000)
		return err
	}))
	return all
}

// types are the types of all numbered events.
func (w *world) types() (all []string) {
	w.Must(w.Store.View(w.t.Context(), deployment, func(tx people.Tx) error {
		list, err := tx.EventLog().EventsAfter(0, 1000)
		for _, e := range list {
			all = append(all, e.Type)
		}
		return err
	}))
	return all
}

// happens records and numbers an event of each user.
func (w *world) happens(of events.Type, users ...int64) {
	var list []people.LoggedEvent
	for _, user := range users {
		change := events.OfUser(of, user)
		change.Data.Method = "password" // that of a new user
		e, err := change.Log(w.Clock.Now(), "system")
		w.Must(err)
		list = append(list, e)
	}
	w.Must(w.Store.Change(w.t.Context(), deployment, func(tx people.Tx) error { return tx.Records().LogEvents(list) }))
	w.numbers()
}

// numbers numbers all recorded events.
func (w *world) numbers() {
	for more := true; more; {
		var failed map[string]error
		more, failed = w.sequencer.Pass(w.t.Context())
		for _, err := range failed {
			w.Must(err)
		}
	}
}

func upTo(n int64) (users []int64) {
	for i := range n {
		users = append(users, i+1)
	}
	return users
}

func TestEveryEventReachesTheEndpointSigned(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		w.serves("one")
		id := w.endpoint("crm", r.URL+"/hooks", func(c *document.WebhookEndpoint) {
			c.Headers = []document.ToolHeader{
				{Name: "X-Plain", Value: "seen"}, {Name: "Authorization", Secret: true},
			}
			c.Headers[1].Sealed = w.Keyring.Seal(document.SealedEndpointHeader, document.ToolHeaderID(ids.Format(ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", "crm")), "Authorization"), []byte("Bearer hush-canary"))
		})
		w.follows(id)
		w.happens(events.UserCreated, upTo(600)...)
		w.Eventually("all events arrive", func() bool { return len(r.all()) >= 600 })
		w.Eventually("all deliveries have ended", func() bool {
			return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 600
		})
		seen := map[string]bool{}
		for _, one := range r.all() {
			if seen[one.event.Sequence] || one.event.Type != "user.created" || one.header.Get("webhook-id") != one.event.ID || one.header.Get("Cardea-Attempt") != "1" ||
				one.header.Get("X-Plain") != "seen" || one.header.Get("Authorization") != "Bearer hush-canary" || one.header.Get("Content-Type") != "application/json" ||
				one.header.Get("User-Agent") != "Cardea-Webhooks/test" {
				t.Fatalf("%v %s", one.header, one.body)
			}
			seen[one.event.Sequence] = true
			verify(t, secrets[0], one)
		}
		if n := r.atOnce(); n > 8 {
			t.Errorf("%d requests at once", n)
		}
		if s := w.state(id); s.Position != 600 || s.Failures != 0 || s.SucceededAt.IsZero() {
			t.Errorf("the state is %+v", s)
		}
	})
}

func TestEndpointGetsTheTypesThatItSelects(t *testing.T) {
	t.Parallel()
	w, all, some := newWorld(t, ""), newReceiver(t), newReceiver(t)
	w.happens(events.UserCreated, 90) // before the endpoints exist
	w.Clock.Advance(time.Hour)
	w.serves("one")
	first := w.endpoint("all", all.URL, nil)
	second := w.endpoint("some", some.URL, func(c *document.WebhookEndpoint) { c.Types = []string{"user.deleted", "later.version"} })
	w.follows(first)
	w.follows(second)
	w.happens(events.UserCreated, 1, 2, 3)
	w.happens(events.UserDeleted, 2)
	w.Eventually("all events arrive", func() bool { return len(all.all()) == 4 && len(some.all()) == 1 })
	if got := some.all()[0].event; got.Type != "user.deleted" || got.Subject.ID != "2" {
		t.Errorf("%+v", got)
	}
	if len(all.all()) != 4 {
		t.Errorf("events from before its acceptance reach an endpoint: %v", all.ids())
	}
}

func TestFailedRequestsAreSentAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, _ received) {
		rw.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(rw, "no: "+secrets[0])
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserCreated, 1)
	w.Eventually("the first request failed", func() bool { return w.state(id).Failures == 1 })
	r.answers(nil)
	w.Clock.Advance(7 * time.Second)
	w.Eventually("the second request succeeded", func() bool { return w.state(id).Failures == 0 && len(r.all()) == 2 })
	both := r.all()
	if a, b := both[0].header, both[1].header; a.Get("webhook-id") != b.Get("webhook-id") || a.Get("webhook-timestamp") == b.Get("webhook-timestamp") || b.Get("Cardea-Attempt") != "2" {
		t.Errorf("%v, then %v", a, b)
	}
	d := w.deliveries(id, people.DeliveryFilter{})[0]
	tries := webhooks.TriesOf(d.Tries)
	if d.Status != people.DeliveryDelivered || d.Attempts != 2 || len(tries) != 2 || tries[0].Status != 500 || tries[0].Excerpt != "no: [redacted]" || strings.Contains(d.Tries, "whsec_") {
		t.Errorf("%+v", d)
	}
}

func TestEventsOfOneSubjectKeepTheirOrder(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	var mu sync.Mutex
	refused := map[string]int{}
	r.answers(func(rw http.ResponseWriter, one received) {
		mu.Lock()
		defer mu.Unlock()
		if refused[one.event.ID]++; refused[one.event.ID] == 1 && one.event.Subject.ID == "1" {
			rw.WriteHeader(http.StatusBadGateway)
		}
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	for range 3 {
		w.happens(events.UserCreated, 1)
	}
	w.happens(events.UserCreated, 2, 3)
	w.Eventually("the other users' events do not wait", func() bool {
		n := 0
		for _, one := range r.all() {
			if one.event.Subject.ID != "1" {
				n++
			}
		}
		return n == 2
	})
	w.Eventually("all events are delivered", func() bool {
		w.Clock.Advance(3 * time.Second)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 5
	})
	var order []string
	for _, one := range r.all() {
		if one.event.Subject.ID == "1" {
			order = append(order, one.event.Sequence)
		}
	}
	if want := []string{"1", "1", "2", "2", "3", "3"}; !slices.Equal(order, want) {
		t.Errorf("the requests about user 1: %v", order)
	}
}

func TestEventThatAlwaysFailsStopsNoOtherSubject(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, one received) {
		if one.event.Subject.ID == "1" {
			rw.WriteHeader(http.StatusBadRequest)
		}
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserCreated, 1)
	w.Eventually("the endpoint is failing", func() bool {
		w.passes(10*time.Second, id)
		return w.state(id).Failures >= 5
	})
	w.happens(events.UserCreated, 2)
	w.Eventually("the event of another user arrives", func() bool {
		w.passes(time.Second, id)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
	})
	w.Eventually("the endpoint no longer counts as failing", func() bool { return w.state(id).Failures == 0 })
}

func TestEndpointThatIsGoneIsDisabledAndContinuesWhereItWas(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusGone) })
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserCreated, 1)
	w.Eventually("it is disabled", func() bool { s := w.state(id); return s.Reason == "Gone" && !s.DisabledAt.IsZero() })
	w.happens(events.UserCreated, 2, 3)
	r.answers(nil)
	w.endpoint("crm", r.URL+"/moved", nil)
	w.Eventually("a changed URL enables it, and nothing is lost", func() bool {
		w.passes(time.Second, id)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 3
	})
	w.numbers()
	var own []string
	for _, one := range w.types() {
		if strings.HasPrefix(one, "webhook_endpoint.") {
			own = append(own, one)
		}
	}
	if !slices.Equal(own, []string{"webhook_endpoint.disabled", "webhook_endpoint.enabled"}) {
		t.Errorf("the events are %v", own)
	}
}

func TestProgramsLearnOfAFailingEndpointByItsEvents(t *testing.T) {
	t.Parallel()
	w, bad, good := newWorld(t, ""), newReceiver(t), newReceiver(t)
	w.supported("help@acme.example")
	bad.answers(func(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusInternalServerError) })
	w.serves("one")
	id := w.endpoint("bad", bad.URL, func(c *document.WebhookEndpoint) { c.DisableAfterSeconds, c.RetrySeconds = 86400, 604800 })
	w.follows(id)
	w.follows(w.endpoint("good", good.URL, nil))
	w.happens(events.UserCreated, upTo(50)...)
	seen := 0
	w.Eventually("programs learn that it fails, twice", func() bool {
		if n := len(bad.all()); n > seen { // the clock does not outrun the server
			seen = n
			w.Clock.Advance(20 * time.Minute)
		} else {
			w.Clock.Advance(time.Second)
		}
		w.numbers()
		return w.state(id).Reported == 2
	})
	if mails, to := w.mails(); len(mails) != 1 || to[0] != "help@acme.example" || !strings.Contains(mails[0].Subject, "“bad” of Acme is failing") {
		t.Errorf("%d mails to %v: %+v", len(mails), to, mails)
	}
	bad.answers(nil)
	w.Eventually("programs learn that it recovered", func() bool {
		w.Clock.Advance(time.Minute)
		w.numbers()
		return slices.Contains(w.types(), "webhook_endpoint.recovered")
	})
	w.Eventually("the other endpoint gets these events", func() bool { return len(good.all()) == 53 })
	for _, one := range good.all() {
		if one.event.Type == "webhook_endpoint.failing" && one.event.Data["reason"] != "http_status" {
			t.Errorf("webhook_endpoint.failing has the data %v", one.event.Data)
		}
	}
	for _, one := range bad.all() {
		if one.event.Subject.Type == "webhook_endpoint" {
			t.Errorf("the endpoint itself got %s", one.event.Type)
		}
	}
}

func TestInactiveEndpointGetsItsEventsLater(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	inactive := func(c *document.WebhookEndpoint) { c.Active = false }
	id := w.endpoint("crm", r.URL, inactive)
	w.follows(id)
	w.happens(events.UserCreated, 1, 2)
	w.endpoint("crm", r.URL, nil)
	w.Eventually("the events arrive", func() bool { return len(r.all()) == 2 })
	w.endpoint("crm", r.URL, inactive)
	w.Eventually("it is paused", func() bool { return w.state(id).Paused })
	w.happens(events.UserCreated, 3)
	w.Withdraw(v1alpha1.KindWebhookEndpoint, "acme", "crm")
	w.Eventually("its end is noted", func() bool { return !w.state(id).EndedAt.IsZero() })
	w.endpoint("crm", r.URL, nil)
	w.Eventually("one that is declared again continues", func() bool { return len(r.all()) == 3 })
	w.Withdraw(v1alpha1.KindWebhookEndpoint, "acme", "crm")
	w.Eventually("its end is noted again", func() bool { return !w.state(id).EndedAt.IsZero() })
	w.Clock.Advance(2 * time.Hour)
	w.endpoint("other", r.URL, nil) // a new configuration triggers the comparison
	w.Eventually("its rows are deleted", func() bool { return w.state(id).Endpoint == 0 && len(w.deliveries(id, people.DeliveryFilter{})) == 0 })
}

func TestEventsThatExpiredBeforeTheyWereSentAreReported(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	id := w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Active = false })
	w.follows(id)
	w.happens(events.UserCreated, upTo(5)...)
	w.Clock.Advance(48 * time.Hour)
	w.happens(events.UserDeleted, 7, 8)
	w.Must(w.Store.Change(t.Context(), deployment, func(tx people.Tx) error {
		n, err := tx.EventLog().ForgetEvents(w.Clock.Now().Add(-time.Hour), 100)
		if n != 5 {
			t.Errorf("%d events were deleted", n)
		}
		return err
	}))
	w.endpoint("crm", r.URL, nil)
	w.Eventually("the other events arrive", func() bool { return len(r.all()) == 2 })
	w.Eventually("the gap has an event", func() bool {
		w.numbers()
		return slices.Contains(w.types(), "webhook_endpoint.backlog_expired")
	})
}

func TestServerThatEndsLosesNothing(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		stop := w.serves("one")
		id := w.endpoint("crm", r.URL, nil)
		w.follows(id)
		for round := range 8 {
			w.happens(events.UserCreated, upTo(50)...)
			if round%2 == 1 {
				stop()
				stop = w.serves(fmt.Sprintf("server %d", round))
			}
		}
		defer func() {
			if t.Failed() {
				all := map[string]int{}
				for _, d := range w.deliveries(id, people.DeliveryFilter{}) {
					all[d.Status]++
				}
				t.Logf("%v, state %+v, now %v, %d requests", all, w.state(id), w.Clock.Now(), len(r.all()))
			}
		}()
		w.Eventually("all events are delivered", func() bool {
			w.passes(time.Second, id)
			return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 400
		})
		seen := map[string]bool{}
		for _, one := range r.all() {
			seen[one.event.Sequence] = true
		}
		if len(seen) != 400 {
			t.Errorf("%d of 400 events arrived", len(seen))
		}
	})
}

func TestTwoServersShareTheEndpoints(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.serves("one")
		w.serves("two")
		var receivers []*receiver
		var all []int64
		for i := range 6 {
			r := newReceiver(t)
			id := w.endpoint(fmt.Sprintf("e%d", i), r.URL, nil)
			w.follows(id)
			receivers, all = append(receivers, r), append(all, id)
		}
		for range 5 {
			w.happens(events.UserCreated, upTo(20)...)
		}
		for i, r := range receivers {
			w.Eventually("all events arrive", func() bool {
				return len(r.all()) >= 100 && len(w.deliveries(all[i], people.DeliveryFilter{Status: people.DeliveryDelivered})) == 100
			})
			if n := len(r.all()); n != 100 {
				t.Errorf("endpoint %d got %d requests", i, n)
			}
		}
	})
}

func TestDeadEndpointsStopNoOther(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	hangs, released := newReceiver(t), make(chan struct{})
	hangs.answers(func(_ http.ResponseWriter, one received) {
		select {
		case <-released:
		case <-one.gone:
		}
	})
	t.Cleanup(func() { close(released) })
	w.serves("one")
	w.follows(w.endpoint("crm", r.URL, nil))
	w.happens(events.UserCreated, 1)
	w.Eventually("the first event arrives", func() bool { return len(r.all()) == 1 })
	for i := range 30 {
		w.follows(w.endpoint(fmt.Sprintf("dead%d", i), hangs.URL, nil))
	}
	w.happens(events.UserCreated, upTo(100)...)
	w.Eventually("the others arrive", func() bool { return len(r.all()) == 101 })
	w.Eventually("the dead endpoints were tried", func() bool { return len(hangs.all()) > 0 })
	if n := hangs.atOnce(); n > 24 { // 16, and those that the receiver has not seen end yet
		t.Errorf("%d requests to endpoints that never responded at once", n)
	}
}
