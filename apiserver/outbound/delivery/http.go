package delivery

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// maxAnswer bounds the part of a provider's response body that is read, in bytes.
const maxAnswer = 64 << 10

// answer is a provider's response.
type answer struct {
	status int
	header http.Header
	body   []byte
	// whole reports whether the whole body was read: it is within the limit and did not break off. If not, body is nil.
	whole bool
}

// post sends a POST request, after prepare has set its headers, and reads a response body of at most limit bytes. If
// limit is 0, it does not read the response body.
func (t *Transport) post(ctx context.Context, target, body string, limit int64, prepare func(*http.Request)) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return answer{}, Misconfigured("invalid_url", "the provider's URL is not a valid URL")
	}
	request.Header.Set("User-Agent", "cardea")
	tracing.Outgoing(request)
	prepare(request)
	response, err := t.http.Do(request)
	if err != nil {
		return answer{}, interrupted(err)
	}
	defer response.Body.Close()
	a := answer{status: response.StatusCode, header: response.Header}
	if limit == 0 {
		return a, nil
	}
	a.body, err = io.ReadAll(io.LimitReader(response.Body, limit+1))
	if a.whole = err == nil && int64(len(a.body)) <= limit; !a.whole {
		a.body = nil
	}
	return a, nil
}

// throttled returns the ThrottledError for a response that asks to wait. The delay is Retry-After, in seconds or as a
// date, or 1 s without a valid Retry-After.
func (a answer) throttled(now time.Time) error {
	text := strings.TrimSpace(a.header.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return Throttled(time.Duration(seconds) * time.Second)
	} else if errors.Is(err, strconv.ErrRange) {
		return Throttled(time.Hour)
	}
	if date, err := http.ParseTime(text); err == nil {
		return Throttled(date.Sub(now))
	}
	return Throttled(0)
}

// code returns the code of a response without a code of the provider: http_ and the status.
func (a answer) code() string { return "http_" + strconv.Itoa(a.status) }

// endpoint parses the http or https URL of a provider. Its errors do not contain the URL, which may hold a secret.
func endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("must name a host")
	case u.User != nil:
		return nil, errors.New("must not contain a user name or password")
	case u.Fragment != "":
		return nil, errors.New("must not contain a fragment")
	}
	return u, nil
}
