package queries

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// run runs a query that takes a time of the test's clock.
func run(q *Queries, deployment string, takes time.Duration) error {
	return q.Run(context.Background(), deployment, func() error {
		time.Sleep(takes)
		return nil
	})
}

func TestEndlessQueriesUseTheShareOfADeployment(t *testing.T) {
	t.Parallel()
	for _, takes := range []time.Duration{300 * time.Microsecond, 1900 * time.Microsecond, 3 * time.Millisecond, 40 * time.Millisecond, 900 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			q, began, used := New(), time.Now(), time.Duration(0)
			for time.Since(began) < time.Minute+100*takes {
				if err := run(q, "acme/home", takes); err != nil {
					t.Fatalf("a query of %v: %v", takes, err)
				}
				used += takes
			}
			if part := used.Seconds() / time.Since(began).Seconds(); part < 0.19 || part > 0.23 {
				t.Errorf("queries of %v took %.3f s of each second, want 0.2", takes, part)
			}
		})
	}
}

func TestOtherDeploymentsDoNotWaitForTheShareOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New()
		if err := run(q, "acme/home", 3*time.Second); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := run(q, "globex/home", time.Millisecond); err != nil || time.Since(began) != time.Millisecond {
			t.Errorf("another deployment's query took %v: %v", time.Since(began), err)
		}
		if err := run(q, "acme/home", time.Millisecond); err != nil || time.Since(began) < 7*time.Second {
			t.Errorf("the deployment's next query took %v: %v", time.Since(began), err)
		}
	})
}

func TestQueriesOfADeploymentRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New()
		var at, most atomic.Int64
		var all sync.WaitGroup
		for range presentMost {
			all.Go(func() {
				err := q.Run(t.Context(), "acme/home", func() error {
					most.Store(max(most.Load(), at.Add(1)))
					time.Sleep(time.Millisecond)
					at.Add(-1)
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("%d queries ran at once", most.Load())
		}
	})
}

func TestQueryWithoutTurnIsRefusedWithItsWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New()
		go func() { _ = run(q, "acme/home", time.Minute) }()
		synctest.Wait()
		began := time.Now()
		err := run(q, "acme/home", 0)
		if busy, ok := errors.AsType[*Busy](err); !ok || busy.Wait < time.Second || time.Since(began) != patience {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if q.Exhausted() != 1 {
			t.Errorf("%d queries are counted as refused, want 1", q.Exhausted())
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := q.Run(ctx, "acme/home", func() error { return nil }); !errors.Is(err, context.Canceled) || q.Exhausted() != 1 {
			t.Errorf("a query whose caller left: %v", err)
		}
		time.Sleep(time.Minute)
	})
}

func TestErrorOfAQueryIsReturnedAndItsTimeIsCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, broken := New(), errors.New("broken")
		err := q.Run(t.Context(), "acme/home", func() error {
			time.Sleep(2 * time.Second)
			return broken
		})
		if !errors.Is(err, broken) || q.spent.Delay("acme/home", time.Now()) == 0 {
			t.Errorf("%v", err)
		}
	})
}

func TestQueriesBeyondTheMostAreRefusedAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New()
		var all sync.WaitGroup
		for range presentMost {
			all.Go(func() { _ = run(q, "acme/home", time.Second) })
		}
		synctest.Wait()
		began := time.Now()
		err := run(q, "acme/home", 0)
		if _, ok := errors.AsType[*Busy](err); !ok || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if err := run(q, "globex/home", 0); err != nil {
			t.Errorf("another deployment: %v", err)
		}
		all.Wait()
		if len(q.present) != 0 {
			t.Errorf("%v are counted after their queries ended", q.present)
		}
	})
}

// Long queries of others delay a query, and do not count against its deployment.
func TestQueryWaitsForOthersAsLongAsItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := New()
		for i := range 2 * runtime.GOMAXPROCS(0) {
			go func() { _ = run(q, fmt.Sprintf("busy/%d", i), 15*time.Second) }()
		}
		synctest.Wait()
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if err := q.Run(ctx, "acme/home", func() error { return nil }); err != nil || time.Since(began) < 15*time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		for i := range 2 * runtime.GOMAXPROCS(0) {
			go func() { _ = run(q, fmt.Sprintf("busier/%d", i), time.Hour) }()
		}
		synctest.Wait()
		short, end := context.WithTimeout(t.Context(), 20*time.Second)
		defer end()
		if err := q.Run(short, "acme/home", func() error { return nil }); !errors.Is(err, context.DeadlineExceeded) || q.Exhausted() != 0 {
			t.Errorf("%v, %d refused", err, q.Exhausted())
		}
		time.Sleep(10 * time.Hour)
	})
}
