package backend

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzPipeline sends any method, target, credential and body. No response is a 5xx or a redirect, and every refusal has
// the API's JSON form.
func FuzzPipeline(f *testing.F) {
	for _, seed := range []struct{ method, target, credential, contentType, body string }{
		{"GET", "/api-auth/rate-limit-schemes?limit=1&offset=0", "key", "", ""},
		{"GET", "/api-auth/rate-limit-schemes?limit=99999999999999999999&limit=%zz;x", "reader", "", ""},
		{"HEAD", "/api-auth/rate-limit-schemes/free", "key", "", ""},
		{"POST", "/api-auth/rate-limit-schemes", "key", "application/json", `{"slug":"new","name":"N","rules":[{"unit":"day","duration":1,"max_requests":1}]}`},
		{"POST", "/api-auth/rate-limit-schemes", "key", "application/json; charset=utf-8", `{"rules":[{"endpoints":[1,"x"]}],"rules":null}`},
		{"PATCH", "/api-auth/rate-limit-schemes/free", "key", "application/json", `{"name":"Other","description":null}`},
		{"PATCH", "/api-auth/rate-limit-schemes/a%2Fb", "key", "application/json", `{}`},
		{"PATCH", "/api-auth/rate-limit-schemes/%00", "key", "application/json", `{"rules":[]}`},
		{"DELETE", "/api-auth/rate-limit-schemes/..%2f", "key", "", ""},
		{"DELETE", "/api-auth//rate-limit-schemes/../free/", "nobody", "", ""},
		{"GET", "/users?search=%00&limit=1", "key", "", ""}, {"GET", "/users?search=%ff", "key", "", ""}, {"GET", "/users/%31?x", "key", "", ""},
		{"GET", "/users?search=%25_%5C&offset=9223372036854775807", "key", "", ""},
		{"POST", "/users", "key", "application/json", `{"email":"a@b.example\u0000","password":""}`}, {"PATCH", "/users/1", "key", "application/json", `{"disabled":null}`},
		{"POST", "/organizations", "key", "application/json", `{"name":"N","owner_id":"-1"}`}, {"DELETE", "/organizations/1/members/01", "key", "", ""},
		{"GET", "/docs/", "", "", ""}, {"OPTIONS", "*", "", "", ""}, {"CONNECT", "/x:443", "", "", ""}, {"GET", "//host/docs", "", "", ""},
	} {
		f.Add(seed.method, seed.target, seed.credential, seed.contentType, seed.body)
	}
	// Every write ends in a conflict, because the handler would wait for an accepted write to be applied.
	lost := apierrors.NewConflict(schemeResource, "free", errors.New("another writer was first"))
	backend := serve(f, &fakeKubernetes{live: []string{resourceJSON("1", "")}, always: lost})
	f.Fuzz(func(t *testing.T, method, target, credential, contentType, body string) {
		at, err := url.ParseRequestURI(target)
		if err != nil || method == "" {
			return // net/http refuses it before any handler
		}
		r := &http.Request{
			Method: method, URL: at, RequestURI: target, Host: "backend", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), ContentLength: -1, RemoteAddr: "192.0.2.1:1234",
		}
		switch credential {
		case "key":
			credential = "Bearer " + backend.key
		case "reader":
			credential = "Bearer " + backend.reader
		}
		if credential != "" {
			r.Header["Authorization"] = []string{credential}
			r.Header["X-Request-Id"] = []string{credential}
		}
		if contentType != "" {
			r.Header["Content-Type"] = []string{contentType}
		}
		rec := httptest.NewRecorder()
		backend.ServeHTTP(rec, r)
		expectSane(t, r, rec)
	})
}

func expectSane(t *testing.T, r *http.Request, rec *httptest.ResponseRecorder) {
	t.Helper()
	if rec.Code >= 500 || rec.Code >= 300 && rec.Code < 400 || rec.Header().Get("Location") != "" {
		t.Fatalf("%s %q: %d %s", r.Method, r.RequestURI, rec.Code, rec.Body)
	}
	if rec.Header().Get("X-Request-Id") == "" {
		t.Error("no X-Request-Id")
	}
	if rec.Code < 400 || r.Method == http.MethodHead {
		return
	}
	var refusal struct {
		Message string
		Errors  []struct{ Code int }
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &refusal); err != nil || refusal.Message == "" || len(refusal.Errors) == 0 || refusal.Errors[0].Code != rec.Code {
		t.Errorf("%s %q: %d %s", r.Method, r.RequestURI, rec.Code, rec.Body)
	}
}
