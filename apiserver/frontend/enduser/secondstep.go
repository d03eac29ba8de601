package enduser

import (
	"errors"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// moreSteps reports whether a sign-in that has shown some proofs needs a further factor. It needs one until its level
// reaches the lower of what is due and what the account's usable factors can give. Due is two factors if the account
// wants to be asked, and what the deployment requires.
func moreSteps(u *unit, user people.User, proofs assurance.Proofs) (bool, error) {
	due := u.RequiredOfAccount(user.TwoStep, user.CreatedAt, u.Now).Level
	if proofs.Level() >= due {
		return false, nil
	}
	f, err := u.FactorsOf(user.ID)
	if err != nil {
		return false, err
	}
	return proofs.Level() < min(due, proofs.Raise(f.Methods()...)), nil
}

// pass continues a sign-in by password that has shown the proofs of an attempt: it signs the user in, or the attempt
// waits for a second factor. It checks that the compared password is still the account's, after the user was locked.
func pass(u *unit, c *call, a people.Attempt, try account.PasswordTry) error {
	user, more, err := evaluate(u, a)
	if err != nil {
		return err
	}
	if more {
		if _, _, err := u.Users().LockUser(user.ID); err != nil {
			return err
		}
		if err := u.ConfirmPassword(try); err != nil {
			return err
		}
		return waitForFactor(u, c, a)
	}
	if err := u.signIn(a.User, a.Method, a.Proofs); errors.Is(err, account.ErrUserUnknown) {
		return account.ErrInvalidCredentials
	} else if err != nil {
		return err
	}
	return u.ConfirmPassword(try)
}

// evaluate reads the account of an attempt, and reports whether the attempt needs a further factor. A disabled account
// is refused after its proof.
func evaluate(u *unit, a people.Attempt) (people.User, bool, error) {
	user, found, err := u.Users().User(a.User)
	switch {
	case err != nil:
		return user, false, err
	case !found:
		return user, false, account.ErrInvalidCredentials
	case user.Disabled:
		return user, false, account.Refuse(account.ErrUserDisabled)
	}
	more, err := moreSteps(u, user, a.Proofs)
	return user, more, err
}

// proceed continues a sign-in that has shown the proofs of a stored attempt: it signs the user in, or the attempt
// waits for a second factor.
func proceed(u *unit, c *call, a people.Attempt) error {
	_, more, err := evaluate(u, a)
	if err != nil {
		return err
	}
	if more {
		return waitForFactor(u, c, a)
	}
	return finish(u, a)
}

// waitForFactor stores an attempt that waits for a second factor. The session gets a new token, so that the owner of a
// planted earlier token gains nothing.
func waitForFactor(u *unit, c *call, a people.Attempt) error {
	if a.ID != 0 {
		if err := u.Attempts().ProveAttempt(a.ID, a.Proofs, u.Now); err != nil {
			return err
		}
		return u.renew()
	}
	if err := u.beginAttempt(c.presented, a.User); err != nil {
		return err
	}
	id, err := u.NewID()
	if err != nil {
		return err
	}
	a.ID, a.Session, a.CreatedAt, a.ExpiresAt, a.ProvedAt = id, u.session.ID, u.Now, u.Now.Add(attemptLifetime), u.Now
	if err := u.Attempts().InsertAttempt(a); err != nil {
		return err
	}
	return u.renew()
}

// factorAttempt returns an attempt of the session that waits for a second factor.
func factorAttempt(u *unit, id int64) (people.Attempt, error) {
	a, err := u.attemptOf(id)
	if err == nil && (a.ProvedAt.IsZero() || a.User == 0 || a.Kind != people.AttemptSignIn && a.Kind != people.AttemptReauthenticate) {
		err = errInvalidAttempt
	}
	return a, err
}

// advance adds a proof to an attempt, and completes the attempt if nothing more is needed. With ends, nothing more is
// asked for, whatever is due: the user has lost the factor.
func advance(u *unit, c *call, id int64, method assurance.Method, ends bool) (reply, error) {
	a, err := factorAttempt(u, id)
	if err != nil {
		return reply{}, err
	}
	if a.Kind == people.AttemptReauthenticate {
		first, err := u.Attempts().CompleteAttempt(a.ID)
		if err == nil && !first {
			err = errInvalidAttempt
		}
		if err != nil {
			return reply{}, err
		}
		return reply{}, u.prove(a.User, method)
	}
	a.Proofs = a.Proofs.With(method, u.Now)
	if ends {
		return reply{}, finish(u, a)
	}
	return reply{}, proceed(u, c, a)
}

// finish completes an attempt: it signs in to its account, and marks the address of an emailed code as verified. A
// disabled account is refused after the code is consumed.
func finish(u *unit, a people.Attempt) error {
	first, err := u.Attempts().CompleteAttempt(a.ID)
	if err == nil && !first {
		err = errInvalidAttempt
	}
	if err != nil {
		return err
	}
	switch err := u.signIn(a.User, a.Method, a.Proofs); {
	case errors.Is(err, account.ErrUserDisabled):
		return account.Refuse(err)
	case errors.Is(err, account.ErrUserUnknown):
		return account.ErrInvalidCredentials
	case err != nil:
		return err
	}
	return account.ProveEmail(u.Unit, a)
}

// textTarget returns the verification target of a text for an attempt.
func textTarget(u *unit, a people.Attempt, p people.Phone) verification.Target {
	t := u.phoneTarget(p)
	t.Purpose, t.Subject = people.PurposeSecondFactor, a.ID
	return t
}

// prepareSecondFactor lists the factors of an attempt, and sends a text if the request asks for one.
func prepareSecondFactor(c *call) (reply, error) {
	var id int64
	var text bool
	err := c.parse(func(o *body.Object) {
		id = required(o, "signin_attempt_id", input.ID)
		if strategy, sent := o.String("strategy"); sent {
			if text = strategy == account.StrategySMS; !text {
				o.Fault("strategy", "must be sms, or absent: the other factors need no preparation")
			}
		}
	})
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	return transact(c, func(u *unit) (reply, error) {
		a, err := factorAttempt(u, id)
		if err != nil {
			return reply{}, err
		}
		f, err := u.FactorsOf(a.User)
		if err != nil {
			return reply{}, err
		}
		out := enduserapi.SecondFactorsOffered{Factors: []enduserapi.OfferedFactor{}}
		if a.Kind == people.AttemptSignIn {
			if out, err = offered(u, c, a, f); err != nil {
				return reply{}, err
			}
		} else {
			out.Factors = textsOf(f)
		}
		if !text {
			return reply{data: out}, nil
		}
		if len(f.Texts) == 0 {
			return reply{}, factors.ErrUnavailable
		}
		if err := sendText(u, c, a, f.Texts[0]); err != nil {
			return reply{}, err
		}
		out.Sms = &enduserapi.SentText{Sent: true, PhoneNumber: lastDigits(f.Texts[0].Number), ExpiresIn: int(verification.PhoneLifetime.Seconds())}
		return reply{data: out}, nil
	})
}

// offered returns the factors of an account, the best one first, with options for its passkeys.
func offered(u *unit, c *call, a people.Attempt, f account.Factors) (enduserapi.SecondFactorsOffered, error) {
	out := enduserapi.SecondFactorsOffered{Factors: []enduserapi.OfferedFactor{}}
	if len(f.Passkeys) > 0 {
		out.Factors = append(out.Factors, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypePasskey})
		options, err := c.requestOptions(passkey.Scope{Ceremony: passkey.SecondFactor, Session: a.ID, User: a.User}, f.Passkeys)
		if err != nil {
			return out, err
		}
		out.PublicKey = options
	}
	if len(f.Authenticators) > 0 {
		out.Factors = append(out.Factors, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypeTotp})
	}
	out.Factors = append(out.Factors, textsOf(f)...)
	recovery, err := account.HasRecovery(u.Unit, a.User)
	if recovery {
		out.Factors = append(out.Factors, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypeRecoveryCode})
	}
	return out, err
}

func textsOf(f account.Factors) []enduserapi.OfferedFactor {
	out := []enduserapi.OfferedFactor{}
	for _, p := range f.Texts {
		id, number := format(p.ID), lastDigits(p.Number)
		out = append(out, enduserapi.OfferedFactor{Type: enduserapi.OfferedFactorTypeSms, Id: &id, PhoneNumber: &number})
	}
	return out
}

// lastDigits returns a number of which only the last two digits can be read.
func lastDigits(number string) string { return "••••" + number[max(len(number)-2, 0):] }

// attemptSecondFactor completes an attempt with a second factor.
func attemptSecondFactor(c *call) (reply, error) {
	var id int64
	var s shown
	err := c.parse(func(o *body.Object) {
		id = required(o, "signin_attempt_id", input.ID)
		s = readShown(o, account.StrategyTOTP, account.StrategySMS, account.StrategyRecovery, account.StrategyPasskey)
	})
	if err != nil {
		return reply{}, err
	}
	if c.session == nil {
		return reply{}, c.answerTo(errInvalidAttempt)
	}
	s.find = func(u *unit) (subject, error) {
		a, err := factorAttempt(u, id)
		if err == nil && a.Kind == people.AttemptReauthenticate && s.strategy != account.StrategySMS {
			err = factors.ErrUnavailable // the other strategies need no attempt
		}
		return subject{user: a.User, attempt: a}, err
	}
	s.scope = func(at subject) passkey.Scope {
		return passkey.Scope{Ceremony: passkey.SecondFactor, Session: at.attempt.ID, User: at.user}
	}
	s.accept = func(u *unit, method assurance.Method) (reply, error) {
		return advance(u, c, id, method, method == assurance.RecoveryCode)
	}
	out, err := show(c, s)
	out.data = c.sessionSnapshot()
	return out, err
}

// shown is a factor that a request shows, with its action.
type shown struct {
	strategy, code string
	assertion      *passkey.Assertion
	// find returns whose factor it must be.
	find func(u *unit) (subject, error)
	// scope is what the challenge of an assertion must be valid for.
	scope func(subject) passkey.Scope
	// accept performs the action in the transaction that uses the factor up.
	accept func(u *unit, method assurance.Method) (reply, error)
}

// subject is the account that a factor must belong to.
type subject struct {
	user int64
	// attempt is the zero Attempt outside of one.
	attempt people.Attempt
}

// readShown reads the strategy and the code or credential of a request.
func readShown(o *body.Object, strategies ...string) (s shown) {
	if !o.Require("strategy") {
		return s
	}
	strategy, ok := o.String("strategy")
	if !ok {
		return s
	}
	if s.strategy = strategy; !slices.Contains(strategies, strategy) {
		o.Fault("strategy", "must be one of totp, sms, recovery_code and passkey")
		return s
	}
	if strategy == account.StrategyPasskey {
		s.assertion = readAssertion(o)
		return s
	}
	s.code = readFactorCode(o, strategy)
	return s
}

// readFactorCode reads the code of a strategy as entered. A malformed code does not count as a try.
func readFactorCode(o *body.Object, strategy string) string {
	if !o.Require("code") {
		return ""
	}
	typed, ok := o.String("code")
	if !ok {
		return ""
	}
	if strategy == account.StrategyRecovery {
		code, formed := factors.NormalizeRecovery(typed)
		if !formed {
			o.Fault("code", "must be a recovery code of 24 letters and digits, or a temporary code of 12")
		}
		return code
	}
	if code, formed := verification.Normalize(typed); formed {
		return code
	}
	code, formed := factors.NormalizeLong(typed)
	if !formed || strategy == account.StrategySMS {
		o.Fault("code", "must be the six digits of the message or the app, as a string")
	}
	return code
}

// show verifies a factor and performs its action.
func show(c *call, s shown) (reply, error) {
	if s.strategy == account.StrategyPasskey {
		return showPasskey(c, s)
	}
	return showCode(c, s)
}

// showCode counts a try and commits the count. It then compares the code. One transaction uses a right code up and
// performs its action. Even if the server crashes in between, the try is counted, and the code works only once.
func showCode(c *call, s shown) (reply, error) {
	var at subject
	var text people.Challenge
	try, err := transact(c, func(u *unit) (try factors.Try, err error) {
		if at, err = s.find(u); err != nil {
			return try, err
		}
		if err := available(u, s, at); err != nil {
			return try, err
		}
		if try, err = factors.Begin(u.Unit, at.user, at.attempt.ID); err != nil {
			if errors.Is(err, factors.ErrAttemptOver) {
				err = account.Refuse(err)
			}
			return try, err
		}
		if s.strategy == account.StrategySMS {
			text, err = countText(u, at)
		}
		return try, err
	})
	if err != nil {
		return reply{}, err
	}
	var use func(u *unit) (assurance.Method, error)
	err = c.request.View(c.r.Context(), func(u *account.Unit) (err error) {
		use, err = c.compare(u, s, at, text)
		return err
	})
	if errors.Is(err, factors.ErrUsed) {
		c.Metrics.Factor(s.strategy, "used")
		return reply{}, c.forgive(try, err)
	}
	if err != nil {
		return reply{}, c.answerTo(err)
	}
	if use == nil {
		c.Metrics.Factor(s.strategy, "wrong")
		if try.Noticed() {
			if _, err := transact(c, func(u *unit) (reply, error) { return reply{}, try.Notice(u.Unit) }); err != nil && unexpected(err) {
				return reply{}, err
			}
		}
		return reply{}, c.answerTo(&factors.WrongCodeError{Left: try.Left()})
	}
	out, err := transact(c, func(u *unit) (reply, error) {
		now, err := s.find(u)
		if err == nil && now.user != at.user {
			err = errInvalidAttempt
		}
		if err != nil {
			return reply{}, err
		}
		if err := try.Forgive(u.Unit, true); err != nil {
			return reply{}, err
		}
		u.Actor = "user:" + format(at.user)
		method, err := use(u)
		if err != nil {
			return reply{}, err
		}
		return s.accept(u, method)
	})
	switch {
	case err == nil:
		c.Metrics.Factor(s.strategy, "right")
	case !account.Committed(err) && !unexpected(err):
		return reply{}, c.forgive(try, err) // a concurrent request used the code, or the attempt ended
	}
	return out, err
}

// forgive takes a try back that is no failure, and returns the response to err.
func (c *call) forgive(try factors.Try, err error) error {
	_, failed := transact(c, func(u *unit) (reply, error) { return reply{}, try.Forgive(u.Unit, false) })
	if failed != nil && unexpected(failed) {
		return failed
	}
	return c.answerTo(err)
}

// available refuses a strategy that the account does not have, before anything is counted.
func available(u *unit, s shown, at subject) error {
	f, err := u.FactorsOf(at.user)
	if err != nil {
		return err
	}
	has := false
	switch s.strategy {
	case account.StrategyTOTP:
		has = len(f.Authenticators) > 0
	case account.StrategySMS:
		has = len(f.Texts) > 0
	case account.StrategyRecovery:
		has, err = account.HasRecoveryEver(u.Unit, at.user)
	}
	if err == nil && !has {
		err = factors.ErrUnavailable
	}
	return err
}

// countText counts a try of the text of an attempt. factors.ErrExpired: no text is valid.
func countText(u *unit, at subject) (people.Challenge, error) {
	live, found, err := u.Challenges().LiveChallenge(people.PurposeSecondFactor, at.attempt.ID)
	if err != nil {
		return live, err
	}
	if !found || live.Session != u.session.ID || live.User != at.user || !u.Now.Before(live.ExpiresAt) {
		return live, factors.ErrExpired
	}
	counted, err := u.Challenges().CountTry(live.ID, verification.MaxTries, u.Now)
	if err == nil && !counted {
		err = factors.ErrExpired
	}
	return live, err
}

// compare compares a code. It returns the function that uses it up, nil for a wrong code.
func (c *call) compare(u *account.Unit, s shown, at subject, text people.Challenge) (func(*unit) (assurance.Method, error), error) {
	switch s.strategy {
	case account.StrategyTOTP:
		f, err := u.FactorsOf(at.user)
		if err != nil {
			return nil, err
		}
		match, right, err := factors.MatchCode(u, f.Authenticators, s.code)
		if err != nil || !right {
			return nil, err
		}
		return func(u *unit) (assurance.Method, error) { return assurance.TOTP, match.Spend(u.Unit) }, nil
	case account.StrategyRecovery:
		code, right, err := factors.FindRecovery(u, c.codes, at.user, s.code)
		if err != nil || !right {
			return nil, err
		}
		return func(u *unit) (assurance.Method, error) { return assurance.RecoveryCode, code.Spend(u.Unit, at.user) }, nil
	}
	if !c.codes.Matches(text.ID, text.Salt, text.MAC, text.KeyID, s.code) {
		return nil, nil
	}
	return func(u *unit) (assurance.Method, error) {
		first, err := u.Challenges().ConsumeChallenge(text.ID, u.Now)
		if err == nil && !first {
			err = factors.ErrExpired
		}
		return assurance.SMS, err
	}, nil
}

// sendText sends the code of an attempt to a number.
func sendText(u *unit, c *call, a people.Attempt, p people.Phone) error {
	target := textTarget(u, a, p)
	if target.Test {
		code, _ := u.Settings.SMS.TestCode(p.Number)
		return c.codes.Expect(u.Unit, target, code, verification.PhoneLifetime)
	}
	return c.codes.Send(u.Unit, c.textMessage(target, p.Number))
}
