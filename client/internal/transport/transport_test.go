package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// secret is a credential that no error may contain.
const secret = "ck_secretsecretsecret"

func bearer(context.Context) (string, error) { return secret, nil }

func serve(t *testing.T, handler http.HandlerFunc, change ...func(*Config)) *Transport {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	config := Config{Token: bearer}
	for _, c := range change {
		c(&config)
	}
	transport, err := New(server.URL+"/below/", config)
	if err != nil {
		t.Fatal(err)
	}
	return transport
}

// A value always is exactly one segment of the path.
func TestSegments(t *testing.T) {
	t.Parallel()
	var got string
	transport := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	for value, want := range map[string]string{
		"read:users": "/below/a/read:users/b", "https://x/y": "/below/a/https:%2F%2Fx%2Fy/b", "a+b": "/below/a/a+b/b", "a%2Fb": "/below/a/a%252Fb/b", "../c": "/below/a/..%2Fc/b",
		"é ?#": "/below/a/%C3%A9%20%3F%23/b", "{id}": "/below/a/%7Bid%7D/b",
	} {
		call := Call{Method: "GET", Path: "/a/{id}/b", Segments: []Segment{{"id", value}}}
		if err := transport.Do(t.Context(), call, nil); err != nil || got != want {
			t.Errorf("%q: asked %s: %v, want %s", value, got, err, want)
		}
	}
	both := Call{Method: "GET", Path: "/{a}/{b}", Segments: []Segment{{"a", "{b}"}, {"b", "x"}}}
	if err := transport.Do(t.Context(), both, nil); err != nil || got != "/below/%7Bb%7D/x" {
		t.Errorf("a value that is spelled as a parameter: %s: %v", got, err)
	}
	for _, value := range []string{"", ".", ".."} {
		got = ""
		err := transport.Do(t.Context(), Call{Method: "DELETE", Path: "/a/{id}", Segments: []Segment{{"id", value}}}, nil)
		if err == nil || got != "" || !strings.Contains(err.Error(), "id must not be") {
			t.Errorf("%q: asked %q: %v", value, got, err)
		}
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	limit, active := int64(3), true
	query := struct {
		From   string   `form:"from"`
		Limit  *int64   `form:"limit,omitempty"`
		After  *string  `form:"after,omitempty"`
		Active *bool    `form:"is_active,omitempty"`
		Names  []string `form:"name,omitempty"`
	}{From: "2026-05-04T00:00:00+02:00", Limit: &limit, Active: &active, Names: []string{"a", "b"}}
	if got, want := encodeQuery(query), "from=2026-05-04T00%3A00%3A00%2B02%3A00&is_active=true&limit=3&name=a&name=b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	var media, body string
	transport := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		media, body = r.Header.Get("Content-Type"), string(raw)
		_, _ = io.WriteString(w, `{"ok":true}`)
	})
	answer := map[string]bool{}
	for want, call := range map[string]Call{
		`application/json {"a":1}`: {Method: "POST", Path: "/", Body: map[string]int{"a": 1}}, "application/x-ndjson {}\n": {Method: "POST", Path: "/", Lines: strings.NewReader("{}\n")},
		"application/json ": {Method: "POST", Path: "/"}, " ": {Method: "GET", Path: "/"},
	} {
		if err := transport.Do(t.Context(), call, &answer); err != nil || media+" "+body != want || !answer["ok"] {
			t.Errorf("sent %q: %v, want %q", media+" "+body, err, want)
		}
	}
}

// Refusals of every form are returned as the same type.
func TestErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		header http.Header
		body   string
		want   Error
		text   string
	}{
		"backend": {
			400, nil, `{"message":"two faults","errors":[{"message":"a","code":400,"field":"/name"},{"message":"b","code":400,"field":"?limit"}],"request_id":"r1"}`,
			Error{Message: "two faults", RequestID: "r1", Faults: []Fault{{Message: "a", Field: "/name"}, {Message: "b", Field: "?limit"}}}, "GET /x: 400: two faults (request r1)",
		},
		"ownership": {
			409, nil, `{"message":"m","errors":[{"message":"m","code":409,"manager":"argocd","resource_path":"spec.rules"}],"request_id":""}`,
			Error{Message: "m", Faults: []Fault{{Message: "m", Manager: "argocd", ResourcePath: "spec.rules"}}}, "GET /x: 409: m",
		},
		"end user": {
			429, nil, `{"status":429,"message":"wait","data":null,"session":{},"errors":[{"code":"RATE_LIMITED","message":"wait","retry_after_seconds":30}]}`,
			Error{Code: "RATE_LIMITED", Message: "wait", RetryAfter: 30 * time.Second, Faults: []Fault{{Message: "wait", Code: "RATE_LIMITED"}}}, "GET /x: 429 RATE_LIMITED: wait",
		},
		"seconds":        {503, http.Header{"Retry-After": {"5"}}, `{"message":"m","errors":[]}`, Error{Message: "m", RetryAfter: 5 * time.Second}, "GET /x: 503: m"},
		"a date":         {503, http.Header{"Retry-After": {"Mon, 02 Jan 2006 15:05:05 GMT"}, "Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}}, `{"message":"m"}`, Error{Message: "m", RetryAfter: time.Minute}, "GET /x: 503: m"},
		"a past":         {503, http.Header{"Retry-After": {"-5"}}, `{"message":"m"}`, Error{Message: "m"}, "GET /x: 503: m"},
		"a proxy's page": {502, nil, "<html>" + secret, Error{Message: "the answer is not in Cardea's form: it may come from a proxy, or the base URL is another server's"}, ""},
		"not changed":    {304, nil, "", Error{Message: "the server answered with a redirect, which is not followed: give the final base URL"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			transport := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, values := range c.header {
					w.Header()[name] = values
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			err := transport.Do(t.Context(), Call{Method: "GET", Path: "/x"}, nil)
			got := (*Error)(nil)
			if !errors.As(err, &got) {
				t.Fatal(err)
			}
			want := c.want
			want.Status, want.Method, want.Path = c.status, "GET", "/x"
			if fmt.Sprintf("%+v", *got) != fmt.Sprintf("%+v", want) {
				t.Errorf("%+v, want %+v", *got, want)
			}
			if c.text != "" && err.Error() != c.text || strings.Contains(err.Error(), secret) {
				t.Errorf("says %q", err)
			}
		})
	}
}

// The credential is not sent to the target of a redirect, and no error contains it.
func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other server was asked") }))
	t.Cleanup(other.Close)
	for _, own := range []*http.Client{nil, {}} {
		transport := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+secret {
				t.Error("the request has no credential")
			}
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		}, func(c *Config) { c.HTTP = own })
		got := (*Error)(nil)
		if err := transport.Do(t.Context(), Call{Method: "POST", Path: "/x", Body: 1}, nil); !errors.As(err, &got) || got.Status != 307 || strings.Contains(err.Error(), secret) {
			t.Errorf("%v", err)
		}
	}
}

func TestAnswersAreBounded(t *testing.T) {
	t.Parallel()
	transport := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", 98)+`"`)
	}, func(c *Config) { c.MaxBody = 100 })
	var answer string
	if err := transport.Do(t.Context(), Call{Method: "GET", Path: "/"}, &answer); err != nil || len(answer) != 98 {
		t.Errorf("a body of the most bytes: %v", err)
	}
	transport.MaxBody = 99
	if err := transport.Do(t.Context(), Call{Method: "GET", Path: "/"}, &answer); err == nil || !strings.Contains(err.Error(), "longer than 99 bytes") {
		t.Errorf("one more: %v", err)
	}
}

// Errors that are not refusals contain neither the credential nor the values of a request.
func TestFailures(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	transport, err := New(server.URL, Config{Token: bearer})
	if err != nil {
		t.Fatal(err)
	}
	call := Call{Method: "GET", Path: "/users/{id}", Segments: []Segment{{"id", "personal"}}}
	if err := transport.Do(t.Context(), call, nil); !errors.Is(err, ErrUnreachable) || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "personal") {
		t.Errorf("an unreachable server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := transport.Do(ctx, call, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	lost := errors.New("no token")
	transport.Token = func(context.Context) (string, error) { return "", lost }
	if err := transport.Do(t.Context(), call, nil); !errors.Is(err, lost) {
		t.Errorf("no credential: %v", err)
	}
	transport.Token = func(context.Context) (string, error) { return secret + "\nX: y", nil }
	if err := transport.Do(t.Context(), call, nil); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("a credential of two lines: %v", err)
	}
	html := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") })
	if err := html.Do(t.Context(), Call{Method: "GET", Path: "/"}, &struct{}{}); err == nil || !strings.Contains(err.Error(), "is the base URL right?") {
		t.Errorf("another server: %v", err)
	}
}

func TestBaseURLs(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "api.example.com", "ftp://x", "https://", "https://u:" + secret + "@x", "https://x?key=" + secret, "https://x#y", "http://u:" + secret + "@[::1", "://"} {
		if _, err := New(base, Config{}); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", base, err)
		}
	}
}
