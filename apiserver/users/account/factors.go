package account

import (
	"slices"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The names of strategies, besides people.MethodPassword and people.MethodEmailOTP.
const (
	StrategyPasskey  = "passkey"
	StrategyTOTP     = "totp"
	StrategySMS      = "sms"
	StrategyRecovery = "recovery_code"
)

// Factors are the second factors and passkeys that an account can show. A factor is usable if it is confirmed, its kind
// is enabled in the deployment, and, for a passkey, it belongs to the current relying party.
type Factors struct {
	// Authenticators, Passkeys and Texts are usable.
	Authenticators []people.Authenticator
	Passkeys       []people.Passkey
	Texts          []people.Phone
	// Unusable are the confirmed authenticators and passkeys that cannot be shown now.
	UnusableAuthenticators []people.Authenticator
	UnusablePasskeys       []people.Passkey
	UnusableTexts          []people.Phone
}

// FactorsOf reads the factors of an account.
func (u *Unit) FactorsOf(user int64) (f Factors, err error) {
	settings, _ := u.Settings.Strong()
	authenticators, err := u.Factors().AuthenticatorsOf(user)
	if err != nil {
		return f, err
	}
	passkeys, err := u.Factors().PasskeysOf(user)
	if err != nil {
		return f, err
	}
	phones, err := u.Phones().PhonesOf(user)
	if err != nil {
		return f, err
	}
	for _, a := range authenticators {
		switch {
		case a.ConfirmedAt.IsZero():
		case settings.TOTP:
			f.Authenticators = append(f.Authenticators, a)
		default:
			f.UnusableAuthenticators = append(f.UnusableAuthenticators, a)
		}
	}
	for _, p := range passkeys {
		if PasskeyUsable(settings, p) {
			f.Passkeys = append(f.Passkeys, p)
		} else {
			f.UnusablePasskeys = append(f.UnusablePasskeys, p)
		}
	}
	for _, p := range phones {
		switch {
		case p.SecondFactorAt.IsZero() || p.VerifiedAt.IsZero():
		case settings.SMS && u.Settings.SMS != nil:
			f.Texts = append(f.Texts, p)
		default:
			f.UnusableTexts = append(f.UnusableTexts, p)
		}
	}
	return f, nil
}

// PasskeyUsable reports whether a passkey can be shown under the settings of its deployment.
func PasskeyUsable(settings document.Assurance, p people.Passkey) bool {
	return settings.Passkey && settings.RelyingParty != "" && p.RelyingParty == settings.RelyingParty
}

// UsableFactors returns the filter of users by the factors that FactorsOf counts as usable, without a level.
func UsableFactors(t *Tenant) people.FactorFilter {
	settings, _ := t.Settings.Strong()
	filter := people.FactorFilter{
		Authenticators: settings.TOTP, Texts: settings.SMS && t.Settings.SMS != nil, Passwords: t.Settings.EffectiveSignIn().Password,
	}
	if settings.Passkey {
		filter.RelyingParty = settings.RelyingParty
	}
	return filter
}

// Any reports whether the account has a usable factor.
func (f Factors) Any() bool { return len(f.Authenticators)+len(f.Passkeys)+len(f.Texts) > 0 }

// All reports how many factors the account has, usable or not.
func (f Factors) All() int {
	return len(f.Authenticators) + len(f.Passkeys) + len(f.Texts) + len(f.UnusableAuthenticators) + len(f.UnusablePasskeys) + len(f.UnusableTexts)
}

// Methods returns the best methods that the usable factors can prove.
func (f Factors) Methods() (methods []assurance.Method) {
	if len(f.Authenticators) > 0 {
		methods = append(methods, assurance.TOTP)
	}
	if len(f.Texts) > 0 {
		methods = append(methods, assurance.SMS)
	}
	if len(f.Passkeys) > 0 {
		methods = append(methods, assurance.Passkey)
	}
	if slices.ContainsFunc(f.Passkeys, func(p people.Passkey) bool { return p.Verified || !p.SecondFactorOnly }) {
		methods = append(methods, assurance.PasskeyUV)
	}
	return methods
}

// Strategies returns the strategies by which an account can prove itself with its factors, the best one first.
func (f Factors) Strategies() (strategies []string) {
	for _, s := range []struct {
		name string
		has  bool
	}{{StrategyPasskey, len(f.Passkeys) > 0}, {StrategyTOTP, len(f.Authenticators) > 0}, {StrategySMS, len(f.Texts) > 0}} {
		if s.has {
			strategies = append(strategies, s.name)
		}
	}
	return strategies
}

// StrategiesOf returns every strategy that an account can prove itself with, the best one first. It reads the recovery
// codes and the password.
func (u *Unit) StrategiesOf(user int64, f Factors) ([]string, error) {
	strategies := f.Strategies()
	recovery, err := HasRecovery(u, user)
	if err != nil {
		return nil, err
	}
	if recovery && f.Any() {
		strategies = append(strategies, StrategyRecovery)
	}
	first, err := firstStrategiesOf(u, user)
	return append(strategies, first...), err
}

// HasRecovery reports whether an account has a recovery code or a temporary code that is valid.
func HasRecovery(u *Unit, user int64) (bool, error) {
	codes, err := u.Factors().RecoveryCodesOf(user)
	if err != nil || codes.Left > 0 {
		return codes.Left > 0, err
	}
	temporary, found, err := u.Factors().TemporaryCode(user)
	return found && u.Now.Before(temporary.ExpiresAt), err
}

// HasRecoveryEver reports whether an account has recovery codes, used or not, or a temporary code.
func HasRecoveryEver(u *Unit, user int64) (bool, error) {
	codes, err := u.Factors().RecoveryCodesOf(user)
	if err != nil || !codes.CreatedAt.IsZero() {
		return err == nil, err
	}
	_, found, err := u.Factors().TemporaryCode(user)
	return found, err
}

// firstStrategiesOf returns the first factors of an account, without passkeys. An emailed code proves a signed-in user
// even if the deployment does not let users sign in by it: who adds a first factor may have no other proof.
func firstStrategiesOf(u *Unit, user int64) (strategies []string, err error) {
	settings := u.Settings.EffectiveSignIn()
	if settings.Password {
		_, has, err := u.Users().Credential(user, people.CredentialPassword)
		if err != nil {
			return nil, err
		}
		if has {
			strategies = append(strategies, people.MethodPassword)
		}
	}
	if u.Settings.Email != nil {
		strategies = append(strategies, people.MethodEmailOTP)
	}
	return strategies, nil
}
