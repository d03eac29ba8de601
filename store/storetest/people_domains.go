package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func domain(n, organization int64) people.Domain {
	created := after(time.Duration(n) * time.Second)
	return people.Domain{
		ID: n, Organization: organization, Name: fmt.Sprintf("domain%d.example", n), Value: fmt.Sprintf("cardea-domain-verification=%d", n), State: people.DomainPending,
		CreatedAt: created, NextLookupAt: created.Add(time.Minute),
	}
}

// named returns a domain with a name and a state.
func named(d people.Domain, name, state string) people.Domain {
	d.Name, d.State = name, state
	return d
}

func insertDomain(d people.Domain) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Domains().InsertDomain(d) }
}

func updateDomain(d people.Domain) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Domains().UpdateDomain(d) }
}

// effectiveDomain returns the id of the effective domain of a name, 0 if there is none.
func effectiveDomain(e *env, name string) int64 {
	e.t.Helper()
	d, _ := one(e, func(tx people.Tx) (people.Domain, bool, error) { return tx.Domains().EffectiveDomain(name) })
	return d.ID
}

func domainIDs(domains []people.Domain) (ids []int64) {
	for _, d := range domains {
		ids = append(ids, d.ID)
	}
	return ids
}

var domainStories = []story{
	{name: "a domain is read as written, by organization and by name", run: func(e *env) {
		e.begin()
		d := domain(1, 3)
		e.insert(insertDomain(d), insertDomain(domain(2, 3)), insertDomain(named(domain(3, 4), d.Name, people.DomainVerified)), insertDomain(named(domain(4, 5), d.Name, people.DomainLapsed)))
		read := func(organization int64) (people.Domain, bool) {
			return one(e, func(tx people.Tx) (people.Domain, bool, error) { return tx.Domains().Domain(organization, 1) })
		}
		got, _ := read(3)
		e.Expect(got).To(gomega.Equal(d))
		_, found := read(4)
		e.Expect(found).To(gomega.BeFalse(), "another organization's")
		of := func(organization int64) []int64 {
			return domainIDs(all(e, func(tx people.Tx) ([]people.Domain, error) { return tx.Domains().DomainsOf(organization) }))
		}
		e.Expect([][]int64{of(3), of(4), of(9)}).To(gomega.Equal([][]int64{{1, 2}, {3}, nil}))
		e.Expect(domainIDs(all(e, func(tx people.Tx) ([]people.Domain, error) { return tx.Domains().DomainsNamed(d.Name) }))).To(gomega.Equal([]int64{3, 1, 4}))
		e.refuses(people.ErrDuplicate, insertDomain(named(domain(5, 3), d.Name, people.DomainPending)))

		changed := d
		changed.State, changed.VerifiedBy, changed.VerifiedAt, changed.LookedUpAt, changed.NextLookupAt = people.DomainLapsed, people.VerifiedByDNS, after(time.Minute), after(time.Hour), time.Time{}
		changed.Seen, changed.FailingSince, changed.Failures = `["v=spf1 -all"]`, after(2*time.Minute), 7
		stated := changed
		stated.Organization, stated.Name, stated.Value = 9, "never.example", "never"
		e.insert(updateDomain(stated))
		e.insert(func(tx people.Tx) error {
			locked, found, err := tx.Domains().LockDomain(1)
			e.Expect(found).To(gomega.BeTrue())
			e.Expect(locked).To(gomega.Equal(changed))
			return err
		})
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Domains().DeleteDomain(4, 1) })
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Domains().DeleteDomain(3, 1) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Domains().DeleteDomain(3, 1) })
	}},
	{name: "a name has its effect for one organization of a deployment, while its domain is verified or failing", run: func(e *env) {
		e.begin()
		const name = "acme.example"
		for n := range int64(8) {
			e.insert(insertDomain(named(domain(n+1, n+1), name, people.DomainPending)))
		}
		e.change("apps/other", insertDomain(named(domain(1, 1), name, people.DomainVerified)))
		e.Expect(effectiveDomain(e, name)).To(gomega.BeZero())
		var won, lost atomic.Int64
		together(8, func(i int) {
			switch err := e.store.Change(e.ctx, home, updateDomain(named(domain(int64(i+1), 0), name, people.DomainVerified))); err {
			case nil:
				won.Store(int64(i + 1))
			case people.ErrDuplicate:
				lost.Add(1)
			default:
				e.t.Error(err)
			}
		})
		e.Expect(lost.Load()).To(gomega.BeEquivalentTo(7))
		holder, other := won.Load(), won.Load()%8+1
		e.Expect(effectiveDomain(e, name)).To(gomega.Equal(holder))
		e.insert(updateDomain(named(domain(holder, 0), name, people.DomainFailing)))
		e.Expect(effectiveDomain(e, name)).To(gomega.Equal(holder))
		e.refuses(people.ErrDuplicate, updateDomain(named(domain(other, 0), name, people.DomainVerified)))
		e.refuses(people.ErrDuplicate, insertDomain(named(domain(20, 20), name, people.DomainVerified)))
		for _, state := range []string{people.DomainLapsed, people.DomainExpired, people.DomainPending} {
			e.insert(updateDomain(named(domain(holder, 0), name, state)))
			e.Expect(effectiveDomain(e, name)).To(gomega.BeZero(), state)
			e.Expect(named(domain(holder, 0), name, state).Effective()).To(gomega.BeFalse(), state)
		}
		e.insert(updateDomain(named(domain(other, 0), name, people.DomainVerified)))
		e.Expect(effectiveDomain(e, name)).To(gomega.Equal(other))
	}},
	{name: "the verified addresses of a user are listed with whether their domains have their effect for an organization", run: func(e *env) {
		e.begin()
		addresses := func(deployment string, user int64, folded ...string) {
			for n, address := range folded {
				email := people.Email{ID: user*10 + int64(n), User: user, Address: strings.ToUpper(address), VerifiedAt: after(time.Minute), CreatedAt: born}
				e.change(deployment, insertEmail(email))
			}
		}
		addresses(home, 1, "a@verified.example", "b@failing.example", "c@pending.example", "d@eu.verified.example", "e@verified.example.evil", "f@elsewhere.example", "g@x")
		e.insert(insertEmail(people.Email{ID: 18, User: 1, Address: "h@verified.example", CreatedAt: born}))
		addresses(home, 2, "i@verified.example")
		addresses("apps/other", 1, "j@verified.example")
		for n, state := range map[int64]string{1: people.DomainVerified, 2: people.DomainFailing, 3: people.DomainPending} {
			e.insert(insertDomain(named(domain(n, 3), state+".example", state)))
		}
		e.insert(insertDomain(named(domain(4, 4), "elsewhere.example", people.DomainVerified)))
		in := func(organization, user int64) []people.AddressIn {
			return all(e, func(tx people.Tx) ([]people.AddressIn, error) { return tx.Domains().AddressesIn(organization, user) })
		}
		e.Expect(in(3, 1)).To(gomega.Equal([]people.AddressIn{
			{Folded: "a@verified.example", Effective: true}, {Folded: "b@failing.example", Effective: true}, {Folded: "c@pending.example"},
			{Folded: "d@eu.verified.example"}, {Folded: "e@verified.example.evil"}, {Folded: "f@elsewhere.example"}, {Folded: "g@x"},
		}))
		e.Expect(in(9, 2)).To(gomega.Equal([]people.AddressIn{{Folded: "i@verified.example"}}))
		e.Expect(in(3, 9)).To(gomega.BeEmpty())
	}},
	{name: "one statement reads a user with the addresses in an organization", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1), insertPhone(phone(1, 1)), insertDomain(named(domain(1, 3), "example.com", people.DomainVerified)))
		e.insert(insertEmail(people.Email{ID: 11, User: 1, Address: "ada@elsewhere.example", VerifiedAt: after(time.Minute), CreatedAt: born}))
		e.insert(insertEmail(people.Email{ID: 12, User: 1, Address: "later@example.com", CreatedAt: born}))
		asTwo := func(want ...people.AddressIn) {
			e.view(home, func(tx people.Tx) error {
				user, _, err := tx.Users().User(1)
				e.ok(err)
				addresses, err := tx.Domains().AddressesIn(3, 1)
				e.ok(err)
				got, in, found, err := tx.Domains().UserIn(3, 1)
				e.Expect([]any{got, in, found}).To(gomega.Equal([]any{user, addresses, true}))
				e.Expect(in).To(gomega.Equal(want))
				return err
			})
		}
		elsewhere := people.AddressIn{Folded: "ada@elsewhere.example"}
		asTwo(elsewhere, people.AddressIn{Folded: "person1@example.com", Effective: true})
		remove := func(id int64) func(people.Tx) error {
			return func(tx people.Tx) error { return tx.Users().DeleteEmail(id) }
		}
		e.insert(func(tx people.Tx) error { return tx.Users().MakePrimaryEmail(1, 11) }, remove(1001))
		asTwo(elsewhere)
		e.insert(remove(11)) // an unverified address remains
		asTwo()
		e.insert(remove(12)) // no address remains
		asTwo()
		e.view(home, func(tx people.Tx) error {
			_, in, found, err := tx.Domains().UserIn(3, 2)
			e.Expect([]any{in, found}).To(gomega.Equal([]any{[]people.AddressIn(nil), false}))
			return err
		})
	}},
	{name: "a name moves to another organization that proved it", run: func(e *env) {
		e.begin()
		const name = "acme.example"
		from, to := named(domain(1, 3), name, people.DomainVerified), named(domain(2, 4), name, people.DomainPending)
		e.insert(insertDomain(from), insertDomain(to))
		to.State, to.VerifiedBy, to.VerifiedAt = people.DomainVerified, people.VerifiedByDNS, after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.Domains().MoveDomain(1, to) })
		e.Expect(all(e, func(tx people.Tx) ([]people.Domain, error) { return tx.Domains().DomainsNamed(name) })).To(gomega.Equal([]people.Domain{to}))
		e.Expect(effectiveDomain(e, name)).To(gomega.BeEquivalentTo(2))
	}},
	{name: "due lookups of all deployments are listed the longest due first, and each is claimed once", run: func(e *env) {
		e.begin()
		var want []people.DueDomain
		for n := range int64(6) {
			deployment := []string{home, "apps/other"}[n%2]
			d := domain(n+1, 1)
			if n == 4 {
				d.NextLookupAt = time.Time{}
			} else {
				want = append(want, people.DueDomain{Deployment: deployment, ID: d.ID, Due: d.NextLookupAt})
			}
			e.change(deployment, insertDomain(d))
		}
		due := func(now time.Time, limit int, except ...string) []people.DueDomain {
			list, err := e.store.DueDomains(e.ctx, now, except, limit)
			e.ok(err)
			return list
		}
		e.Expect(due(want[0].Due.Add(-time.Microsecond), 10)).To(gomega.BeEmpty())
		e.Expect(due(want[1].Due, 10)).To(gomega.Equal(want[:2]))
		e.Expect(due(after(time.Hour), 3)).To(gomega.Equal(want[:3]))
		e.Expect(due(after(time.Hour), 10)).To(gomega.Equal(want))
		e.Expect(due(after(time.Hour), 2, home)).To(gomega.Equal([]people.DueDomain{want[1], want[3]}), "without the deployments of except")
		e.Expect(due(after(time.Hour), 10, home, "apps/other")).To(gomega.BeEmpty())
		claim := func(tx people.Tx) (bool, error) { return tx.Domains().ClaimLookup(1, want[0].Due, after(2*time.Hour)) }
		e.Expect(e.winners(8, claim)).To(gomega.Equal(1))
		e.Expect(due(after(time.Hour), 10)).To(gomega.Equal(want[1:]))
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Domains().ClaimLookup(5, time.Time{}, after(time.Hour)) })
	}},
	{name: "a deleted organization takes its domains along", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(1)) }, insertDomain(domain(1, 1)), insertDomain(domain(2, 2)))
		e.insert(func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(1) })
		for organization, left := range map[int64]int{1: 0, 2: 1} {
			e.Expect(all(e, func(tx people.Tx) ([]people.Domain, error) { return tx.Domains().DomainsOf(organization) })).To(gomega.HaveLen(left))
		}
	}},
}
