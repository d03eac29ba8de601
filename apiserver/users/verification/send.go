package verification

import (
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// Target is what a code proves: that whoever sends it holds a phone, or the address of an attempt.
type Target struct {
	// Purpose is one of people's purposes, and Channel one of its channels.
	Purpose, Channel string
	// Subject is the phone or the attempt, and Session the session that owns it.
	Subject, Session int64
	// User is the phone's user; 0 for an address.
	User int64
	// Account is the account that an address belongs to, 0 for none: what its owner's clients may is judged by it.
	Account int64
	// Recipient is what limits count: a number, or an address as addresses compare.
	Recipient string
	// Region is the country of a number.
	Region string
	// Test says that it is a number to which nothing is sent: five tries of a code are the only limit.
	Test bool
}

// Message is a code to send.
type Message struct {
	Target
	// To is where the message goes, as it was typed.
	To string
	// Decoy makes a challenge that no code is right for.
	Decoy bool
	// Void puts the message into the outbox with its end state: nothing is sent.
	Void bool
	// Write writes the message around a code.
	Write func(code string) delivery.Content
	// Lifetime is how long the code lives.
	Lifetime time.Duration
}

// Codes sends and checks codes.
type Codes struct {
	*Binder
	// BudgetSpent is told of a text that was refused because a budget is spent. Nil: nobody is.
	BudgetSpent func(deployment, region string)
}

// Send makes a challenge in place of the target's earlier one and posts its message, within the limits on sending. It runs in the
// transaction of what it is about.
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
		// Nobody knows the code, and no code is right.
		ch.MAC = make([]byte, len(ch.MAC))
	}
	if err := u.Challenges().InsertChallenge(ch); err != nil {
		return err
	}
	if err := u.Limits().RecordSend(people.Send{
		ID: id, Purpose: m.Purpose, Channel: m.Channel, User: m.User, Recipient: m.Recipient, Client: u.Client.Network,
		Neighbourhood: u.Client.Neighbourhood, Region: m.Region, Known: known, Sent: !m.Decoy, At: u.Now,
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

// scopeMailsOfBlock counts the mails that clients of a block of addresses asked for whom accounts do not know.
const scopeMailsOfBlock = "mails-block"

func countMail(u *account.Unit, known bool) error {
	if known {
		return nil
	}
	_, err := u.Limits().Count(scopeMailsOfBlock, u.Client.Block, u.Now, u.Now.Add(time.Hour))
	return err
}

// Expect makes a challenge whose code is known, in place of the target's earlier one, and sends nothing: for test numbers.
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

// MaySend returns why a code could not be sent to a target now, nil if it could. It locks and writes nothing: Send checks again.
func (c *Codes) MaySend(u *account.Unit, t Target) error {
	_, err := c.checkSend(u, t)
	return err
}

// lockSends makes requests that come at once count each other. The locks are taken in one order: neighbourhood, recipient, user,
// budget.
func lockSends(u *account.Unit, t Target) error {
	names := []string{"sends:" + t.Channel + ":" + u.Client.Neighbourhood, "sends:" + t.Purpose + ":" + t.Recipient}
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

// checkMail holds a mail with a code to its limits, and reports whether the account knows the client. The same is read for an
// account that is not there.
func checkMail(u *account.Unit, t Target) (known bool, err error) {
	if known, err = u.Known(t.Account); err != nil {
		return false, err
	}
	own, err := u.Limits().Sends(people.SendFilter{Channel: t.Channel, Purpose: t.Purpose, Recipient: t.Recipient, Client: u.Client.Network}, u.Now.Add(-Window))
	if err != nil {
		return false, err
	}
	filter := people.SendFilter{Channel: t.Channel, Recipient: t.Recipient, Unknown: true}
	strangers, err := u.Limits().Sends(filter, u.Now.Add(-Window))
	if err != nil {
		return false, err
	}
	filter.Neighbourhood = u.Client.Neighbourhood
	near, err := u.Limits().Sends(filter, u.Now.Add(-Window))
	if err != nil {
		return false, err
	}
	around, err := u.Limits().Sends(people.SendFilter{Channel: t.Channel, Neighbourhood: u.Client.Neighbourhood}, u.Now.Add(-time.Hour))
	if err != nil {
		return false, err
	}
	block, err := u.Limits().Counted(scopeMailsOfBlock, u.Client.Block, u.Now)
	if err != nil {
		return false, err
	}
	next := NextSend(own, u.Now)
	if !known {
		next = later(next, later(roomForStrangers(strangers, near), room(around, neighbourhoodPerHour, time.Hour)))
		if block.Count >= blockMailsPerHour {
			next = later(next, block.Ends)
		}
	}
	return known, wait(u, next)
}

// checkText holds a text to its limits and to the deployment's budget, and reports whether the user has a verified phone.
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
				return time.Time{} // who holds the number is not held back by those who name it
			}
			return room(s, numberPerDay, Window)
		}},
		{people.SendFilter{User: t.User}, Window, func(s []time.Time) time.Time { return room(s, userPerDay, Window) }},
		{people.SendFilter{Client: u.Client.Network}, time.Hour, func(s []time.Time) time.Time { return room(s, clientPerHour, time.Hour) }},
		{people.SendFilter{Neighbourhood: u.Client.Neighbourhood}, time.Hour, func(s []time.Time) time.Time {
			if known {
				return time.Time{} // who proved a number is not held back by neighbours
			}
			return room(s, neighbourhoodPerHour, time.Hour)
		}},
	} {
		limit.filter.Channel = people.ChannelSMS
		sends, err := u.Limits().Sends(limit.filter, u.Now.Add(-limit.span))
		if err != nil {
			return false, err
		}
		next = later(next, limit.next(sends))
	}
	if err := wait(u, next); err != nil {
		return false, err
	}
	return known, c.withinBudget(u, t.Region, known)
}

// provenNumber reports whether the user proved to hold the target's number.
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

// withinBudget holds texts to the deployment's daily budget: to the share of one country, and to the share of users without a
// verified phone.
func (c *Codes) withinBudget(u *account.Unit, region string, known bool) error {
	day := u.Now.Truncate(24 * time.Hour)
	spent, err := u.Limits().SendsOn(people.ChannelSMS, region, day)
	if err != nil {
		return err
	}
	if u.Settings.SMS == nil {
		return errors.New("a deployment without spec.sms is asked for a text")
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
