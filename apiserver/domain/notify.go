package domain

import (
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
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

// notify mails the admins of a domain's organization.
func notify(u *account.Unit, d people.Domain, write func(app, organization, domain string) delivery.Content) error {
	return account.MailConnectionAdmins(u, d.Organization, func(o people.Organization) delivery.Content {
		return write(u.AppName(), o.Name, d.Name)
	})
}
