package backend

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// The operations of the tenant's help desk on the second factors of users.

// maxReason is the longest reason of a reset, in characters.
const maxReason = 500

// factors reads the parameter second_factor, nil if it was not sent.
func (q *parameters) factors(t *account.Tenant) *people.FactorFilter {
	asked := q.OneOf("second_factor", "", assurance.None.String(), assurance.TwoFactors.String(), assurance.PhishingResistant.String())
	if asked == "" {
		return nil
	}
	level, _ := assurance.ParseLevel(asked) // None for "none"
	usable := account.UsableFactors(t)
	usable.Level = level
	return &usable
}

// support returns a request that notifies the user of its changes, and audits them with the credential's address. The
// mails do not contain that address.
func (c *call) support() *peopleRequest {
	p := c.people()
	p.Keyring, p.OnEnqueue, p.AuditAddress = c.api.Keyring, c.api.OnEnqueue, c.address()
	return p
}

// factorsRemoved counts removed factors.
func (c *call) factorsRemoved(kind string, n int) {
	if c.api.FactorsRemoved != nil && n > 0 {
		c.api.FactorsRemoved(kind, n)
	}
}

// getUserFactors serves a user's second factors.
func getUserFactors(c *call) (reply, error) {
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	var served backendapi.SecondFactors
	err = c.people().view(func(u *account.Unit) error {
		user, err := findUser(u, id)
		if err == nil {
			served, err = viewFactors(u, user)
		}
		return err
	})
	return object(served), err
}

func removeUserAuthenticator(c *call) (reply, error) {
	return removeUserFactor(c, account.StrategyTOTP, factors.ErrUnknown, factors.WithdrawAuthenticator)
}

func removeUserPasskey(c *call) (reply, error) {
	return removeUserFactor(c, account.StrategyPasskey, factors.ErrPasskeyUnknown, factors.WithdrawPasskey)
}

// removeUserFactor removes a factor of a kind. An id that is malformed is unknown, unless the user is unknown.
func removeUserFactor(c *call, kind string, unknown error, remove func(*account.Unit, people.User, int64) error) (reply, error) {
	id, malformed := ids.Parse(c.r.PathValue("id"))
	err := c.support().changeUser("", func(u *account.Unit, user people.User, _ int64) error {
		if malformed != nil {
			return unknown
		}
		return remove(u, user, id)
	})
	if err == nil {
		c.factorsRemoved(kind, 1)
	}
	return reply{}, err
}

// resetUserFactors removes a user's factors and codes, and signs the user out everywhere.
func resetUserFactors(c *call) (reply, error) {
	p := c.support()
	var reason string
	err := p.parse(func(o *body.Object) {
		typed, sent := o.String("reason")
		if reason = strings.TrimSpace(typed); !sent {
			return
		}
		if n := utf8.RuneCountInString(reason); n < 1 || n > maxReason || strings.ContainsFunc(reason, text.Forbidden) {
			o.Fault("reason", "must have 1 to %d characters, without control characters", maxReason)
		}
	})
	if err != nil {
		return reply{}, err
	}
	id, err := c.userID()
	if err != nil {
		return reply{}, err
	}
	var removed factors.Removed
	var revoked int64
	err = p.change(func(u *account.Unit) (err error) {
		removed, revoked, err = factors.Reset(u, id, reason)
		return err
	})
	if err != nil {
		return reply{}, err
	}
	c.factorsRemoved(account.StrategyTOTP, removed.Authenticators)
	c.factorsRemoved(account.StrategyPasskey, removed.Passkeys)
	c.factorsRemoved(account.StrategySMS, removed.Texts)
	return object(backendapi.SecondFactorsResetAnswer{Removed: int64(removed.All()), SessionsRevoked: revoked}), nil
}

// createTemporaryCode creates a code that replaces a user's second factor once.
func createTemporaryCode(c *call) (reply, error) {
	p := c.support()
	lifetime := factors.DefaultTemporary
	err := p.parse(func(o *body.Object) {
		seconds, sent := o.Integer("lifetime_seconds")
		if !sent {
			return
		}
		const least, most = int64(factors.MinTemporary / time.Second), int64(factors.MaxTemporary / time.Second)
		if seconds < least || seconds > most {
			o.Fault("lifetime_seconds", "must be %d to %d", least, most)
			return
		}
		lifetime = time.Duration(seconds) * time.Second
	})
	if err != nil {
		return reply{}, err
	}
	var served backendapi.TemporaryCode
	err = p.changeUser("", func(u *account.Unit, user people.User, _ int64) (err error) {
		served.Code, served.ExpiresAt, err = factors.NewTemporaryCode(u, c.api.codes, user.ID, lifetime)
		return err
	})
	return object(served), err
}
