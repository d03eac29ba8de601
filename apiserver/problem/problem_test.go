package problem

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	cause := errors.New("postgres: password authentication failed")
	for _, tc := range []struct {
		name   string
		err    error
		status int
		body   string
		header map[string]string
	}{
		{"one message", New(404, "there is no %s", "such path"), 404,
			`{"errors":[{"code":404,"message":"there is no such path"}],"message":"there is no such path","request_id":"r-1"}`, nil},
		{"every fault", Invalid(Item{Field: "/name", Message: "is required"}, Item{Message: "and so on"}), 400,
			`{"errors":[{"code":400,"field":"/name","message":"is required"},{"code":400,"message":"and so on"}],"message":"/name is required; and so on","request_id":"r-1"}`, nil},
		{"who owns the field", &Problem{Status: 409, Items: []Item{{Field: "/name", Message: "is declared", Manager: "flux", ResourcePath: "spec.displayName"}}}, 409,
			`{"errors":[{"code":409,"field":"/name","manager":"flux","message":"is declared","resource_path":"spec.displayName"}],"message":"/name is declared","request_id":"r-1"}`, nil},
		{"no credential", Unauthorized(), 401, "", map[string]string{"Www-Authenticate": "Bearer"}},
		{"out of reach", Unavailable(cause, "read before retrying"), 503,
			`{"errors":[{"code":503,"message":"read before retrying"}],"message":"read before retrying","request_id":"r-1"}`, map[string]string{"Retry-After": "5"}},
		{"a part of a second is a second", &Problem{Status: 429, Message: "slow down", RetryAfter: time.Millisecond}, 429, "", map[string]string{"Retry-After": "1"}},
		{"a further header", &Problem{Status: 405, Message: "no", Header: http.Header{"Allow": {"GET"}}}, 405, "", map[string]string{"Allow": "GET"}},
		{"wrapped", fmt.Errorf("while reading: %w", New(413, "too long")), 413, "", nil},
		{"no problem of ours says nothing", cause, 500, "", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest("GET", "/", nil)
			rec := httptest.NewRecorder()
			p := Write(rec, r.WithContext(WithRequestID(r.Context(), "r-1")), tc.err)
			if rec.Code != tc.status || p.Status != tc.status || rec.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%d %v", rec.Code, rec.Header())
			}
			if tc.body != "" && rec.Body.String() != tc.body {
				t.Errorf("body %s, want %s", rec.Body, tc.body)
			}
			for name, want := range tc.header {
				if got := rec.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			if !json.Valid(rec.Body.Bytes()) || len(rec.Body.Bytes()) == 0 || errorsText(rec, cause) {
				t.Errorf("body %s", rec.Body)
			}
			if errors.Is(tc.err, cause) && !errors.Is(p, cause) {
				t.Error("the cause is lost for the log")
			}
		})
	}
}

func errorsText(rec *httptest.ResponseRecorder, cause error) bool {
	var body struct{ Message string }
	return json.Unmarshal(rec.Body.Bytes(), &body) != nil || body.Message == "" || body.Message == cause.Error()
}

func TestHeadHasNoBody(t *testing.T) {
	rec := httptest.NewRecorder()
	Write(rec, httptest.NewRequest("HEAD", "/", nil), New(404, "none"))
	if rec.Body.Len() != 0 || rec.Header().Get("Content-Length") == "0" {
		t.Errorf("%q %v", rec.Body, rec.Header())
	}
}

func TestErrorIsForLogs(t *testing.T) {
	if got := Unavailable(errors.New("dial"), "try again").Error(); got != "503 try again: dial" {
		t.Error(got)
	}
	if RequestID(httptest.NewRequest("GET", "/", nil).Context()) != "" {
		t.Error("a request without an id has one")
	}
}
