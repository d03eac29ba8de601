package enduser

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/internal/totp"
	"github.com/cardea-iam/cardea/store/people"
)

// readFactorName reads the name of a factor, "" if it is absent.
func readFactorName(o *body.Object) string {
	typed, sent := o.String("name")
	if !sent {
		return ""
	}
	name := strings.TrimSpace(typed)
	if n := utf8.RuneCountInString(name); n < 1 || n > factors.MaxName || strings.ContainsFunc(name, text.Forbidden) {
		o.Fault("name", "must have 1 to %d characters, without control characters", factors.MaxName)
	}
	return name
}

// requireAdding refuses an operation that adds a factor unless the user proved recently what that needs.
func requireAdding(u *unit) error { return account.RequireFresh(u.Unit, u.signedIn(), true) }

func viewAuthenticator(a people.Authenticator, usable bool) enduserapi.Authenticator {
	view := enduserapi.Authenticator{Id: format(a.ID), Name: a.Name, Usable: usable, CreatedAt: a.CreatedAt}
	if !a.UsedAt.IsZero() {
		view.LastUsedAt = &a.UsedAt
	}
	return view
}

// overview returns the factors of an account. codes are new recovery codes, nil for none.
func overview(u *account.Unit, id int64, codes []string) (out enduserapi.SecondFactorsChanged, err error) {
	user, found, err := u.Users().User(id)
	if err == nil && !found {
		err = account.ErrUserUnknown
	}
	if err != nil {
		return out, err
	}
	f, err := u.FactorsOf(id)
	if err != nil {
		return out, err
	}
	left, err := u.Factors().RecoveryCodesOf(id)
	if err != nil {
		return out, err
	}
	out = enduserapi.SecondFactorsChanged{
		TwoStep: user.TwoStep, Required: u.DeploymentRequires(user.CreatedAt, u.Now).String(),
		Totp: []enduserapi.Authenticator{}, Sms: []enduserapi.TextFactor{},
	}
	for _, a := range f.Authenticators {
		out.Totp = append(out.Totp, viewAuthenticator(a, true))
	}
	for _, a := range f.UnusableAuthenticators {
		out.Totp = append(out.Totp, viewAuthenticator(a, false))
	}
	for _, p := range f.Texts {
		out.Sms = append(out.Sms, enduserapi.TextFactor{PhoneNumberId: format(p.ID), PhoneNumber: p.Number, Usable: true, CreatedAt: p.SecondFactorAt})
	}
	for _, p := range f.UnusableTexts {
		out.Sms = append(out.Sms, enduserapi.TextFactor{PhoneNumberId: format(p.ID), PhoneNumber: p.Number, CreatedAt: p.SecondFactorAt})
	}
	if out.Passkeys, err = passkeysOf(u, id); err != nil {
		return out, err
	}
	if !left.CreatedAt.IsZero() {
		out.RecoveryCodes = &enduserapi.RecoveryCodesLeft{Left: left.Left, CreatedAt: left.CreatedAt}
	}
	if codes != nil {
		out.Codes = &codes
	}
	return out, nil
}

// plainOverview is overview without new codes.
func plainOverview(u *account.Unit, id int64) (enduserapi.SecondFactors, error) {
	o, err := overview(u, id, nil)
	return enduserapi.SecondFactors{TwoStep: o.TwoStep, Required: o.Required, Totp: o.Totp, Sms: o.Sms, Passkeys: o.Passkeys, RecoveryCodes: o.RecoveryCodes}, err
}

func listFactors(c *call) (reply, error) {
	var out enduserapi.SecondFactors
	err := c.view(func(u *account.Unit) (err error) {
		out, err = plainOverview(u, c.signedIn().User)
		return err
	})
	return reply{data: out}, err
}

// changeFactors runs a change of the user's factors with the user locked, and returns the overview with new codes.
func changeFactors(c *call, adding bool, change func(*unit, people.User) ([]string, error)) (reply, error) {
	return transact(c, func(u *unit) (reply, error) {
		if adding {
			if err := requireAdding(u); err != nil {
				return reply{}, err
			}
		}
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		codes, err := change(u, user)
		if err != nil {
			return reply{}, err
		}
		out, err := overview(u.Unit, user.ID, codes)
		return reply{data: out}, err
	})
}

// removeFactor is changeFactors for a removal, which makes no codes.
func removeFactor(c *call, kind string, remove func(*unit, people.User, int64) error) (reply, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return reply{}, c.answerTo(factors.ErrUnknown)
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		if err := remove(u, user, id); err != nil {
			return reply{}, err
		}
		out, err := plainOverview(u.Unit, user.ID)
		return reply{data: out}, err
	})
	if err == nil {
		c.Metrics.Changed(kind, "removed")
	}
	return out, err
}

// changeTwoStep turns the second step of sign-ins on or off. Turned on, it makes recovery codes, which are factors too.
func changeTwoStep(c *call) (reply, error) {
	var on bool
	err := c.parse(func(o *body.Object) {
		o.Require("two_step")
		on, _ = o.Bool("two_step")
	})
	if err != nil {
		return reply{}, err
	}
	return changeFactors(c, on, func(u *unit, user people.User) ([]string, error) { return factors.SetTwoStep(u.Unit, user, on) })
}

// addAuthenticator begins to add an authenticator app.
func addAuthenticator(c *call) (reply, error) {
	var name string
	if err := c.parse(func(o *body.Object) { name = readFactorName(o) }); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		if err := requireAdding(u); err != nil {
			return reply{}, err
		}
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		e, err := factors.AddAuthenticator(u.Unit, user, u.signedIn().ID, name)
		if err != nil {
			return reply{}, err
		}
		svg, err := totp.SVG(e.URI)
		if err != nil {
			return reply{}, err
		}
		return reply{data: enduserapi.AuthenticatorEnrollment{
			Id: format(e.ID), Secret: e.Secret, Uri: e.URI, QrSvg: svg, ExpiresIn: int(e.ExpiresAt.Sub(u.Now).Seconds()),
		}}, nil
	})
}

// confirmAuthenticator confirms an authenticator app with its first code, which is used up and is a proof of this
// sign-in.
func confirmAuthenticator(c *call) (reply, error) {
	var code string
	if err := c.parse(func(o *body.Object) { code = readFactorCode(o, account.StrategyTOTP) }); err != nil {
		return reply{}, err
	}
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return reply{}, c.answerTo(factors.ErrUnknown)
	}
	try, err := transact(c, func(u *unit) (factors.Try, error) {
		if _, err := unconfirmed(u, id); err != nil {
			return factors.Try{}, err
		}
		return factors.Begin(u.Unit, u.signedIn().User, people.Attempt{})
	})
	if err != nil {
		return reply{}, err
	}
	used := false
	out, err := transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		a, err := unconfirmed(u, id)
		if err != nil {
			return reply{}, err
		}
		match, right, err := factors.MatchCode(u.Unit, []people.Authenticator{a}, code)
		used = errors.Is(err, factors.ErrUsed)
		if err == nil && !right {
			err = &factors.WrongCodeError{Left: -1}
		}
		if err != nil {
			return reply{}, err
		}
		if err := try.Forgive(u.Unit, true); err != nil {
			return reply{}, err
		}
		codes, err := factors.ConfirmAuthenticator(u.Unit, user, match)
		if err != nil {
			return reply{}, err
		}
		a.UsedAt = u.Now
		view := enduserapi.AuthenticatorConfirmed{Totp: viewAuthenticator(a, true)}
		if codes != nil {
			view.Codes = &codes
		}
		return reply{data: view}, u.prove(user.ID, assurance.TOTP)
	})
	switch {
	case err == nil:
		c.Metrics.Changed("totp", "added")
	case used:
		return reply{}, c.forgive(try, err)
	}
	return out, err
}

// unconfirmed returns an authenticator that this sign-in began to add. factors.ErrExpired: it waited too long.
func unconfirmed(u *unit, id int64) (people.Authenticator, error) {
	g := u.signedIn()
	have, err := u.Factors().AuthenticatorsOf(g.User)
	if err != nil {
		return people.Authenticator{}, err
	}
	for _, a := range have {
		switch {
		case a.ID != id || !a.ConfirmedAt.IsZero() || a.SignIn != g.ID:
		case !u.Now.Before(a.CreatedAt.Add(people.UnconfirmedFor)):
			return a, factors.ErrExpired
		default:
			return a, nil
		}
	}
	return people.Authenticator{}, factors.ErrUnknown
}

func removeAuthenticator(c *call) (reply, error) {
	return removeFactor(c, "totp", func(u *unit, user people.User, id int64) error { return factors.RemoveAuthenticator(u.Unit, user, id) })
}

// addTextFactor makes a verified number a second factor.
func addTextFactor(c *call) (reply, error) {
	var id int64
	if err := c.parse(func(o *body.Object) { id = required(o, "phone_number_id", input.ID) }); err != nil {
		return reply{}, err
	}
	out, err := changeFactors(c, true, func(u *unit, user people.User) ([]string, error) {
		p, err := u.ownPhone(id)
		if err != nil {
			return nil, err
		}
		return factors.AddText(u.Unit, user, p)
	})
	if err == nil {
		c.Metrics.Changed("sms", "added")
	}
	return out, err
}

func removeTextFactor(c *call) (reply, error) {
	return removeFactor(c, "sms", func(u *unit, user people.User, id int64) error { return factors.RemoveText(u.Unit, user, id) })
}

// makeRecoveryCodes replaces the recovery codes.
func makeRecoveryCodes(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		if err := requireAdding(u); err != nil {
			return reply{}, err
		}
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		codes, err := factors.NewRecoveryCodes(u.Unit, user.ID)
		return reply{data: enduserapi.RecoveryCodes{Codes: codes, CreatedAt: u.Now}}, err
	})
}
