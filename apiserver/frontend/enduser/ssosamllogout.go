package enduser

import (
	"errors"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// errLogoutInvalid refuses a logout request.
var errLogoutInvalid = apierror.Bad("SSO_RESPONSE_INVALID", "the logout request of the identity provider was not accepted")

// samlConnection returns the connection of the path, which must be of type SAML and active.
func samlConnection(c *call) (conn account.Connection, err error) {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return conn, c.answerTo(account.ErrConnectionUnknown)
	}
	conn, err = activeConnection(c, id)
	if err == nil && conn.SAML == nil {
		err = c.answerTo(account.ErrConnectionUnknown)
	}
	return conn, err
}

// samlLogout ends the sign-ins that a logout request of an identity provider names, and answers by a form for the
// browser. The response to a request of this server changes nothing: the browser goes to the sign-in page.
func samlLogout(c *call) error {
	conn, err := samlConnection(c)
	if err != nil {
		return err
	}
	form, done, err := readMessage(c)
	if err != nil {
		return err
	}
	defer done()
	if len(form["SAMLRequest"]) == 0 && len(form["SAMLResponse"]) == 1 {
		return toBrowser(c, "/sign-in")
	}
	if len(form["SAMLRequest"]) != 1 || len(form["RelayState"]) > 1 {
		return errLogoutInvalid
	}
	if err := requireFewRefused(c); err != nil {
		return c.answerTo(err)
	}
	of := upstreamOf(c, conn)
	metadata, err := c.Providers.SAML(c.r.Context(), of)
	if err != nil {
		return c.answerTo(err)
	}
	logout, err := evaluated(c, func() (*saml.LogoutRequest, error) {
		return saml.ReadLogoutRequest(form.Get("SAMLRequest"), saml.LogoutExpected{
			URL: site.Origin(c.request.Settings, c.r) + connectionPath(conn.ID) + "/slo", Provider: metadata,
			Skew: time.Duration(conn.SAML.SkewSeconds) * time.Second, Now: c.now,
		})
	})
	var fault *connection.Fault
	if errors.As(err, &fault) {
		answer := *errLogoutInvalid
		answer.Reason = fault.Reason
		return c.answerTo(account.FirstOf(countUnsolicited(c), &answer))
	}
	if err != nil {
		return c.answerTo(err)
	}
	if err := endSAML(c, conn, metadata.EntityID, logout); err != nil {
		return c.answerTo(err)
	}
	to := metadata.LogoutResponseURL()
	if to == "" {
		return toBrowser(c, "/sign-in")
	}
	return answerLogout(c, conn, saml.LogoutResponse{InResponseTo: logout.ID, Destination: to, RelayState: form.Get("RelayState")})
}

// requireFewRefused refuses a logout request of a client network that sent too many that were refused, before it is
// read.
func requireFewRefused(c *call) error {
	return c.view(func(u *account.Unit) error {
		refused, err := u.Limits().Counted(scopeUnsolicited, u.Client.WideNetwork, u.Now)
		if err == nil && refused.Count >= ssoStartsPerHour {
			err = &account.WaitError{Reason: errTooManyUnsolicited, Wait: refused.Ends.Sub(u.Now)}
		}
		return err
	})
}

// endSAML ends the sign-ins of a logout request. Where an attribute identifies users, a request selects by the sessions
// that it names, because identities do not have its NameID.
func endSAML(c *call, conn account.Connection, issuer string, request *saml.LogoutRequest) error {
	logout := connection.Logout{Issuer: issuer, Subject: request.NameID.Value, TokenID: request.ID, ExpiresAt: request.ExpiresAt}
	if conn.SAML.Subject != "" {
		logout.Subject = ""
	}
	if len(request.Sessions) == 0 {
		if logout.Subject == "" {
			answer := *errLogoutInvalid
			answer.Reason = saml.ReasonSession
			return &answer
		}
		return usedLogout(endSignInsBy(c, conn, logout))
	}
	used := 0
	for _, session := range request.Sessions {
		logout.SessionID, logout.TokenID = session, request.ID+" "+session
		err := endSignInsBy(c, conn, logout)
		if errors.Is(err, errLogoutUsed) { // of an earlier delivery, which may have failed after this session
			used++
			continue
		}
		if err != nil {
			return err
		}
	}
	if used == len(request.Sessions) {
		return errLogoutInvalid
	}
	return nil
}

// usedLogout refuses a request that was used before.
func usedLogout(err error) error {
	if errors.Is(err, errLogoutUsed) {
		return errLogoutInvalid
	}
	return err
}

// answerLogout answers a logout request by a form that the browser posts to the identity provider.
func answerLogout(c *call, conn account.Connection, response saml.LogoutResponse) error {
	keys, err := c.Providers.SAMLKeys(upstreamOf(c, conn))
	if err != nil {
		return c.answerTo(err)
	}
	if response.ID, err = saml.NewID(c.Random); err != nil {
		return c.answerTo(err)
	}
	response.IssuedAt, response.Issuer = c.now, conn.SAML.ServiceEntityID
	form, err := response.PostForm(keys[0])
	if err != nil {
		return c.answerTo(err)
	}
	return sendForm(c, conn.Name, form)
}

// samlLogoutReturn is where the identity provider sends the browser after a sign-out by a redirect. Requests by this
// binding are refused: the metadata does not offer it.
func samlLogoutReturn(c *call) error {
	if _, err := samlConnection(c); err != nil {
		return err
	}
	if c.r.URL.Query().Has("SAMLRequest") {
		return errLogoutInvalid
	}
	return toBrowser(c, "/sign-in")
}

// samlSignOutURL returns the address at which a sign-out continues at the identity provider, "" if it does not.
func samlSignOutURL(c *call, conn account.Connection, left people.Upstream, hint []byte) string {
	name, found := saml.ReadNameID(hint)
	if !found {
		return ""
	}
	metadata, err := c.Providers.SAML(c.r.Context(), upstreamOf(c, conn))
	if err != nil || metadata.SignOutURL() == "" {
		return ""
	}
	keys, err := c.Providers.SAMLKeys(upstreamOf(c, conn))
	if err != nil {
		return ""
	}
	id, err := saml.NewID(c.Random)
	if err != nil {
		return ""
	}
	to, err := saml.SignOut{
		ID: id, IssuedAt: c.now, Issuer: conn.SAML.ServiceEntityID, Destination: metadata.SignOutURL(), NameID: name, SessionIndex: left.SessionID,
	}.RedirectURL(keys[0])
	if err != nil {
		return ""
	}
	return to
}

// samlMetadata returns the metadata of a connection as a service provider. An inactive connection has them too: an
// identity provider is set up first.
func samlMetadata(c *call) error {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return c.answerTo(account.ErrConnectionUnknown)
	}
	var conn account.Connection
	err = c.view(func(u *account.Unit) (err error) {
		conn, _, err = account.NamedConnection(u, id)
		return err
	})
	if err != nil {
		return c.answerTo(err)
	}
	if conn.Connection == nil || conn.SAML == nil || len(conn.SAML.Keys) == 0 {
		return c.answerTo(account.ErrConnectionUnknown)
	}
	sp := saml.ServiceProvider{EntityID: conn.SAML.ServiceEntityID, NameIDFormat: conn.SAML.NameIDFormat}
	for _, origin := range site.Origins(c.request.Settings, c.r) {
		sp.ACSURLs = append(sp.ACSURLs, origin+connectionPath(id)+"/acs")
		sp.LogoutURLs = append(sp.LogoutURLs, origin+connectionPath(id)+"/slo")
	}
	for _, key := range conn.SAML.Keys {
		certified, err := saml.ParseCertificate([]byte(key.Certificate))
		if err != nil {
			return c.answerTo(err)
		}
		sp.Keys = append(sp.Keys, certified)
	}
	raw, err := sp.Metadata()
	if err != nil {
		return c.answerTo(err)
	}
	header := c.Header()
	header.Set("Content-Type", "application/samlmetadata+xml")
	header.Set("Cache-Control", "public, max-age=300")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Disposition", `inline; filename="metadata.xml"`)
	c.WriteHeader(http.StatusOK)
	if c.r.Method != http.MethodHead {
		_, _ = c.Write(raw) // an error means that the client disconnected
	}
	return nil
}
