package enduser

import (
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/session"
	"github.com/cardea-iam/cardea/store/people"
)

// cookieName is fixed by the contract; the __Host- prefix that would fend off cookies of sibling hosts is not possible, so two
// cookies of this name are refused instead.
const cookieName = "__session"

// setCookie gives the browser its new token, or takes a dead one away.
func (c *call) setCookie(header http.Header) {
	cookie := http.Cookie{Name: cookieName, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: !c.plainLocalhost()}
	switch {
	case c.cookie != "" && c.session != nil:
		cookie.Value = c.cookie
		cookie.MaxAge = max(int(session.CookieAge(*c.session, c.now).Seconds()), 1)
	case c.clear:
		cookie.MaxAge = -1
	default:
		return
	}
	header.Add("Set-Cookie", cookie.String())
}

// plainLocalhost tells that a Staging deployment is served on localhost without TLS, where browsers drop Secure cookies.
func (c *call) plainLocalhost() bool {
	return c.settings != nil && c.settings.Mode == "Staging" && localhost(c.host) && c.r.TLS == nil
}

func localhost(host string) bool { return host == "localhost" || strings.HasSuffix(host, ".localhost") }

// rotate gives the session a new token beside the presented one, which lives until a successor is used.
func (c *call) rotate(tx people.Tx) error {
	token, hash, err := session.Mint(c.Random)
	if err != nil {
		return err
	}
	err = tx.InsertToken(people.Token{Hash: hash, Session: c.session.ID, Parent: c.session.Token.Hash, CreatedAt: c.now})
	if err != nil {
		return err
	}
	c.cookie = token
	return tx.TrimTokens(c.session.ID, c.session.Token.Hash, session.MaxTokens, c.now, c.now.Add(-session.RememberDead))
}

// renew gives the session a new token in place of all it had: nobody who knew an earlier one comes along (no fixation).
func (c *call) renew(tx people.Tx) error {
	token, hash, err := session.Mint(c.Random)
	if err != nil {
		return err
	}
	if err := tx.ReplaceTokens(c.session.ID, c.now); err != nil {
		return err
	}
	c.cookie = token
	return tx.InsertToken(people.Token{Hash: hash, Session: c.session.ID, CreatedAt: c.now})
}
