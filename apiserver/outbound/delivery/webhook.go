package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/internal/webhook"
)

// WebhookOptions describe the tenant's own service for text messages. Requests are signed according to Standard
// Webhooks.
type WebhookOptions struct {
	URL string
	// Secret is `whsec_` and the base64 of the key, 24 to 64 bytes.
	Secret string
}

type tenantWebhook struct {
	transport *Transport
	url       string
	key       webhook.Key
}

func newWebhook(opts WebhookOptions, transport *Transport) (*tenantWebhook, error) {
	if _, err := endpoint(opts.URL); err != nil {
		return nil, fmt.Errorf("webhook URL: %w", err)
	}
	key, err := webhook.ParseSecret(opts.Secret)
	if err != nil {
		return nil, fmt.Errorf("the webhook secret %w", err)
	}
	return &tenantWebhook{transport: transport, url: opts.URL, key: key}, nil
}

// event is the body of a request.
type event struct {
	Type string    `json:"type"`
	Data eventData `json:"data"`
}

type eventData struct {
	ID   string `json:"id"`
	To   string `json:"to"`
	Body string `json:"body"`
	// ExpiresAt is absent if the text does not expire.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Send implements Sender.
func (s *tenantWebhook) Send(ctx context.Context, m Message) (Receipt, error) {
	// The receiver recognizes retries by the id.
	id := "msg_" + strconv.FormatInt(m.ID, 10)
	data := eventData{ID: id, To: m.To, Body: m.Body}
	if !m.ExpiresAt.IsZero() {
		data.ExpiresAt = m.ExpiresAt.UTC()
	}
	body, err := json.Marshal(event{Type: "sms.send", Data: data})
	if err != nil {
		return Receipt{}, Permanent("invalid_message", "the text cannot be written as JSON")
	}
	// The status alone reports success, so the body is not read.
	a, err := s.transport.post(ctx, s.url, string(body), 0, func(request *http.Request) {
		request.Header.Set("Content-Type", "application/json")
		webhook.Sign(request.Header, id, s.transport.clock(), body, s.key)
	})
	if err != nil {
		return Receipt{}, err
	}
	switch {
	case a.status/100 == 2:
		return Receipt{}, nil
	case a.status == http.StatusTooManyRequests:
		return Receipt{}, a.throttled(s.transport.clock())
	case a.status >= 500, a.status == http.StatusRequestTimeout:
		return Receipt{}, Transient("the webhook answered " + strconv.Itoa(a.status))
	case a.status < 400:
		return Receipt{}, Misconfigured(a.code(), "the webhook is redirected: declare its final URL")
	}
	return Receipt{}, Permanent(a.code(), "the webhook refuses the text")
}
