package delivery

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	netmail "net/mail"
	"net/textproto"
	"strconv"
	"strings"

	"github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"
)

// Security is how the connection to a mail server is encrypted.
type Security string

const (
	// StartTLS turns TLS on after the greeting, and fails where the server does not offer it. Usual on port 587.
	StartTLS Security = "StartTLS"
	// ImplicitTLS begins with TLS. Usual on port 465.
	ImplicitTLS Security = "TLS"
	// NoTLS is for mail servers inside the network. Credentials are sent without TLS only to localhost.
	NoTLS Security = "None"
)

// SMTPOptions describe a mail server and the sender of its mail.
type SMTPOptions struct {
	Host     string
	Port     int
	Security Security
	// Username and Password are both set or both empty; empty: no authentication.
	Username, Password string
	// From is the sender's address. FromName is its display name, or empty.
	From, FromName string
}

type smtpSender struct {
	transport *Transport
	opts      SMTPOptions
	domain    string         // of From
	roots     *x509.CertPool // nil: the system's
}

func newSMTP(opts SMTPOptions, transport *Transport) (*smtpSender, error) {
	switch {
	case opts.Host == "" || strings.ContainsAny(opts.Host, "/ \r\n\x00"):
		return nil, errors.New("the mail server's host must be a name or an address")
	case opts.Port < 1 || opts.Port > 65535:
		return nil, errors.New("the mail server's port must be 1 to 65535")
	case opts.Security != StartTLS && opts.Security != ImplicitTLS && opts.Security != NoTLS:
		return nil, fmt.Errorf("the security of the mail server must be %s, %s or %s", StartTLS, ImplicitTLS, NoTLS)
	case (opts.Username == "") != (opts.Password == ""):
		return nil, errors.New("the mail server's user name and password must both be set, or neither")
	case opts.Username != "" && opts.Security == NoTLS && !local(opts.Host):
		return nil, errors.New("the mail server's password is not sent without TLS")
	case !bareAddress(opts.From):
		return nil, errors.New("the sender's address must be a plain mail address")
	case manyLines(opts.FromName):
		return nil, errors.New("the sender's name must be one line")
	}
	return &smtpSender{transport: transport, opts: opts, domain: opts.From[strings.LastIndexByte(opts.From, '@')+1:]}, nil
}

// Send implements Sender.
func (s *smtpSender) Send(ctx context.Context, m Message) (Receipt, error) {
	mail, err := s.compose(m)
	if err != nil {
		return Receipt{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.transport.within)
	defer cancel()
	line := &line{ctx: ctx, dial: s.transport.dialer.DialContext}
	defer line.close()
	if s.opts.Security == ImplicitTLS {
		line.tls = s.tls()
	}
	client, err := s.client(line)
	if err != nil {
		return Receipt{}, Misconfigured("smtp_options", "the mail server's options contradict each other")
	}
	// If the server accepted the mail, a later error is ignored, because a retry would send a second copy.
	if err := client.DialAndSendWithContext(ctx, mail); err != nil && !mail.IsDelivered() {
		return Receipt{}, smtpFault(err, line)
	}
	return Receipt{ProviderID: mail.GetMessageID()}, nil
}

func (s *smtpSender) client(line *line) (*mail.Client, error) {
	options := []mail.Option{
		mail.WithPort(s.opts.Port), mail.WithTimeout(s.transport.within), mail.WithHELO(s.domain), mail.WithDialContextFunc(line.open),
		mail.WithTLSConfig(s.tls()), mail.WithTLSPolicy(mail.NoTLS), mail.WithoutNoop(), mail.WithoutRset(),
	}
	if s.opts.Security == StartTLS {
		options = append(options, mail.WithTLSPolicy(mail.TLSMandatory))
	}
	if s.opts.Username != "" {
		options = append(options, mail.WithUsername(s.opts.Username), mail.WithPassword(s.opts.Password),
			mail.WithOpportunisticSMTPAuth(mail.SMTPAuthPlain, mail.SMTPAuthLogin))
	}
	return mail.NewClient(s.opts.Host, options...)
}

func (s *smtpSender) tls() *tls.Config {
	return &tls.Config{ServerName: s.opts.Host, MinVersion: tls.VersionTLS12, RootCAs: s.roots}
}

// compose returns the mail of a message. It refuses a subject or recipient that could add a header line.
func (s *smtpSender) compose(m Message) (*mail.Msg, error) {
	switch {
	case manyLines(m.Subject):
		return nil, Permanent("invalid_subject", "the subject is not one line")
	case !bareAddress(m.To):
		return nil, Permanent("invalid_recipient", "the recipient is not a plain mail address")
	}
	msg := mail.NewMsg(mail.WithNoDefaultUserAgent())
	msg.FromMailAddress(&netmail.Address{Name: s.opts.FromName, Address: s.opts.From})
	msg.ToMailAddress(&netmail.Address{Address: m.To})
	msg.Subject(m.Subject)
	// The library's default message ID contains the host name of this machine.
	msg.SetMessageIDWithValue(rand.Text() + "@" + s.domain)
	msg.SetDateWithValue(s.transport.clock())
	// RFC 3834: this header prevents automatic replies, such as out-of-office messages.
	msg.SetGenHeader("Auto-Submitted", "auto-generated")
	msg.SetBodyString(mail.TypeTextPlain, m.Body)
	return msg, nil
}

// smtpFault classifies an error by the server's reply code. It omits the reply's text, which may contain the recipient.
func smtpFault(err error, line *line) error {
	code := 0
	var sending *mail.SendError
	var reply *textproto.Error
	switch {
	case errors.As(err, &sending):
		code = sending.ErrorCode()
	case errors.As(err, &reply):
		code = reply.Code
	}
	text := strconv.Itoa(code)
	switch {
	case code/100 == 5 && (sending == nil || authentication(code)):
		return Misconfigured(text, "the mail server refuses the session or its credentials")
	case code/100 == 5 && sending.Reason == mail.ErrSMTPMailFrom:
		return Misconfigured(text, "the mail server refuses the sender's address")
	case code/100 == 5:
		return Permanent(text, "the mail server refuses the mail")
	case code != 0:
		return Transient("the mail server answered " + text)
	case line.ctx.Err() != nil:
		// The end of the context closed the connection, so the client's error says only that the connection is closed.
		return interrupted(line.ctx.Err())
	case sending == nil && line.connected() && !broken(err):
		// The mail client itself stopped before it sent the mail: the server lacks what the options require.
		return Misconfigured("smtp_negotiation", "the mail server does not offer the declared TLS, or no supported authentication mechanism")
	}
	return interrupted(err)
}

// authentication reports whether a reply code means that authentication is missing, failed or too weak (RFC 4954).
func authentication(code int) bool { return code == 530 || code == 534 || code == 535 || code == 538 }

// broken reports whether the cause of an error is the connection, or a peer that does not speak SMTP, rather than a
// decision of the mail client.
func broken(err error) bool {
	var network net.Error
	var protocol textproto.ProtocolError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &network) || errors.As(err, &protocol) || errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, smtp.ErrNonTLSConnection)
}

// bareAddress reports whether a text is a single address without display name, comment or quotes, which is safe in a
// header and an envelope.
func bareAddress(text string) bool {
	address, err := netmail.ParseAddress(text)
	return err == nil && address.Name == "" && address.Address == text && !manyLines(text) && !strings.ContainsAny(text, "<> \t")
}

func manyLines(text string) bool { return strings.ContainsAny(text, "\r\n\x00\u0085\u2028\u2029") }

func local(host string) bool { return host == "localhost" || host == "127.0.0.1" || host == "::1" }
