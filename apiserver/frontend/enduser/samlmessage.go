package enduser

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

const (
	// messageWithin bounds the time in which a client sends a message of SAML, and messageWait the wait for a slot.
	messageWithin, messageWait = 5 * time.Second, 2 * time.Second
)

// messageBounds bound the messages of SAML that are read and evaluated at once: each can have saml.MaxForm bytes, where
// all other bodies of this listener have body.MaxEndUserBytes.
var messageBounds = egress.Bounds{AtOnce: 64, DeploymentAtOnce: 16, SourceAtOnce: 4}

// errTooManyMessages refuses a message whose slot was not free in time.
var errTooManyMessages = apierror.Coded(http.StatusServiceUnavailable, "CONNECTION_UNAVAILABLE", "too many sign-ins are in progress: try again")

// readMessage reads the form with a message of SAML. The caller calls done after it evaluated the message.
func readMessage(c *call) (form url.Values, done func(), err error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), messageWait)
	defer cancel()
	done, err = c.messages.Begin(ctx, egress.Asker{Deployment: c.request.Key(), Source: c.request.Client.WideNetwork})
	if err != nil {
		answer := *errTooManyMessages
		answer.Cause, answer.RetryAfter = err, messageWait
		return nil, nil, &answer
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
