package messagegateway

import (
	"bytes"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	netmail "net/mail"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// maxMail bounds a mail, in bytes.
const maxMail = 1 << 20

func (c *Gateway) mailServer() *smtp.Server {
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		s := &session{gateway: c}
		if c.opts.SMTPUsername == "" {
			return s, nil
		}
		return &guardedSession{session: s}, nil
	}))
	server.Domain = "localhost"
	server.MaxMessageBytes = maxMail
	server.MaxRecipients = 50
	server.ReadTimeout, server.WriteTimeout = time.Minute, time.Minute
	server.AllowInsecureAuth = true
	server.EnableSMTPUTF8 = true
	server.ErrorLog = log.New(io.Discard, "", 0)
	if !c.opts.ImplicitTLS {
		server.TLSConfig = c.opts.TLS
	}
	return server
}

// session is one client's dialogue with the mail server.
type session struct {
	gateway *Gateway
	from    string
	to      []string
}

// Reset implements smtp.Session.
func (s *session) Reset() { s.from, s.to = "", nil }

// Logout implements smtp.Session.
func (s *session) Logout() error { return nil }

// Mail implements smtp.Session.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	s.from = from
	return nil
}

// Rcpt implements smtp.Session: reject@ and later@ are refused, for good and for now.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	name, _, _ := strings.Cut(strings.ToLower(to), "@")
	switch name {
	case "reject":
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "No mailbox " + to + " here"}
	case "later":
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "Mailbox " + to + " is busy, try again later"}
	}
	s.to = append(s.to, to)
	return nil
}

// Data implements smtp.Session: one message for each recipient.
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	received, err := readMail(raw)
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "This is no mail: " + err.Error()}
	}
	received.Channel, received.From = ChannelMail, s.from
	for _, to := range s.to {
		received.ID, received.To = rand.Text(), to
		s.gateway.inbox.add(received)
	}
	return nil
}

// readMail parses a mail.
func readMail(raw []byte) (Message, error) {
	parsed, err := netmail.ReadMessage(bytes.NewReader(raw))
	if err != nil {
		return Message{}, err
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil {
		return Message{}, err
	}
	body, err := plainText(parsed.Header.Get("Content-Type"), parsed.Header.Get("Content-Transfer-Encoding"), parsed.Body)
	if err != nil {
		return Message{}, err
	}
	return Message{Subject: subject, Body: strings.ReplaceAll(body, "\r\n", "\n"), Header: parsed.Header}, nil
}

// plainText decodes a body; of a multipart body, the first plain part.
func plainText(contentType, encoding string, body io.Reader) (string, error) {
	if contentType == "" {
		contentType = "text/plain"
	}
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(kind, "multipart/") {
		parts := multipart.NewReader(body, parameters["boundary"])
		for {
			part, err := parts.NextRawPart()
			if errors.Is(err, io.EOF) {
				return "", nil
			}
			if err != nil {
				return "", err
			}
			text, err := plainText(part.Header.Get("Content-Type"), part.Header.Get("Content-Transfer-Encoding"), part)
			if err != nil || text != "" {
				return text, err
			}
		}
	}
	if kind != "text/plain" {
		return "", nil
	}
	switch strings.ToLower(encoding) {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	text, err := io.ReadAll(body)
	return string(text), err
}

// guardedSession is a session of a server that requires authentication.
type guardedSession struct {
	*session
	known bool
}

// Mail implements smtp.Session.
func (s *guardedSession) Mail(from string, opts *smtp.MailOptions) error {
	if !s.known {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "Authentication required"}
	}
	return s.session.Mail(from, opts)
}

// AuthMechanisms implements smtp.AuthSession.
func (s *guardedSession) AuthMechanisms() []string {
	if mechanisms := s.gateway.opts.SMTPMechanisms; len(mechanisms) > 0 {
		return mechanisms
	}
	return []string{sasl.Plain, sasl.Login}
}

// Auth implements smtp.AuthSession.
func (s *guardedSession) Auth(mechanism string) (sasl.Server, error) {
	if !slices.Contains(s.AuthMechanisms(), mechanism) {
		return nil, smtp.ErrAuthUnknownMechanism
	}
	switch mechanism {
	case sasl.Plain:
		return sasl.NewPlainServer(func(_, username, password string) error { return s.admit(username, password) }), nil
	case sasl.Login:
		return &loginServer{admit: s.admit}, nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

func (s *guardedSession) admit(username, password string) error {
	opts := s.gateway.opts
	if username != opts.SMTPUsername || subtle.ConstantTimeCompare([]byte(password), []byte(opts.SMTPPassword)) != 1 {
		return smtp.ErrAuthFailed
	}
	s.known = true
	return nil
}

// loginServer is the server's side of LOGIN: user name, then password.
type loginServer struct {
	admit    func(username, password string) error
	username string
	asked    int
}

// Next implements sasl.Server.
func (l *loginServer) Next(response []byte) (challenge []byte, done bool, err error) {
	if l.asked == 0 && response == nil {
		l.asked = 1
		return []byte("Username:"), false, nil
	}
	if l.asked < 2 {
		l.asked, l.username = 2, string(response)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.admit(l.username, string(response))
}
