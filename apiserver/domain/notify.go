package domain

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// adminsNotified bounds the mails about one event, and membersRead the members that are read to find their receivers,
	// the oldest first; membersAtOnce is how many one query reads.
	adminsNotified, membersRead, membersAtOnce = 100, 5000, 200
	// noticeLifetime is how long delivery of a mail is tried.
	noticeLifetime = 24 * time.Hour
)

// happened audits an event of a domain, and notifies the admins of its organization of those that they must act on.
func happened(u *account.Unit, d people.Domain, event Event) error {
	if event == eventNone {
		return nil
	}
	if err := audit(u, string(event), d); err != nil {
		return err
	}
	switch event {
	case eventFailing:
		return notify(u, d, messages.DomainFailingMail)
	case eventLapsed:
		return notify(u, d, messages.DomainLapsedMail)
	}
	return nil
}

// transferred audits that a name moved from one organization to another, and notifies the admins of both.
func transferred(u *account.Unit, from, to people.Domain) error {
	if err := audit(u, "transferred", from); err != nil {
		return err
	}
	if err := notify(u, from, messages.DomainLostMail); err != nil {
		return err
	}
	return notify(u, to, messages.DomainGainedMail)
}

// displaced audits that a declared domain displaces a proven one, and notifies the admins, once. It returns the domain
// as stored.
func displaced(u *account.Unit, d people.Domain) (people.Domain, error) {
	slug, err := Organization(u, d.Organization)
	if err != nil {
		return d, err
	}
	seen := SeenOf(d)
	now := EffectOf(u.Tenant, d, slug) == EffectDisplaced
	if now == seen.Displaced {
		return d, nil
	}
	seen.Displaced = now
	d.Seen = seen.encode()
	if err := u.Domains().UpdateDomain(d); err != nil || !now {
		return d, err
	}
	if err := audit(u, "displaced", d); err != nil {
		return d, err
	}
	return d, notify(u, d, messages.DomainDisplacedMail)
}

// notify mails the owners of a domain's organization, and its members with the permission connection:manage. It does
// nothing if the deployment sends no mail.
func notify(u *account.Unit, d people.Domain, write func(app, organization, domain string) delivery.Content) error {
	if u.Settings.Email == nil || u.Keyring.Empty() {
		return nil
	}
	o, found, err := u.Organizations().Organization(d.Organization)
	if err != nil || !found {
		return err
	}
	mail := write(u.AppName(), o.Name, d.Name)
	sent := 0
	for after, read := int64(0), 0; read < membersRead && sent < adminsNotified; read += membersAtOnce {
		members, err := u.Organizations().MembersOf(o.ID, after, membersAtOnce)
		if err != nil {
			return err
		}
		for _, m := range members {
			after = m.ID
			if sent == adminsNotified || m.Account.Email == "" || !u.May(m.Member, account.PermissionConnections) {
				continue
			}
			sent++
			if err := u.Post(people.Message{Channel: people.ChannelMail, Recipient: m.Account.Email, ExpiresAt: u.Now.Add(noticeLifetime)}, mail); err != nil {
				return err
			}
		}
		if len(members) < membersAtOnce {
			break
		}
	}
	return nil
}
