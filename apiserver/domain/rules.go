package domain

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// List returns the domains of an organization, the oldest first.
func List(u *account.Unit, organization int64) ([]people.Domain, error) {
	return u.Domains().DomainsOf(organization)
}

// Add adds a domain to an organization; it then waits for its record. name is from domainname.Parse. Errors:
// account.ErrNotMember if there is no such organization, ErrExists, ErrTooMany.
func Add(u *account.Unit, organization int64, name string) (people.Domain, error) {
	// With the lock, concurrent additions are counted one after the other.
	if _, found, err := u.Organizations().LockOrganization(organization); err != nil || !found {
		return people.Domain{}, account.FirstOf(err, account.ErrNotMember)
	}
	have, err := u.Domains().DomainsOf(organization)
	switch {
	case err != nil:
		return people.Domain{}, err
	case slices.ContainsFunc(have, func(d people.Domain) bool { return d.Name == name }):
		return people.Domain{}, ErrExists
	case len(have) >= MaxDomains:
		return people.Domain{}, ErrTooMany
	}
	id, err := u.NewID()
	if err != nil {
		return people.Domain{}, err
	}
	value, err := newValue(u.Random)
	if err != nil {
		return people.Domain{}, err
	}
	d := begin(people.Domain{ID: id, Organization: organization, Name: name, Value: value, CreatedAt: u.Now}, u.Now)
	if err := u.Domains().InsertDomain(d); err != nil {
		return d, err
	}
	return d, audit(u, "added", d)
}

// Remove removes a domain from an organization, with its effect. ErrUnknown: the organization has no such domain.
func Remove(u *account.Unit, organization, id int64) (people.Domain, error) {
	d, err := lock(u, organization, id)
	if err != nil {
		return d, err
	}
	if _, err := u.Domains().DeleteDomain(organization, id); err != nil {
		return d, err
	}
	return d, audit(u, "removed", d)
}

// lock locks a domain of an organization. It returns ErrUnknown if there is none.
func lock(u *account.Unit, organization, id int64) (people.Domain, error) {
	d, found, err := u.Domains().LockDomain(id)
	if err == nil && (!found || d.Organization != organization) {
		err = ErrUnknown
	}
	return d, err
}

// Find returns a domain of an organization. It returns ErrUnknown if there is none.
func Find(u *account.Unit, organization, id int64) (people.Domain, error) {
	d, found, err := u.Domains().Domain(organization, id)
	if err == nil && !found {
		err = ErrUnknown
	}
	return d, err
}

// Request counts a lookup that a member requests, and returns the domain. The caller looks it up after the transaction.
// Errors: ErrUnknown; a WaitError with ErrTooManyLookups.
func Request(u *account.Unit, organization, id int64) (people.Domain, error) {
	d, err := Find(u, organization, id)
	if err != nil {
		return d, err
	}
	// By the name: a domain that is removed and added again is the same one for its DNS servers.
	n, err := u.Limits().Count("domain-lookups", ids.Format(organization)+"/"+d.Name, u.Now, u.Now.Add(time.Hour))
	if err == nil && n.Count > lookupsAnHour {
		err = &account.WaitError{Reason: ErrTooManyLookups, Wait: n.Ends.Sub(u.Now)}
	}
	return d, err
}

// lockName makes transactions that change which organization has a name take turns. It precedes the locks of domains.
func lockName(u *account.Unit, name string) error { return u.Limits().Lock("domain:" + name) }

// Conclude records the answer to a lookup of a domain, and returns the domain with the outcome. A domain that was
// looked up again since then stays as it is. If another organization has the name, the same answer shows whether that
// organization's record is still there: both records have one name.
//
//   - It is there, or a backend verified the other domain: OutcomeTaken.
//   - It is not: the name moves to this organization, and the admins of both are notified.
//
// ErrUnknown: the domain was removed meanwhile.
func Conclude(u *account.Unit, d people.Domain, a Answer) (people.Domain, Outcome, error) {
	if err := lockName(u, d.Name); err != nil {
		return d, "", err
	}
	organization, id := d.Organization, d.ID
	holder, err := lockHolder(u, d)
	if err != nil {
		return d, "", err
	}
	if d, err = lock(u, organization, id); err != nil {
		return d, "", err
	}
	if d.LookedUpAt.After(a.At) {
		return d, SeenOf(d).Outcome, nil
	}
	taken := holder.Effective() && (holder.VerifiedBy == people.VerifiedByBackend || a.Has(holder.Value))
	next, event := decide(d, a, taken, func(most time.Duration) time.Duration { return rand.N(most) })
	if next.Effective() && holder.Effective() {
		err = u.Domains().MoveDomain(holder.ID, next)
	} else {
		err = u.Domains().UpdateDomain(next)
	}
	if err == nil && next.Effective() && holder.Effective() {
		err = transferred(u, holder, next)
	}
	if err == nil {
		err = happened(u, next, event)
	}
	if err == nil {
		next, err = displaced(u, next)
	}
	return next, SeenOf(next).Outcome, err
}

// lockHolder locks the domain of another organization that has the effect of a name, the zero Domain if there is none,
// and before it d if its id is lower.
func lockHolder(u *account.Unit, d people.Domain) (people.Domain, error) {
	holder, found, err := u.Domains().EffectiveDomain(d.Name)
	if err != nil || !found || holder.ID == d.ID {
		return people.Domain{}, err
	}
	if d.ID < holder.ID {
		if _, _, err := u.Domains().LockDomain(d.ID); err != nil {
			return people.Domain{}, err
		}
	}
	holder, found, err = u.Domains().LockDomain(holder.ID)
	if err != nil || !found {
		return people.Domain{}, err
	}
	return holder, nil
}

// SetVerified verifies a domain in the name of the deployment, or withdraws its verification: the domain then waits for
// its record. A domain that was verified so is not looked up any more, and never lapses. Errors: ErrUnknown; ErrTaken
// if another organization has the name.
func SetVerified(u *account.Unit, organization, id int64, verified bool) (people.Domain, error) {
	d, err := Find(u, organization, id)
	if err != nil {
		return d, err
	}
	if err := lockName(u, d.Name); err != nil {
		return d, err
	}
	holder, found, err := u.Domains().EffectiveDomain(d.Name)
	if err != nil {
		return d, err
	}
	if d, err = lock(u, organization, id); err != nil {
		return d, err
	}
	switch {
	case !verified && !d.Effective(), verified && d.Effective() && d.VerifiedBy == people.VerifiedByBackend:
		return d, nil
	case !verified:
		d = begin(d, u.Now)
	case found && holder.ID != d.ID:
		return d, ErrTaken
	default:
		if !d.Effective() {
			d.VerifiedAt = u.Now
		}
		d.State, d.VerifiedBy, d.NextLookupAt, d.FailingSince, d.Failures = people.DomainVerified, people.VerifiedByBackend, time.Time{}, time.Time{}, 0
	}
	if err := u.Domains().UpdateDomain(d); err != nil {
		return d, err
	}
	if !verified {
		return d, audit(u, "withdrawn", d)
	}
	return d, audit(u, "verified", d)
}

// Organization returns the slug of an organization, "" if it does not exist.
func Organization(u *account.Unit, id int64) (string, error) {
	o, _, err := u.Organizations().Organization(id)
	return o.Slug, err
}

// audit records an action on a domain, with its name and organization.
func audit(u *account.Unit, action string, d people.Domain) error {
	return u.AuditDetail("domain."+action, "domain:"+ids.Format(d.ID), d.Name+" of organization:"+ids.Format(d.Organization))
}
