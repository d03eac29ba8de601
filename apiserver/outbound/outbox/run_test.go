package outbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/store/people"
)

func TestNothingIsClaimedBeforeTheConfigurationIsLoaded(t *testing.T) {
	t.Parallel()
	w := newWorldOver(t, servertest.SQLite(t))
	m := w.text(home, number)
	d := w.dispatcher(&messages{Messages: w.Store, watch: func() {
		select {
		case <-w.follower.Loaded():
		default:
			t.Error("claimed by an empty configuration")
		}
	}})
	w.run(d)
	d.Wake()
	w.Follow(w.follower)
	w.Eventually("it is sent", func() bool { return w.row(m).State == people.MessageSent })

	// A dispatcher whose configuration never loads ends with its context too.
	idle := newWorldOver(t, servertest.SQLite(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w.Must(idle.dispatcher(idle.Store).Run(ctx))
}

func TestWakeSendsImmediatelyAndConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	w.run(d)
	const many = 3 * maxInFlight
	// Most messages are delayed for a moment, so that all slots are taken.
	w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: 50 * time.Millisecond, Count: many}))
	var all []people.Message
	for n := range many {
		all = append(all, w.message(home, fmt.Sprintf("+1202555%04d", n)))
	}
	w.post(all...)
	d.Wake()
	w.Eventually("all are sent and settled", func() bool {
		w.Clock.Advance(fullWait / 10) // messages for the busy provider are due again
		d.Wake()
		return w.count(people.MessageSent) == many
	})
	if got := len(w.carrier.Messages("")); got != many {
		t.Errorf("%d sent of %d", got, many)
	}
}

func TestDispatcherContinuesAfterStoreOutage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	st := &messages{Messages: w.Store}
	st.away.Store(true)
	d := w.dispatcher(st)
	w.run(d)
	m := w.text(home, number)
	d.Wake()
	w.Eventually("a call of the store fails", func() bool { return st.refused.Load() > 0 })
	w.expect(m, people.MessagePending)
	st.away.Store(false)
	w.Eventually("it is sent", func() bool { return w.row(m).State == people.MessageSent })

	// The store becomes unavailable during a send: the process cannot record the success, so the message is sent again.
	w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: time.Second}))
	m = w.text(home, "+12025550102")
	d.Wake()
	w.Eventually("the carrier has it", func() bool { return len(w.carrier.Messages(m.Recipient)) == 1 })
	st.away.Store(true)
	w.Eventually("the outcome is not recorded", func() bool { return st.unsettled.Load() > 0 })
	st.away.Store(false)
	w.expect(m, people.MessagePending)
	w.Clock.Advance(lease)
	d.Wake()
	w.Eventually("the outcome is recorded", func() bool { return w.row(m).State == people.MessageSent })
	w.received(m.Recipient, 2)
}

func TestSlowProviderDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.dispatcher(w.Store)
	var burst []people.Message
	for n := range 3 * maxInFlight {
		to := fmt.Sprintf("+1202556%04d", n)
		w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: time.Minute, To: to}))
		burst = append(burst, w.message(home, to))
	}
	w.post(burst...)
	w.run(d)
	w.Eventually("the provider is full", func() bool { return len(w.carrier.Messages("")) == maxPerProvider })
	m := w.text(other, number)
	d.Wake()
	w.Eventually("another deployment's text is sent", func() bool { return w.count(people.MessageSent) == 1 })
	w.expect(m, people.MessageSent)
	if got := len(w.carrier.Messages("")); got != maxPerProvider+1 {
		t.Errorf("the slow provider got %d texts, want %d", got-1, maxPerProvider)
	}
}

func TestDispatcherEndsPromptlyWhileGatewayIsSlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Must(w.carrier.Fail(messagegateway.Fault{Kind: messagegateway.FaultSlow, Delay: time.Minute}))
	d := w.dispatcher(w.Store)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	m := w.text(home, number)
	d.Wake()
	w.Eventually("it is under way", func() bool { return len(w.carrier.Messages(number)) == 1 })
	cancel()
	select {
	case err := <-ended:
		w.Must(err)
	case <-time.After(5 * time.Second):
		t.Fatal("Run waits for the carrier")
	}
	// Another dispatcher takes over without waiting for the lease.
	if r := w.expect(m, people.MessagePending); r.Lease != "" || r.NextAt.Sub(w.Clock.Now()) > firstRetry {
		t.Errorf("%+v", r)
	}
	w.Clock.Advance(firstRetry)
	w.turn(w.dispatcher(w.Store))
	w.expect(m, people.MessageSent)
}

func TestTwoDispatchersOnOneDatabaseSendEachMessageOnce(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs PostgreSQL")
	}
	w := newWorldOver(t, servertest.Postgres(t))
	w.Follow(w.follower)
	const many = 200
	var all []people.Message
	for n := range many {
		deployment := []string{home, other}[n%2]
		all = append(all, w.message(deployment, fmt.Sprintf("+1202555%04d", n)))
	}
	for range 2 {
		w.run(w.dispatcher(w.OpenStore()))
	}
	w.post(all...)
	w.Eventually("all are settled", func() bool {
		w.Clock.Advance(fullWait / 10) // messages for the busy provider are due again
		return w.count(people.MessageSent) == many
	})
	for _, m := range all {
		w.received(m.Recipient, 1)
		w.expect(m, people.MessageSent)
	}
}

// count returns the number of messages in a state.
func (w *world) count(state string) (n int) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), "SELECT COUNT(*) FROM outbox WHERE state = '"+state+"'").Scan(&n))
	return n
}
