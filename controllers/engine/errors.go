package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// TerminalError is a fault that only the user can fix: it becomes Accepted=False and Stalled, and is not retried.
type TerminalError struct {
	Reason  string
	Message string
}

func (e *TerminalError) Error() string { return e.Reason + ": " + e.Message }

// Terminal returns a TerminalError with one of v1alpha1's reasons and a message that says how to fix it.
func Terminal(reason, format string, args ...any) error {
	return &TerminalError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// WaitingError is something that may still come by itself: it becomes a False condition and Reconciling; a watch wakes
// the resource, or RetryAfter where nothing can be watched.
type WaitingError struct {
	// Condition is the condition type that is False meanwhile.
	Condition string
	Reason    string
	Message   string
	// RetryAfter is the longest time between two looks, 0 where a watch wakes the resource.
	RetryAfter time.Duration
}

func (e *WaitingError) Error() string { return e.Condition + "=" + e.Reason + ": " + e.Message }

// Waiting returns a WaitingError that a watch ends.
func Waiting(condition, reason, format string, args ...any) error {
	return &WaitingError{Condition: condition, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// SecretsForbidden is the wait for rights on Secrets in a namespace. Their granting cannot be watched.
func SecretsForbidden(condition, namespace string) error {
	return &WaitingError{
		Condition: condition, Reason: v1alpha1.ReasonSecretForbidden, RetryAfter: 15 * time.Second,
		Message: fmt.Sprintf("the operator has no rights on Secrets in namespace %q: bind ClusterRole cardea-operator-secrets there", namespace),
	}
}

var (
	// errAgain asks for another reconcile: what this one saw changed under its hands.
	errAgain = errors.New("the state that this reconcile read has changed: reconcile again")
	// errVanished ends a reconcile: the resource exists in the cache alone. Its deletion is on the way.
	errVanished = errors.New("the resource no longer exists")
)

// storeError is a failure of the runtime store, to be distinguished from one of the API server.
type storeError struct{ cause error }

func (e *storeError) Error() string { return "runtime store: " + e.cause.Error() }
func (e *storeError) Unwrap() error { return e.cause }

// StoreError marks an error of the runtime store in a kind's step.
func StoreError(err error) error { return &storeError{err} }

// inUse is the wait of a deletion for the resources that still refer to the deleted one.
func inUse(referrers []string) error {
	shown := referrers
	more := ""
	if len(referrers) > 5 {
		shown, more = referrers[:5], fmt.Sprintf(" and %d more", len(referrers)-5)
	}
	return Waiting(v1alpha1.ConditionDeleting, v1alpha1.ReasonInUse,
		"still used by %s%s: delete them or change their references; until then this resource stays active", strings.Join(shown, ", "), more)
}

// ErrCrash is returned by a test hook to end a reconcile as a crash would: nothing after it runs, not even the report.
var ErrCrash = errors.New("crashed here, as a test requested")
