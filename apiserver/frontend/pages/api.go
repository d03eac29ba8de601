package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/client"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// api calls the end-user API in process on behalf of the browser: with the browser's address, cookie and origin.
type api struct {
	*enduserapi.Client
	handler http.Handler
	r       *http.Request
	id      string
	// user is the id of the account that requests assert to be active, "" for none. If a request itself changes the
	// active account, user changes too.
	user string
	// cookie is the session cookie that the browser will have after the requests so far.
	cookie string
	// set has the last Set-Cookie line of the API for each name, domain and path of a cookie. keys has the keys of set
	// in the order in which they were added.
	set  map[string]string
	keys []string
	// demand is the first error of the last refused request.
	demand demand
	// session is the state after the last request.
	session enduserapi.SessionSnapshot
}

// inProcess is the base URL of requests that never leave the process.
const inProcess = "http://in-process"

func newAPI(handler http.Handler, r *http.Request, id string) *api {
	a := &api{handler: handler, r: r, id: id, set: map[string]string{}}
	if cookie, err := r.Cookie(site.SessionCookie); err == nil {
		a.cookie = cookie.Value
	}
	a.Client, _ = enduserapi.New(inProcess, client.WithHTTPClient(&http.Client{Transport: a, Jar: noJar{}})) // the base URL is valid
	return a
}

// noJar is an empty cookie jar: the api keeps the browser's cookies.
type noJar struct{}

func (noJar) SetCookies(*url.URL, []*http.Cookie) {}
func (noJar) Cookies(*url.URL) []*http.Cookie     { return nil }

// codeOtherAccount is the error code of a request for an account that is not the active one.
const codeOtherAccount = "ACTIVE_ACCOUNT_CHANGED"

// envelope is the part of every response that the api reads.
type envelope struct {
	Session enduserapi.SessionSnapshot `json:"session"`
	Errors  []demand                   `json:"errors"`
}

// demand is an error with what the user must show or add.
type demand struct {
	Code string `json:"code"`
	// Level is the required level.
	Level string `json:"required_assurance"`
	// Strategies are the proofs that help.
	Strategies []string `json:"strategies"`
	// Connections are those by which the user must sign in.
	Connections []enduserapi.ConnectionOffer `json:"connections"`
}

// RoundTrip implements http.RoundTripper by the API's handler.
func (a *api) RoundTrip(sent *http.Request) (*http.Response, error) {
	answer := newAnswer()
	a.handler.ServeHTTP(answer, a.asBrowser(sent))
	a.keep(answer.header)
	var e envelope
	if err := json.Unmarshal(answer.body.Bytes(), &e); err == nil {
		a.follow(answer.status, e)
	}
	return &http.Response{StatusCode: answer.status, Header: answer.header, Body: io.NopCloser(&answer.body), Request: sent}, nil
}

// asBrowser returns a request with the browser's own headers.
func (a *api) asBrowser(sent *http.Request) *http.Request {
	r := sent.Clone(sent.Context())
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = a.r.Host, a.r.RemoteAddr, a.r.TLS, sent.URL.RequestURI()
	r.URL.Scheme, r.URL.Host = "", ""
	if r.Body == nil {
		r.Body = http.NoBody
	}
	r.Header.Set("X-Request-Id", a.id)
	passed := []string{"X-Forwarded-For", "User-Agent"}
	if a.r.Method == http.MethodPost {
		// The API checks a form's origin as well. Showing a page changes nothing, so any site may link to it.
		passed = append(passed, "Origin", "Sec-Fetch-Site")
	}
	for _, name := range passed {
		if values := a.r.Header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	if a.user != "" {
		r.Header.Set(site.ActiveUserHeader, a.user)
	}
	if a.cookie != "" {
		r.AddCookie(&http.Cookie{Name: site.SessionCookie, Value: a.cookie})
	}
	return r
}

// follow records the session after a response, and the account that the next requests assert to be active.
func (a *api) follow(status int, e envelope) {
	if status >= http.StatusBadRequest {
		a.demand = demand{}
		if len(e.Errors) > 0 {
			a.demand = e.Errors[0]
		}
		if a.demand.Code == codeOtherAccount {
			a.user = "" // the next pages are for the account that is now active
		}
		return
	}
	a.session = e.Session
	if a.user == "" {
		return
	}
	a.user = ""
	if active := a.session.ActiveSignin; active != nil {
		a.user = active.UserId
	}
}

// keep records the cookies of a response.
func (a *api) keep(header http.Header) {
	written := header.Values("Set-Cookie")
	for i, cookie := range (&http.Response{Header: header}).Cookies() {
		key := cookie.Name + ";" + cookie.Domain + ";" + cookie.Path
		if _, known := a.set[key]; !known {
			a.keys = append(a.keys, key)
		}
		a.set[key] = written[i]
		if cookie.Name == site.SessionCookie {
			a.cookie = cookie.Value
		}
	}
}

// passCookies gives the browser the cookies that the API set.
func (a *api) passCookies(header http.Header) {
	for _, key := range a.keys {
		header.Add("Set-Cookie", a.set[key])
	}
}

// completeSSO sends the browser's request to the callback of a connection to the API, with its query as it is: the API
// refuses doubled parameters.
func (a *api) completeSSO(ctx context.Context) (*enduserapi.SSOResultEnvelope, error) {
	sent, err := http.NewRequestWithContext(ctx, http.MethodGet, inProcess+a.r.URL.EscapedPath()+"?"+a.r.URL.RawQuery, nil)
	if err != nil {
		return nil, &client.Error{Status: http.StatusNotFound, Code: "NOT_FOUND"} // the path or the query is not one that can be sent
	}
	response, err := a.RoundTrip(sent)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= http.StatusBadRequest {
		return nil, refusedIn(response, raw)
	}
	done := &enduserapi.SSOResultEnvelope{}
	return done, json.Unmarshal(raw, done)
}

// refusedIn returns the refusal in a response.
func refusedIn(response *http.Response, raw []byte) *client.Error {
	refused := &client.Error{Status: response.StatusCode}
	var e struct {
		Message string   `json:"message"`
		Errors  []demand `json:"errors"`
	}
	if err := json.Unmarshal(raw, &e); err == nil && len(e.Errors) > 0 {
		refused.Code, refused.Message = e.Errors[0].Code, e.Message
	}
	if wait, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		refused.RetryAfter = time.Duration(wait) * time.Second
	}
	return refused
}

// refusal returns the refusal of an operation, nil for a success or another error. An argument that cannot be in a path
// counts as an object that does not exist.
func refusal(err error) *client.Error {
	var refused *client.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, client.ErrArgument):
		return &client.Error{Status: http.StatusNotFound, Code: "NOT_FOUND"}
	}
	return nil
}

// refusedBy reports whether an operation was refused with a code.
func refusedBy(err error, code string) bool {
	refused := refusal(err)
	return refused != nil && refused.Code == code
}

// changesTried is how often a form that adds or removes an entry of a list reads the list and sends it again.
const changesTried = 5

// untilUnchanged makes a change that reads a list and replaces it. If another change came between, the API refuses it
// with the code, and it is made again.
func untilUnchanged(code string, change func() error) (err error) {
	for range changesTried {
		if err = change(); !refusedBy(err, code) {
			return err
		}
	}
	return err
}

// at returns the path of a page that contains an id.
func at(format, id string) string { return strings.Replace(format, "{id}", url.PathEscape(id), 1) }

// answer records a response of the API.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{status: http.StatusOK, header: http.Header{}} }

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// refused returns the status and code of a response that refuses, nil for a success.
func (a *answer) refused() *client.Error {
	if a.status < http.StatusBadRequest {
		return nil
	}
	refused := &client.Error{Status: a.status}
	var e envelope
	if err := json.Unmarshal(a.body.Bytes(), &e); err == nil && len(e.Errors) > 0 {
		refused.Code = e.Errors[0].Code
	}
	return refused
}

// copyTo forwards the response unchanged.
func (a *answer) copyTo(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // an error means that the browser disconnected
}
