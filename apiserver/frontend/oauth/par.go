package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
)

const (
	// pushedPrefix is the prefix of the request_uri of a pushed request (RFC 9126 2.2).
	pushedPrefix = "urn:ietf:params:oauth:request_uri:"
	// pushedLifetime is how long a pushed request waits for its browser.
	pushedLifetime = time.Minute
)

// push stores an authorization request that the client pushes (RFC 9126). The pushed request must be complete, because
// the browser's request adds no parameters.
func push(c *call) error {
	form, err := c.form()
	if err != nil {
		return err
	}
	if err := c.authenticate(form); err != nil {
		return err
	}
	if form.Has("request_uri") {
		return invalidRequest("a pushed request cannot refer to another: omit request_uri")
	}
	if !c.client.Registers(form.Get("redirect_uri")) {
		return invalidRequest("redirect_uri is missing, or not registered for the client: it must be equal, character by character")
	}
	asked, err := asked(c, c.client, form)
	if err != nil {
		return asRefused(err)
	}
	handle := ""
	err = c.change(func(u *account.Unit) (err error) {
		handle, err = consent.Push(u, c.App, c.client, asked, pushedLifetime)
		return err
	})
	if err != nil {
		return err
	}
	writeJSON(c.w, http.StatusCreated, struct {
		RequestURI string `json:"request_uri"`
		ExpiresIn  int64  `json:"expires_in"`
	}{pushedPrefix + handle, int64(pushedLifetime / time.Second)})
	return nil
}

// authorizePushed continues with a request that the client pushed. It ignores all other parameters of the query.
func authorizePushed(c *call, query url.Values) error {
	client, known, err := visitingClient(c, query)
	if err != nil {
		return err
	}
	if !known {
		return page(c, "client")
	}
	name, named := strings.CutPrefix(query.Get("request_uri"), pushedPrefix)
	if !named || len(query["request_uri"]) != 1 {
		return page(c, "request")
	}
	handle, hint := "", ""
	err = c.change(func(u *account.Unit) (err error) {
		handle, hint, err = consent.Pull(u, c.App, client, name)
		return err
	})
	if errors.Is(err, consent.ErrRequestUnknown) {
		return page(c, "request")
	}
	if err != nil {
		return err
	}
	path := pages(c) + "/authorize/" + handle
	if hint != "" {
		path += "?" + url.Values{"login_hint": {hint}}.Encode()
	}
	redirectTo(c, path)
	return nil
}
