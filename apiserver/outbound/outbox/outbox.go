// Package outbox passes messages from the store to the senders. A message is written in the transaction that causes it.
// A dispatcher leases and sends the message, and retries it until shortly before it expires. The body is erased with
// the final state. Any number of servers share the work.
package outbox

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// lease is how long a message belongs to one dispatcher. It is longer than a send can take.
	lease = 15 * time.Second
	// pollEvery is the interval of polls of the outbox without a wake-up.
	pollEvery = time.Second
	// margin is how long before its expiry a message is abandoned, because the user must still read and enter the code.
	margin = 30 * time.Second
	// follows is how much newer than a message this server's configuration must be before a missing provider fails the
	// message. Another server may have written the message with a newer configuration, and servers follow the feed
	// within this time.
	follows = time.Second
	// firstRetry and maxRetry bound the increasing delay between tries.
	firstRetry = 500 * time.Millisecond
	maxRetry   = 8 * time.Second
)

// Options configures a Dispatcher.
type Options struct {
	Store     people.Messages
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	Transport *delivery.Transport
	Clock     func() time.Time
	Log       logr.Logger
	Registry  prometheus.Registerer
	// Tracer makes a span of each send; nil makes none.
	Tracer *tracing.Tracer
}

// Dispatcher sends the messages of the outbox.
type Dispatcher struct {
	Options
	wake     chan struct{}
	slots    *slots
	senders  senders
	breakers breakers
	ended    *prometheus.CounterVec
}

// New returns a Dispatcher. It does nothing before Run.
func New(opts Options) *Dispatcher {
	d := &Dispatcher{Options: opts, wake: make(chan struct{}, 1), slots: newSlots(), ended: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_messages_total", Help: "Messages that reached their end, by deployment, channel and state (sent, failed, expired, void).",
	}, []string{"deployment", "channel", "state"})}
	d.senders.open = d.openSender
	opts.Registry.MustRegister(d.ended)
	return d
}

// Wake makes the dispatcher poll immediately.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run sends messages until ctx ends. It starts once the configuration is loaded, and returns when every send in
// progress has an outcome. A message without a response by then is due again. A message whose outcome cannot be written
// is claimed again when its lease ends.
func (d *Dispatcher) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.Snapshots.Loaded():
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		claimed, err := d.claim(ctx)
		if err != nil && ctx.Err() == nil {
			d.Log.V(1).Info("The outbox cannot be read; trying again", "reason", err.Error())
		}
		for _, m := range claimed {
			room := d.slots.enter(m)
			sending.Go(func() {
				if !room {
					d.record(ctx, m, again(m, d.Clock(), fullWait, "the deployment has too many sends in progress"))
					return
				}
				d.handle(ctx, m)
				if d.slots.leave(m) {
					d.Wake()
				}
			})
		}
		if err == nil && d.slots.took(claimed) {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-ticker.C:
		}
	}
}

// Exhausted returns how many messages had to wait because their deployment had as many sends in progress as it may.
func (d *Dispatcher) Exhausted() uint64 { return d.slots.exhausted.Load() }

// claimTimeout bounds one claim of messages, so that a store whose host disappeared is noticed soon.
const claimTimeout = 2 * time.Second

func (d *Dispatcher) claim(ctx context.Context) ([]people.Message, error) {
	claim := d.slots.claim()
	if claim.Limit == 0 || ctx.Err() != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, claimTimeout)
	defer cancel()
	return d.Store.LeaseMessages(ctx, d.Clock(), lease, claim)
}

// handle sends one message and records its outcome.
func (d *Dispatcher) handle(ctx context.Context, m people.Message) {
	if !d.Tracer.On() {
		d.record(ctx, m, d.send(ctx, m))
		return
	}
	// A separate trace with a link to that of the request, because retries continue long after the request.
	ctx, span := d.Tracer.Begin(ctx, "outbox send", append(tracing.LinkTo(m.Trace), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(tracing.Channel.String(m.Channel), tracing.Deployment.String(m.Deployment), tracing.Tries.Int(m.Tries)))...)
	defer span.End()
	settlement := d.send(ctx, m)
	span.SetAttributes(tracing.State.String(settlement.State))
	if settlement.State == people.MessageFailed || settlement.State == people.MessageExpired {
		span.SetStatus(codes.Error, "")
	}
	d.record(ctx, m, settlement)
}

// record writes the outcome of a message to the store.
func (d *Dispatcher) record(ctx context.Context, m people.Message, settlement people.Outcome) {
	log := tracing.Logger(ctx, d.Log)
	// The outcome of a sent message must be written even while the process ends.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	kept, err := d.Store.AckMessage(settling, m, settlement)
	switch {
	case err != nil:
		log.Error(err, "The outcome of a message was not recorded; it may be sent again", "id", ids.Format(m.ID), "deployment", m.Deployment)
	case kept && settlement.State != people.MessagePending:
		d.ended.WithLabelValues(m.Deployment, m.Channel, settlement.State).Inc()
		log = log.WithValues("id", ids.Format(m.ID), "deployment", m.Deployment, "channel", m.Channel)
		switch settlement.State {
		case people.MessageFailed:
			log.Info("A message was refused for good", "to", delivery.Mask(m.Recipient), "reason", settlement.Reason)
		case people.MessageExpired:
			// The recipient is irrelevant here: a provider's refusal of one recipient ends as failed.
			log.Info("A message was abandoned: it expired before a provider accepted it", "tries", m.Tries, "reason", settlement.Reason)
		}
	}
}

// send tries once and returns the message's outcome.
func (d *Dispatcher) send(ctx context.Context, m people.Message) people.Outcome {
	now := d.Clock()
	if m.Void {
		return people.Outcome{State: people.MessageVoid, Reason: "the code was replaced or used"}
	}
	if !now.Before(m.ExpiresAt.Add(-margin)) {
		return people.Outcome{State: people.MessageExpired, Reason: "it was not sent in time"}
	}
	sender, err := d.sender(m)
	if err != nil {
		if held := now.Add(-d.Snapshots.Staleness()); held.Before(m.CreatedAt.Add(follows)) {
			return again(m, now, pause(m.Tries), err.Error())
		}
		return people.Outcome{State: people.MessageFailed, Reason: err.Error()}
	}
	mail, err := d.open(m)
	if err != nil {
		return people.Outcome{State: people.MessageFailed, Reason: err.Error()}
	}
	provider := m.Deployment + " " + m.Channel
	if m.Channel == people.ChannelLogout {
		provider += " " + m.Recipient // each client is its own provider
	}
	if wait := d.breakers.enter(provider, now); wait > 0 {
		return again(m, now, wait, "the provider is busy, or rests after failures")
	}
	receipt, err := sender.Send(ctx, delivery.Message{ID: m.ID, To: m.Recipient, Subject: mail.Subject, Body: mail.Body, ExpiresAt: m.ExpiresAt})
	return d.outcomeOf(m, provider, receipt, err)
}

// outcomeOf returns the outcome of a message from the result of its sender, and updates the state of its provider.
func (d *Dispatcher) outcomeOf(m people.Message, provider string, receipt delivery.Receipt, err error) people.Outcome {
	now := d.Clock()
	var permanent *delivery.PermanentError
	var throttled *delivery.ThrottledError
	switch {
	case err == nil:
		d.breakers.leave(provider, now, true, time.Time{})
		return people.Outcome{State: people.MessageSent, ProviderID: receipt.ProviderID}
	case errors.As(err, &permanent):
		d.breakers.leave(provider, now, true, time.Time{})
		return people.Outcome{State: people.MessageFailed, Reason: permanent.Error()}
	case errors.As(err, &throttled):
		d.breakers.leave(provider, now, false, now.Add(throttled.After))
		return again(m, now, throttled.After, throttled.Error())
	}
	d.breakers.leave(provider, now, false, time.Time{})
	return again(m, now, pause(m.Tries), err.Error())
}

// pause returns the delay before the next try. It increases, with a jitter that spreads messages that failed together.
func pause(tries int) time.Duration {
	wait := min(firstRetry<<min(max(tries-1, 0), 10), maxRetry)
	return wait/2 + rand.N(wait/2)
}

// again returns the outcome that retries a message after a delay, or abandons it if the retry would be too late.
func again(m people.Message, now time.Time, wait time.Duration, reason string) people.Outcome {
	if next := now.Add(wait); next.Before(m.ExpiresAt.Add(-margin)) {
		return people.Outcome{State: people.MessagePending, NextAt: next, Reason: reason}
	}
	return people.Outcome{State: people.MessageExpired, Reason: reason}
}

func (d *Dispatcher) open(m people.Message) (delivery.Content, error) {
	var mail delivery.Content
	text, err := d.Keyring.Open(people.SealedMessage, m.SealedFor(), m.Sealed)
	if err != nil {
		return mail, err
	}
	if err := json.Unmarshal(text, &mail); err != nil {
		return mail, errors.New("the message's body cannot be read")
	}
	return mail, nil
}

// sender returns the sender of a message's deployment, as it is declared now.
func (d *Dispatcher) sender(m people.Message) (delivery.Sender, error) {
	entry, found := d.Snapshots.Current().Deployment(m.Deployment)
	if !found {
		return nil, errors.New("the deployment is deleted")
	}
	return d.senders.of(m.Deployment, m.Channel, entry.Content.(*document.Deployment))
}

// openSender returns a sender for a deployment's declared provider.
func (d *Dispatcher) openSender(deployment, channel string, settings *document.Deployment) (delivery.Sender, error) {
	switch channel {
	case people.ChannelMail:
		return d.openMail(deployment, settings.Email)
	case people.ChannelLogout:
		return delivery.NewLogout(d.Transport), nil
	}
	return d.openSMS(deployment, settings.SMS)
}

func (d *Dispatcher) openMail(deployment string, email *document.Email) (delivery.Sender, error) {
	switch {
	case email == nil:
		return nil, errors.New("the deployment declares no email any more")
	case email.SMTP == nil:
		return delivery.NewMail(delivery.MailOptions{Log: email.Log}, d.Transport)
	}
	secret, err := d.secret(deployment, document.SealedSMTPPassword, email.SMTP.SealedPassword)
	if err != nil {
		return nil, err
	}
	return delivery.NewMail(delivery.MailOptions{SMTP: &delivery.SMTPOptions{
		Host: email.SMTP.Host, Port: email.SMTP.Port, Security: delivery.Security(email.SMTP.Security), Username: email.SMTP.Username, Password: secret,
		From: email.From, FromName: email.FromName,
	}}, d.Transport)
}

func (d *Dispatcher) openSMS(deployment string, sms *document.SMS) (delivery.Sender, error) {
	switch {
	case sms == nil:
		return nil, errors.New("the deployment declares no sms any more")
	case sms.Twilio != nil:
		secret, err := d.secret(deployment, document.SealedTwilioToken, sms.Twilio.SealedAuthToken)
		if err != nil {
			return nil, err
		}
		return delivery.NewSMS(delivery.SMSOptions{Twilio: &delivery.TwilioOptions{
			AccountSID: sms.Twilio.AccountSID, AuthToken: secret, From: sms.Twilio.From, MessagingServiceSID: sms.Twilio.MessagingServiceSID, BaseURL: sms.Twilio.BaseURL,
		}}, d.Transport)
	case sms.Webhook != nil:
		secret, err := d.secret(deployment, document.SealedWebhookSecret, sms.Webhook.SealedSigningSecret)
		if err != nil {
			return nil, err
		}
		return delivery.NewSMS(delivery.SMSOptions{Webhook: &delivery.WebhookOptions{URL: sms.Webhook.URL, Secret: secret}}, d.Transport)
	}
	return delivery.NewSMS(delivery.SMSOptions{Log: sms.Provider == "Log"}, d.Transport)
}

// secret opens a value that the operator sealed for a deployment; "" stays "".
func (d *Dispatcher) secret(deployment, kind, sealed string) (string, error) {
	if sealed == "" {
		return "", nil
	}
	text, err := d.Keyring.Open(kind, document.SecretID(deployment, kind), sealed)
	return string(text), err
}
