// Package transport sends the requests of the generated clients and reads the responses.
package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// DefaultMaxBody bounds the body of a response, in bytes, by default.
const DefaultMaxBody = 32 << 20

// DefaultTimeout bounds a whole request if Config has no http.Client.
const DefaultTimeout = 30 * time.Second

// ErrUnreachable means that no complete response arrived.
var ErrUnreachable = errors.New("the server does not answer")

// ErrArgument means that no request was sent, because a value cannot be one segment of a path.
var ErrArgument = errors.New("an argument cannot be part of a path")

// Config is the configuration of a client. The zero value sends no credential.
type Config struct {
	// HTTP sends requests; nil: a client with DefaultTimeout. It is copied, and the copy follows no redirect.
	HTTP *http.Client
	// Token returns the bearer token of a request; nil: none is sent.
	Token func(context.Context) (string, error)
	// MaxBody bounds the body of a response, in bytes; 0: DefaultMaxBody.
	MaxBody int64
	// UserAgent is sent with each request; "": Go's own.
	UserAgent string
	// OnAnswer is called with each response before its body is read; nil: no call.
	OnAnswer func(*http.Response)
	// Accepts reports whether a response with a status outside 200 to 299 is a result of the operation, not a refusal;
	// nil: every such response is a refusal.
	Accepts func(path string, status int, body []byte) bool
}

// Transport sends calls to one server.
type Transport struct {
	Config
	base *url.URL
	http *http.Client
}

// New returns a Transport to the server at a base URL, such as https://api.example.com or
// http://cardea.cardea-system:8080/below.
func New(base string, c Config) (*Transport, error) {
	parsed, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("the base URL cannot be parsed: give scheme and host, such as https://api.example.com") // err contains the URL, which may have a password
	case parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Host == "":
		return nil, errors.New("the base URL must be http or https with a host, such as https://api.example.com")
	case parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "":
		return nil, errors.New("the base URL must have neither user, query nor fragment: give the credential as an option")
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	t := &Transport{Config: c, base: parsed, http: newHTTP(c.HTTP)}
	return t, nil
}

// newHTTP returns a copy of a client that follows no redirect: Cardea sends none, and the credential is not for the
// host that a redirect names.
func newHTTP(given *http.Client) *http.Client {
	own := http.Client{Timeout: DefaultTimeout}
	if given != nil {
		own = *given
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Call is one request.
type Call struct {
	Method string
	// Path is the path template of the OpenAPI document, with {name} for each of Segments.
	Path     string
	Segments []Segment
	// Query is a struct with the tag form on each field; nil: none.
	Query any
	// Body is sent as JSON; nil: none.
	Body any
	// Lines are sent as JSON Lines, in place of Body.
	Lines io.Reader
}

// Segment is the value of a parameter in a path.
type Segment struct{ Name, Value string }

// Do sends a call and decodes the body of the response into answer, which is nil if no body is expected. A response
// that refuses the call is returned as an *Error.
func (t *Transport) Do(ctx context.Context, call Call, answer any) error {
	request, err := t.request(ctx, call)
	if err != nil {
		return err
	}
	response, err := t.http.Do(request)
	if err != nil {
		return fmt.Errorf("%s %s: %w: %w", call.Method, call.Path, ErrUnreachable, withoutURL(err))
	}
	defer func() { _ = response.Body.Close() }()
	if t.OnAnswer != nil {
		t.OnAnswer(response)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, t.MaxBody+1))
	if err != nil {
		return fmt.Errorf("%s %s: %w: the answer broke off: %w", call.Method, call.Path, ErrUnreachable, err)
	}
	if int64(len(raw)) > t.MaxBody {
		return fmt.Errorf("%s %s: the answer is longer than %d bytes: ask for a smaller page, or allow more by WithMaxBody", call.Method, call.Path, t.MaxBody)
	}
	if refused := response.StatusCode >= 300 || response.StatusCode < 200; refused && (t.Accepts == nil || !t.Accepts(call.Path, response.StatusCode, raw)) {
		return newError(call, response, raw)
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(raw, answer); err != nil {
		return fmt.Errorf("%s %s: the response with status %d does not have the documented form, is the base URL right? %w", call.Method, call.Path, response.StatusCode, err)
	}
	return nil
}

// withoutURL removes the URL from an error of net/http, because values in the URL may be personal. The caller adds the
// call's path template instead.
func withoutURL(err error) error {
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}

func (t *Transport) request(ctx context.Context, call Call) (*http.Request, error) {
	target, err := t.target(call)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", call.Method, call.Path, err)
	}
	body, media := call.Lines, "application/x-ndjson"
	if call.Body != nil {
		raw, err := json.Marshal(call.Body)
		if err != nil {
			return nil, fmt.Errorf("%s %s: write the body: %w", call.Method, call.Path, err)
		}
		body, media = bytes.NewReader(raw), "application/json"
	} else if body == nil && (call.Method == http.MethodPost || call.Method == http.MethodPatch || call.Method == http.MethodPut) {
		media = "application/json" // Cardea requires it for operations that may have a body
	}
	request, err := http.NewRequestWithContext(ctx, call.Method, target.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", call.Method, call.Path, withoutURL(err))
	}
	request.Header.Set("Accept", "application/json")
	if body != nil || media == "application/json" {
		request.Header.Set("Content-Type", media)
	}
	if t.UserAgent != "" {
		request.Header.Set("User-Agent", t.UserAgent)
	}
	if t.Token != nil {
		token, err := t.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s %s: get the credential: %w", call.Method, call.Path, err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request, nil
}

// target returns the URL of a call. The value of a segment always is exactly one segment of the path.
func (t *Transport) target(call Call) (*url.URL, error) {
	values := make(map[string]string, len(call.Segments))
	for _, segment := range call.Segments {
		// Servers and proxies resolve "." and ".." even if they are escaped, which would lead to another path.
		if segment.Value == "" || segment.Value == "." || segment.Value == ".." {
			return nil, fmt.Errorf("%w: %s must not be empty, \".\" or \"..\"", ErrArgument, segment.Name)
		}
		values["{"+segment.Name+"}"] = segment.Value
	}
	parts := strings.Split(call.Path, "/")
	escaped := slices.Clone(parts)
	for i, part := range parts {
		if value, named := values[part]; named {
			parts[i], escaped[i] = value, url.PathEscape(value)
		}
	}
	target := *t.base
	target.Path = strings.TrimSuffix(t.base.Path, "/") + strings.Join(parts, "/")
	target.RawPath = strings.TrimSuffix(t.base.EscapedPath(), "/") + strings.Join(escaped, "/")
	target.RawQuery = encodeQuery(call.Query)
	return &target, nil
}
