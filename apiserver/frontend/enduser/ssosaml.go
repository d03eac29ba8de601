package enduser

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/store/people"
)

// Sign-ins by connections of type SAML. The response is posted by the browser without its cookie, so it is evaluated as
// a posted response of OpenID Connect is: see keepPosted.

const (
	// undecryptablePerHour is how many responses of a connection that cannot be decrypted are accepted from one client in
	// an hour. Their refusals must not reveal the plaintext to an attacker.
	undecryptablePerHour = 30
	scopeUndecryptable   = "saml-undecryptable"
	// scopeUnsolicited counts the messages of a client network that fit no attempt or are refused.
	scopeUnsolicited = "saml-unsolicited"
	// parameterACR is the declared parameter whose words are the requested authentication contexts.
	parameterACR = "acr_values"
)

var (
	errTooManyUndecryptable = apierror.Coded(http.StatusTooManyRequests, "RATE_LIMITED",
		"more than %d responses of this connection could not be decrypted in an hour: check the encryption certificate at the identity provider", undecryptablePerHour)
	errTooManyUnsolicited = apierror.Coded(http.StatusTooManyRequests, "RATE_LIMITED", "too many messages that were refused came from your network: begin at the sign-in page")
)

// startSAML is startAttempt for a connection of type SAML. An identity provider that takes requests by POST alone is
// reached by a page of this server that has the form.
func startSAML(c *call, q ssoRequest, conn account.Connection, state string) (start ssoStart, err error) {
	metadata, err := c.Providers.SAML(c.r.Context(), upstreamOf(c, conn))
	if err != nil {
		return start, c.answerTo(err)
	}
	id, err := saml.NewID(c.Random)
	if err != nil {
		return start, c.answerTo(err)
	}
	start.attempt, err = transact(c, func(u *unit) (int64, error) { return insertSSO(u, c, q, conn, state, id) })
	if err != nil {
		return start, err
	}
	to := metadata.SignOnEndpoint()
	if to.Binding != saml.BindingRedirect {
		start.url = site.Origin(c.request.Settings, c.r) + connectionPath(conn.ID) + "/request?" + url.Values{"state": {state}}.Encode()
		return start, nil
	}
	keys, err := c.Providers.SAMLKeys(upstreamOf(c, conn)) // after the start was counted: a signature is work
	if err != nil {
		return start, c.answerTo(err)
	}
	row := people.SSOAttempt{Connection: conn.ID, RequestID: id, Intent: q.intent}
	start.url, err = samlRequest(c, conn, row, to.URL, state).RedirectURL(keys[0])
	return start, c.answerTo(err)
}

// samlRequest returns the request of an attempt to an endpoint of the identity provider.
func samlRequest(c *call, conn account.Connection, row people.SSOAttempt, to, state string) saml.AuthnRequest {
	r := saml.AuthnRequest{
		ID: row.RequestID, IssuedAt: c.now, Issuer: conn.SAML.ServiceEntityID, Destination: to, ACSURL: acsURL(c, conn.ID), RelayState: state,
		ForceAuthn: conn.SAML.ForceAuthn || row.Intent == people.IntentReauthenticate, NameIDFormat: conn.SAML.NameIDFormat,
	}
	for _, p := range conn.Parameters {
		if p.Name == parameterACR {
			r.ClassRefs = append(r.ClassRefs, strings.Fields(p.Value)...)
		}
	}
	if conn.RequestsACR && len(r.ClassRefs) == 0 {
		r.ClassRefs = conn.ACR
	}
	return r
}

// acsURL returns the address at which a connection takes responses, on the host where the browser is.
func acsURL(c *call, id int64) string {
	return site.Origin(c.request.Settings, c.r) + connectionPath(id) + "/acs"
}

// samlForm shows the form with the request of an attempt, for an identity provider that takes requests by POST alone.
func samlForm(c *call) error {
	state := c.r.URL.Query().Get("state")
	at, err := findAttempt(c, state, false)
	if err != nil {
		return c.answerTo(err)
	}
	if at.conn.SAML == nil {
		return errInvalidAttempt
	}
	if err := c.request.Change(c.r.Context(), countStart); err != nil { // each page costs a signature
		return c.answerTo(err)
	}
	metadata, err := c.Providers.SAML(c.r.Context(), upstreamOf(c, at.conn))
	if err != nil {
		return c.answerTo(err)
	}
	keys, err := c.Providers.SAMLKeys(upstreamOf(c, at.conn))
	if err != nil {
		return c.answerTo(err)
	}
	form, err := samlRequest(c, at.conn, at.row, metadata.SignOnEndpoint().URL, state).PostForm(keys[0])
	if err != nil {
		return c.answerTo(err)
	}
	return sendForm(c, at.conn.Name, form)
}

// samlResponse receives the response of an identity provider at the assertion consumer service.
func samlResponse(c *call) error {
	conn, err := samlConnection(c)
	if err != nil {
		return err
	}
	form, done, err := readMessage(c)
	if err != nil {
		return err
	}
	defer done()
	if len(form["SAMLResponse"]) != 1 || len(form["RelayState"]) > 1 {
		return errResponseInvalid
	}
	at, err := findAttempt(c, form.Get("RelayState"), false)
	if errors.Is(err, errInvalidAttempt) {
		return unsolicited(c, conn, form, err)
	}
	if err != nil {
		return c.answerTo(err)
	}
	evidence, err := evaluateSAML(c, at, form.Get("SAMLResponse"))
	if err != nil {
		return recordFailure(c, at, evidence, err)
	}
	return keepPosted(c, at, evidence)
}

// evaluateSAML counts a try of an attempt, and evaluates a response. The try is counted first, so that a client cannot
// avoid the count by ending its connection. It is given back if nothing was evaluated: the provider's metadata are
// unavailable, or the response did not get its first turn.
func evaluateSAML(c *call, at waitingAttempt, field string) (e connection.Evidence, err error) {
	if err := countResponse(c, at); err != nil {
		return e, err
	}
	of := upstreamOf(c, at.conn)
	metadata, err := c.Providers.SAML(c.r.Context(), of)
	if err != nil {
		return e, account.FirstOf(returnTry(c, at), err)
	}
	response, err := evaluated(c, func() (*saml.Response, error) { return saml.ReadResponse(field) })
	if errors.Is(err, errNoTurn) {
		err = account.FirstOf(returnTry(c, at), err)
	}
	if err != nil {
		return e, err
	}
	subject := format(at.conn.ID) + " " + c.request.Client.Network
	var keys []saml.Key // they only decrypt
	if response.Encrypted() {
		if err := requireDecryptable(c, subject); err != nil {
			return e, err
		}
		if keys, err = c.Providers.SAMLKeys(of); err != nil {
			return e, err
		}
	}
	expected := saml.Expected{
		RequestID: at.row.RequestID, ACSURL: acsURL(c, at.conn.ID), EntityID: at.conn.SAML.ServiceEntityID, Provider: metadata, Keys: keys,
		RequireEncryption: at.conn.SAML.Encrypted, SubjectAttribute: at.conn.SAML.Subject, Skew: time.Duration(at.conn.SAML.SkewSeconds) * time.Second, Now: c.now,
	}
	evaluate := func() (*saml.Assertion, error) { return response.Evaluate(expected) }
	assertion, err := evaluated(c, evaluate)
	var fault *connection.Fault
	if errors.As(err, &fault) && (fault.Reason == saml.ReasonCertificate || fault.Reason == saml.ReasonDecryption) {
		if expected.Provider = c.Providers.NewerSAML(c.r.Context(), of, metadata); expected.Provider != metadata {
			assertion, err = evaluated(c, evaluate)
		}
	}
	if errors.As(err, &fault) && fault.Reason == saml.ReasonDecryption {
		// The client cannot avoid the count by ending its connection.
		countErr := c.request.Change(context.WithoutCancel(c.r.Context()), func(u *account.Unit) error {
			_, err := u.Limits().Count(scopeUndecryptable, subject, u.Now, u.Now.Add(time.Hour))
			return err
		})
		err = account.FirstOf(countErr, err)
	}
	if err != nil {
		return e, err
	}
	e = assertion.Evidence(at.conn.Connection, rolesOf(at.conn), c.now)
	e.RoleIDs = connection.MappedRoles(at.conn.Mappings, assertion.Claims())
	if at.row.Intent == people.IntentReauthenticate {
		err = e.Anew(at.row.CreatedAt)
	}
	return e, err
}

// requireDecryptable refuses a response after too many that could not be decrypted.
func requireDecryptable(c *call, subject string) error {
	return c.view(func(u *account.Unit) error {
		failed, err := u.Limits().Counted(scopeUndecryptable, subject, u.Now)
		if err == nil && failed.Count >= undecryptablePerHour {
			err = &account.WaitError{Reason: errTooManyUndecryptable, Wait: failed.Ends.Sub(u.Now)}
		}
		return err
	})
}

// unsolicited handles a response that fits no attempt. It signs no user in. If it answers no request and the connection
// permits that, as for a tile in the portal of the identity provider, the browser begins a sign-in instead, which the
// session at the identity provider completes. RelayState is then the page to which the user goes.
func unsolicited(c *call, conn account.Connection, form url.Values, refused error) error {
	if err := countUnsolicited(c); err != nil {
		return c.answerTo(err)
	}
	response, err := evaluated(c, func() (*saml.Response, error) { return saml.ReadResponse(form.Get("SAMLResponse")) })
	var fault *connection.Fault
	if err != nil && !errors.As(err, &fault) {
		return err
	}
	if err != nil || !response.Unsolicited() {
		return refused
	}
	if !conn.SAML.Restarts {
		return errResponseInvalid
	}
	metadata, err := c.Providers.SAML(c.r.Context(), upstreamOf(c, conn))
	if err != nil {
		return c.answerTo(err)
	}
	if response.Issuer != metadata.EntityID {
		return errResponseInvalid
	}
	to := connectionPath(conn.ID) + "/start"
	if at, ok := site.Target(c.request.Settings, form.Get("RelayState")); ok && at != "" {
		to += "?" + url.Values{"continue": {at}}.Encode()
	}
	return toBrowser(c, to)
}

// countUnsolicited bounds the responses without an attempt, and the refused logout requests, that are read for one
// client network in an hour.
func countUnsolicited(c *call) error {
	return c.request.Change(c.r.Context(), func(u *account.Unit) error {
		n, err := u.Limits().Count(scopeUnsolicited, u.Client.WideNetwork, u.Now, u.Now.Add(time.Hour))
		if err == nil && n.Count > ssoStartsPerHour {
			err = account.Refuse(&account.WaitError{Reason: errTooManyUnsolicited, Wait: n.Ends.Sub(u.Now)})
		}
		return err
	})
}

// toBrowser redirects a browser to a path of this host, and returns the path to a client that accepts no HTML.
func toBrowser(c *call, path string) error {
	if asset.NamesHTML(c.r) {
		c.redirectTo(path)
		return nil
	}
	c.answer(enduserapi.SSOCallback{CallbackUrl: path})
	return nil
}
