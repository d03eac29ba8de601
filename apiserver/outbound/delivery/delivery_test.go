package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

const (
	secretCode  = "734951"
	secretToken = "the-auth-token"
	mobile      = "+12025550123"
)

var (
	loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	now      = time.Date(2026, 10, 18, 12, 0, 0, 0, time.UTC)
)

// newTransport returns a Transport that may connect to the allowed ranges and whose sends end after 1.5 s.
func newTransport(allowed ...netip.Prefix) *Transport {
	t := NewTransport(egress.NewPolicy(allowed, nil), func() time.Time { return now }, logr.Discard())
	t.within = 1500 * time.Millisecond
	return t
}

// fault returns a short form of an error: its kind, and its code or delay.
func fault(err error) string {
	var permanent *PermanentError
	var throttled *ThrottledError
	var transient *TransientError
	switch {
	case err == nil:
		return "sent"
	case errors.As(err, &permanent) && permanent.Configuration:
		return "misconfigured " + permanent.Code
	case errors.As(err, &permanent):
		return "permanent " + permanent.Code
	case errors.As(err, &throttled):
		return "throttled " + throttled.After.String()
	case errors.As(err, &transient):
		return "transient"
	}
	return "unknown"
}

// tellsNothing checks that an error holds no secret and no whole recipient.
func tellsNothing(t *testing.T, err error, secrets ...string) {
	t.Helper()
	for _, secret := range append(secrets, secretCode, secretToken, mobile, mobile[1:], "person@example.com") {
		if err != nil && strings.Contains(fmt.Sprintf("%v %+v %#v", err, err, err), secret) {
			t.Errorf("the error holds %q: %v", secret, err)
		}
	}
}

// server starts an HTTP server that handles every request with serve, and returns its URL.
func server(t *testing.T, serve http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(serve)
	t.Cleanup(s.Close)
	return s.URL
}

func answers(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// hangs sends part of a response and then waits until the client disconnects.
func hangs(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // the server notices a disconnected client only after it has read the body
		w.Header().Set("Content-Length", "100")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(`{"sid":`))
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
}

func hangsUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func neverAnswers(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

func TestConstructorsRefuse(t *testing.T) {
	t.Parallel()
	transport := newTransport()
	twilio := func(change func(*TwilioOptions)) SMSOptions {
		o := TwilioOptions{AccountSID: "AC" + strings.Repeat("0", 32), AuthToken: secretToken, From: mobile}
		change(&o)
		return SMSOptions{Twilio: &o}
	}
	for name, opts := range map[string]SMSOptions{
		"nothing":                  {},
		"two":                      {Log: true, Webhook: &WebhookOptions{}},
		"an account with a path":   twilio(func(o *TwilioOptions) { o.AccountSID = "AC/../x" }),
		"no token":                 twilio(func(o *TwilioOptions) { o.AuthToken = "" }),
		"no number":                twilio(func(o *TwilioOptions) { o.From = "" }),
		"a base of another scheme": twilio(func(o *TwilioOptions) { o.BaseURL = "file:///etc" }),
		"a base with a password":   twilio(func(o *TwilioOptions) { o.BaseURL = "https://user:" + secretToken + "@example.com" }),
		"a base with a query":      twilio(func(o *TwilioOptions) { o.BaseURL = "https://example.com?a=" + secretToken }),
		"a webhook without host":   {Webhook: &WebhookOptions{URL: "https://", Secret: webhookSecret}},
		"a webhook that is no URL": {Webhook: &WebhookOptions{URL: "https://%zz" + secretToken, Secret: webhookSecret}},
		"a webhook without secret": {Webhook: &WebhookOptions{URL: "https://example.com"}},
		"a short secret":           {Webhook: &WebhookOptions{URL: "https://example.com", Secret: "whsec_MTIz"}},
		"a secret of another form": {Webhook: &WebhookOptions{URL: "https://example.com", Secret: secretToken}},
	} {
		_, err := NewSMS(opts, transport)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		tellsNothing(t, err)
	}
	for name, change := range map[string]func(*SMTPOptions){
		"no host":                  func(o *SMTPOptions) { o.Host = "" },
		"a socket":                 func(o *SMTPOptions) { o.Host = "unix:///run/mail" },
		"no port":                  func(o *SMTPOptions) { o.Port = 0 },
		"no security":              func(o *SMTPOptions) { o.Security = "" },
		"a user without password":  func(o *SMTPOptions) { o.Username = "user" },
		"a password without TLS":   func(o *SMTPOptions) { o.Username, o.Password, o.Security = "user", secretToken, NoTLS },
		"no sender":                func(o *SMTPOptions) { o.From = "" },
		"a sender of two lines":    func(o *SMTPOptions) { o.From = "app@example.com\r\nBcc: all@example.com" },
		"a sender with a name":     func(o *SMTPOptions) { o.From = "App <app@example.com>" },
		"a name of two lines":      func(o *SMTPOptions) { o.FromName = "App\nBcc: all@example.com" },
		"a name with a line break": func(o *SMTPOptions) { o.FromName = "App\r" },
	} {
		opts := SMTPOptions{Host: "mail.example.com", Port: 587, Security: StartTLS, From: "app@example.com"}
		if _, err := NewMail(MailOptions{SMTP: &opts}, transport); err != nil {
			t.Fatal(err)
		}
		change(&opts)
		_, err := NewMail(MailOptions{SMTP: &opts}, transport)
		if err == nil {
			t.Errorf("%s: accepted", name)
		}
		tellsNothing(t, err)
	}
	for _, opts := range []MailOptions{{}, {Log: true, SMTP: &SMTPOptions{}}} {
		if _, err := NewMail(opts, transport); err == nil {
			t.Errorf("%+v: accepted", opts)
		}
	}
}

// No sender connects to an address inside the network, not even by name, unless the policy allows the address.
func TestPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	url := server(t, func(http.ResponseWriter, *http.Request) { t.Error("the server was called") })
	byName := strings.Replace(url, "127.0.0.1", "localhost", 1)
	for _, url := range []string{url, byName} {
		sms, err := NewSMS(SMSOptions{Twilio: &TwilioOptions{AccountSID: "AC0", AuthToken: secretToken, From: mobile, BaseURL: url}}, newTransport())
		if err != nil {
			t.Fatal(err)
		}
		hook, err := NewSMS(SMSOptions{Webhook: &WebhookOptions{URL: url, Secret: webhookSecret}}, newTransport())
		if err != nil {
			t.Fatal(err)
		}
		for _, sender := range []Sender{sms, hook} {
			_, err := sender.Send(context.Background(), Message{To: mobile, Body: secretCode})
			if fault(err) != "misconfigured egress_refused" || !strings.Contains(err.Error(), "--egress-allowed-cidrs") {
				t.Errorf("%T: %v", sender, err)
			}
			tellsNothing(t, err)
		}
	}
	mail, err := NewMail(MailOptions{SMTP: &SMTPOptions{Host: "localhost", Port: 1, Security: NoTLS, From: "app@example.com"}}, newTransport())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mail.Send(context.Background(), Message{To: "person@example.com", Body: secretCode}); fault(err) != "misconfigured egress_refused" {
		t.Errorf("mail: %v", err)
	}
}

func TestLogSenderWritesMessage(t *testing.T) {
	t.Parallel()
	var lines []string
	transport := NewTransport(egress.NewPolicy(nil, nil), time.Now, funcr.NewJSON(func(line string) { lines = append(lines, line) }, funcr.Options{}))
	sender, err := NewSMS(SMSOptions{Log: true}, transport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sender.Send(context.Background(), Message{ID: 7, To: mobile, Body: "a\nb " + secretCode}); err != nil {
		t.Fatal(err)
	}
	var line map[string]any
	if len(lines) != 1 || json.Unmarshal([]byte(lines[0]), &line) != nil || line["to"] != mobile || line["body"] != "a\nb "+secretCode {
		t.Errorf("logged %q", lines)
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		mobile: "**********23", "person@example.com": "***@example.com", "a@b@c": "***@c", "": "***", "12345": "***", "+1２３４５６": "*****５６",
	} {
		if got := Mask(in); got != want {
			t.Errorf("Mask(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestThrottledHasBounds(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{-time.Hour: "throttled 1s", 0: "throttled 1s", 7 * time.Second: "throttled 7s", time.Hour: "throttled 1m0s"} {
		if got := fault(fmt.Errorf("wrapped: %w", Throttled(after))); got != want {
			t.Errorf("%s: %s", after, got)
		}
	}
}
