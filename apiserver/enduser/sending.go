package enduser

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/delivery"
	"github.com/cardea-iam/cardea/apiserver/outbox"
	"github.com/cardea-iam/cardea/apiserver/verification"
	"github.com/cardea-iam/cardea/store/people"
)

// The scopes of failure counters. A send scope counts nothing: its row makes those wait who would send at once.
const (
	scopePassword    = "password"
	scopeSendAddress = "send-address"
	scopeSend        = "send:"
	scopeCodes       = "codes:"
)

// codeRequest asks for a code to be sent.
type codeRequest struct {
	purpose, channel string
	// subject is the phone or attempt the code proves.
	subject, user int64
	// recipient is what limits count; to is where the message goes, as it was typed.
	recipient, to string
	region        string
	// silent makes a challenge that no code is right for.
	silent bool
	// void puts the message into the outbox with its end state: nothing is sent.
	void bool
	// message writes the message around a code; nil: there is none.
	message func(code string) delivery.Mail
	life    time.Duration
}

// sendCode makes a challenge and puts its message into the outbox, within the limits on sending. It runs in the transaction of
// what it is about.
func (c *call) sendCode(tx people.Tx, q codeRequest) error {
	if err := c.mayRequest(tx, q); err != nil {
		return err
	}
	if q.channel == people.ChannelSMS {
		if err := c.withinBudget(tx, q.region); err != nil {
			return err
		}
	}
	id, err := c.directory().NewID()
	if err != nil {
		return err
	}
	code, err := verification.New(c.Random)
	if err != nil {
		return err
	}
	ch := people.Challenge{
		ID: id, Purpose: q.purpose, Channel: q.channel, Subject: q.subject, Session: c.session.ID, User: q.user, Recipient: q.recipient, Region: q.region,
		Address: c.network, Sent: !q.silent, CreatedAt: c.now, ExpiresAt: c.now.Add(q.life),
	}
	if ch.Salt, ch.MAC, ch.KeyID, err = c.codes.Bind(id, code, c.Random); err != nil {
		return keyless(err)
	}
	if q.silent {
		// Nobody knows the code, and no code is right.
		ch.MAC = make([]byte, len(ch.MAC))
	}
	if err := tx.InsertChallenge(ch); err != nil {
		return err
	}
	if q.message == nil {
		return nil
	}
	return c.post(tx, people.Message{Challenge: id, Channel: q.channel, Recipient: q.to, ExpiresAt: ch.ExpiresAt, Void: q.void}, q.message(code))
}

// keyless tells who runs the server what is missing, and the user that it is not their fault.
func keyless(err error) error {
	if errors.Is(err, verification.ErrNoKey) {
		return apierror.Unavailable(err, "this deployment cannot send codes yet: its server has no root key")
	}
	return err
}

// mayRequest holds a request to the limits of its recipient and of its client's address. The locks make requests that come at once
// count each other; they are taken in one order.
func (c *call) mayRequest(tx people.Tx, q codeRequest) error {
	if _, err := tx.LockFailure(scopeSendAddress+":"+q.channel, c.network, c.now); err != nil {
		return err
	}
	if _, err := tx.LockFailure(scopeSend+q.purpose, format(q.user)+" "+q.recipient, c.now); err != nil {
		return err
	}
	from, err := tx.SendsFrom(q.channel, c.network, c.now.Add(-time.Hour))
	if err != nil {
		return err
	}
	to, err := tx.SendsTo(q.purpose, q.user, q.recipient, c.now.Add(-verification.Window))
	if err != nil {
		return err
	}
	return c.withinLimits(from, to)
}

// withinLimits judges the sends from an address and to a recipient.
func (c *call) withinLimits(from, to []time.Time) error {
	next := verification.NextSend(to, c.now)
	if other := verification.NextSendFrom(from); other.After(next) {
		next = other
	}
	if next.After(c.now) {
		return apierror.Later("RATE_LIMITED", next.Sub(c.now), "too many codes were asked for: wait before you ask for another")
	}
	return nil
}

// withinBudget holds texts to the deployment's daily budget, and to the share of one country.
func (c *call) withinBudget(tx people.Tx, region string) error {
	day := c.now.Truncate(24 * time.Hour)
	// One lock for the deployment: the budget must hold also against requests that come at once.
	if _, err := tx.LockFailure("sms-budget", "", c.now); err != nil {
		return err
	}
	all, toRegion, err := tx.SendsOn(people.ChannelSMS, region, day)
	if err != nil {
		return err
	}
	allowed := c.settings.SMS.AllowedCountries
	share := verification.RegionBudget(c.settings.SMS.DailyBudget, allowed != nil && len(*allowed) == 1)
	if all < c.settings.SMS.DailyBudget && toRegion < share {
		return nil
	}
	c.Metrics.BudgetExhausted(c.deployment.Deployment, region)
	return apierror.Later("RATE_LIMITED", day.Add(24*time.Hour).Sub(c.now), "the deployment sends no more texts to this country today")
}

// nextSend returns when the next code may be sent to a recipient.
func (c *call) nextSend(tx people.Tx, purpose string, user int64, recipient string) (time.Time, error) {
	sends, err := tx.SendsTo(purpose, user, recipient, c.now.Add(-verification.Window))
	return verification.NextSend(sends, c.now), err
}

// post puts a message into the outbox: sealed, so that a copy of the store reads no code.
func (c *call) post(tx people.Tx, m people.Message, mail delivery.Mail) error {
	if c.Keyring.Empty() {
		return keyless(verification.ErrNoKey)
	}
	id, err := c.directory().NewID()
	if err != nil {
		return err
	}
	text, err := json.Marshal(mail)
	if err != nil {
		return err
	}
	m.ID, m.Deployment, m.CreatedAt = id, c.deployment.Deployment, c.now
	m.Sealed = c.Keyring.Seal(people.SealedMessage, outbox.SealedFor(m), text)
	return tx.InsertMessage(m)
}

// notifyLife is how long a notice, which carries no code, is worth sending.
const notifyLife = time.Hour

// requireEmail refuses what needs mail where the deployment sends none.
func (c *call) requireEmail() error {
	if c.settings.Email == nil {
		return apierror.Coded(http.StatusForbidden, "EMAIL_DISABLED", "this deployment sends no mail: its owner declares spec.email")
	}
	return nil
}

// appName is what messages call the deployment.
func (c *call) appName() string {
	if name := strings.TrimSpace(c.settings.DisplayName); name != "" {
		return name
	}
	return c.deployment.Name
}
