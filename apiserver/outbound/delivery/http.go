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

// maxAnswer bounds what is read of a provider's answer, in bytes.
const maxAnswer = 64 << 10

// answer is what a provider answered.
type answer struct {
	status int
	header http.Header
	body   []byte
	// whole is false if the body is longer than asked for, or broke off.
	whole bool
}

// post sends a body to a URL and reads at most limit bytes of the answer's; 0: does not wait for it.
func (t *Transport) post(ctx context.Context, target, body string, limit int64, prepare func(*http.Request)) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, t.within)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		return answer{}, Misconfigured("invalid_url", "the provider's URL is not one")
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

// throttled makes the error of an answer that asks to wait: Retry-After in seconds or as a date, 1 s without it.
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

// code names an answer that has no code of the provider's own.
func (a answer) code() string { return "http_" + strconv.Itoa(a.status) }

// endpoint returns a URL of ours to append a path to, or an error that says what is wrong and not what the URL is: it
// may hold a secret.
func endpoint(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("must begin with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("names no host")
	case u.User != nil:
		return nil, errors.New("must hold no user name or password")
	case u.Fragment != "":
		return nil, errors.New("must hold no fragment")
	}
	return u, nil
}
