package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

func testReconciler() *reconciler {
	e := &Engine{resync: time.Hour, term: NewTerm(TermOptions{}), api: NewAPIServer(nil), clock: time.Now}
	return &reconciler{Engine: e, kind: Kind[*v1alpha1.RateLimitScheme]{Name: v1alpha1.KindRateLimitScheme}, backoff: newBackoff()}
}

var resource = schema.GroupResource{Group: "iam.cardea.dev", Resource: "ratelimitschemes"}

func TestWhatWaitsIsLookedAtWithinSeconds(t *testing.T) {
	r, req := testReconciler(), reconcile.Request{}
	away := &storeError{fmt.Errorf("%w: down", store.ErrUnavailable)}
	var longest time.Duration
	for range 50 {
		result, err := r.result(t.Context(), req, away, 0)
		if err != nil {
			t.Fatal(err)
		}
		longest = max(longest, result.RequeueAfter)
	}
	if longest != lastRetry || lastRetry > 5*time.Second {
		t.Errorf("waits up to %s", longest)
	}
	if waiting := r.waiters.takeAll(); len(waiting[v1alpha1.KindRateLimitScheme]) != 1 {
		t.Errorf("to be woken when the store is back: %v", waiting)
	}
	select {
	case <-r.term.away:
	default:
		t.Error("the outage was not reported to the term")
	}
}

func TestConflictsBackOff(t *testing.T) {
	for name, lost := range map[string]error{"a conflict": apierrors.NewConflict(resource, "free", errors.New("changed")), "a lost race": errAgain, "a stale put": store.ErrStale} {
		r, sum := testReconciler(), time.Duration(0)
		for range 12 {
			result, err := r.result(t.Context(), reconcile.Request{}, lost, 0)
			if err != nil {
				t.Fatalf("%s is an error: %v", name, err)
			}
			sum += result.RequeueAfter
		}
		if sum < 10*time.Second {
			t.Errorf("%s: 12 tries in %s", name, sum)
		}
		if _, err := r.result(t.Context(), reconcile.Request{}, nil, 0); err != nil {
			t.Fatal(err)
		}
		if result, _ := r.result(t.Context(), reconcile.Request{}, lost, 0); result.RequeueAfter != firstRetry {
			t.Errorf("%s: after a success the next wait is %s", name, result.RequeueAfter)
		}
	}
}

func TestAnOutageOfTheAPIServerIsNoErrorOfAResource(t *testing.T) {
	for name, tc := range map[string]struct {
		err    error
		outage bool
	}{
		"refused connection": {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, true},
		"unavailable":        {apierrors.NewServiceUnavailable("starting"), true},
		"timeout":            {apierrors.NewTimeoutError("slow", 1), true},
		"forbidden":          {apierrors.NewForbidden(resource, "free", errors.New("no")), false},
		"something else":     {errors.New("a bug"), false},
	} {
		r := testReconciler()
		_, err := r.result(t.Context(), reconcile.Request{}, tc.err, 0)
		if (err == nil) != tc.outage || r.api.away != tc.outage || len(r.waiters.takeAll()) == 1 != tc.outage {
			t.Errorf("%s: %v, away %v", name, err, r.api.away)
		}
	}
	r := testReconciler()
	r.api.ended = r.api.clock()
	if _, err := r.result(t.Context(), reconcile.Request{}, apierrors.NewForbidden(resource, "free", errors.New("no")), 0); err != nil {
		t.Errorf("a refusal of an API server that has just started counts as an error: %v", err)
	}
}

func TestAWaitForRightsIsShortAtFirst(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	s := &state{obj: &v1alpha1.APIKey{}, retry: time.Minute}
	forbidden := SecretsForbidden(v1alpha1.ConditionCredentialsReady, "acme")
	c := condition(v1alpha1.ConditionCredentialsReady, metav1.ConditionFalse, v1alpha1.ReasonSecretForbidden, "no rights")
	c.LastTransitionTime = metav1.NewTime(began)
	meta.SetStatusCondition(&s.obj.CommonStatus().Conditions, c)
	for age, want := range map[time.Duration]time.Duration{
		-time.Second: time.Second, 0: time.Second, 3 * time.Second: 3 * time.Second, time.Minute: 15 * time.Second,
	} {
		if got := s.retryAfter(forbidden, began.Add(age)); got != want {
			t.Errorf("after %s: %s, want %s", age, got, want)
		}
	}
	if got := s.retryAfter(nil, began); got != time.Minute {
		t.Errorf("without a wait: %s", got)
	}
}

func TestSuspended(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	render := func(conditions []metav1.Condition) (text string) {
		for _, c := range conditions {
			text += fmt.Sprintf("%s=%s/%s@%d ", c.Type, c.Status, c.Reason, c.ObservedGeneration)
		}
		return text
	}
	had := func(o outcome) []metav1.Condition { return merge(nil, summarize(o), 1, now.Add(-time.Hour)) }
	conflict := Terminal(v1alpha1.ReasonConflict, "held by another")
	for name, tc := range map[string]struct {
		have []metav1.Condition
		want string
	}{
		"in force":       {had(outcome{synced: true}), "Accepted=True/Accepted@1 Ready=True/Suspended@2 ReferencesResolved=True/Resolved@1 Synced=True/Synced@1 "},
		"refused":        {had(outcome{err: conflict}), "Accepted=False/Conflict@1 Ready=False/Suspended@2 ReferencesResolved=True/Resolved@1 Stalled=True/Conflict@1 Synced=False/Pending@1 "},
		"under way":      {had(outcome{}), "Accepted=True/Accepted@1 Ready=False/Suspended@2 ReferencesResolved=True/Resolved@1 Synced=False/Pending@1 "},
		"from the start": {nil, "Ready=False/Suspended@2 "},
	} {
		got := whileSuspended(tc.have, 2, now)
		if render(got) != tc.want {
			t.Errorf("%s: got  %s\nwant %s", name, render(got), tc.want)
		}
		if again := whileSuspended(got, 2, now.Add(time.Hour)); fmt.Sprint(again) != fmt.Sprint(got) {
			t.Errorf("%s: the second time writes again", name)
		}
	}
}

// A reconcile that took too long, whatever it waited for, does not count as an outage of the API server.
func TestAReconcileThatTookTooLongIsNoOutage(t *testing.T) {
	t.Parallel()
	r := testReconciler()
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	<-ctx.Done()
	result, err := r.result(ctx, reconcile.Request{}, fmt.Errorf("get: %w", ctx.Err()), 0)
	if err != nil || result.RequeueAfter == 0 || r.api.away {
		t.Errorf("%v, %v; an outage: %t", result, err, r.api.away)
	}
	if _, err := r.result(t.Context(), reconcile.Request{}, fmt.Errorf("get: %w", context.DeadlineExceeded), 0); err != nil || !r.api.away {
		t.Errorf("a request that was not answered in time: %v; an outage: %t", err, r.api.away)
	}
}
