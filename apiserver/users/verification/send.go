package verification

import (
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// Target is what a code proves: control of a phone number, or of the email address of an attempt.
type Target struct {
	// Purpose is a purpose of package people, and Channel a channel of it.
	Purpose, Channel string
	// Subject is the phone or the attempt, and Session the session that owns it.
	Subject, Session int64
	// User is the phone's user; 0 for an address.
	User int64
	// Account is the account that an address belongs to, 0 for none. Limits depend on whether it knows the client.
	Account int64
	// Recipient is the key of limits: a phone number, or a folded email address.
	Recipient string
	// Region is the country of a number.
	Region string
	// Test marks a test number, to which nothing is sent. Its only limit is five tries per code.
	Test bool
}

// Message is a code to send.
type Message struct {
	Target
	// To is the address or number as it was entered.
	To string
	// Decoy creates a challenge that no code matches.
	Decoy bool
	// Void puts the message into the outbox as finished: it is not sent.
	Void bool
	// Write returns the message with a code.
	Write func(code string) delivery.Content
	// Lifetime is how long the code is valid.
	Lifetime time.Duration
}

// Codes sends and checks codes.
type Codes struct {
	*Binder
	// BudgetSpent, if not nil, is called when a text is refused because a budget is spent.
	BudgetSpent func(deployment, region string)
}

// Send replaces the target's challenge with a new one and enqueues its message, within the limits of sending. It runs
// in the caller's transaction.
func (c *Codes) Send(u *account.Unit, m Message) error {
	if err := lockSends(u, m.Target); err != nil {
		return err
	}
	known, err := c.checkSend(u, m.Target)
	if err != nil {
		return err
	}
	id, err := u.NewID()
	if err != nil {
		return err
	}
	code, err := New(u.Random)
	if err != nil {
		return err
	}
	ch := people.Challenge{
		ID: id, Purpose: m.Purpose, Channel: m.Channel, Subject: m.Subject, Session: m.Session, User: m.User, Recipient: m.Recipient, Region: m.Region,
		Address: u.Client.Network, Sent: !m.Decoy, CreatedAt: u.Now, ExpiresAt: u.Now.Add(m.Lifetime),
	}
	if ch.Salt, ch.MAC, ch.KeyID, err = c.Bind(id, code, u.Random); err != nil {
		return err
	}
	if m.Decoy {
		// No code has a MAC of zeros.
		ch.MAC = make([]byte, len(ch.MAC))
	}
	if err := u.Challenges().InsertChallenge(ch); err != nil {
		return err
	}
	if err := u.Limits().RecordSend(people.Send{
		ID: id, Purpose: m.Purpose, Channel: m.Channel, User: m.User, Recipient: m.Recipient, Client: u.Client.Network,
		WideNetwork: u.Client.WideNetwork, Region: m.Region, Known: known, Sent: !m.Decoy, At: u.Now,
	}); err != nil {
		return err
	}
	if m.Channel == people.ChannelMail {
		if err := countMail(u, known); err != nil {
			return err
		}
	}
	return u.Post(people.Message{Challenge: id, Channel: m.Channel, Recipient: m.To, ExpiresAt: ch.ExpiresAt, Void: m.Void}, m.Write(code))
}

// scopeMailsOfBlock counts the mails requested from a block of addresses by clients that the accounts do not know.
const scopeMailsOfBlock = "mails-block"

func countMail(u *account.Unit, known bool) error {
	if known {
		return nil
	}
	_, err := u.Limits().Count(scopeMailsOfBlock, u.Client.Block, u.Now, u.Now.Add(time.Hour))
	return err
}

// Expect replaces the target's challenge with one whose code is given, and sends nothing. It is for test numbers.
func (c *Codes) Expect(u *account.Unit, t Target, code string, lifetime time.Duration) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	ch := people.Challenge{
		ID: id, Purpose: t.Purpose, Channel: t.Channel, Subject: t.Subject, Session: t.Session, User: t.User, Recipient: t.Recipient, Region: t.Region,
		Address: u.Client.Network, CreatedAt: u.Now, ExpiresAt: u.Now.Add(lifetime),
	}
	if ch.Salt, ch.MAC, ch.KeyID, err = c.Bind(id, code, u.Random); err != nil {
		return err
	}
	return u.Challenges().InsertChallenge(ch)
}

// MaySend returns the error with which Send would refuse a code to a target now, or nil. It locks and writes nothing;
// Send checks again.
func (c *Codes) MaySend(u *account.Unit, t Target) error {
	_, err := c.checkSend(u, t)
	return err
}

// lockSends makes concurrent requests count each other. It locks in this order: wide network, recipient, user, budget.
func lockSends(u *account.Unit, t Target) error {
	names := []string{"sends:" + t.Channel + ":" + u.Client.WideNetwork, "sends:" + t.Purpose + ":" + t.Recipient}
	if t.Channel == people.ChannelSMS {
		names = append(names, "sends:user:"+subjectOf(t.User), "sends:budget")
	}
	for _, name := range names {
		if err := u.Limits().Lock(name); err != nil {
			return err
		}
	}
	return nil
}

func (c *Codes) checkSend(u *account.Unit, t Target) (known bool, err error) {
	if t.Channel == people.ChannelSMS {
		return c.checkText(u, t)
	}
	return checkMail(u, t)
}

// checkMail checks the limits of a mail with a code, and reports whether the account knows the client. It runs the same
// queries if the account does not exist.
func checkMail(u *account.Unit, t Target) (known bool, err error) {
	if known, err = u.Known(t.Account); err != nil {
		return false, err
	}
	own, err := u.Limits().Sends(people.SendFilter{Channel: t.Channel, Purpose: t.Purpose, Recipient: t.Recipient, Client: u.Client.Network}, u.Now.Add(-Window))
	if err != nil {
		return false, err
	}
	filter := people.SendFilter{Channel: t.Channel, Recipient: t.Recipient, Unknown: true}
	unknownClients, err := u.Limits().Sends(filter, u.Now.Add(-Window))
	if err != nil {
		return false, err
	}
	filter.WideNetwork = u.Client.WideNetwork
	near, err := u.Limits().Sends(filter, u.Now.Add(-Window))
	if err != nil {
		return false, err
	}
	around, err := u.Limits().Sends(people.SendFilter{Channel: t.Channel, WideNetwork: u.Client.WideNetwork}, u.Now.Add(-time.Hour))
	if err != nil {
		return false, err
	}
	block, err := u.Limits().Counted(scopeMailsOfBlock, u.Client.Block, u.Now)
	if err != nil {
		return false, err
	}
	next := NextSend(own, u.Now)
	if !known {
		next = account.Later(next, account.Later(nextForUnknownClient(unknownClients, near), nextAllowed(around, networkPerHour, time.Hour)))
		if block.Count >= blockMailsPerHour {
			next = account.Later(next, block.Ends)
		}
	}
	return known, wait(u, next)
}

// checkText checks the limits of a text and the deployment's budget, and reports whether the user has a verified phone.
func (c *Codes) checkText(u *account.Unit, t Target) (known bool, err error) {
	user, _, err := u.Users().User(t.User)
	if err != nil {
		return false, err
	}
	known = user.Phone != ""
	proven, err := provenNumber(u, t)
	if err != nil {
		return false, err
	}
	var next time.Time
	for _, limit := range []struct {
		filter people.SendFilter
		span   time.Duration
		next   func([]time.Time) time.Time
	}{
		{people.SendFilter{Purpose: t.Purpose, User: t.User, Recipient: t.Recipient}, Window, func(s []time.Time) time.Time { return NextSend(s, u.Now) }},
		{people.SendFilter{Recipient: t.Recipient}, Window, func(s []time.Time) time.Time {
			if proven {
				return time.Time{} // requests of other users for the number do not delay the user who verified it
			}
			return nextAllowed(s, numberPerDay, Window)
		}},
		{people.SendFilter{User: t.User}, Window, func(s []time.Time) time.Time { return nextAllowed(s, userPerDay, Window) }},
		{people.SendFilter{Client: u.Client.Network}, time.Hour, func(s []time.Time) time.Time { return nextAllowed(s, clientPerHour, time.Hour) }},
		{people.SendFilter{WideNetwork: u.Client.WideNetwork}, time.Hour, func(s []time.Time) time.Time {
			if known {
				return time.Time{} // other clients of the network do not delay a user with a verified number
			}
			return nextAllowed(s, networkPerHour, time.Hour)
		}},
	} {
		limit.filter.Channel = people.ChannelSMS
		sends, err := u.Limits().Sends(limit.filter, u.Now.Add(-limit.span))
		if err != nil {
			return false, err
		}
		next = account.Later(next, limit.next(sends))
	}
	if err := wait(u, next); err != nil {
		return false, err
	}
	return known, c.withinBudget(u, t.Region, known)
}

// provenNumber reports whether the user verified the target's number.
func provenNumber(u *account.Unit, t Target) (bool, error) {
	phones, err := u.Phones().PhonesOf(t.User)
	return slices.ContainsFunc(phones, func(p people.Phone) bool { return p.Number == t.Recipient && !p.VerifiedAt.IsZero() }), err
}

func wait(u *account.Unit, next time.Time) error {
	if next.After(u.Now) {
		return &account.WaitError{Reason: ErrTooManySends, Wait: next.Sub(u.Now)}
	}
	return nil
}

// withinBudget checks the deployment's daily budget for texts, its share for one country, and its share for users
// without a verified phone.
func (c *Codes) withinBudget(u *account.Unit, region string, known bool) error {
	day := u.Now.Truncate(24 * time.Hour)
	spent, err := u.Limits().SendsOn(people.ChannelSMS, region, day)
	if err != nil {
		return err
	}
	if u.Settings.SMS == nil {
		return errors.New("the deployment has no spec.sms: cannot send a text")
	}
	daily, allowed := u.Settings.SMS.DailyBudget, u.Settings.SMS.AllowedCountries
	share := RegionBudget(daily, allowed != nil && len(*allowed) == 1)
	if spent.All < daily && spent.ToRegion < share && (known || spent.Unknown < NewcomersBudget(daily)) {
		return nil
	}
	if c.BudgetSpent != nil {
		c.BudgetSpent(u.Key(), region)
	}
	return &account.WaitError{Reason: ErrBudgetSpent, Wait: day.Add(24 * time.Hour).Sub(u.Now)}
}
