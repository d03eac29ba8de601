package delivery

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/tracing"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func webhookAt(t *testing.T, url string) Sender {
	t.Helper()
	sender, err := NewSMS(SMSOptions{Webhook: &WebhookOptions{URL: url, Secret: webhookSecret}}, newTransport(loopback...))
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func TestWebhookRequest(t *testing.T) {
	t.Parallel()
	var header http.Header
	var body []byte
	url := server(t, func(w http.ResponseWriter, r *http.Request) {
		header = r.Header
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	})
	if _, err := webhookAt(t, url+"/texts?tenant=1").Send(context.Background(), Message{ID: 42, To: mobile, Body: "ä\n" + secretCode, ExpiresAt: now.Add(5 * time.Minute)}); err != nil {
		t.Fatal(err)
	}
	const want = `{"type":"sms.send","data":{"id":"msg_42","to":"` + mobile + `","body":"ä\n` + secretCode + `","expires_at":"2026-10-18T12:05:00Z"}}`
	if string(body) != want || header.Get("Content-Type") != "application/json" || header.Get("webhook-id") != "msg_42" || header.Get("webhook-timestamp") != "1792324800" {
		t.Errorf("body %s\nheader %v", body, header)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(webhookSecret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("msg_42.1792324800." + want))
	if got := header.Get("webhook-signature"); got != "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)) {
		t.Errorf("signature %s", got)
	}
}

// A request propagates the message's trace context, without the caller's tracestate.
func TestDeliveryPropagatesTrace(t *testing.T) {
	t.Parallel()
	var header http.Header
	url := server(t, func(_ http.ResponseWriter, r *http.Request) { header = r.Header })
	ctx, _ := tracing.Incoming(t.Context(), tracing.Header{"Traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, "Tracestate": {"ours=1"}}, true)
	for name, sender := range map[string]Sender{"webhook": webhookAt(t, url), "logout": NewLogout(newTransport(loopback...))} {
		if _, err := sender.Send(ctx, Message{ID: 42, To: url, Body: "text"}); err != nil {
			t.Fatal(name, err)
		}
		if header.Get("traceparent") != "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" || header.Get("tracestate") != "" {
			t.Errorf("%s: %v", name, header)
		}
	}
}

func TestWebhookAnswers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve http.HandlerFunc
		want  string
	}{
		"200":               {answers(200, "whatever"), "sent"},
		"204":               {answers(204, ""), "sent"},
		"a body that hangs": {hangs(200), "sent"},
		"a redirect":        {answers(302, "", "Location", "/elsewhere"), "misconfigured http_302"},
		"400":               {answers(400, mobile), "permanent http_400"},
		"410":               {answers(410, ""), "permanent http_410"},
		"408":               {answers(408, ""), "transient"},
		"429":               {answers(429, "", "Retry-After", "9"), "throttled 9s"},
		"500":               {answers(500, ""), "transient"},
		"503 with a time":   {answers(503, "", "Retry-After", "9"), "transient"},
		"a hang-up":         {hangsUp, "transient"},
		"no answer":         {neverAnswers, "transient"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := webhookAt(t, server(t, tt.serve)+"/?key="+secretToken).Send(context.Background(), Message{ID: 1, To: mobile, Body: secretCode})
			if got := fault(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			tellsNothing(t, err)
		})
	}
}
