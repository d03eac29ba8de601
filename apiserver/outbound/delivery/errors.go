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

// PermanentError reports that the provider will never accept this message. The outbox marks the message as failed and
// does not retry it.
type PermanentError struct {
	// Code is the provider's code, such as Twilio's 21211 or an SMTP reply's 550, or a word of this package, such as
	// egress_refused.
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

// ThrottledError reports that the provider accepts no more messages for now. The outbox retries the message after the
// delay, unless the message expires earlier. It delays the deployment's other messages to the provider until then.
type ThrottledError struct {
	// After is the delay, 1 s to 60 s.
	After time.Duration
}

func (e *ThrottledError) Error() string { return fmt.Sprintf("throttled: try again after %s", e.After) }

// Throttled returns a ThrottledError. It limits the delay to 1 s to 60 s.
func Throttled(after time.Duration) error {
	return &ThrottledError{After: min(max(after, time.Second), time.Minute)}
}

// TransientError reports that a later try may succeed, or that the provider may have accepted the message without
// confirming it. The outbox retries the message with increasing delays until shortly before it expires.
type TransientError struct{ Reason string }

func (e *TransientError) Error() string { return "not sent: " + e.Reason }

// Transient returns a TransientError.
func Transient(reason string) error { return &TransientError{Reason: reason} }

// interrupted converts a connection error to an error of this package. It copies only addresses, host names and the
// texts of failed dials. Other texts may contain sent data, or a URL with a secret.
func interrupted(err error) error {
	var refused *egress.RefusedError
	if errors.As(err, &refused) {
		return Misconfigured("egress_refused", refused.Error())
	}
	if errors.Is(err, context.Canceled) {
		return Transient("canceled before the provider responded")
	}
	var name *net.DNSError
	if errors.As(err, &name) {
		return Transient(fmt.Sprintf("the name %q cannot be resolved", name.Name))
	}
	var timeout net.Error
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return Transient("the provider did not respond in time")
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
