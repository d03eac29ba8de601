package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// reason says why a provider or one of its documents cannot be used. The operator makes it the reason of the condition
// Reachable.
type reason string

const (
	// unreachable: there is no answer, or one of 5xx.
	unreachable reason = "Unreachable"
	// refused: the egress policy does not allow the address.
	refused reason = "Refused"
	// invalidMetadata: the document breaks a rule.
	invalidMetadata reason = "InvalidMetadata"
	// issuerMismatch: the discovery document is another issuer's.
	issuerMismatch reason = "IssuerMismatch"
)

// maxFailure bounds the text of a failure, in bytes.
const maxFailure = 512

// failure is a reason with a text for admins, which contains no secret and no part of a provider's answer except
// names and URLs of its documents. It is an ErrUnavailable.
type failure struct {
	reason reason
	text   string
}

func fail(reason reason, format string, args ...any) *failure {
	return &failure{reason, clip(fmt.Sprintf(format, args...), maxFailure)}
}

// Error implements error. The text begins with the reason, a colon and a blank.
func (f *failure) Error() string { return string(f.reason) + ": " + f.text }

// Unwrap makes every failure an ErrUnavailable.
func (f *failure) Unwrap() error { return ErrUnavailable }

// unavailable is ErrUnavailable with a text of the store, such as the reason of a failed fetch by another server.
func unavailable(text string) error {
	if text == "" {
		return ErrUnavailable
	}
	return fmt.Errorf("%w: %s", ErrUnavailable, text)
}

// noAnswer returns the failure of a request to a host that got no answer. The text of err itself is not used unless it
// is known to contain only names and addresses.
func noAnswer(host string, err error) *failure {
	var denied *egress.RefusedError
	var name *net.DNSError
	var number syscall.Errno
	switch {
	case errors.As(err, &denied):
		return fail(refused, "%s: %v", host, denied)
	case errors.Is(err, context.DeadlineExceeded):
		return fail(unreachable, "%s does not answer within %v", host, requestWithin)
	case errors.As(err, &name):
		return fail(unreachable, "the name %s cannot be resolved", host)
	case isTLS(err):
		return fail(unreachable, "%s: %v", host, tlsText(err))
	case errors.As(err, &number):
		return fail(unreachable, "%s: %v", host, number)
	}
	return fail(unreachable, "%s ended the connection without an answer", host)
}

func isTLS(err error) bool { return tlsText(err) != nil }

// tlsText returns the part of an error that is about TLS, nil if there is none.
func tlsText(err error) error {
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	switch {
	case errors.As(err, &certificate):
		return certificate
	case errors.As(err, &authority):
		return authority
	case errors.As(err, &hostname):
		return hostname
	case errors.As(err, &record):
		return errors.New("the answer is not TLS")
	case errors.As(err, &alert):
		return alert
	}
	return nil
}

// clip shortens a text to a number of bytes, at the end of a character.
func clip(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > 0 && text[end]&0xc0 == 0x80 {
		end--
	}
	return text[:end]
}

// outcome returns the label of a request's metric.
func outcome(err error) string {
	var f *failure
	var fault *connection.Fault
	switch {
	case err == nil:
		return "fetched"
	case errors.Is(err, egress.ErrTooManyFetches):
		return "throttled"
	case errors.As(err, &f) && f.reason == refused:
		return "refused"
	case errors.As(err, &f) && f.reason != unreachable, errors.As(err, &fault):
		return "invalid"
	}
	return "unreachable"
}
