package enduser

import (
	"strings"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/phone"
	"github.com/cardea-iam/cardea/store/people"
)

// maxPhones is how many numbers a user may have. There is a limit because codes can be sent to each number.
const maxPhones = 10

// phoneID returns the id in the path. A malformed id gets the same response as an unknown one.
func phoneID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, c.answerTo(errPhoneUnknown)
	}
	return id, nil
}

// lockOwnUser locks the signed-in user. It must come before locks on the user's objects.
func (u *unit) lockOwnUser() (people.User, error) {
	user, found, err := u.Users().LockUser(u.signedIn().User)
	if err == nil && !found {
		err = account.ErrUserUnknown
	}
	return user, err
}

// lockOwnChange is lockOwnUser for a counted change of the account.
func (u *unit) lockOwnChange(kind account.OwnChange) (people.User, error) {
	user, err := u.lockOwnUser()
	if err == nil {
		err = account.CountOwnChange(u.Unit, user.ID, kind)
	}
	return user, err
}

// ownPhone returns a phone of the user. Unknown phones and phones of other users get the same response.
func (u *unit) ownPhone(id int64) (people.Phone, error) {
	p, found, err := u.Phones().Phone(id)
	if err == nil && (!found || p.User != u.signedIn().User) {
		err = errPhoneUnknown
	}
	return p, err
}

// phoneTarget returns the verification target of a phone.
func (u *unit) phoneTarget(p people.Phone) verification.Target {
	t := verification.Target{
		Purpose: people.PurposePhone, Channel: people.ChannelSMS, Subject: p.ID, Session: u.session.ID, User: p.User, Recipient: p.Number, Region: p.Region,
	}
	if u.Settings.SMS != nil {
		_, t.Test = u.Settings.SMS.TestCode(p.Number)
	}
	return t
}

func listPhones(c *call) (reply, error) {
	out := []enduserapi.PhoneNumber{}
	err := c.view(func(u *account.Unit) error {
		phones, err := u.Phones().PhonesOf(c.signedIn().User)
		for _, p := range phones {
			out = append(out, viewPhone(p))
		}
		return err
	})
	return reply{data: out}, err
}

// allowedCountries returns the countries to which the deployment sends texts; nil means all.
func allowedCountries(c *call) *[]string {
	if c.request.Settings.SMS == nil {
		return nil
	}
	return c.request.Settings.SMS.AllowedCountries
}

// addPhone adds a number. It sends nothing, and the response does not show whether another user has the number.
func addPhone(c *call) (reply, error) {
	var number phone.Number
	var fault error
	err := c.parse(func(o *body.Object) {
		o.Require("phone_number")
		if typed, ok := o.String("phone_number"); ok {
			number, fault = phone.Parse(typed, allowedCountries(c))
		}
	})
	if err != nil {
		return reply{}, err
	}
	if fault != nil {
		return reply{}, apierror.Bad("INVALID_PHONE", "%s", fault)
	}
	return transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnChange(account.OwnAdded)
		if err != nil {
			return reply{}, err
		}
		if err := u.mayAddPhone(user.ID, number.E164); err != nil {
			return reply{}, err
		}
		id, err := u.NewID()
		if err != nil {
			return reply{}, err
		}
		p := people.Phone{ID: id, User: user.ID, Number: number.E164, Region: number.Region, CreatedAt: u.Now}
		if err := u.Phones().InsertPhone(p); err != nil {
			return reply{}, err
		}
		u.Log(events.OfPhone(events.UserPhoneAdded, p.User, p.ID))
		return reply{data: viewPhone(p)}, u.Audit("phone.added", "phone:"+format(id))
	})
}

func (u *unit) mayAddPhone(user int64, number string) error {
	phones, err := u.Phones().PhonesOf(user)
	if err != nil {
		return err
	}
	for _, own := range phones {
		if own.Number == number {
			return errPhoneTaken
		}
	}
	if len(phones) >= maxPhones {
		return errTooManyPhones
	}
	return nil
}

// preparePhone sends a code to a number of the user.
func preparePhone(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	id, err := phoneID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		p, err := u.ownPhone(id)
		if err != nil {
			return reply{}, err
		}
		if !p.VerifiedAt.IsZero() {
			return reply{}, errPhoneVerified
		}
		if u.Settings.SMS == nil {
			return reply{}, errTextsDisabled
		}
		if _, err := phone.Parse(p.Number, allowedCountries(c)); err != nil {
			return reply{}, apierror.Bad("INVALID_PHONE", "%s", err)
		}
		target, sent := u.phoneTarget(p), enduserapi.PhoneCodeSent{Sent: true, PhoneNumber: p.Number, ExpiresIn: int64(verification.PhoneLifetime.Seconds())}
		if target.Test {
			code, _ := u.Settings.SMS.TestCode(p.Number)
			return reply{data: sent}, c.codes.Expect(u.Unit, target, code, verification.PhoneLifetime)
		}
		if err := c.codes.Locked(u.Unit, target); err != nil {
			return reply{}, err
		}
		return reply{data: sent}, c.codes.Send(u.Unit, c.textMessage(target, p.Number))
	})
}

// textMessage returns a text with a code.
func (c *call) textMessage(target verification.Target, number string) verification.Message {
	return verification.Message{
		Target: target, To: number, Lifetime: verification.PhoneLifetime,
		Write: func(code string) delivery.Content {
			return delivery.Content{Body: messages.CodeText(code, c.request.AppName(), c.host)}
		},
	}
}

// verifyPhone verifies a number with the code that was sent to it (section 4.9 of the interface contract).
func verifyPhone(c *call) (reply, error) {
	var code string
	if err := c.parse(func(o *body.Object) { code = readCode(o) }); err != nil {
		return reply{}, err
	}
	id, err := phoneID(c)
	if err != nil {
		return reply{}, err
	}
	var verified people.Phone
	out, err := submit(c, submission{
		code: code,
		find: func(u *unit) (verification.Target, error) {
			p, err := u.ownPhone(id)
			if err == nil && !p.VerifiedAt.IsZero() {
				err = errPhoneVerified
			}
			return u.phoneTarget(p), err
		},
		accept: func(u *unit) (out reply, err error) {
			verified, out, err = u.acceptPhone(id)
			return out, err
		},
	})
	if err == nil {
		c.Metrics.Verified(c.request.Key(), verified.Region)
	}
	return out, err
}

// acceptPhone marks a phone as verified. The user's first verified phone becomes primary. The response shows that
// another user has the number only after this proof.
func (u *unit) acceptPhone(id int64) (people.Phone, reply, error) {
	user, err := u.lockOwnUser()
	if err != nil {
		return people.Phone{}, reply{}, err
	}
	p, err := u.ownPhone(id)
	if err != nil {
		return p, reply{}, err
	}
	if owner, owned, err := u.Phones().PhoneOwner(p.Number); err != nil {
		return p, reply{}, err
	} else if owned && owner != p.User {
		return p, reply{}, account.Refuse(errPhoneTaken)
	}
	if err := u.Phones().VerifyPhone(id, u.Now); err != nil {
		return p, reply{}, err
	}
	p.VerifiedAt = u.Now
	u.Log(events.OfPhone(events.UserPhoneVerified, p.User, p.ID))
	if user.Phone == "" {
		p.Primary = true
		if err := u.Phones().MakePrimary(p.User, id); err != nil {
			return p, reply{}, err
		}
		u.Log(events.OfPhone(events.UserPhonePrimaryChanged, p.User, p.ID))
	}
	if err := u.Challenges().VoidChallenges(people.PurposePhone, id); err != nil {
		return p, reply{}, err
	}
	return p, reply{data: enduserapi.PhoneVerified{Verified: true, PhoneNumber: viewPhone(p)}}, u.phoneChanged(p, "phone.verified", "was added to your account.")
}

// makePhonePrimary makes a verified number the user's primary one.
func makePhonePrimary(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	id, err := phoneID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		if _, err := u.lockOwnChange(account.OwnPromoted); err != nil {
			return reply{}, err
		}
		p, err := u.ownPhone(id)
		if err != nil {
			return reply{}, err
		}
		if p.VerifiedAt.IsZero() {
			return reply{}, errPhoneUnverified
		}
		if p.Primary {
			return reply{data: viewPhone(p)}, nil
		}
		p.Primary = true
		if err := u.Phones().MakePrimary(p.User, id); err != nil {
			return reply{}, err
		}
		u.Log(events.OfPhone(events.UserPhonePrimaryChanged, p.User, p.ID))
		return reply{data: viewPhone(p)}, u.phoneChanged(p, "phone.made_primary", "is the primary one of your account now.")
	})
}

// removePhone removes a number other than the primary one.
func removePhone(c *call) (reply, error) {
	id, err := phoneID(c)
	if err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		p, err := u.ownPhone(id)
		if err != nil {
			return reply{}, err
		}
		if p.Primary {
			return reply{}, errPhonePrimary
		}
		if err := u.Challenges().VoidChallenges(people.PurposePhone, id); err != nil {
			return reply{}, err
		}
		if err := u.Phones().DeletePhone(id); err != nil {
			return reply{}, err
		}
		u.Log(events.OfPhone(events.UserPhoneRemoved, p.User, p.ID))
		if err := u.phoneChanged(p, "phone.removed", "was removed from your account."); err != nil {
			return reply{}, err
		}
		return reply{data: viewPhone(p)}, factors.PhoneGone(u.Unit, user, p)
	})
}

// phoneChanged audits a change of a number, and notifies the user if the number is verified.
func (u *unit) phoneChanged(p people.Phone, action, what string) error {
	if err := u.Audit(action, "phone:"+format(p.ID)); err != nil || p.VerifiedAt.IsZero() {
		return err
	}
	return u.Notify(p.User, "The phone number "+masked(p.Number)+" "+what)
}

// masked returns a number with only its last digits, because several people may read a mailbox.
func masked(number string) string {
	const shown = 2
	return strings.Repeat("•", max(len(number)-shown, 0)) + number[max(len(number)-shown, 0):]
}
