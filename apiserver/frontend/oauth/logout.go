package oauth

import (
	"net/url"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/redirecturi"
	"github.com/cardea-iam/cardea/store/people"
)

// logoutPath is where clients send browsers to sign people out: on the host that has their sessions.
const logoutPath = "/logout"

// asksToLogOut is what a client asks for (OpenID Connect RP-Initiated Logout 1.0).
type asksToLogOut struct {
	// hint is what an ID token of the app says, though it may be over; nil without one that is genuine.
	hint *hintClaims
	// to is where the browser goes then, with the client's state.
	to string
	// unverified is the client that to is of where it registered itself: only a click leads to it, or its own ID token of this session. Nil for any other.
	unverified *consent.Client
}

// logOutByForm sends a request that was posted to the one way.
func logOutByForm(c *call) error {
	form, err := c.form()
	if err != nil || len(form.Encode()) > maxQuery {
		return page(c, "request")
	}
	found(c, c.Content.FrontendURL+"/oauth/"+c.Content.Slug+logoutPath+"?"+form.Encode())
	return nil
}

// logOut signs the person out of the session that the client's ID token is of. Whatever else is asked for, the person is asked about.
func logOut(c *call) error {
	query, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil || len(c.r.URL.RawQuery) > maxQuery || single(query) != nil || len(query["resource"]) > 0 {
		return page(c, "request")
	}
	asked, problem, err := c.asksToLogOut(query)
	if err != nil {
		return err
	}
	if problem != "" {
		return page(c, problem)
	}
	if query.Has("asked") { // the person was, or a link says so: only the way back is left
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
		if err := u.Sessions().LeaveSession(s.SignIns[at]); err != nil {
			return err
		}
		return u.AuditAs("user:"+asked.hint.Subject, "session.signed_out", "session:"+ids.Format(s.ID), s.ID)
	})
	if err != nil {
		return err
	}
	if ended {
		found(c, asked.to)
		return nil
	}
	if !signedIn {
		return leave(c, asked)
	}
	query.Del("id_token_hint") // it told nothing, and has no business in a history
	query.Set("asked", "1")
	back := "/oauth/" + c.Content.Slug + logoutPath + "?" + query.Encode()
	if pages(c) != c.Content.FrontendURL { // a path alone would be one of the pages' host, which has no sessions
		back = c.Content.FrontendURL + back
	}
	found(c, pages(c)+"/sign-out?"+url.Values{"continue": {back}}.Encode())
	return nil
}

// leave leads the browser where the client wants it after a sign-out. A client that registered itself gets a page with a link: its URI is
// of its own choice, and so this host would redirect wherever a link says (RFC 9700 4.11.2).
func leave(c *call, asked asksToLogOut) error {
	if asked.unverified == nil {
		found(c, asked.to)
		return nil
	}
	c.r = c.r.WithContext(consent.WithRefused(c.r.Context(), consent.Refused{
		Client: asked.unverified.Name, Host: redirecturi.Host(asked.to), Back: asked.to,
	}))
	if showPage(c, "app") {
		return nil
	}
	return invalidRequest("a client that registered itself is returned to without a click only by an id_token_hint of the session that it ends")
}

// sessionOf finds the session of the browser, locked.
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
	return s, found && session.Evaluate(s, session.PolicyOf(u.Settings), c.now) == session.Live, err
}

// asksToLogOut reads a request. problem is what is wrong with it, "" for nothing.
func (c *call) asksToLogOut(query url.Values) (asked asksToLogOut, problem string, err error) {
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

// hintClaims are what an ID token says that comes back as a hint.
type hintClaims struct {
	idClaims
	// Email is there where the client was told of it.
	Email string `json:"email"`
}

// readIDToken reads an ID token that the app signed, whether or not it has expired. It returns nil for every other text.
func readIDToken(c *call, raw string) *hintClaims {
	var claims hintClaims
	_, signed := bearer.VerifySigned(raw, typeIDToken, c.Content.SigningKeys, c.now, &claims)
	if !signed || claims.Issuer != c.Content.Issuer || claims.AuthorizedParty == "" {
		return nil
	}
	return &claims
}
