package factors

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// SetTwoStep turns two-step on or off. The user is locked. Turned on, it returns recovery codes if the account had
// none left. ErrRequired: it cannot be on without a usable factor, or off while the deployment requires two factors.
func SetTwoStep(u *account.Unit, user people.User, on bool) ([]string, error) {
	if on == user.TwoStep {
		return nil, nil
	}
	if !on {
		if u.DeploymentRequires(user.CreatedAt, u.Now) >= assurance.TwoFactors {
			return nil, ErrRequired
		}
		return nil, turnOff(u, user.ID)
	}
	if err := requireOpen(u); err != nil {
		return nil, err
	}
	f, err := u.FactorsOf(user.ID)
	if err != nil {
		return nil, err
	}
	if !f.Any() {
		return nil, ErrRequired
	}
	return turnOn(u, user)
}

// turnOn turns two-step on, and makes recovery codes if none are left.
func turnOn(u *account.Unit, user people.User) ([]string, error) {
	if !user.TwoStep {
		if err := u.Factors().SetTwoStep(user.ID, true); err != nil {
			return nil, err
		}
		if err := u.Audit("two_step.on", object("user", user.ID)); err != nil {
			return nil, err
		}
	}
	left, err := u.Factors().RecoveryCodesOf(user.ID)
	if err != nil {
		return nil, err
	}
	var codes []string
	if left.Left == 0 {
		if codes, err = makeRecoveryCodes(u, user.ID); err != nil {
			return nil, err
		}
	}
	switch {
	case !user.TwoStep && codes != nil:
		err = u.Notify(user.ID, messages.TwoStepOnWithCodes)
	case !user.TwoStep:
		err = u.Notify(user.ID, messages.TwoStepOn)
	case codes != nil:
		err = u.Notify(user.ID, messages.RecoveryCodesMade)
	}
	return codes, err
}

// turnOff turns two-step off.
func turnOff(u *account.Unit, user int64) error {
	if err := u.Factors().SetTwoStep(user, false); err != nil {
		return err
	}
	if err := u.Audit("two_step.off", object("user", user)); err != nil {
		return err
	}
	return u.Notify(user, messages.TwoStepOff)
}

// afterRemoving follows the removal of a factor. The last usable one cannot go while the deployment requires two
// factors; otherwise two-step goes off with it, and the recovery codes are deleted. The former addresses are notified
// too.
func afterRemoving(u *account.Unit, user people.User, notice string) error {
	left, err := u.FactorsOf(user.ID)
	if err != nil {
		return err
	}
	if !left.Any() && u.DeploymentRequires(user.CreatedAt, u.Now) >= assurance.TwoFactors {
		return ErrRequired
	}
	if err := u.Notify(user.ID, notice); err != nil || left.Any() {
		return err
	}
	return withoutFactors(u, user)
}

// withoutFactors turns two-step off and deletes the recovery codes of a user that has no usable factor left.
func withoutFactors(u *account.Unit, user people.User) error {
	if user.TwoStep {
		if err := turnOff(u, user.ID); err != nil {
			return err
		}
	}
	return u.Factors().ReplaceRecoveryCodes(user.ID, nil, u.Now)
}

// AddText makes a verified phone a second factor and turns two-step on. The user is locked. Errors: ErrDisabled,
// ErrTextsDisabled, ErrPhoneUnverified, ErrTooManyFactors.
func AddText(u *account.Unit, user people.User, p people.Phone) ([]string, error) {
	settings, open := u.Settings.Strong()
	switch {
	case !open:
		return nil, ErrDisabled
	case !settings.SMS || u.Settings.SMS == nil:
		return nil, ErrTextsDisabled
	case p.VerifiedAt.IsZero():
		return nil, ErrPhoneUnverified
	}
	if !p.SecondFactorAt.IsZero() {
		return turnOn(u, user)
	}
	f, err := u.FactorsOf(user.ID)
	if err != nil {
		return nil, err
	}
	if len(f.Texts)+len(f.UnusableTexts) >= MaxTexts {
		return nil, ErrTooManyFactors
	}
	if err := countAdded(u, user.ID); err != nil {
		return nil, err
	}
	if err := u.Factors().SetSecondFactorPhone(p.ID, u.Now); err != nil {
		return nil, err
	}
	if err := u.Audit("sms_factor.added", object("phone", p.ID)); err != nil {
		return nil, err
	}
	if err := u.Notify(user.ID, messages.TextFactorAdded); err != nil {
		return nil, err
	}
	return turnOn(u, user)
}

// RemoveText ends a phone's use as a second factor. The user is locked. ErrUnknown: it is none. ErrRequired.
func RemoveText(u *account.Unit, user people.User, phone int64) error {
	phones, err := u.Phones().PhonesOf(user.ID)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(phones, func(p people.Phone) bool { return p.ID == phone && !p.SecondFactorAt.IsZero() })
	if at < 0 {
		return ErrUnknown
	}
	if err := u.Factors().SetSecondFactorPhone(phone, time.Time{}); err != nil {
		return err
	}
	if err := u.Audit("sms_factor.removed", object("phone", phone)); err != nil {
		return err
	}
	return afterRemoving(u, user, messages.TextFactorRemoved)
}

// PhoneGone follows the deletion of a phone, which may have been a second factor. The user is locked. ErrRequired.
func PhoneGone(u *account.Unit, user people.User, p people.Phone) error {
	if p.SecondFactorAt.IsZero() {
		return nil
	}
	if err := u.Audit("sms_factor.removed", object("phone", p.ID)); err != nil {
		return err
	}
	return afterRemoving(u, user, messages.TextFactorRemoved)
}
