package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// requestWithin bounds the time of a request with its answer, and before it the wait for a slot.
	requestWithin = 10 * time.Second
	// maxDocument bounds a discovery document, a key set and metadata of SAML, and maxAnswer the answers of other
	// endpoints, in bytes.
	maxDocument, maxAnswer = 1 << 20, 64 << 10
	// idlePerHost is how many connections to a host are kept open between requests.
	idlePerHost = 4
)

var (
	// documentRequests bounds the fetches of documents, and signInRequests the requests of sign-ins. They are separate,
	// so that slow token endpoints do not delay documents. An organization, whose connections may be its own, has a share
	// of its deployment's.
	documentRequests = egress.Bounds{AtOnce: 64, DeploymentAtOnce: 8, SourceAtOnce: 2, DeploymentPerMinute: 600, SourcePerMinute: 60}
	signInRequests   = egress.Bounds{AtOnce: 256, DeploymentAtOnce: 64, SourceAtOnce: 16}
)

// exchanger sends requests to providers. It follows no redirects.
type exchanger struct{ secure, plain http.RoundTripper }

func newExchanger(policy *egress.Policy) *exchanger {
	transport := func(p *egress.Policy) *http.Transport {
		t := p.Transport(requestWithin)
		t.MaxIdleConnsPerHost, t.MaxIdleConns = idlePerHost, 64
		return t
	}
	return &exchanger{secure: transport(policy), plain: transport(policy.Private())}
}

// closeIdle closes the connections that no request uses.
func (e *exchanger) closeIdle() {
	for _, t := range []http.RoundTripper{e.secure, e.plain} {
		if closer, ok := t.(interface{ CloseIdleConnections() }); ok {
			closer.CloseIdleConnections()
		}
	}
}

// answer is a provider's answer to a request. Body is nil if it is longer than the bound.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a request within requestWithin, and reads an answer of at most maxBody bytes. The error is a *failure.
func (e *exchanger) do(ctx context.Context, r *http.Request, maxBody int) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	transport := e.secure
	if r.URL.Scheme != "https" {
		if r.URL.Scheme != "http" || !isLoopback(r.URL) {
			return answer{}, fail(refused, "%s: requests are sent over https alone", r.URL.Host)
		}
		transport = e.plain
	}
	r = r.WithContext(ctx)
	r.Header.Set("User-Agent", "cardea")
	tracing.Outgoing(r)
	response, err := transport.RoundTrip(r)
	if err != nil {
		return answer{}, noAnswer(r.URL.Host, errors.Join(err, ctx.Err()))
	}
	defer response.Body.Close() //nolint:errcheck // the rest of the body is not needed
	body, err := io.ReadAll(io.LimitReader(response.Body, int64(maxBody)+1))
	if err != nil {
		return answer{}, noAnswer(r.URL.Host, errors.Join(err, ctx.Err()))
	}
	if len(body) > maxBody {
		body = nil
	}
	return answer{status: response.StatusCode, header: response.Header, body: body}, nil
}

// document fetches a document. The error is a *failure.
func (e *exchanger) document(ctx context.Context, address, media string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", fail(invalidMetadata, "%q is no URL", clip(address, 200))
	}
	r.Header.Set("Accept", media)
	got, err := e.do(ctx, r, maxDocument)
	switch {
	case err != nil:
		return "", err
	case isBusy(got.status):
		return "", fail(unreachable, "%s answers %s", address, status(got.status))
	case got.status >= 300 && got.status < 400:
		return "", fail(invalidMetadata, "%s answers %s: redirects are not followed", address, status(got.status))
	case got.status != http.StatusOK:
		return "", fail(invalidMetadata, "%s answers %s", address, status(got.status))
	case got.body == nil:
		return "", fail(invalidMetadata, "%s has more than %d bytes", address, maxDocument)
	}
	return string(got.body), nil
}

// isBusy reports whether a status means that the same request can succeed later.
func isBusy(status int) bool { return status >= 500 || status == http.StatusTooManyRequests }

// status returns a status with its name.
func status(code int) string { return strings.TrimSpace(fmt.Sprint(code, " ", http.StatusText(code))) }

func mediaType(header http.Header) string {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return kind
}

// isLoopback reports whether a URL is of this machine, by its text: only there, http is accepted.
func isLoopback(u *url.URL) bool {
	return slices.Contains([]string{"127.0.0.1", "::1", "localhost"}, u.Hostname())
}
