package delivery

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// WebhookOptions describe the tenant's own service for text messages. Requests are signed according to Standard
// Webhooks.
type WebhookOptions struct {
	URL string
	// Secret is `whsec_` and the base64 of the key, 24 to 64 bytes.
	Secret string
}

// secretPrefix begins a secret of Standard Webhooks.
const secretPrefix = "whsec_"

type webhook struct {
	transport *Transport
	url       string
	key       []byte
}

func newWebhook(opts WebhookOptions, transport *Transport) (*webhook, error) {
	if _, err := endpoint(opts.URL); err != nil {
		return nil, fmt.Errorf("webhook URL: %w", err)
	}
	encoded, found := strings.CutPrefix(opts.Secret, secretPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	if !found || err != nil || len(key) < 24 || len(key) > 64 {
		return nil, errors.New("the webhook secret must be whsec_ and the base64 of 24 to 64 bytes")
	}
	return &webhook{transport: transport, url: opts.URL, key: key}, nil
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
func (s *webhook) Send(ctx context.Context, m Message) (Receipt, error) {
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
	timestamp := strconv.FormatInt(s.transport.clock().Unix(), 10)
	// The status alone reports success, so the body is not read.
	a, err := s.transport.post(ctx, s.url, string(body), 0, func(request *http.Request) {
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("webhook-id", id)
		request.Header.Set("webhook-timestamp", timestamp)
		request.Header.Set("webhook-signature", s.signature(id, timestamp, body))
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

// signature signs the id, the time and the body, so that an attacker cannot change them, and the receiver can refuse
// late replays.
func (s *webhook) signature(id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
