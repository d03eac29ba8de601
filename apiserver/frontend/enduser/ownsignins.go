package enduser

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// maxEnded is how many ended sign-ins are listed.
const maxEnded = 100

// listOwnSignIns lists the user's active sign-ins and, on request, ended ones.
func listOwnSignIns(c *call) (reply, error) {
	out := []enduserapi.OwnSignIn{}
	q := c.query()
	ended := ptr.Deref(q.Flag("include_expired"), false)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	err := c.view(func(u *account.Unit) error {
		sessions, err := u.Sessions().SessionsOf(c.signedIn().User)
		if err != nil {
			return err
		}
		for _, s := range sessions {
			if view := c.viewOwnSignIn(s); ended || view.ExpiresAt.After(u.Now) {
				out = append(out, view)
			}
		}
		if !ended {
			return nil
		}
		over, err := u.Sessions().EndedSignIns(c.signedIn().User, maxEnded)
		for _, g := range over {
			out = append(out, viewEndedSignIn(g))
		}
		return err
	})
	slices.SortStableFunc(out, func(a, b enduserapi.OwnSignIn) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return reply{data: out}, err
}

func (c *call) viewOwnSignIn(s people.Session) enduserapi.OwnSignIn {
	g := s.SignIns[0]
	expires := g.Upstream.EndWith(session.EndsAt(s, c.policy))
	return enduserapi.OwnSignIn{
		Id: format(g.ID), UserId: format(g.User), Current: g.Session == c.session.ID, Method: g.Method, CreatedAt: g.CreatedAt,
		LastActiveAt: s.UsedAt, ExpiresAt: expires, IpAddress: s.Address, UserAgent: s.UserAgent,
		Level: g.Proven().Level().String(), Proofs: viewProofs(g.Proven()),
	}
}

func viewEndedSignIn(g people.EndedSignIn) enduserapi.OwnSignIn {
	proofs := people.SignIn{Method: g.Method, CreatedAt: g.CreatedAt, Proofs: g.Proofs}.Proven()
	return enduserapi.OwnSignIn{
		Id: format(g.ID), UserId: format(g.User), Method: g.Method, CreatedAt: g.CreatedAt, LastActiveAt: g.UsedAt, ExpiresAt: g.UsedAt,
		IpAddress: g.Address, UserAgent: g.UserAgent, Level: proofs.Level().String(), Proofs: viewProofs(proofs),
	}
}

// signOutElsewhere ends one of the user's sign-ins in another session.
func signOutElsewhere(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return reply{}, c.answerTo(errOwnSignInUnknown)
	}
	return transact(c, func(u *unit) (reply, error) {
		signIns, err := u.Sessions().SignInsOf(u.signedIn().User)
		if err != nil {
			return reply{}, err
		}
		at := slices.IndexFunc(signIns, func(g people.SignIn) bool { return g.ID == id })
		switch {
		case at < 0:
			return reply{}, errOwnSignInUnknown
		case signIns[at].Session == u.session.ID:
			return reply{}, errCurrentSignIn
		}
		if err := account.EndSignIn(u.Unit, signIns[at], u.Actor, events.SignedOut); err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.SignedOut{SignedOut: true}}, u.Audit("session.signed_out", "signin:"+format(id))
	})
}

// signOutOthers ends the user's sign-ins in all other sessions. Other accounts remain signed in there.
func signOutOthers(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		_, ended, err := u.SignOutOthers(u.signedIn().User, events.SignedOut)
		if err != nil {
			return reply{}, err
		}
		// A copy of this session's token must end too.
		return reply{data: enduserapi.SignInsRevoked{Revoked: ended}}, u.renew()
	})
}
