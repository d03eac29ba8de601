package connections

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of setup links.
var (
	// ErrInvalidLink: the link is unknown, deleted or expired, or the member that made it may no longer manage
	// connections.
	ErrInvalidLink = errors.New("the setup link is not valid")
	// ErrTooManyLinks is returned in an account.WaitError.
	ErrTooManyLinks = errors.New("the organization made too many setup links")
)

const (
	// MaxLinkLifetime is how long a setup link lives at most.
	MaxLinkLifetime = 7 * 24 * time.Hour
	// LinkLifetime is how long a setup link lives if nothing is asked for.
	LinkLifetime = 24 * time.Hour
	// linksPerDay is how many setup links may be made for an organization in a day.
	linksPerDay = 20
	// MaxLinks is how many links of an organization are listed: more than live at once.
	MaxLinks = 200
)

// NewLink is a setup link to make.
type NewLink struct {
	Email   string
	Intents []string
	// Lifetime is at most MaxLinkLifetime.
	Lifetime time.Duration
}

// MakeLink makes a setup link of the scope's organization, and returns it with its token. Errors: ErrClosed,
// account.ErrSelfServiceDisabled, account.PermissionError, account.WaitError with ErrTooManyLinks.
func (s Scope) MakeLink(u *account.Unit, wanted NewLink) (people.SetupLink, string, error) {
	if err := s.Require(u); err != nil {
		return people.SetupLink{}, "", err
	}
	n, err := u.Limits().Count("setup-links", strconv.FormatInt(s.Organization.ID, 10), u.Now, u.Now.Add(24*time.Hour))
	if err != nil {
		return people.SetupLink{}, "", err
	}
	if n.Count > linksPerDay {
		return people.SetupLink{}, "", &account.WaitError{Reason: ErrTooManyLinks, Wait: n.Ends.Sub(u.Now)}
	}
	token, hash, err := session.Mint(u.Random)
	if err != nil {
		return people.SetupLink{}, "", err
	}
	l := people.SetupLink{
		Organization: s.Organization.ID, Hash: hash, Email: wanted.Email, Intents: wanted.Intents, CreatedAt: u.Now, ExpiresAt: u.Now.Add(wanted.Lifetime),
	}
	if s.Admin != nil {
		l.CreatedBy = s.Admin.User
	}
	if l.ID, err = u.NewID(); err != nil {
		return l, "", err
	}
	if err := u.SetupLinks().InsertSetupLink(l); err != nil {
		return l, "", err
	}
	return l, token, u.Audit("setup_link.created", linkObject(l.ID))
}

// Links returns the live setup links of the scope's organization, the newest first.
func (s Scope) Links(u *account.Unit) ([]people.SetupLink, error) {
	if err := s.Require(u); err != nil {
		return nil, err
	}
	return u.SetupLinks().SetupLinksOf(s.Organization.ID, u.Now, MaxLinks)
}

// DeleteLink ends a setup link of the scope's organization. ErrInvalidLink: there is none.
func (s Scope) DeleteLink(u *account.Unit, id int64) error {
	if err := s.Require(u); err != nil {
		return err
	}
	deleted, err := u.SetupLinks().DeleteSetupLink(s.Organization.ID, id)
	if err != nil || !deleted {
		return account.FirstOf(err, ErrInvalidLink)
	}
	return u.Audit("setup_link.deleted", linkObject(id))
}

// FindLink returns the live setup link of a token with its organization. ErrInvalidLink: there is none.
func FindLink(u *account.Unit, token string) (people.SetupLink, people.Organization, error) {
	hash, formed := session.Hash(token)
	if !formed {
		return people.SetupLink{}, people.Organization{}, ErrInvalidLink
	}
	l, found, err := u.SetupLinks().SetupLinkByHash(hash)
	if err != nil || !found {
		return l, people.Organization{}, account.FirstOf(err, ErrInvalidLink)
	}
	scope, err := scopeOf(u, l)
	return l, scope.Organization, err
}

// LinkScope returns the scope of the setup link whose code was entered in a session. signIns are those of the session.
// ErrInvalidLink: there is none.
func LinkScope(u *account.Unit, session int64, signIns []people.SignIn) (Scope, error) {
	l, found, err := u.SetupLinks().SetupLinkOfSession(session)
	if err != nil || !found {
		return Scope{}, account.FirstOf(err, ErrInvalidLink)
	}
	s, err := scopeOf(u, l)
	s.SignIns = signIns
	return s, err
}

// scopeOf returns the scope of a link. It ends with its time, with its organization, and when its maker may no longer
// manage connections.
func scopeOf(u *account.Unit, l people.SetupLink) (Scope, error) {
	if !u.Now.Before(l.ExpiresAt) || !u.ManagesConnections() || !u.B2B.Enabled {
		return Scope{}, ErrInvalidLink
	}
	o, found, err := u.Organizations().Organization(l.Organization)
	if err != nil || !found {
		return Scope{}, account.FirstOf(err, ErrInvalidLink)
	}
	s := Scope{Organization: o, Link: &l}
	if l.CreatedBy == 0 {
		return s, nil
	}
	maker, found, err := u.Organizations().Member(o.ID, l.CreatedBy)
	if err != nil || !found || u.RequireConnectionAdmin(maker) != nil {
		return Scope{}, account.FirstOf(err, ErrInvalidLink)
	}
	user, found, err := u.Users().User(l.CreatedBy)
	if err != nil || !found || user.Disabled {
		return Scope{}, account.FirstOf(err, ErrInvalidLink)
	}
	s.Admin = &maker
	return s, nil
}

// Permits reports whether the scope has one of some intents: every scope but that of a setup link has all.
func (s Scope) Permits(intents ...string) bool {
	return s.Link == nil || slices.ContainsFunc(intents, func(one string) bool { return slices.Contains(s.Link.Intents, one) })
}

// Actor returns the actor of a setup link in audit records.
func Actor(l people.SetupLink) string { return "setup:" + l.Email }

func linkObject(id int64) string { return "setup_link:" + strconv.FormatInt(id, 10) }
