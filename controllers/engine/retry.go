package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/store"
)

// Bounds of the wait before a failed reconcile is tried again. The end of an outage of the store or the API server
// also wakes the resources that wait for it.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 5 * time.Second
)

func newBackoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry)
}

// result turns the end of a reconcile into a result for the queue:
//   - Done, waiting for the user or for a watch: the resync, with jitter and at low priority, so that fresh changes
//     come first.
//   - A lost race: again, after a growing wait.
//   - The reconcile's own deadline passed: likewise. A watch reports an outage of the API server.
//   - The store or the API server is unavailable: likewise, and as soon as it is back. The outage is logged, not
//     each resource.
//   - Any other result is an error, which controller-runtime logs and tries again.
func (r *reconciler) result(ctx context.Context, req reconcile.Request, err error, retry time.Duration) (reconcile.Result, error) {
	var waiting *WaitingError
	var terminal *TerminalError
	switch {
	case err == nil, errors.Is(err, errVanished), errors.As(err, &terminal), errors.As(err, &waiting):
		r.backoff.Forget(req)
		r.waiters.remove(r.kind.name(), req)
	case errors.Is(err, errAgain), apierrors.IsConflict(err), apierrors.IsAlreadyExists(err),
		errors.Is(err, store.ErrStale), errors.Is(err, store.ErrFenced):
		return reconcile.Result{RequeueAfter: r.backoff.When(req)}, nil
	case isStoreError(err):
		r.waiters.add(r.kind.name(), req)
		r.term.failed()
		return reconcile.Result{RequeueAfter: r.backoff.When(req)}, nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()): // this reconcile took too long, whatever it waited for
		return reconcile.Result{RequeueAfter: r.backoff.When(req)}, nil
	case r.api.concerns(err):
		r.waiters.add(r.kind.name(), req)
		r.api.failed(ctx, err)
		return reconcile.Result{RequeueAfter: r.backoff.When(req)}, nil
	default:
		return reconcile.Result{}, err
	}
	resync := r.resync + time.Duration((rand.Float64()-0.5)*0.2*float64(r.resync))
	if retry > 0 && retry < resync {
		return reconcile.Result{RequeueAfter: retry}, nil
	}
	return reconcile.Result{RequeueAfter: resync, Priority: ptr.To(handler.LowPriority)}, nil
}

// retryAfter returns the time until a wait that no watch ends is checked again. It is as long as the wait has lasted,
// at least 1 second and at most RetryAfter: a missing object is often created soon. Without such a wait, it is the time
// that the kind asked for.
func (s *state) retryAfter(err error, now time.Time) time.Duration {
	var waiting *WaitingError
	if !errors.As(err, &waiting) || waiting.RetryAfter == 0 {
		return s.retry
	}
	age := time.Duration(0)
	if since := meta.FindStatusCondition(s.obj.CommonStatus().Conditions, waiting.Condition); since != nil {
		age = now.Sub(since.LastTransitionTime.Time)
	}
	return min(max(age, time.Second), waiting.RetryAfter)
}

// unreachable reports whether an error concerns the API server and not the request: the API server did not answer, is
// overloaded, or failed.
func unreachable(err error) bool {
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err) || apierrors.IsUnexpectedServerError(err)
}

// waiters are the resources that wait for the store or the API server.
type waiters struct {
	mu  sync.Mutex
	set map[string]map[reconcile.Request]struct{}
}

func (w *waiters) add(kind string, req reconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set == nil {
		w.set = map[string]map[reconcile.Request]struct{}{}
	}
	if w.set[kind] == nil {
		w.set[kind] = map[reconcile.Request]struct{}{}
	}
	w.set[kind][req] = struct{}{}
}

func (w *waiters) remove(kind string, req reconcile.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.set[kind], req)
}

// takeAll returns and forgets all of them, by kind.
func (w *waiters) takeAll() map[string]map[reconcile.Request]struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.set
	w.set = nil
	return taken
}
