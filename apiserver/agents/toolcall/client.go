package toolcall

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/toolform"
)

const (
	// dialWithin bounds a dial and a TLS handshake, each.
	dialWithin = 10 * time.Second
	// idlePerHost bounds the idle connections to one host and port. Calls bound the others: with a bound here, calls of
	// one deployment could wait for those of another to the same host.
	idlePerHost = 32
)

// Client sends the requests of calls. It is safe for concurrent use.
type Client struct{ secure, plain http.RoundTripper }

// NewClient returns a client under an egress policy. Requests without TLS are sent only to the ranges that the policy
// allows explicitly.
func NewClient(policy *egress.Policy) *Client {
	transport := func(p *egress.Policy) *http.Transport {
		t := p.Transport(dialWithin)
		t.MaxIdleConnsPerHost = idlePerHost
		return t
	}
	return &Client{secure: transport(policy), plain: transport(policy.Private())}
}

// Do performs a call within the tool's timeout. A request of a tool that only reads is sent a second time if no byte of
// a response came; every other request is sent at most once.
func (c *Client) Do(ctx context.Context, call *Call) Result {
	limited, cancel := context.WithTimeout(ctx, time.Duration(call.Tool.TimeoutSeconds)*time.Second)
	defer cancel()
	reader := newReader(call.hidden())
	reader.shape, reader.later = shape{call.Tool.Response, call.Output}, call.Tool.Type == document.ToolTypeWebhook
	reader.room = call.Room
	reader.readOnly = call.Tool.Hints().ReadOnly
	var out Result
	for try := 0; ; try++ {
		r, err := call.request(limited)
		var wrong *ArgumentError
		if errors.As(err, &wrong) {
			return Failed(CodeArguments, "%s", wrong.Text)
		}
		if err != nil {
			return Failed(CodeUnreachable, unreachable)
		}
		size := int(r.ContentLength)
		out, err = c.send(r, reader)
		out.BytesOut = size
		if err == nil {
			return out
		}
		if try == 0 && reader.readOnly && limited.Err() == nil && again(err) {
			continue
		}
		failed := c.failed(ctx, limited, call, err)
		failed.BytesOut = out.BytesOut
		return failed
	}
}

const unreachable = "The tool cannot be reached now. Do not repeat the call at once; say that the tool is unavailable."

// failed returns the result of a request without a complete response. All causes on the network have one text, so
// that a caller does not learn which addresses exist.
func (c *Client) failed(ctx, limited context.Context, call *Call, err error) Result {
	switch {
	case ctx.Err() != nil:
		return Failed(CodeCancelled, "The caller ended the call.")
	case limited.Err() != nil, isTimeout(err):
		return Failed(CodeTimeout, "The tool did not answer within %d seconds.", call.Tool.TimeoutSeconds)
	}
	return Failed(CodeUnreachable, unreachable)
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}

// unansweredError is the error of a request without the beginning of a response.
type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// again reports whether an error came before the beginning of a response, because the connection failed.
func again(err error) bool {
	var dial *net.OpError
	var refused *egress.RefusedError
	var unanswered *unansweredError
	return errors.As(err, &unanswered) && !errors.As(err, &refused) && (errors.Is(err, syscall.ECONNRESET) || errors.As(err, &dial) && dial.Op == "dial")
}

func (c *Client) send(r *http.Request, reader *reader) (Result, error) {
	transport := c.secure
	if r.URL.Scheme == "http" {
		transport = c.plain
	}
	once(r, reader.readOnly)
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return Result{}, &unansweredError{err}
	}
	defer func() { _ = resp.Body.Close() }() // everything that is needed was read
	return reader.read(resp)
}

// once keeps the transport from sending a request of a tool that may change something again by itself. On a connection
// that was in use before, it repeats a request with an idempotency key under one of these names, and one of a safe
// method without a body.
func once(r *http.Request, readOnly bool) {
	for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if value, sent := r.Header[name]; sent {
			delete(r.Header, name)
			r.Header[strings.ToLower(name)] = value
		}
	}
	if !readOnly && r.Body == http.NoBody && toolform.Safe(r.Method) {
		r.GetBody = nil
		r.Body, r.ContentLength = io.NopCloser(strings.NewReader("")), -1 // the transport finds that it is empty, and sends none
	}
}
