package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
)

// client asks the end-user API in process, as the browser that it works for: with its address, its cookie, and its origin.
type client struct {
	api http.Handler
	r   *http.Request
	id  string
	// user is the id of the account that requests assert to be active, "" for none. It follows what the requests themselves change.
	user string
	// cookie is the session's, as the browser will have it after what was asked so far.
	cookie string
	// set are the cookies that the API gave, by name, domain and path: the last one counts.
	set  map[string]string
	keys []string
	// session is the state after what was asked last.
	session enduserapi.SessionSnapshot
}

func newClient(api http.Handler, r *http.Request, id string) *client {
	c := &client{api: api, r: r, id: id, set: map[string]string{}}
	if cookie, err := r.Cookie(site.SessionCookie); err == nil {
		c.cookie = cookie.Value
	}
	return c
}

// codeOtherAccount is the code of a request for another account than the active one.
const codeOtherAccount = "ACTIVE_ACCOUNT_CHANGED"

// envelope is the form of every answer.
type envelope struct {
	Status  int                        `json:"status"`
	Message string                     `json:"message"`
	Data    json.RawMessage            `json:"data"`
	Session enduserapi.SessionSnapshot `json:"session"`
	Errors  []enduserapi.EndUserFault  `json:"errors"`
}

// refusal is an answer of the API other than success.
type refusal struct {
	Status  int
	Code    string
	Message string
	Errors  []enduserapi.EndUserFault
	// Wait is in seconds, 0 where none is told.
	Wait int
}

// Error returns status and code, for logs.
func (r *refusal) Error() string { return fmt.Sprintf("%d %s: %s", r.Status, r.Code, r.Message) }

// call asks for an operation. body is written as JSON, and the answer's data is read into out; either may be nil. An answer other than
// success is a *refusal.
func (c *client) call(method, path string, body, out any) error {
	r, err := c.request(method, path, body)
	if err != nil {
		return err
	}
	answer := newAnswer()
	c.api.ServeHTTP(answer, r)
	c.keep(answer.header)
	if refused := answer.refusal(); refused != nil {
		if refused.Code == codeOtherAccount {
			c.user = "" // what follows shows the account that is active by now
		}
		return refused
	}
	var e envelope
	if err := json.Unmarshal(answer.body.Bytes(), &e); err != nil {
		return fmt.Errorf("%s %s answered what is no envelope: %w", method, path, err)
	}
	c.session = e.Session
	if c.user != "" {
		c.user = ""
		if active := c.session.ActiveSignin; active != nil {
			c.user = active.UserId
		}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(e.Data, out)
}

func (c *client) request(method, path string, body any) (*http.Request, error) {
	raw := []byte(nil)
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	r, err := http.NewRequestWithContext(c.r.Context(), method, path, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	r.Host, r.RemoteAddr, r.TLS, r.RequestURI = c.r.Host, c.r.RemoteAddr, c.r.TLS, path
	r.Header.Set("X-Request-Id", c.id)
	for _, name := range []string{"X-Forwarded-For", "User-Agent"} {
		if values := c.r.Header.Values(name); len(values) > 0 {
			r.Header[name] = values
		}
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.r.Method == http.MethodPost {
		// A form's origin is judged by the API too. A page that is shown changes nothing, and may be come to from anywhere.
		for _, name := range []string{"Origin", "Sec-Fetch-Site"} {
			if values := c.r.Header.Values(name); len(values) > 0 {
				r.Header[name] = values
			}
		}
	}
	if c.user != "" {
		r.Header.Set(site.ActiveUserHeader, c.user)
	}
	if c.cookie != "" {
		r.AddCookie(&http.Cookie{Name: site.SessionCookie, Value: c.cookie})
	}
	return r, nil
}

// keep notes the cookies of an answer.
func (c *client) keep(header http.Header) {
	written := header.Values("Set-Cookie")
	for i, cookie := range (&http.Response{Header: header}).Cookies() {
		key := cookie.Name + ";" + cookie.Domain + ";" + cookie.Path
		if _, known := c.set[key]; !known {
			c.keys = append(c.keys, key)
		}
		c.set[key] = written[i]
		if cookie.Name == site.SessionCookie {
			c.cookie = cookie.Value
		}
	}
}

// passCookies gives the browser the cookies that the API set.
func (c *client) passCookies(header http.Header) {
	for _, key := range c.keys {
		header.Add("Set-Cookie", c.set[key])
	}
}

// at returns a path of the API with an id in it.
func at(format, id string) string { return strings.Replace(format, "{id}", url.PathEscape(id), 1) }

// answer takes an answer of the API.
type answer struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func newAnswer() *answer { return &answer{status: http.StatusOK, header: http.Header{}} }

func (a *answer) Header() http.Header         { return a.header }
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return a.body.Write(b) }

// refusal is nil for a success.
func (a *answer) refusal() *refusal {
	if a.status < http.StatusBadRequest {
		return nil
	}
	out := &refusal{Status: a.status}
	var e envelope
	if err := json.Unmarshal(a.body.Bytes(), &e); err == nil {
		out.Message, out.Errors = e.Message, e.Errors
	}
	if len(out.Errors) > 0 {
		out.Code = out.Errors[0].Code
	}
	out.Wait, _ = strconv.Atoi(a.header.Get("Retry-After"))
	return out
}

// copyTo sends the answer on as it is.
func (a *answer) copyTo(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body.Bytes()) // the browser is gone
}
