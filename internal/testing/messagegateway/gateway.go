// Package messagegateway is a local stand-in for the services around Cardea: those that deliver texts and mails, and
// DNS. It has Twilio's REST interface for messages and a mail server with one inbox, and a DNS server, all on loopback.
// No message leaves the machine. Tests start it in process, and developers as a command.
package messagegateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/cardea-iam/cardea/internal/testing/dnsserver"
)

// DefaultAccountSID and DefaultAuthToken are the account if Options name none.
const (
	DefaultAccountSID = "AC00000000000000000000000000000000"
	DefaultAuthToken  = "carrier-auth-token"
)

// Options are the options of a Gateway; the zero value is useful.
type Options struct {
	// HTTPPort, SMTPPort and DNSPort are on 127.0.0.1; 0: any free one.
	HTTPPort, SMTPPort, DNSPort int
	// AccountSID and AuthToken are the account of the REST interface; empty: the default ones.
	AccountSID, AuthToken string
	// Numbers are those that the account owns, in addition to the magic +15005550006; empty: it owns every number.
	Numbers []string
	// SMTPUsername and SMTPPassword make the mail server ask for them; empty: it does not.
	SMTPUsername, SMTPPassword string
	// SMTPMechanisms are the SASL mechanisms that the mail server offers; empty: PLAIN and LOGIN.
	SMTPMechanisms []string
	// TLS makes the mail server offer STARTTLS; with ImplicitTLS it begins with TLS. Nil: neither.
	TLS         *tls.Config
	ImplicitTLS bool
	// Handlers serve further paths of the HTTP server, by their patterns.
	Handlers map[string]http.Handler
}

// Gateway is a running stand-in.
type Gateway struct {
	inbox  inbox
	faults faults

	opts       Options
	http       *http.Server
	smtp       *smtp.Server
	httpSocket net.Listener
	smtpSocket net.Listener
	dns        *dnsserver.Server
	done       chan struct{}
	closing    sync.Once
	serving    sync.WaitGroup
}

// Start returns a Gateway that listens.
func Start(opts Options) (*Gateway, error) {
	opts.AccountSID = cmp.Or(opts.AccountSID, DefaultAccountSID)
	opts.AuthToken = cmp.Or(opts.AuthToken, DefaultAuthToken)
	if opts.ImplicitTLS && opts.TLS == nil {
		return nil, errors.New("implicit TLS needs a TLS configuration")
	}
	c := &Gateway{opts: opts, done: make(chan struct{})}
	var err error
	if c.httpSocket, err = net.Listen("tcp", loopback(opts.HTTPPort)); err != nil {
		return nil, fmt.Errorf("HTTP: %w", err)
	}
	if c.smtpSocket, err = net.Listen("tcp", loopback(opts.SMTPPort)); err != nil {
		return nil, errors.Join(fmt.Errorf("SMTP: %w", err), c.httpSocket.Close())
	}
	if c.dns, err = dnsserver.Start(opts.DNSPort); err != nil {
		return nil, errors.Join(fmt.Errorf("DNS: %w", err), c.httpSocket.Close(), c.smtpSocket.Close())
	}
	c.http = &http.Server{Handler: c.handler(), ReadHeaderTimeout: 10 * time.Second}
	c.smtp = c.mailServer()
	c.serving.Go(func() { _ = c.http.Serve(c.httpSocket) })
	c.serving.Go(func() { _ = c.smtp.Serve(c.mailSocket()) })
	return c, nil
}

func (c *Gateway) mailSocket() net.Listener {
	if c.opts.ImplicitTLS {
		return tls.NewListener(c.smtpSocket, c.opts.TLS)
	}
	return c.smtpSocket
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// URL is the base URL of the REST interface and of the inbox, without a slash at its end.
func (c *Gateway) URL() string { return "http://" + c.httpSocket.Addr().String() }

// SMTPAddress is the mail server's host:port.
func (c *Gateway) SMTPAddress() string { return c.smtpSocket.Addr().String() }

// SMTPPort is the mail server's port on 127.0.0.1.
func (c *Gateway) SMTPPort() int { return c.smtpSocket.Addr().(*net.TCPAddr).Port }

// Messages returns the messages to a number or an address, oldest first; for an empty one, all messages.
func (c *Gateway) Messages(to string) []Message { return c.inbox.list(to) }

// Empty forgets the messages.
func (c *Gateway) Empty() { c.inbox.empty() }

// Fail makes the next requests to send a text fail. Faults happen in the order in which they were added.
func (c *Gateway) Fail(f Fault) error { return c.faults.add(f) }

// Heal forgets the faults that have not happened yet.
func (c *Gateway) Heal() { c.faults.clear() }

// Close stops the Gateway and its pending requests. A second call has no effect.
func (c *Gateway) Close() (err error) {
	c.closing.Do(func() {
		close(c.done)
		err = errors.Join(c.http.Close(), c.smtp.Close(), closed(c.httpSocket), closed(c.smtpSocket), c.dns.Close())
		c.serving.Wait()
	})
	return err
}

// closed closes a listener. Its server may have closed it already, or may not have started to use it yet.
func closed(listener net.Listener) error {
	if err := listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// pause waits, and reports whether neither the Gateway nor the request ended meanwhile.
func (c *Gateway) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.done:
		return false
	case <-ctx.Done():
		return false
	}
}
