package enduser

import (
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/apiserver/verification"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/phone"
	"github.com/cardea-iam/cardea/store/people"
)

// maxPhones is how many numbers a user may have: each may be sent codes.
const maxPhones = 10

func phoneNotFound() error {
	return apierror.Coded(http.StatusNotFound, "PHONE_NOT_FOUND", "you have no such phone number: /me/phone-numbers lists yours")
}

func phoneExists() error {
	return apierror.Bad("PHONE_EXISTS", "this phone number is in use already")
}

// phoneID returns the id in the path. What is no id is no phone of theirs either.
func (c *call) phoneID() (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, phoneNotFound()
	}
	return id, nil
}

// ownPhone returns a phone of the user. Unknown and somebody else's are the same answer.
func (c *call) ownPhone(tx people.Tx, id int64) (people.Phone, error) {
	p, found, err := tx.Phone(id)
	if err != nil {
		return p, err
	}
	if !found || p.User != c.signedIn().User {
		return p, phoneNotFound()
	}
	return p, nil
}

func (c *call) listPhones() (any, error) {
	out := []phoneView{}
	err := c.view(func(tx people.Tx) error {
		phones, err := tx.PhonesOf(c.signedIn().User)
		for _, p := range phones {
			out = append(out, viewPhone(p))
		}
		return err
	})
	return out, err
}

// allowedCountries are those the deployment sends texts to; nil: all.
func (c *call) allowedCountries() *[]string {
	if c.settings.SMS == nil {
		return nil
	}
	return c.settings.SMS.AllowedCountries
}

// addPhone adds a number. Nothing is sent, and nobody learns whether another user has it.
func (c *call) addPhone() (any, error) {
	var number phone.Number
	var fault error
	err := c.parse(func(o *body.Object) {
		o.Require("phone_number")
		if typed, ok := o.String("phone_number"); ok {
			number, fault = phone.Parse(typed, c.allowedCountries())
		}
	})
	if err != nil {
		return nil, err
	}
	if fault != nil {
		return nil, apierror.Bad("INVALID_PHONE", "%s", fault)
	}
	var p people.Phone
	err = c.change(func(tx people.Tx) error {
		user, found, err := tx.LockUser(c.signedIn().User)
		if err != nil {
			return err
		}
		if !found {
			return apierror.NotAuthenticated()
		}
		phones, err := tx.PhonesOf(user.ID)
		if err != nil {
			return err
		}
		for _, own := range phones {
			if own.Number == number.E164 {
				return phoneExists()
			}
		}
		if len(phones) >= maxPhones {
			return apierror.Bad("PHONE_LIMIT_REACHED", "you have %d phone numbers: remove one first", len(phones))
		}
		id, err := c.directory().NewID()
		if err != nil {
			return err
		}
		p = people.Phone{ID: id, User: user.ID, Number: number.E164, Region: number.Region, CreatedAt: c.now}
		if err := tx.InsertPhone(p); err != nil {
			return err
		}
		return c.audit(tx, c.actor(), "phone.added", "phone:"+format(id), c.session.ID)
	})
	if err != nil {
		return nil, err
	}
	return viewPhone(p), nil
}

// preparePhone sends a code to a number of the user.
func (c *call) preparePhone() (any, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return nil, err
	}
	id, err := c.phoneID()
	if err != nil {
		return nil, err
	}
	var number string
	err = c.change(func(tx people.Tx) error {
		p, err := c.ownPhone(tx, id)
		if err != nil {
			return err
		}
		if !p.VerifiedAt.IsZero() {
			return alreadyVerified()
		}
		if c.settings.SMS == nil {
			return apierror.Coded(http.StatusForbidden, "SMS_DISABLED", "this deployment sends no texts: its owner declares spec.sms")
		}
		if _, err := phone.Parse(p.Number, c.allowedCountries()); err != nil {
			return apierror.Bad("INVALID_PHONE", "%s", err)
		}
		lock, err := tx.LockFailure(scopeCodes+people.PurposePhone, format(p.User), c.now)
		if err != nil {
			return err
		}
		if lock.Until.After(c.now) {
			return tooManyAttempts(lock.Until.Sub(c.now))
		}
		number = p.Number
		return c.sendCode(tx, codeRequest{
			purpose: people.PurposePhone, channel: people.ChannelSMS, subject: p.ID, user: p.User, recipient: p.Number, to: p.Number, region: p.Region, life: verification.PhoneLifetime,
			message: func(code string) delivery.Mail {
				return delivery.Mail{Body: delivery.CodeText(code, c.appName(), c.host)}
			},
		})
	})
	if err != nil {
		return nil, err
	}
	c.Posted()
	return struct {
		Sent        bool   `json:"sent"`
		PhoneNumber string `json:"phone_number"`
		ExpiresIn   int    `json:"expires_in"`
	}{true, number, int(verification.PhoneLifetime.Seconds())}, nil
}

func alreadyVerified() error {
	return apierror.Bad("ALREADY_VERIFIED", "this phone number is verified already")
}

// verifyPhone verifies a number by the code that was sent to it (contract 4.9).
func (c *call) verifyPhone() (any, error) {
	var code string
	if err := c.parse(func(o *body.Object) { code = readCode(o) }); err != nil {
		return nil, err
	}
	id, err := c.phoneID()
	if err != nil {
		return nil, err
	}
	var verified people.Phone
	g := guess{
		code: code, purpose: people.PurposePhone,
		find: func(tx people.Tx) (subject, user int64, scope, recipient string, err error) {
			p, err := c.ownPhone(tx, id)
			if err == nil && !p.VerifiedAt.IsZero() {
				err = alreadyVerified()
			}
			return p.ID, p.User, scopeCodes + people.PurposePhone, p.Number, err
		},
		accept: func(tx people.Tx) (err error) {
			verified, err = c.acceptPhone(tx, id)
			return err
		},
	}
	if err := c.verify(g); err != nil {
		return nil, err
	}
	c.Metrics.Verified(c.deployment.Deployment, verified.Region)
	return struct {
		Verified    bool      `json:"verified"`
		PhoneNumber phoneView `json:"phone_number"`
	}{true, viewPhone(verified)}, nil
}

// acceptPhone marks a phone as verified; the first one of its user is primary. Only here, after proof, does somebody learn that
// the number is another user's.
func (c *call) acceptPhone(tx people.Tx, id int64) (people.Phone, error) {
	p, err := c.ownPhone(tx, id)
	if err != nil {
		return p, err
	}
	user, _, err := tx.LockUser(p.User)
	if err != nil {
		return p, err
	}
	if owner, owned, err := tx.PhoneOwner(p.Number); err != nil {
		return p, err
	} else if owned && owner != p.User {
		return p, &usedUp{phoneExists()}
	}
	if err := tx.VerifyPhone(id, c.now); err != nil {
		return p, err
	}
	p.VerifiedAt = c.now
	if user.Phone == "" {
		p.Primary = true
		if err := tx.MakePrimary(p.User, id); err != nil {
			return p, err
		}
	}
	if err := tx.VoidChallenges(people.PurposePhone, id); err != nil {
		return p, err
	}
	return p, c.audit(tx, c.actor(), "phone.verified", "phone:"+format(id), c.session.ID)
}

// makePhonePrimary makes a verified number the user's primary one.
func (c *call) makePhonePrimary() (any, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return nil, err
	}
	id, err := c.phoneID()
	if err != nil {
		return nil, err
	}
	var p people.Phone
	err = c.change(func(tx people.Tx) (err error) {
		if _, _, err = tx.LockUser(c.signedIn().User); err != nil {
			return err
		}
		if p, err = c.ownPhone(tx, id); err != nil {
			return err
		}
		if p.VerifiedAt.IsZero() {
			return apierror.Bad("PHONE_NOT_VERIFIED", "this phone number is not verified yet: verify it first")
		}
		if p.Primary {
			return nil
		}
		p.Primary = true
		if err := tx.MakePrimary(p.User, id); err != nil {
			return err
		}
		return c.audit(tx, c.actor(), "phone.made_primary", "phone:"+format(id), c.session.ID)
	})
	if err != nil {
		return nil, err
	}
	return viewPhone(p), nil
}

// removePhone removes a number other than the primary one.
func (c *call) removePhone() (any, error) {
	id, err := c.phoneID()
	if err != nil {
		return nil, err
	}
	var p people.Phone
	err = c.change(func(tx people.Tx) (err error) {
		if _, _, err = tx.LockUser(c.signedIn().User); err != nil {
			return err
		}
		if p, err = c.ownPhone(tx, id); err != nil {
			return err
		}
		if p.Primary {
			return apierror.Bad("PRIMARY_PHONE_REMOVAL", "this is your primary phone number: make another one primary first")
		}
		if err := tx.VoidChallenges(people.PurposePhone, id); err != nil {
			return err
		}
		if err := tx.DeletePhone(id); err != nil {
			return err
		}
		return c.audit(tx, c.actor(), "phone.removed", "phone:"+format(id), c.session.ID)
	})
	if err != nil {
		return nil, err
	}
	return viewPhone(p), nil
}
