package webhooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// dialWithin bounds a dial and a TLS handshake, each.
	dialWithin = 10 * time.Second
	// idlePerHost and idleFor bound the idle connections to one host.
	idlePerHost, idleFor = 16, 30 * time.Second
	// bodyMost is how much of a response's body is read, and excerptMost how many characters of it are kept.
	bodyMost, excerptMost = 4 << 10, 512
	// retryAfterMost is the longest pause that a receiver can ask for.
	retryAfterMost = time.Hour
	// redacted stands for a secret value in a response.
	redacted = "[redacted]"
)

// The texts of failures without a response. They do not say which addresses exist.
const (
	failedTimeout  = "no complete response within the timeout"
	failedRefused  = "the servers may not connect to the address: --egress-allowed-cidrs does not name it"
	failedTLS      = "the TLS certificate of the receiver is not valid"
	failedNoTLS    = "the receiver does not respond with TLS: correct the scheme or the port of spec.url"
	failedOtherwis = "the receiver could not be reached"
)

// client sends webhooks. It is safe for concurrent use.
type client struct{ secure, plain http.RoundTripper }

// newClient returns a client under an egress policy. Requests without TLS are sent only to the ranges that the policy
// allows explicitly.
func newClient(policy *egress.Policy) *client {
	transport := func(p *egress.Policy) *http.Transport {
		t := p.Transport(dialWithin)
		t.DisableCompression = true
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.IdleConnTimeout = slotsMost, idlePerHost, idleFor
		return t
	}
	return &client{secure: transport(policy), plain: transport(policy.Private())}
}

// close closes idle connections.
func (c *client) close() {
	for _, t := range []http.RoundTripper{c.secure, c.plain} {
		t.(*http.Transport).CloseIdleConnections()
	}
}

// target is an endpoint with its opened secrets.
type target struct {
	content *document.WebhookEndpoint
	keys    []webhook.Key
	headers http.Header
	// secrets are texts that no record repeats.
	secrets []string
	// deployment is the id of the deployment.
	deployment int64
	agent      string
}

// outcome is what became of a request.
type outcome struct {
	// status is the HTTP status, 0 without a response. failure says why it is no success, "" for a success.
	status  int
	failure string
	excerpt string
	latency time.Duration
	// retryAfter is when the receiver wants the next request, zero if it does not say.
	retryAfter time.Time
}

func (o outcome) success() bool { return o.failure == "" }

// body returns the body of an event's request and its media type. prefix begins its id.
func body(format string, e *people.LoggedEvent, deployment int64, prefix string) (content []byte, mediaType string, err error) {
	served := events.Served(e, deployment)
	served.Id = prefix + ids.Format(e.ID)
	if format == document.WebhookCloudEvents {
		content, err = events.CloudEvent(served)
		return content, "application/cloudevents+json", err
	}
	content, err = json.Marshal(served)
	return content, "application/json", err
}

// send sends an event once. prefix begins the event's id, which is the webhook-id. clock is for the signature's time.
func (c *client) send(ctx context.Context, t *target, e *people.LoggedEvent, prefix string, more http.Header, clock func() time.Time) outcome {
	content, mediaType, err := body(t.content.Format, e, t.deployment, prefix)
	if err != nil {
		return outcome{failure: "the event cannot be written as JSON"}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(t.content.TimeoutSeconds)*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.content.URL, bytes.NewReader(content))
	if err != nil {
		return outcome{failure: "spec.url is no URL of a server"}
	}
	// The transport must not send a request again by itself: the record has each request.
	r.GetBody = nil
	for name, values := range t.headers {
		r.Header[name] = values
	}
	for name, values := range more {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", mediaType)
	r.Header.Set("User-Agent", t.agent)
	webhook.Sign(r.Header, prefix+ids.Format(e.ID), clock(), content, t.keys...)
	transport := c.secure
	if r.URL.Scheme == "http" {
		transport = c.plain
	}
	began := time.Now()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return outcome{failure: failureOf(ctx, err), latency: time.Since(began)}
	}
	defer func() { _ = response.Body.Close() }() // everything that is needed was read
	var read []byte
	if response.Body != http.NoBody {
		read, _ = io.ReadAll(io.LimitReader(response.Body, bodyMost)) // the status alone counts
	}
	o := outcome{status: response.StatusCode, latency: time.Since(began)}
	if !t.content.Personal { // a response may repeat personal data, which records do not have
		o.excerpt = excerpt(read, t.secrets)
	}
	if response.StatusCode < 200 || response.StatusCode > 299 {
		o.failure = "HTTP status " + strconv.Itoa(response.StatusCode)
		o.retryAfter = retryAfter(response, clock())
	}
	return o // a 2xx is a success although its body did not end in time, or broke off
}

// failureOf says why there is no complete response.
func failureOf(ctx context.Context, err error) string {
	var refused *egress.RefusedError
	var timeout net.Error
	var record tls.RecordHeaderError
	var certificate *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &refused):
		return failedRefused
	case errors.Is(ctx.Err(), context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return failedTimeout
	case errors.As(err, &record), strings.Contains(err.Error(), "HTTP response to HTTPS client"): // net/http has no type for it
		return failedNoTLS
	case errors.As(err, &certificate), errors.As(err, &authority):
		return failedTLS
	}
	return failedOtherwis
}

// retryAfter returns when the receiver of a 429 or 503 wants the next request, at most an hour later; zero: it does not
// say.
func retryAfter(response *http.Response, now time.Time) time.Time {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return time.Time{}
	}
	text := response.Header.Get("Retry-After")
	var pause time.Duration
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		pause = time.Duration(seconds) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		pause = at.Sub(now)
	}
	if pause <= 0 {
		return time.Time{}
	}
	return now.Add(min(pause, retryAfterMost))
}

// excerpt returns the beginning of a response's body as text, without control characters and secret values.
func excerpt(read []byte, secrets []string) string {
	if len(read) == bodyMost { // the end may be in the middle of a character
		for cut := 0; cut < utf8.UTFMax-1 && !utf8.Valid(read); cut++ {
			read = read[:len(read)-1]
		}
	}
	if !utf8.Valid(read) {
		return ""
	}
	text := string(read)
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, redacted)
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
			return ' '
		}
		return r
	}, text)
	if runes := []rune(text); len(runes) > excerptMost {
		text = string(runes[:excerptMost])
	}
	return text
}
