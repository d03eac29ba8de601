// Package outage logs when a dependency of the server becomes unreachable and when it is back: one line each, however
// many requests fail between.
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

// ErrAway marks the errors of what is out of reach: the outage has its line in the log, each request needs none.
var ErrAway = errors.New("out of reach")

// ErrPatience is the cause of a context whose end says nothing about the dependency: the caller waits for something else, and waited long
// enough. See context.WithTimeoutCause.
var ErrPatience = errors.New("the caller waited long enough")

// Watch watches one dependency.
type Watch struct {
	what string
	log  logr.Logger
	away atomic.Bool
	// slow reports that the last call was not answered in time.
	slow atomic.Bool
}

// New returns a Watch over what has a name, such as "the Kubernetes API".
func New(what string, log logr.Logger) *Watch { return &Watch{what: what, log: log} }

// Note takes the outcome of a call: whether the dependency answered, and the error if it did not. It returns the error marked by
// ErrAway. The caller's own leaving says nothing, and one call that took too long is no outage yet: its error is returned as it is.
func (w *Watch) Note(answered bool, err error) error {
	switch {
	case answered:
		w.slow.Store(false)
		if w.away.Load() && w.away.CompareAndSwap(true, false) {
			w.log.Info("Back in reach", "what", w.what)
		}
		return err
	case errors.Is(err, context.Canceled):
		return err
	case late(err) && !w.away.Load() && !w.slow.Swap(true):
		return err
	}
	if w.away.CompareAndSwap(false, true) {
		w.log.Error(err, "Out of reach; what needs it is refused until it is back", "what", w.what)
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// late reports whether a call ended because it took too long.
func late(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// Quiet reports whether a refusal needs no log line of its own: a 503 of an outage, which has its two lines, and a
// refusal without a cause, whose message is complete.
func Quiet(refused *apierror.Error) bool {
	return refused.Status == http.StatusServiceUnavailable &&
		(refused.Cause == nil || errors.Is(refused.Cause, ErrAway) || errors.Is(refused.Cause, store.ErrUnavailable))
}
