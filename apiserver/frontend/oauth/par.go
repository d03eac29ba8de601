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
	// pushedPrefix is what the name of a pushed request begins with (RFC 9126 2.2).
	pushedPrefix = "urn:ietf:params:oauth:request_uri:"
	// pushedLifetime is how long a pushed request waits for its browser.
	pushedLifetime = time.Minute
)

// push takes an authorization request from the client itself (RFC 9126). It is complete in itself.
func push(c *call) error {
	form, err := c.form()
	if err != nil {
		return err
	}
	if err := c.authenticate(form); err != nil {
		return err
	}
	if form.Has("request_uri") {
		return invalidRequest("a pushed request names no other: leave request_uri out")
	}
	if !c.client.Registers(form.Get("redirect_uri")) {
		return invalidRequest("redirect_uri is missing, or none that the client is registered with: they have to be equal, character by character")
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

// authorizePushed goes on with a request that the client pushed: nothing is taken from the query beside its name.
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
	found(c, path)
	return nil
}
