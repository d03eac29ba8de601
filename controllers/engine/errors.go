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

// WaitingError reports that something is missing that may appear later. It becomes a False condition and Reconciling. A
// watch wakes the resource; if nothing can be watched, RetryAfter does.
type WaitingError struct {
	// Condition is the condition type that is False meanwhile.
	Condition string
	Reason    string
	Message   string
	// RetryAfter is the longest time between two checks; 0 if a watch wakes the resource.
	RetryAfter time.Duration
}

func (e *WaitingError) Error() string { return e.Condition + "=" + e.Reason + ": " + e.Message }

// Waiting returns a WaitingError that a watch ends.
func Waiting(condition, reason, format string, args ...any) error {
	return &WaitingError{Condition: condition, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// SecretsForbidden returns the WaitingError for missing rights on Secrets in a namespace. It has a RetryAfter, because
// the grant of rights cannot be watched.
func SecretsForbidden(condition, namespace string) error {
	return &WaitingError{
		Condition: condition, Reason: v1alpha1.ReasonSecretForbidden, RetryAfter: 15 * time.Second,
		Message: fmt.Sprintf("the operator has no rights on Secrets in namespace %q: bind ClusterRole cardea-operator-secrets there", namespace),
	}
}

var (
	// errAgain asks for another reconcile: the state that this reconcile read changed meanwhile.
	errAgain = errors.New("the state that this reconcile read has changed: reconcile again")
	// errVanished ends a reconcile: the resource exists only in the cache, which has not received the deletion yet.
	errVanished = errors.New("the resource no longer exists")
)

// storeError is a failure of the runtime store, to be distinguished from one of the API server.
type storeError struct{ cause error }

func (e *storeError) Error() string { return "runtime store: " + e.cause.Error() }
func (e *storeError) Unwrap() error { return e.cause }

// StoreError marks an error of the runtime store in a kind's step.
func StoreError(err error) error { return &storeError{err} }

// inUse returns the WaitingError of a deletion while other resources still refer to the resource.
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
