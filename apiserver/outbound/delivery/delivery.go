// Package delivery sends texts and mails through the providers that deployments declare. No error and no log contains a
// message's text, a secret or a whole recipient; only the Log sender writes them, which is its purpose.
package delivery

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

const (
	// sendWithin bounds one Send, from name resolution to the end of the answer.
	sendWithin = 10 * time.Second
	// dialWithin bounds the connection to one address, and the TLS handshake.
	dialWithin = 5 * time.Second
)

// Message is what a Sender delivers.
type Message struct {
	// ID is the outbox's. A retry has the same one.
	ID int64
	// To is an E.164 number, or a mail address without a display name.
	To string
	// Subject is a mail's; a text has none.
	Subject string
	Body    string
	// ExpiresAt is when the message becomes useless; zero: never. Senders pass it to providers that can drop late
	// texts.
	ExpiresAt time.Time
}

// Content is what a message says, as the outbox stores it sealed: a text and a logout token have no subject.
type Content struct{ Subject, Body string }

// Receipt is what a provider said when it took a message.
type Receipt struct {
	// ProviderID is the message's name at the provider, for its support; empty where it gives none.
	ProviderID string
	// Segments is how many texts the provider bills; 0: unknown.
	Segments int
}

// Sender hands one message to a provider: once, without retries of its own, within 10 s. A provider may have taken the
// message although an error is returned, so delivery is at least once. Errors are PermanentError, ThrottledError or
// TransientError. It is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) (Receipt, error)
}

// Transport is how all senders of a process reach their providers. It outlives them, so that a change of settings keeps
// what is connected.
type Transport struct {
	http   *http.Client
	dialer *net.Dialer
	clock  func() time.Time
	log    logr.Logger
	within time.Duration
}

// NewTransport returns a Transport. policy decides which addresses providers may have; log is where the Log sender
// writes.
func NewTransport(policy *egress.Policy, clock func() time.Time, log logr.Logger) *Transport {
	transport := policy.Transport(dialWithin)
	transport.MaxIdleConnsPerHost = 16
	return &Transport{
		http: &http.Client{
			Transport: transport,
			// A redirect would send credentials and codes to an address that the deployment did not declare.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		dialer: policy.Dialer(dialWithin), clock: clock, log: log, within: sendWithin,
	}
}

// SMSOptions say how texts leave: exactly one of them is set.
type SMSOptions struct {
	Twilio  *TwilioOptions
	Webhook *WebhookOptions
	// Log writes texts to the server's log. The caller allows it in Staging deployments only.
	Log bool
}

// NewSMS returns the sender of a deployment's texts. An error names the option to fix, and contains no secret.
func NewSMS(opts SMSOptions, transport *Transport) (Sender, error) {
	switch {
	case opts.Twilio != nil && opts.Webhook == nil && !opts.Log:
		return newTwilio(*opts.Twilio, transport)
	case opts.Webhook != nil && opts.Twilio == nil && !opts.Log:
		return newWebhook(*opts.Webhook, transport)
	case opts.Log && opts.Twilio == nil && opts.Webhook == nil:
		return &logSender{log: transport.log.WithName("sms")}, nil
	}
	return nil, errors.New("exactly one provider of texts must be set")
}

// MailOptions say how mails leave: exactly one of them is set.
type MailOptions struct {
	SMTP *SMTPOptions
	// Log writes mails to the server's log. The caller allows it in Staging deployments only.
	Log bool
}

// NewMail returns the sender of a deployment's mails. An error names the option to fix, and contains no secret.
func NewMail(opts MailOptions, transport *Transport) (Sender, error) {
	switch {
	case opts.SMTP != nil && !opts.Log:
		return newSMTP(*opts.SMTP, transport)
	case opts.Log && opts.SMTP == nil:
		return &logSender{log: transport.log.WithName("mail")}, nil
	}
	return nil, errors.New("exactly one way of mail must be set")
}

// Mask returns a recipient as logs and errors may name it: a number with its last two digits, an address with its
// domain.
func Mask(recipient string) string {
	if at := strings.LastIndexByte(recipient, '@'); at >= 0 {
		return "***" + recipient[at:]
	}
	n := utf8.RuneCountInString(recipient)
	if n < 6 {
		return "***"
	}
	return strings.Repeat("*", n-2) + string([]rune(recipient)[n-2:])
}
