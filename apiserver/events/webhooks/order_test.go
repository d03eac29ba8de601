package webhooks_test

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store/people"
)

// expectOrder expects that the events of each subject arrived in their order, and returns how many events arrived. An
// event may arrive again.
func expectOrder(t *testing.T, requests []received) int {
	t.Helper()
	seen, last := map[int64]bool{}, map[string]int64{}
	for _, one := range requests {
		number, err := strconv.ParseInt(one.event.Sequence, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if seen[number] {
			continue
		}
		if seen[number] = true; number < last[one.event.Subject.ID] {
			t.Errorf("event %d of user %s arrived for the first time after event %d", number, one.event.Subject.ID, last[one.event.Subject.ID])
		}
		last[one.event.Subject.ID] = number
	}
	return len(seen)
}

// frozenStore is the store of a server that stops while the store is locked, as a process does that gets no processor.
type frozenStore struct {
	people.Store
	frozen sync.RWMutex
}

// passes waits while the server is frozen.
func (s *frozenStore) passes() {
	s.frozen.RLock()
	defer s.frozen.RUnlock()
}

func (s *frozenStore) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	s.passes()
	defer s.passes()
	return s.Store.Change(ctx, deployment, do)
}

func (s *frozenStore) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	s.passes()
	defer s.passes()
	return s.Store.View(ctx, deployment, do)
}

func (s *frozenStore) DueWebhooks(ctx context.Context, now time.Time, share, limit int) ([]people.WebhookRef, error) {
	s.passes()
	defer s.passes()
	return s.Store.DueWebhooks(ctx, now, share, limit)
}

// strictReceiver refuses some events once, and records which event arrived before the one before it of the same subject
// was accepted. Event n and event n + subjects have the same subject.
type strictReceiver struct {
	mu       sync.Mutex
	accepted map[int64]bool
	tried    map[int64]bool
	early    []int64
	// held is the number of the event whose first request stays open until released is closed.
	held     int64
	released chan struct{}
}

const subjects = 3

func (s *strictReceiver) respond(w http.ResponseWriter, one received) {
	number, _ := strconv.ParseInt(one.event.Sequence, 10, 64)
	s.mu.Lock()
	defer s.mu.Unlock()
	if number > subjects && !s.accepted[number-subjects] {
		s.early = append(s.early, number)
	}
	again := s.tried[number]
	s.tried[number] = true
	if released := s.released; number == s.held && !again {
		s.mu.Unlock()
		select {
		case <-released:
		case <-one.gone:
		}
		s.mu.Lock()
	} else if number%5 == 0 && !again {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	s.accepted[number] = true
}

// hold lets the first request of an event stay open. The returned function ends it.
func (s *strictReceiver) hold(number int64) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.released = number, make(chan struct{})
	return sync.OnceFunc(func() { close(s.released) })
}

// triedOnce reports whether a request of an event arrived.
func (s *strictReceiver) triedOnce(number int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tried[number]
}

// In each round, the server with the lease freezes while one of its requests is open. The other server takes the lease
// and sends that event again, and the first server then continues as if it had the lease.
func TestOrderOfASubjectIsKeptWhileTheLeaseMoves(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		strict := &strictReceiver{accepted: map[int64]bool{}, tried: map[int64]bool{}}
		r.answers(strict.respond)
		servers := map[string]*frozenStore{"one": {Store: w.Store}, "two": {Store: w.Store}}
		for name, store := range servers {
			w.servesOn(store, name)
		}
		id := w.endpoint("crm", r.URL, nil)
		w.follows(id)
		const rounds, each = 4, 4 * subjects
		for round := range int64(rounds) {
			first := round*each + 1
			release := strict.hold(first)
			w.happens(events.UserCreated, slices.Repeat(upTo(subjects), each/subjects)...)
			w.Eventually("a request is open", func() bool { w.Clock.Advance(50 * time.Millisecond); return strict.triedOnce(first) })
			before := w.state(id)
			servers[before.Owner].frozen.Lock()
			w.Eventually("the other server has the lease", func() bool {
				w.Clock.Advance(250 * time.Millisecond)
				now := w.state(id)
				return now.Owner != before.Owner && now.Epoch > before.Epoch
			})
			servers[before.Owner].frozen.Unlock()
			release()
			w.Eventually("the events of the round are delivered", func() bool {
				w.Clock.Advance(100 * time.Millisecond)
				return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == int((round+1)*each)
			})
		}
		if n := expectOrder(t, r.all()); n != rounds*each {
			t.Errorf("%d of %d events arrived", n, rounds*each)
		}
		strict.mu.Lock()
		defer strict.mu.Unlock()
		if len(strict.early) > 0 {
			t.Errorf("the events %v arrived before the earlier event of their subject was accepted", strict.early)
		}
	})
}

// The first event of a user fails for more than an hour. The second one waits for an hour, and then passes it.
func TestEventPassesAnEarlierOneThatFailsForAnHour(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	var mu sync.Mutex
	var passedAt time.Time
	fails := true
	r.answers(func(rw http.ResponseWriter, one received) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case one.event.Sequence == "1" && fails:
			rw.WriteHeader(http.StatusBadRequest)
		case one.event.Sequence == "2":
			passedAt = w.Clock.Now()
		}
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.happens(events.UserCreated, 1, 1)
	w.Eventually("the first event was tried", func() bool { return len(w.deliveries(id, people.DeliveryFilter{})) > 0 })
	began := w.deliveries(id, people.DeliveryFilter{})[0].CreatedAt
	w.Eventually("the second event arrives", func() bool {
		w.Clock.Advance(10 * time.Second)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
	})
	mu.Lock()
	if waited := passedAt.Sub(began); waited < time.Hour {
		t.Errorf("the second event waited for %v", waited)
	}
	fails = false
	mu.Unlock()
	w.Eventually("the first event arrives too", func() bool {
		w.Clock.Advance(time.Minute)
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 2
	})
	requests := r.all()
	if last := requests[len(requests)-1].event; last.Sequence != "1" || last.Subject.ID != "1" {
		t.Errorf("the last request is of event %+v", last)
	}
}
