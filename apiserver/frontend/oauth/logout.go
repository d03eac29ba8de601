package oauth

import (
	"net/url"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/store/people"
)

// logoutPath is the path to which clients send browsers to sign users out, on the host of the users' sessions.
const logoutPath = "/logout"

// logoutRequest is a client's logout request (OpenID Connect RP-Initiated Logout 1.0).
type logoutRequest struct {
	// hint are the claims of an ID token of the app, which may have expired; nil without a genuine one.
	hint *hintClaims
	// to is the address that the browser goes to afterwards, with the client's state.
	to string
	// unverified is the client that registered the address to, if that client registered itself; otherwise nil. The
	// browser then goes there only if the request has the client's ID token of this session, or when the user follows a
	// link.
	unverified *consent.Client
}

// logOutByForm redirects a posted request to the GET request.
func logOutByForm(c *call) error {
	form, err := c.form()
	if err != nil || len(form.Encode()) > maxQuery {
		return page(c, "request")
	}
	redirectTo(c, c.Content.FrontendURL+"/oauth/"+c.Content.Slug+logoutPath+"?"+form.Encode())
	return nil
}

// logOut ends the user's sign-in in the session of the client's ID token. Without such a token, the user is asked
// first.
func logOut(c *call) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil || len(c.r.URL.RawQuery) > maxQuery || single(query) != nil || len(query["resource"]) > 0 {
		return page(c, "request")
	}
	asked, problem, err := c.parseLogout(query)
	if err != nil {
		return err
	}
	if problem != "" {
		return page(c, problem)
	}
	if query.Has("asked") { // the user was asked, or a link pretends so: only the redirect is left
		return leave(c, asked)
	}
	signedIn, ended := false, false
	err = c.change(func(u *account.Unit) error {
		signedIn, ended = false, false
		s, found, err := sessionOf(c, u)
		if err != nil || !found {
			return err
		}
		signedIn = len(s.SignIns) > 0
		if asked.hint == nil || asked.hint.SessionID != ids.Format(s.ID) {
			return nil
		}
		at := slices.IndexFunc(s.SignIns, func(g people.SignIn) bool { return ids.Format(g.User) == asked.hint.Subject })
		if at < 0 {
			return nil
		}
		ended = true
		if err := account.EndSignIn(u, s.SignIns[at], "user:"+asked.hint.Subject, events.SignedOut); err != nil {
			return err
		}
		return u.AuditAs("user:"+asked.hint.Subject, "session.signed_out", "session:"+ids.Format(s.ID), s.ID)
	})
	if err != nil {
		return err
	}
	if ended {
		redirectTo(c, asked.to)
		return nil
	}
	if !signedIn {
		return leave(c, asked)
	}
	query.Del("id_token_hint") // the hint does not fit the session, and must not be in the browser's history
	query.Set("asked", "1")
	back := "/oauth/" + c.Content.Slug + logoutPath + "?" + query.Encode()
	if pages(c) != c.Content.FrontendURL { // a relative path would refer to the pages' host, which has no sessions
		back = c.Content.FrontendURL + back
	}
	redirectTo(c, pages(c)+"/sign-out?"+url.Values{"continue": {back}}.Encode())
	return nil
}

// leave redirects the browser after a sign-out. For a client that registered itself it shows a page with a link
// instead: the client chose the URI itself, so a redirect would make this host an open redirector (RFC 9700 4.11.2).
func leave(c *call, asked logoutRequest) error {
	if asked.unverified == nil {
		redirectTo(c, asked.to)
		return nil
	}
	c.r = c.r.WithContext(consent.WithRefused(c.r.Context(), consent.Refused{
		Client: asked.unverified.Name, Host: redirecturi.Host(asked.to), Back: asked.to,
	}))
	if showPage(c, "app") {
		return nil
	}
	return invalidRequest("a client that registered itself must send an id_token_hint of the session, or the browser is not redirected to it")
}

// sessionOf returns the session of the browser, locked.
func sessionOf(c *call, u *account.Unit) (s people.Session, found bool, err error) {
	cookies := c.r.CookiesNamed(site.SessionCookie)
	if len(cookies) != 1 {
		return s, false, nil
	}
	hash, formed := session.Hash(cookies[0].Value)
	if !formed {
		return s, false, nil
	}
	s, found, err = u.Sessions().LockSession(hash)
	if err != nil || !found || session.Evaluate(s, session.PolicyOf(u.Settings), c.now) != session.Live {
		return s, false, err
	}
	return s, true, account.DropEnded(u, &s)
}

// parseLogout parses a logout request. problem says what is wrong, "" for nothing.
func (c *call) parseLogout(query url.Values) (asked logoutRequest, problem string, err error) {
	id := query.Get("client_id")
	if raw := query.Get("id_token_hint"); raw != "" {
		if asked.hint = readIDToken(c, raw); asked.hint != nil {
			if id != "" && id != asked.hint.AuthorizedParty {
				return asked, "client", nil
			}
			id = asked.hint.AuthorizedParty
		}
	}
	back := query.Get("post_logout_redirect_uri")
	if back == "" {
		asked.to = pages(c) + "/sign-in"
		return asked, "", nil
	}
	client, known, err := c.findClient(id)
	if err != nil {
		return asked, "", err
	}
	if !known {
		return asked, "client", nil
	}
	if !slices.ContainsFunc(client.PostLogoutURIs, func(uri string) bool { return redirecturi.Fits(uri, back) }) {
		return asked, "redirect_uri", nil
	}
	if asked.to = back; !client.Trusted() {
		asked.unverified = client
	}
	if state := query.Get("state"); state != "" {
		asked.to = consent.WithQuery(back, url.Values{"state": {state}})
	}
	return asked, "", nil
}

// hintClaims are the claims of an ID token that is used as a hint.
type hintClaims struct {
	idClaims
	// Email is present if the client received it.
	Email string `json:"email"`
}

// readIDToken returns the claims of an ID token that the app signed, even if it has expired. It returns nil for any
// other text.
func readIDToken(c *call, raw string) *hintClaims {
	var claims hintClaims
	_, signed := bearer.VerifySigned(raw, typeIDToken, c.Content.SigningKeys, c.now, &claims)
	if !signed || claims.Issuer != c.Content.Issuer || claims.AuthorizedParty == "" {
		return nil
	}
	return &claims
}
