package enduser

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// emailID returns the id in the path. A malformed id gets the same response as an unknown one.
func emailID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, c.answerTo(account.ErrEmailUnknown)
	}
	return id, nil
}

func listEmails(c *call) (reply, error) {
	out := []enduserapi.EmailAddress{}
	err := c.view(func(u *account.Unit) error {
		emails, err := u.Users().EmailsOf(c.signedIn().User)
		for _, e := range emails {
			out = append(out, viewEmail(e))
		}
		return err
	})
	return reply{data: out}, err
}

// addEmail adds an address. It sends nothing, and the response does not show whether another user has the address. It
// needs the proof that a new factor needs, because codes to the address are such a proof once it is verified.
func addEmail(c *call) (reply, error) {
	var address string
	if err := c.parse(func(o *body.Object) { address = required(o, "email", input.Email) }); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		if err := requireAdding(u); err != nil {
			return reply{}, err
		}
		user, err := u.lockOwnChange(account.OwnAdded)
		if err != nil {
			return reply{}, err
		}
		e, err := account.AddEmail(u.Unit, user.ID, address)
		return reply{data: viewEmail(e)}, err
	})
}

// emailTarget returns the verification target of an address. As for a sign-in, its codes count toward the limits of the
// account that the address can sign in to, because the user may have added another person's address.
func (u *unit) emailTarget(e people.Email) (verification.Target, error) {
	opens, err := account.AddressForCode(u.Unit, e.Address)
	return verification.Target{
		Purpose: people.PurposeVerifyEmail, Channel: people.ChannelMail, Subject: e.ID, Session: u.session.ID, Account: opens.User, Recipient: people.FoldEmail(e.Address),
	}, err
}

// unprovenEmail returns an unverified address of the user.
func (u *unit) unprovenEmail(id int64) (people.Email, error) {
	e, err := account.OwnEmail(u.Unit, u.signedIn().User, id)
	if err == nil && !e.VerifiedAt.IsZero() {
		err = account.ErrEmailVerified
	}
	return e, err
}

// prepareEmail sends a code to an address of the user.
func prepareEmail(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	id, err := emailID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		e, err := u.unprovenEmail(id)
		if err != nil {
			return reply{}, err
		}
		if err := c.requireEmail(); err != nil {
			return reply{}, err
		}
		if err := account.CountOwnCode(u.Unit, e.User); err != nil {
			return reply{}, err
		}
		target, err := u.emailTarget(e)
		if err != nil {
			return reply{}, err
		}
		err = c.codes.Send(u.Unit, verification.Message{
			Target: target, To: e.Address, Lifetime: verification.MailLifetime,
			Write: func(code string) delivery.Content { return messages.VerifyEmailMail(u.AppName(), code) },
		})
		return reply{data: enduserapi.EmailCodeSent{Sent: true, Email: e.Address, ExpiresIn: int64(verification.MailLifetime.Seconds())}}, err
	})
}

// verifyEmail verifies an address with the code that was sent to it. The response shows that another user has the
// address only after this proof.
func verifyEmail(c *call) (reply, error) {
	var code string
	if err := c.parse(func(o *body.Object) { code = readCode(o) }); err != nil {
		return reply{}, err
	}
	id, err := emailID(c)
	if err != nil {
		return reply{}, err
	}
	return submit(c, submission{
		code: code,
		find: func(u *unit) (verification.Target, error) {
			e, err := u.unprovenEmail(id)
			if err != nil {
				return verification.Target{}, err
			}
			return u.emailTarget(e)
		},
		accept: func(u *unit) (reply, error) {
			if _, err := u.lockOwnUser(); err != nil {
				return reply{}, err
			}
			e, err := u.unprovenEmail(id)
			if err != nil {
				return reply{}, err
			}
			switch e, err = account.AcceptEmail(u.Unit, e); {
			case errors.Is(err, account.ErrEmailTaken):
				return reply{}, account.Refuse(errEmailTaken)
			case err != nil:
				return reply{}, err
			}
			return reply{data: enduserapi.EmailVerified{Verified: true, Email: viewEmail(e)}}, nil
		},
	})
}

// makeEmailPrimary makes a verified address the user's primary one.
func makeEmailPrimary(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	return changeEmail(c, func(u *unit, e people.Email) (people.Email, error) {
		if err := account.CountOwnChange(u.Unit, e.User, account.OwnPromoted); err != nil {
			return e, err
		}
		return account.PromoteEmail(u.Unit, e)
	})
}

// removeEmail removes an address other than the primary one.
func removeEmail(c *call) (reply, error) {
	return changeEmail(c, func(u *unit, e people.Email) (people.Email, error) { return e, account.RemoveEmail(u.Unit, e) })
}

func changeEmail(c *call, change func(*unit, people.Email) (people.Email, error)) (reply, error) {
	id, err := emailID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		if _, err := u.lockOwnUser(); err != nil {
			return reply{}, err
		}
		e, err := account.OwnEmail(u.Unit, u.signedIn().User, id)
		if err != nil {
			return reply{}, err
		}
		e, err = change(u, e)
		return reply{data: viewEmail(e)}, err
	})
}
