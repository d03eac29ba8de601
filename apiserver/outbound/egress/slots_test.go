package egress

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"
)

func begin(t *testing.T, s *Slots, of Asker) func() {
	t.Helper()
	done, err := s.Begin(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	return done
}

func TestSlotsAreSharedByDeploymentAndNetwork(t *testing.T) {
	t.Parallel()
	s := NewSlots(Bounds{AtOnce: 4, DeploymentAtOnce: 2, SourceAtOnce: 1}, time.Now)
	first := begin(t, s, Asker{"a", "1"})
	s.mu.Lock()
	full := s.free(Asker{"a", "1"})
	s.mu.Unlock()
	if full {
		t.Error("a network has two slots")
	}
	defer begin(t, s, Asker{"a", "2"})()
	s.mu.Lock()
	full = s.free(Asker{"a", "3"})
	s.mu.Unlock()
	if full {
		t.Error("a deployment has three slots")
	}
	defer begin(t, s, Asker{"b", "1"})()
	first()
	defer begin(t, s, Asker{"a", "3"})()
	if s.Running() != 3 {
		t.Errorf("%d run", s.Running())
	}
}

func TestTryBeginTakesNoSlotForWhichAnotherFetchWaits(t *testing.T) {
	t.Parallel()
	s := NewSlots(Bounds{AtOnce: 2, DeploymentAtOnce: 1, DeploymentPerMinute: 2}, func() time.Time { return time.Unix(0, 0) })
	try := func(deployment string, want bool) func() {
		t.Helper()
		done, begun := s.TryBegin(Asker{deployment, "1"})
		if begun != want {
			t.Errorf("deployment %s: a slot: %t, want %t", deployment, begun, want)
		}
		return done
	}
	first := try("a", true)
	try("a", false) // the bound of a deployment
	second := try("b", true)
	try("c", false) // the bound of all
	first()
	waiting := make(chan func(), 1)
	go func() { waiting <- begin(t, s, Asker{"b", "2"}) }()
	for s.waitingFor("b") == 0 {
		runtime.Gosched()
	}
	third := try("c", true) // the other fetch waits for the slot of its deployment
	try("b", false)
	second()
	inTurn := <-waiting
	try("d", false)
	third()
	inTurn()
	try("a", true)() // the second fetch of the minute
	try("a", false)
	if s.Running() != 0 {
		t.Errorf("%d run", s.Running())
	}
}

// waitingFor returns how many fetches of a deployment wait.
func (s *Slots) waitingFor(deployment string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.party(Asker{Deployment: deployment}).waiting
}

func TestFetchesAreCountedBeforeTheyBegin(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s := NewSlots(Bounds{AtOnce: 1, DeploymentPerMinute: 6, SourcePerMinute: 3}, func() time.Time { return now })
	try := func(network string) error {
		done, err := s.Begin(t.Context(), Asker{"a", network})
		if err == nil {
			done()
		}
		return err
	}
	for range 3 {
		if err := try("1"); err != nil {
			t.Fatal(err)
		}
	}
	for range 10 { // refused fetches do not count toward the deployment's bound
		if err := try("1"); !errors.Is(err, ErrTooManyFetches) {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		if err := try(fmt.Sprint("other", n)); err != nil {
			t.Fatal(err)
		}
	}
	if err := try("one more"); !errors.Is(err, ErrTooManyFetches) {
		t.Errorf("the seventh fetch of the deployment: %v", err)
	}
	begin(t, s, Asker{"b", "1"})()
	now = now.Add(time.Minute)
	if err := try("1"); err != nil {
		t.Errorf("a minute later: %v", err)
	}
	if len(s.parties) != 2 {
		t.Errorf("%d parties are remembered", len(s.parties))
	}
}

func TestWaitingFetchesAreServedRoundRobinByDeployment(t *testing.T) {
	t.Parallel()
	s := NewSlots(Bounds{AtOnce: 1}, time.Now)
	first := begin(t, s, Asker{"noisy", "1"})
	order := make(chan string)
	queued := func() int {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.waiting)
	}
	wait := func(of Asker) {
		before := queued()
		go func() {
			done, err := s.Begin(context.WithoutCancel(t.Context()), of)
			if err == nil {
				order <- of.Deployment + of.Source
				done()
			}
		}()
		for queued() == before {
			runtime.Gosched()
		}
	}
	wait(Asker{"noisy", "1"})
	wait(Asker{"noisy", "1"})
	wait(Asker{"noisy", "2"})
	wait(Asker{"quiet", "3"})
	first()
	for _, want := range []string{"quiet3", "noisy2", "noisy1", "noisy1"} {
		if got := <-order; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWaitingFetchesAreBoundedByDeploymentAndNetwork(t *testing.T) {
	t.Parallel()
	s := NewSlots(Bounds{AtOnce: 4, DeploymentAtOnce: 1, SourceWaiting: 2, DeploymentWaiting: 3}, time.Now)
	done := begin(t, s, Asker{"a", "1"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	wait := func(network string) {
		t.Helper()
		before := waiting(s)
		go func() {
			_, err := s.Begin(ctx, Asker{"a", network})
			ended <- err
		}()
		for waiting(s) == before {
			runtime.Gosched()
		}
	}
	refused := func(network string) {
		t.Helper()
		if _, err := s.Begin(t.Context(), Asker{"a", network}); !errors.Is(err, ErrTooManyWaiting) {
			t.Errorf("network %s: %v", network, err)
		}
	}
	wait("1")
	wait("1")
	refused("1")
	wait("2")
	refused("3")
	begin(t, s, Asker{"b", "1"})()
	cancel()
	for range 3 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	done()
	begin(t, s, Asker{"a", "1"})()
}

func waiting(s *Slots) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}
