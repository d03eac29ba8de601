// Package outage logs once when a dependency of the server becomes unreachable, and once when it is reachable again,
// independent of the number of failing requests.
package outage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/store"
)

// ErrAway marks the errors of an unreachable dependency: the outage is logged once, and requests need no log line.
var ErrAway = errors.New("out of reach")

// ErrPatience is the cause of a context (see context.WithTimeoutCause) that ends because its caller stopped waiting.
// A call that fails because such a context ended does not indicate an outage.
var ErrPatience = errors.New("the caller waited long enough")

// Watch watches one dependency.
type Watch struct {
	what string
	log  logr.Logger
	away atomic.Bool
	// slow reports that the last call was not answered in time.
	slow atomic.Bool
}

// New returns a Watch of a dependency with a name, such as "the Kubernetes API".
func New(what string, log logr.Logger) *Watch { return &Watch{what: what, log: log} }

// Note records the result of a call; answered reports whether the dependency responded, even with an error. If it did
// not respond, Note returns err marked with ErrAway. A canceled call and a single slow call do not indicate an outage,
// so Note returns their error unchanged.
func (w *Watch) Note(answered bool, err error) error {
	switch {
	case answered:
		w.slow.Store(false)
		if w.away.Load() && w.away.CompareAndSwap(true, false) {
			w.log.Info("Reachable again", "what", w.what)
		}
		return err
	case errors.Is(err, context.Canceled):
		return err
	case late(err) && !w.away.Load() && !w.slow.Swap(true):
		return err
	}
	if w.away.CompareAndSwap(false, true) {
		w.log.Error(err, "Unreachable; requests that need it are refused until it is reachable again", "what", w.what)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// late reports whether a call ended because it took too long.
func late(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// Quiet reports whether a refusal needs no log line. It needs none if it is a 503 of an outage (the
// outage itself is logged) or a 503 without a cause (its message is complete).
func Quiet(refused *apierror.Error) bool {
	return refused.Status == http.StatusServiceUnavailable &&
		(refused.Cause == nil || errors.Is(refused.Cause, ErrAway) || errors.Is(refused.Cause, store.ErrUnavailable))
}
