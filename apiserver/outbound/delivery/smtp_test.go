package delivery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
)

// certificate returns the TLS configuration of a server at 127.0.0.1, and roots that trust its certificate.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, roots
}

func smtpAt(t *testing.T, port int, change ...func(*SMTPOptions)) *smtpSender {
	t.Helper()
	opts := SMTPOptions{Host: "127.0.0.1", Port: port, Security: NoTLS, From: "app@example.com", FromName: "Äpp, Inc."}
	for _, c := range change {
		c(&opts)
	}
	sender, err := NewMail(MailOptions{SMTP: &opts}, newTransport(loopback...))
	if err != nil {
		t.Fatal(err)
	}
	return sender.(*smtpSender)
}

func TestMailFormat(t *testing.T) {
	t.Parallel()
	c := startCarrier(t, messagegateway.Options{})
	const body = "Grüße,\n\n" + secretCode + "\n.\n.leading dot\n=20 \n"
	receipt, err := smtpAt(t, c.SMTPPort()).Send(context.Background(), Message{To: "person+tag@example.com", Subject: "Ihr Code für Äpp " + strings.Repeat("ö", 80), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	got := c.Messages("person+tag@example.com")
	if len(got) != 1 {
		t.Fatalf("inbox %+v", got)
	}
	m := got[0]
	if strings.TrimRight(m.Body, "\n") != strings.TrimRight(body, "\n") || m.Subject != "Ihr Code für Äpp "+strings.Repeat("ö", 80) || m.From != "app@example.com" {
		t.Errorf("received %+v", m)
	}
	from, err := m.Header.AddressList("From")
	if err != nil || len(from) != 1 || from[0].Name != "Äpp, Inc." || from[0].Address != "app@example.com" {
		t.Errorf("From %v, %v", from, err)
	}
	date, err := m.Header.Date()
	if err != nil || !date.Equal(now) {
		t.Errorf("Date %v, %v", date, err)
	}
	id := m.Header.Get("Message-Id")
	if id != receipt.ProviderID || !strings.HasSuffix(id, "@example.com>") || m.Header.Get("Auto-Submitted") != "auto-generated" ||
		!strings.EqualFold(m.Header.Get("Content-Type"), "text/plain; charset=UTF-8") || m.Header.Get("User-Agent")+m.Header.Get("X-Mailer") != "" {
		t.Errorf("header %v, receipt %+v", m.Header, receipt)
	}
}

func TestMailOverTLSAndWithPassword(t *testing.T) {
	t.Parallel()
	config, roots := certificate(t)
	user := func(o *SMTPOptions) { o.Username, o.Password = "user", secretToken }
	for name, tt := range map[string]struct {
		server   messagegateway.Options
		security Security
		password string
		want     string
	}{
		"STARTTLS":                  {messagegateway.Options{TLS: config}, StartTLS, "", "sent"},
		"STARTTLS, PLAIN":           {messagegateway.Options{TLS: config, SMTPMechanisms: []string{"PLAIN"}}, StartTLS, secretToken, "sent"},
		"STARTTLS, LOGIN":           {messagegateway.Options{TLS: config, SMTPMechanisms: []string{"LOGIN"}}, StartTLS, secretToken, "sent"},
		"TLS":                       {messagegateway.Options{TLS: config, ImplicitTLS: true}, ImplicitTLS, "", "sent"},
		"TLS, PLAIN":                {messagegateway.Options{TLS: config, ImplicitTLS: true, SMTPMechanisms: []string{"PLAIN"}}, ImplicitTLS, secretToken, "sent"},
		"TLS, LOGIN":                {messagegateway.Options{TLS: config, ImplicitTLS: true, SMTPMechanisms: []string{"LOGIN"}}, ImplicitTLS, secretToken, "sent"},
		"loopback, PLAIN":           {messagegateway.Options{SMTPMechanisms: []string{"PLAIN"}}, NoTLS, secretToken, "sent"},
		"a wrong password":          {messagegateway.Options{TLS: config}, StartTLS, "another", "misconfigured 535"},
		"no mechanism in common":    {messagegateway.Options{TLS: config, SMTPMechanisms: []string{"EXTERNAL"}}, StartTLS, secretToken, "misconfigured smtp_negotiation"},
		"a server without STARTTLS": {messagegateway.Options{}, StartTLS, "", "misconfigured smtp_negotiation"},
		"TLS, a server without TLS": {messagegateway.Options{}, ImplicitTLS, "", "transient"},
		"no TLS, a server with TLS": {messagegateway.Options{TLS: config, ImplicitTLS: true}, NoTLS, "", "transient"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.password != "" {
				tt.server.SMTPUsername, tt.server.SMTPPassword = "user", tt.password
			}
			c := startCarrier(t, tt.server)
			changes := []func(*SMTPOptions){func(o *SMTPOptions) { o.Security = tt.security }}
			if tt.password != "" {
				changes = append(changes, user)
			}
			sender := smtpAt(t, c.SMTPPort(), changes...)
			sender.roots = roots
			_, err := sender.Send(context.Background(), Message{To: "person@example.com", Subject: "s", Body: secretCode})
			if got := fault(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			tellsNothing(t, err)
		})
	}
	c := startCarrier(t, messagegateway.Options{TLS: config})
	if _, err := smtpAt(t, c.SMTPPort(), func(o *SMTPOptions) { o.Security = StartTLS }).Send(context.Background(), Message{To: "person@example.com"}); fault(err) != "transient" {
		t.Errorf("an untrusted certificate: %v", err)
	}
	c = startCarrier(t, messagegateway.Options{SMTPUsername: "user", SMTPPassword: secretToken})
	if _, err := smtpAt(t, c.SMTPPort()).Send(context.Background(), Message{To: "person@example.com"}); fault(err) != "misconfigured 530" {
		t.Errorf("without the required password: %v", err)
	}
}

func TestRefusedMail(t *testing.T) {
	t.Parallel()
	c := startCarrier(t, messagegateway.Options{})
	sender := smtpAt(t, c.SMTPPort())
	for name, tt := range map[string]struct {
		m    Message
		want string
	}{
		"for good":                {Message{To: "reject@example.com"}, "permanent 550"},
		"for now":                 {Message{To: "later@example.com"}, "transient"},
		"a subject of two lines":  {Message{To: "person@example.com", Subject: "a\r\nBcc: all@example.com"}, "permanent invalid_subject"},
		"a subject with LF":       {Message{To: "person@example.com", Subject: "a\n"}, "permanent invalid_subject"},
		"a subject with CR":       {Message{To: "person@example.com", Subject: "a\rb"}, "permanent invalid_subject"},
		"a recipient of two":      {Message{To: "person@example.com, all@example.com"}, "permanent invalid_recipient"},
		"a recipient of lines":    {Message{To: "person@example.com\r\nRCPT TO:<all@example.com>"}, "permanent invalid_recipient"},
		"a recipient with LF":     {Message{To: "person@example.com\n"}, "permanent invalid_recipient"},
		"a recipient with a name": {Message{To: "P <person@example.com>"}, "permanent invalid_recipient"},
		"no recipient":            {Message{}, "permanent invalid_recipient"},
	} {
		tt.m.Body = secretCode
		_, err := sender.Send(context.Background(), tt.m)
		if got := fault(err); got != tt.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, tt.want)
		}
		tellsNothing(t, err, "reject@example.com", "later@example.com", "all@example.com")
	}
	if got := c.Messages(""); len(got) != 0 {
		t.Errorf("delivered %+v", got)
	}
}

// dialogue starts a mail server and returns its port. The server sends one of the lines, reads the client's command,
// and continues with the next line. It closes the connection at an empty line. After the last line it waits until the
// client disconnects.
func dialogue(t *testing.T, lines ...string) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				buffer := make([]byte, 4096)
				for _, line := range lines {
					if line == "" {
						return
					}
					if _, err := conn.Write([]byte(line + "\r\n")); err != nil {
						return
					}
					if _, err := conn.Read(buffer); err != nil {
						return
					}
				}
				_, _ = conn.Read(buffer) // until the client disconnects
			}()
		}
	}()
	return listener.Addr().(*net.TCPAddr).Port
}

func TestMisbehavingMailServers(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"silence":                    {nil, "transient"},
		"a hang-up":                  {[]string{""}, "transient"},
		"no SMTP":                    {[]string{"HTTP/1.1 200 OK"}, "transient"},
		"busy":                       {[]string{"421 busy"}, "transient"},
		"a refused session":          {[]string{"554 no"}, "misconfigured 554"},
		"silence after the hello":    {[]string{"220 hi", "250 ok"}, "transient"},
		"a sender that is refused":   {[]string{"220 hi", "250 ok", "550 not yours, person@example.com"}, "misconfigured 550"},
		"a sender refused for now":   {[]string{"220 hi", "250 ok", "451 later"}, "transient"},
		"a hang-up before the data":  {[]string{"220 hi", "250 ok", "250 ok", ""}, "transient"},
		"no data":                    {[]string{"220 hi", "250 ok", "250 ok", "250 ok", "552 too much of " + secretCode}, "permanent 552"},
		"a hang-up after the data":   {[]string{"220 hi", "250 ok", "250 ok", "250 ok", "354 go", ""}, "transient"},
		"refused data":               {[]string{"220 hi", "250 ok", "250 ok", "250 ok", "354 go", "554 spam"}, "permanent 554"},
		"a hang-up after acceptance": {[]string{"220 hi", "250 ok", "250 ok", "250 ok", "354 go", "250 taken", ""}, "sent"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := smtpAt(t, dialogue(t, tt.lines...)).Send(context.Background(), Message{To: "person@example.com", Subject: "s", Body: secretCode})
			if got := fault(err); got != tt.want {
				t.Errorf("got %s (%v), want %s", got, err, tt.want)
			}
			tellsNothing(t, err)
		})
	}
}
