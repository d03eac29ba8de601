package backend

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// listDomains serves a page of an organization's domains, the oldest first.
func listDomains(c *call) (reply, error) {
	q := c.query()
	limit, after := q.Limit(defaultLimit, maxLimit), q.ID("cursor")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.DomainList{Data: []backendapi.Domain{}}
	err := c.people().view(func(u *account.Unit) error {
		organization, err := findOrganization(u, c.r.PathValue("organization_id"))
		if err != nil {
			return err
		}
		all, err := domain.List(u, organization.ID) // at most domain.MaxDomains
		passed := after == 0
		for _, d := range all {
			switch {
			case !passed:
				passed = d.ID == after
			case len(list.Data) == limit:
				list.HasMore, list.NextCursor = true, &list.Data[limit-1].Id
				return err
			default:
				list.Data = append(list.Data, viewDomain(u.Tenant, d, organization.Slug))
			}
		}
		return err
	})
	return object(list), err
}

// addDomain adds a domain to an organization, verified if the body says so.
func addDomain(c *call) (reply, error) {
	var name string
	var verified bool
	return changeDomain(c, func(o *body.Object) {
		if o.Require("name") {
			name = ptr.Deref(input.Domain(o, "name"), "")
		}
		verified, _ = o.Bool("verified")
	}, func(u *account.Unit, organization people.Organization) (people.Domain, error) {
		d, err := domain.Add(u, organization.ID, name)
		if err == nil && verified {
			d, err = domain.SetVerified(u, organization.ID, d.ID, true)
		}
		return d, err
	})
}

// updateDomain verifies a domain in the name of the deployment, or withdraws its verification.
func updateDomain(c *call) (reply, error) {
	var verified, sent bool
	return changeDomain(c, func(o *body.Object) { verified, sent = o.Bool("verified") }, func(u *account.Unit, organization people.Organization) (people.Domain, error) {
		id, err := domainID(c)
		switch {
		case err != nil:
			return people.Domain{}, err
		case !sent:
			return domain.Find(u, organization.ID, id)
		}
		return domain.SetVerified(u, organization.ID, id, verified)
	})
}

// removeDomain removes a domain from an organization.
func removeDomain(c *call) (reply, error) {
	err := c.support().change(func(u *account.Unit) error {
		organization, err := findOrganization(u, c.r.PathValue("organization_id"))
		if err != nil {
			return err
		}
		id, err := domainID(c)
		if err == nil {
			_, err = domain.Remove(u, organization.ID, id)
		}
		return err
	})
	return reply{}, err
}

// changeDomain reads the body, and changes a domain of the organization in the path.
func changeDomain(c *call, read func(*body.Object), change func(*account.Unit, people.Organization) (people.Domain, error)) (reply, error) {
	p := c.support()
	if err := p.RequireB2B(); err != nil {
		return reply{}, peopleError(err)
	}
	if err := p.parse(read); err != nil {
		return reply{}, err
	}
	var served backendapi.Domain
	err := p.change(func(u *account.Unit) error {
		organization, err := findOrganization(u, c.r.PathValue("organization_id"))
		if err != nil {
			return err
		}
		d, err := change(u, organization)
		served = viewDomain(u.Tenant, d, organization.Slug)
		return err
	})
	return object(served), err
}

func domainID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("domain_id"))
	if err != nil {
		err = domain.ErrUnknown
	}
	return id, err
}

// viewDomain returns a domain of an organization, which is named by its slug.
func viewDomain(t *account.Tenant, d people.Domain, organization string) backendapi.Domain {
	seen := domain.SeenOf(d)
	return backendapi.Domain{
		Id: ids.Format(d.ID), Name: d.Name, State: d.State, Effect: string(domain.EffectOf(t, d, organization)), VerifiedBy: d.VerifiedBy,
		Record: backendapi.DomainRecord{Name: domain.RecordName(d.Name), Type: "TXT", Value: d.Value},
		Seen:   append([]string{}, seen.Texts...), Outcome: string(seen.Outcome), LookedUpAt: unlessZero(d.LookedUpAt), NextLookupAt: unlessZero(d.NextLookupAt),
		VerifiedAt: unlessZero(d.VerifiedAt), CreatedAt: d.CreatedAt,
	}
}

// unlessZero returns nil for the zero time.
func unlessZero(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
