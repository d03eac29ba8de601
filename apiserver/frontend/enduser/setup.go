package enduser

import (
	"errors"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/store/people"
)

// setupLifetime is how long a session manages connections by a setup link without a new code, if the link lives longer.
const setupLifetime = 12 * time.Hour

// findSetup records whether the session's setup link permits the operation on the organization of the path. It reads
// the store only for operations that setup links can permit.
func findSetup(c *call) error {
	if len(c.needs.Setup) == 0 || c.session == nil {
		return nil
	}
	err := c.request.View(c.r.Context(), func(u *account.Unit) error {
		_, err := setupScope(c, u, c.session)
		return err
	})
	if errors.Is(err, connections.ErrInvalidLink) {
		return nil
	}
	c.setup, c.fresh = err == nil, c.fresh && err != nil
	return c.answerTo(err)
}

// setupScope returns the scope of a session's setup link if the link permits the operation on the organization of the
// path. ErrInvalidLink: it does not.
func setupScope(c *call, u *account.Unit, s *people.Session) (connections.Scope, error) {
	in, err := connections.LinkScope(u, s.ID, s.SignIns)
	if err == nil && (!in.Permits(c.needs.Setup...) || format(in.Organization.ID) != c.r.PathValue("id")) {
		err = connections.ErrInvalidLink
	}
	return in, err
}

// scopeOf returns what a member manages.
func scopeOf(m people.Member) connections.Scope {
	return connections.Scope{Organization: m.Organization, Admin: &m}
}

// inManaged runs read for a caller that manages the organization in the path: a member, or the session of a setup link.
// The scope checks the permission.
func inManaged(c *call, read func(*account.Unit, connections.Scope) (any, error)) (reply, error) {
	if !c.setup {
		return inOrganization(c, func(u *account.Unit, in people.Member) (any, error) { return read(u, scopeOf(in)) })
	}
	var data any
	err := c.view(func(u *account.Unit) error {
		in, err := setupScope(c, u, c.session)
		if err == nil {
			data, err = read(u, in)
		}
		return err
	})
	return reply{data: data}, err
}

// changeManaged is inManaged for changes.
func changeManaged(c *call, change func(*unit, connections.Scope) (any, error)) (reply, error) {
	if !c.setup {
		return changeOrganizationBy(c, func(u *unit, by people.Member) (any, error) { return change(u, scopeOf(by)) })
	}
	return transact(c, func(u *unit) (reply, error) {
		in, err := setupScope(c, u.Unit, u.session)
		if err != nil {
			return reply{}, err
		}
		u.Actor = connections.Actor(*in.Link)
		data, err := change(u, in)
		return reply{data: data}, err
	})
}

// maxSetupToken bounds a token, in bytes.
const maxSetupToken = 128

func readSetupToken(o *body.Object) string {
	token := required(o, "token", func(o *body.Object, member string) string { sent, _ := o.String(member); return sent })
	if len(token) > maxSetupToken {
		o.Fault("token", "must have at most %d bytes", maxSetupToken)
	}
	return token
}

// prepareSetup mails a code to the address of a setup link.
func prepareSetup(c *call) (reply, error) {
	var token string
	if err := c.parse(func(o *body.Object) { token = readSetupToken(o) }); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		l, o, err := connections.FindLink(u.Unit, token)
		if err != nil {
			return reply{}, err
		}
		if err := c.requireEmail(); err != nil {
			return reply{}, err
		}
		if err := u.beginAttempt(c.presented, 0); err != nil {
			return reply{}, err
		}
		err = c.codes.Send(u.Unit, verification.Message{
			Target: setupTarget(u, l), To: l.Email, Lifetime: verification.MailLifetime,
			Write: func(code string) delivery.Content { return messages.SetupMail(u.AppName(), o.Name, code) },
		})
		return reply{data: enduserapi.SetupCodeSent{Organization: viewSetupOrganization(o), Email: l.Email, ExpiresIn: int64(verification.MailLifetime.Seconds())}}, err
	})
}

func setupTarget(u *unit, l people.SetupLink) verification.Target {
	return verification.Target{Purpose: people.PurposeSetup, Channel: people.ChannelMail, Subject: l.ID, Session: u.session.ID, Recipient: people.FoldEmail(l.Email)}
}

// verifySetup opens a setup link for the session: the code proves the mailbox to which the link was meant to go.
func verifySetup(c *call) (reply, error) {
	var token, code string
	err := c.parse(func(o *body.Object) { token, code = readSetupToken(o), readCode(o) })
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(verification.ErrExpired)
	}
	return submit(c, submission{
		code: code,
		find: func(u *unit) (verification.Target, error) {
			l, _, err := connections.FindLink(u.Unit, token)
			if err != nil {
				return verification.Target{}, err
			}
			return setupTarget(u, l), nil
		},
		accept: func(u *unit) (reply, error) {
			l, o, err := connections.FindLink(u.Unit, token)
			if err != nil {
				return reply{}, err
			}
			if proved, err := u.SetupLinks().ProveSetupLink(l.ID, u.session.ID, u.Now); err != nil || !proved {
				return reply{}, account.FirstOf(err, connections.ErrInvalidLink)
			}
			if err := u.keepForSetup(l); err != nil {
				return reply{}, err
			}
			err = u.AuditAs(connections.Actor(l), "setup_link.opened", "setup_link:"+format(l.ID), u.session.ID)
			return reply{data: viewSetup(l, o)}, err
		},
	})
}

// keepForSetup lets the session live as long as its setup link is used, and gives it a new token.
func (u *unit) keepForSetup(l people.SetupLink) error {
	if until := u.Now.Add(setupLifetime); u.session.Anonymous && until.After(u.session.ExpiresAt) {
		u.session.ExpiresAt = until
		if l.ExpiresAt.Before(until) {
			u.session.ExpiresAt = l.ExpiresAt
		}
		if err := u.Sessions().UpdateSession(*u.session); err != nil {
			return err
		}
	}
	return u.renew()
}

// getSetup returns what the session's setup link permits.
func getSetup(c *call) (reply, error) {
	var out enduserapi.Setup
	err := c.view(func(u *account.Unit) error {
		if c.session == nil {
			return connections.ErrInvalidLink
		}
		in, err := connections.LinkScope(u, c.session.ID, nil)
		if err == nil {
			out = viewSetup(*in.Link, in.Organization)
		}
		return err
	})
	return reply{data: out}, err
}

func viewSetup(l people.SetupLink, o people.Organization) enduserapi.Setup {
	return enduserapi.Setup{Organization: viewSetupOrganization(o), Email: l.Email, Intents: l.Intents, ExpiresAt: l.ExpiresAt}
}

func viewSetupOrganization(o people.Organization) enduserapi.SetupOrganization {
	return enduserapi.SetupOrganization{Id: format(o.ID), Name: o.Name, Slug: o.Slug, ImageUrl: o.ImageURL}
}
