package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// PermanentError says that this message will never be taken: the outbox ends it as failed and does not try again.
type PermanentError struct {
	// Code is the provider's, such as Twilio's 21211 or an SMTP reply's 550, or one of ours in words.
	Code   string
	Reason string
	// Configuration reports that the deployment's settings are wrong, not the recipient: every message fails until
	// they are fixed.
	Configuration bool
}

func (e *PermanentError) Error() string { return fmt.Sprintf("refused (%s): %s", e.Code, e.Reason) }

// Permanent returns a PermanentError about this message or its recipient.
func Permanent(code, reason string) error { return &PermanentError{Code: code, Reason: reason} }

// Misconfigured returns a PermanentError about the deployment's settings.
func Misconfigured(code, reason string) error {
	return &PermanentError{Code: code, Reason: reason, Configuration: true}
}

// ThrottledError says that the provider takes no more for now: the outbox tries again after that time if the message is
// still of use then, and holds back the deployment's other messages to the provider as long.
type ThrottledError struct {
	// After is from 1 s to 60 s.
	After time.Duration
}

func (e *ThrottledError) Error() string { return fmt.Sprintf("throttled: try again after %s", e.After) }

// Throttled returns a ThrottledError; after is brought into its bounds.
func Throttled(after time.Duration) error {
	return &ThrottledError{After: min(max(after, time.Second), time.Minute)}
}

// TransientError says that the message may be taken another time, or was taken without our knowing: the outbox tries
// again with its own growing pause while the message is of use.
type TransientError struct{ Reason string }

func (e *TransientError) Error() string { return "not sent: " + e.Reason }

// Transient returns a TransientError.
func Transient(reason string) error { return &TransientError{Reason: reason} }

// interrupted makes one of our errors from a connection's. Its text is ours: theirs may hold what was sent, or a URL
// with a secret in it.
func interrupted(err error) error {
	var refused *egress.RefusedError
	if errors.As(err, &refused) {
		return Misconfigured("egress_refused", refused.Error())
	}
	if errors.Is(err, context.Canceled) {
		return Transient("ended before the answer")
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return Transient(fmt.Sprintf("the name %q cannot be resolved", name.Name))
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return Transient("no answer in time")
	}
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return Transient("the provider's certificate is not trusted")
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return Transient(dial.Error())
	}
	return Transient("the connection broke")
}
