// Package outbox takes messages from the store to the senders. A message was written with what it is about, in one transaction; here
// it is leased, sent, tried again while it is of use, and loses its body with its end state. Any number of servers share the work.
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
	// lease is how long a message belongs to one dispatcher: longer than a send may take.
	lease = 15 * time.Second
	// look is how often the outbox is looked at without a nudge.
	look = time.Second
	// margin is how long before its expiry a message is abandoned: the user must still read and type it.
	margin = 30 * time.Second
	// follows is how much younger than a message the configuration must be to refuse it: servers follow the feed within it, and
	// another one may have written the message by a newer configuration.
	follows = time.Second
	// firstRetry and maxRetry bound the growing pause between tries.
	firstRetry = 500 * time.Millisecond
	maxRetry   = 8 * time.Second
)

// Options are what a Dispatcher needs.
type Options struct {
	Store     people.Messages
	Snapshots *snapshot.Follower
	Keyring   *seal.Keyring
	Transport *delivery.Transport
	Clock     func() time.Time
	Log       logr.Logger
	Registry  prometheus.Registerer
	// Tracer makes a span of each send; nil: none.
	Tracer *tracing.Tracer
}

// Dispatcher sends what waits in the outbox.
type Dispatcher struct {
	Options
	nudge    chan struct{}
	slots    *slots
	senders  senders
	breakers breakers
	ended    *prometheus.CounterVec
}

// New returns a Dispatcher. It does nothing before Run.
func New(opts Options) *Dispatcher {
	d := &Dispatcher{Options: opts, nudge: make(chan struct{}, 1), slots: newSlots(), ended: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_messages_total", Help: "Messages that reached their end, by deployment, channel and state (sent, failed, expired, void).",
	}, []string{"deployment", "channel", "state"})}
	d.senders.open = d.openSender
	opts.Registry.MustRegister(d.ended)
	return d
}

// Nudge makes the dispatcher look now.
func (d *Dispatcher) Nudge() {
	select {
	case d.nudge <- struct{}{}:
	default:
	}
}

// Run sends from the moment when the configuration is loaded until ctx ends. It returns when every send under way has
// its outcome: a message without an answer by then is due again. The lease of a message whose outcome could not be
// written ends, and it is claimed again.
func (d *Dispatcher) Run(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-d.Snapshots.Loaded():
	}
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		claimed, err := d.claim(ctx)
		if err != nil && ctx.Err() == nil {
			d.Log.V(1).Info("The outbox cannot be read; looking again", "reason", err.Error())
		}
		for _, m := range claimed {
			room := d.slots.enter(m)
			sending.Go(func() {
				if !room {
					d.settle(ctx, m, again(m, d.Clock(), fullWait, "the deployment has too many messages under way"))
					return
				}
				d.handle(ctx, m)
				if d.slots.leave(m) {
					d.Nudge()
				}
			})
		}
		if err == nil && d.slots.took(claimed) {
			continue // there may be more
		}
		select {
		case <-ctx.Done():
			return nil
		case <-d.nudge:
		case <-ticker.C:
		}
	}
}

// Exhausted returns how many messages had to wait because their deployment had as many under way as it may.
func (d *Dispatcher) Exhausted() uint64 { return d.slots.exhausted.Load() }

// claimTimeout bounds one claim of messages, so that a store whose host vanished without a word is found out soon.
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

// handle sends one message and settles it.
func (d *Dispatcher) handle(ctx context.Context, m people.Message) {
	if !d.Tracer.On() {
		d.settle(ctx, m, d.send(ctx, m))
		return
	}
	// A trace of its own, with a link to the one of the request: what is tried again goes on long after that.
	ctx, span := d.Tracer.Begin(ctx, "outbox send", append(tracing.LinkTo(m.Trace), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(tracing.Channel.String(m.Channel), tracing.Deployment.String(m.Deployment), tracing.Tries.Int(m.Tries)))...)
	defer span.End()
	settlement := d.send(ctx, m)
	span.SetAttributes(tracing.State.String(settlement.State))
	if settlement.State == people.MessageFailed || settlement.State == people.MessageExpired {
		span.SetStatus(codes.Error, "")
	}
	d.settle(ctx, m, settlement)
}

// settle writes down what is to become of a message.
func (d *Dispatcher) settle(ctx context.Context, m people.Message, settlement people.Outcome) {
	log := tracing.Logger(ctx, d.Log)
	// The outcome of a sent message must be written also while the process ends.
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	kept, err := d.Store.AckMessage(settling, m, settlement)
	switch {
	case err != nil:
		log.Error(err, "A message was not settled; it may be sent once more", "id", ids.Format(m.ID), "deployment", m.Deployment)
	case kept && settlement.State != people.MessagePending:
		d.ended.WithLabelValues(m.Deployment, m.Channel, settlement.State).Inc()
		log = log.WithValues("id", ids.Format(m.ID), "deployment", m.Deployment, "channel", m.Channel)
		switch settlement.State {
		case people.MessageFailed:
			log.Info("A message was refused for good", "to", delivery.Mask(m.Recipient), "reason", settlement.Reason)
		case people.MessageExpired:
			// The recipient does not help here: a provider's refusal of one recipient ends as failed.
			log.Info("A message was given up: its end came before a provider took it", "tries", m.Tries, "reason", settlement.Reason)
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
		return again(m, now, wait, "the provider is busy or given a rest")
	}
	receipt, err := sender.Send(ctx, delivery.Message{ID: m.ID, To: m.Recipient, Subject: mail.Subject, Body: mail.Body, ExpiresAt: m.ExpiresAt})
	return d.outcomeOf(m, provider, receipt, err)
}

// outcomeOf returns the outcome of a message, and updates the state of its provider, by the result of its sender.
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

// pause grows from try to try, with a jitter that spreads those that failed together.
func pause(tries int) time.Duration {
	wait := min(firstRetry<<min(max(tries-1, 0), 10), maxRetry)
	return wait/2 + rand.N(wait/2)
}

// again makes a message due after a wait, or gives it up if it would come too late.
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

// sender returns what sends for a message's deployment, as it is declared now.
func (d *Dispatcher) sender(m people.Message) (delivery.Sender, error) {
	entry, found := d.Snapshots.Current().Deployment(m.Deployment)
	if !found {
		return nil, errors.New("the deployment is gone")
	}
	return d.senders.of(m.Deployment, m.Channel, entry.Content.(*document.Deployment))
}

// openSender builds a sender from what a deployment declares.
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

// secret opens what the operator sealed for a deployment; "" stays "".
func (d *Dispatcher) secret(deployment, kind, sealed string) (string, error) {
	if sealed == "" {
		return "", nil
	}
	text, err := d.Keyring.Open(kind, document.SecretID(deployment, kind), sealed)
	return string(text), err
}
