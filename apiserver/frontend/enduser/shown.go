package enduser

import (
	"errors"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

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
	try, at, text, err := countTry(c, s)
	if err != nil {
		return reply{}, err
	}
	var use func(u *unit) (assurance.Method, error)
	err = c.request.View(c.r.Context(), func(u *account.Unit) (err error) {
		use, err = compareFactor(c, u, s, at, text)
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
		return reply{}, wrongFactor(c, s, try)
	}
	undone := false // whether the transaction, and with it the forgiveness, was rolled back
	out, err := transact(c, func(u *unit) (reply, error) {
		undone = true
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
		out, err := s.accept(u, method)
		undone = !account.Committed(err)
		return out, err
	})
	switch {
	case err == nil:
		c.Metrics.Factor(s.strategy, "right")
	case undone && !unexpected(err):
		return reply{}, c.forgive(try, err) // a concurrent request used the code, or the attempt ended
	}
	return out, err
}

// countTry counts a try of a code and commits the count. It returns the account, and for a text its challenge.
func countTry(c *call, s shown) (try factors.Try, at subject, text people.Challenge, err error) {
	locked := false
	try, err = transact(c, func(u *unit) (try factors.Try, err error) {
		if at, err = s.find(u); err != nil {
			return try, err
		}
		if err := available(u, s, at); err != nil {
			return try, err
		}
		if try, err = factors.Begin(u.Unit, at.user, at.attempt); err != nil {
			if locked = errors.Is(err, factors.ErrTooManyTries); errors.Is(err, factors.ErrAttemptOver) {
				err = account.Refuse(err)
			}
			return try, err
		}
		if s.strategy == account.StrategySMS {
			text, err = countText(u, at)
		}
		return try, err
	})
	if locked {
		c.Metrics.Factor(s.strategy, "locked")
	}
	return try, at, text, err
}

// wrongFactor counts a wrong code, notifies the owner if it is due, and returns the response.
func wrongFactor(c *call, s shown, try factors.Try) error {
	c.Metrics.Factor(s.strategy, "wrong")
	if try.Noticed() {
		if _, err := transact(c, func(u *unit) (reply, error) { return reply{}, try.Notice(u.Unit) }); err != nil && unexpected(err) {
			return err
		}
	}
	return c.answerTo(&factors.WrongCodeError{Left: try.Left()})
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
	f, err := u.FactorsOf(at.user)
	if err != nil {
		return live, err
	}
	if !slices.ContainsFunc(f.Texts, func(p people.Phone) bool { return p.Number == live.Recipient }) {
		return live, factors.ErrExpired // the number was removed meanwhile
	}
	counted, err := u.Challenges().CountTry(live.ID, verification.MaxTries, u.Now)
	if err == nil && !counted {
		err = factors.ErrExpired
	}
	return live, err
}

// compareFactor compares a code. It returns the function that uses it up, nil for a wrong code.
func compareFactor(c *call, u *account.Unit, s shown, at subject, text people.Challenge) (func(*unit) (assurance.Method, error), error) {
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
