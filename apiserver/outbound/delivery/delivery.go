// Package delivery sends text messages and mails through the providers that deployments declare, and logout tokens to
// clients. Errors and logs never contain a message's body, a secret or a whole recipient. The only exception is the Log
// sender, which writes messages to the log by design.
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
	// dialWithin bounds a dial and, over HTTP, the TLS handshake, each.
	dialWithin = 5 * time.Second
)

// Message is what a Sender delivers.
type Message struct {
	// ID is the id of the message in the outbox. Retries have the same id.
	ID int64
	// To is an E.164 number, a mail address without a display name, or the URL to which a logout token is sent.
	To string
	// Subject is the subject of a mail. Other messages have none.
	Subject string
	Body    string
	// ExpiresAt is when the message becomes useless; zero: never. Senders pass it to providers that can drop late
	// texts.
	ExpiresAt time.Time
}

// Content is a message's subject and body, which the outbox stores sealed. Text messages and logout tokens have no
// subject.
type Content struct{ Subject, Body string }

// Receipt is a provider's response to a message that it accepted.
type Receipt struct {
	// ProviderID identifies the message in requests to the provider's support; empty if the provider returns no id.
	ProviderID string
	// Segments is the number of text messages that the provider bills; 0 means unknown.
	Segments int
}

// Sender passes one message to a provider, within 10 s and without retries. The provider may have accepted the message
// even if Send returns an error, so delivery is at least once. Errors are PermanentError, ThrottledError or
// TransientError. It is safe for concurrent use.
type Sender interface {
	Send(ctx context.Context, m Message) (Receipt, error)
}

// Transport connects all senders of a process to their providers. It outlives the senders, so open connections survive
// a change of settings.
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

// SMSOptions select the provider of text messages. Exactly one field is set.
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
	return nil, errors.New("exactly one provider of text messages must be set")
}

// MailOptions select how mails are sent. Exactly one field is set.
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
	return nil, errors.New("exactly one of SMTP and Log must be set for mail")
}

// Mask returns a recipient in masked form, for logs and errors. It shows the last two digits of a phone number, or the
// domain of a mail address. It hides numbers of fewer than 6 characters completely.
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
