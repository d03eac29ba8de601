package enduser

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

const (
	// messageWithin bounds the time in which a client sends a message of SAML, and messageWait each wait for a slot.
	messageWithin, messageWait = 5 * time.Second, 2 * time.Second
)

// messageBounds bound the messages of SAML that are read and evaluated at once: each can have saml.MaxForm bytes, where
// all other bodies of this listener have body.MaxEndUserBytes.
var messageBounds = egress.Bounds{AtOnce: 64, DeploymentAtOnce: 16, SourceAtOnce: 4}

// evaluationBounds bound the messages of SAML that are parsed, decrypted and verified at once: the most expensive ones
// occupy a processor for a tenth of a second.
var evaluationBounds = egress.Bounds{AtOnce: 2, DeploymentAtOnce: 1}

// NewEvaluations returns the slots in which an API evaluates messages of SAML.
func NewEvaluations(clock func() time.Time) *egress.Slots {
	return egress.NewSlots(evaluationBounds, clock)
}

// errNoTurn means that a message was not evaluated, because its slot was not free in time.
var errNoTurn = errors.New("other messages are evaluated")

// errTooManyMessages refuses a message whose slot was not free in time.
var errTooManyMessages = apierror.Coded(http.StatusServiceUnavailable, "CONNECTION_UNAVAILABLE", "too many sign-ins are in progress: try again")

// readMessage reads the form with a message of SAML. The caller calls done after it evaluated the message.
func readMessage(c *call) (form url.Values, done func(), err error) {
	done, err = turn(c.r.Context(), c.messages, senderOf(c))
	if err != nil {
		return nil, nil, err
	}
	err = http.NewResponseController(c).SetReadDeadline(time.Now().Add(messageWithin))
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		form, err = readForm(c, saml.MaxForm)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return form, done, nil
}

// senderOf returns the deployment and the network for which a message of SAML takes its turn.
func senderOf(c *call) egress.Asker {
	return egress.Asker{Deployment: c.request.Key(), Source: c.request.Client.WideNetwork}
}

// turn waits for a slot, at most messageWait. The error is the response to the client.
func turn(ctx context.Context, slots *egress.Slots, of egress.Asker) (done func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, messageWait)
	defer cancel()
	if done, err = slots.Begin(ctx, of); err != nil {
		answer := *errTooManyMessages
		answer.Cause, answer.RetryAfter = fmt.Errorf("%w: %w", errNoTurn, err), messageWait
		return nil, &answer
	}
	return done, nil
}

// inTurn evaluates a message, or a part of one, in a slot.
func inTurn[T any](ctx context.Context, slots *egress.Slots, of egress.Asker, evaluate func() (T, error)) (result T, err error) {
	done, err := turn(ctx, slots, of)
	if err != nil {
		return result, err
	}
	defer done()
	return evaluate()
}

// evaluated returns the result of an evaluation in its turn. It must not wait for anything else, because the other
// messages of the deployment wait for it.
func evaluated[T any](c *call, evaluate func() (T, error)) (T, error) {
	return inTurn(c.r.Context(), c.Evaluations, senderOf(c), evaluate)
}
