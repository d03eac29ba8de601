package enduser

import (
	"errors"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// listDomains lists the domains of an organization.
func listDomains(c *call) (reply, error) {
	out := []enduserapi.Domain{}
	return inManaged(c, func(u *account.Unit, in connections.Scope) (any, error) {
		if err := in.Require(u); err != nil {
			return nil, err
		}
		all, err := domain.List(u, in.Organization.ID)
		for _, d := range all {
			out = append(out, viewDomain(u.Tenant, d, in.Organization.Slug))
		}
		return out, err
	})
}

// addDomain adds a domain to an organization.
func addDomain(c *call) (reply, error) {
	var name string
	err := c.parse(func(o *body.Object) { name = ptr.Deref(required(o, "name", input.Domain), "") })
	if err != nil {
		return reply{}, err
	}
	return changeDomains(c, func(u *unit, in connections.Scope) (people.Domain, error) {
		return domain.Add(u.Unit, in.Organization.ID, name)
	})
}

// removeDomain removes a domain from an organization.
func removeDomain(c *call) (reply, error) {
	return changeDomains(c, func(u *unit, in connections.Scope) (people.Domain, error) {
		id, err := domainID(c)
		if err != nil {
			return people.Domain{}, err
		}
		return domain.Remove(u.Unit, in.Organization.ID, id)
	})
}

// verifyDomain looks the record of a domain up and records the answer. No transaction is open during the lookup; the
// second one checks the member again.
func verifyDomain(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	var d people.Domain
	_, err := changeDomains(c, func(u *unit, in connections.Scope) (_ people.Domain, err error) {
		id, err := domainID(c)
		if err == nil {
			d, err = domain.Request(u.Unit, in.Organization.ID, id)
		}
		return d, err
	})
	if err != nil {
		return reply{}, err
	}
	answer, err := c.Domains.LookUp(c.r.Context(), egress.Asker{Deployment: c.request.Key(), Source: c.request.Client.WideNetwork}, d.Name)
	if err != nil {
		return reply{}, c.answerTo(err)
	}
	var outcome domain.Outcome
	out, err := changeDomains(c, func(u *unit, _ connections.Scope) (after people.Domain, err error) {
		if after, outcome, err = domain.Conclude(u.Unit, d, answer); err != nil {
			return after, err
		}
		return after, account.Refuse(domainRefusal(after, outcome))
	})
	if outcome != "" && (err == nil || !unexpected(err)) {
		c.Domains.Count(outcome)
	}
	return out, err
}

// domainRefusal returns the error of a lookup that did not find the record, or whose domain another organization has.
func domainRefusal(d people.Domain, outcome domain.Outcome) error {
	switch outcome {
	case domain.OutcomeFound:
		return nil
	case domain.OutcomeTaken:
		return domain.ErrTaken
	}
	return &domain.RecordError{Seen: domain.SeenOf(d), At: d.LookedUpAt}
}

// changeDomains runs change for a caller that manages the domains of the organization in the path.
func changeDomains(c *call, change func(*unit, connections.Scope) (people.Domain, error)) (reply, error) {
	return changeManaged(c, func(u *unit, in connections.Scope) (any, error) {
		if err := in.Require(u.Unit); err != nil {
			return nil, err
		}
		d, err := change(u, in)
		return viewDomain(u.Tenant, d, in.Organization.Slug), err
	})
}

func domainID(c *call) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("domain_id"))
	if err != nil {
		err = domain.ErrUnknown
	}
	return id, err
}

// viewDomain returns a domain of an organization, which is named by its slug.
func viewDomain(t *account.Tenant, d people.Domain, organization string) enduserapi.Domain {
	seen := domain.SeenOf(d)
	return enduserapi.Domain{
		Id: format(d.ID), Name: d.Name, State: d.State, Effect: string(domain.EffectOf(t, d, organization)), VerifiedBy: d.VerifiedBy,
		Record: enduserapi.DomainRecord{Name: domain.RecordName(d.Name), Type: "TXT", Value: d.Value},
		Seen:   append([]string{}, seen.Texts...), Outcome: string(seen.Outcome), LookedUpAt: timeOrNil(d.LookedUpAt), NextLookupAt: timeOrNil(d.NextLookupAt),
		VerifiedAt: timeOrNil(d.VerifiedAt), CreatedAt: d.CreatedAt,
	}
}

// timeOrNil returns nil for the zero time.
func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// recordRefusal returns the response to a lookup that did not find the record of a domain, nil for other errors.
func recordRefusal(err error) error {
	var missing *domain.RecordError
	if !errors.As(err, &missing) {
		return nil
	}
	message := "no TXT record of this name was found: add it, and wait until your DNS servers have it"
	switch missing.Seen.Outcome {
	case domain.OutcomeOtherValue:
		message = "the TXT records of this name have other values: check the value"
	case domain.OutcomeTimeout, domain.OutcomeServerFailure:
		message = "the DNS servers of the domain did not answer, so it is not known whether the record is there: check them, and try again"
	}
	answer := apierror.Bad("DOMAIN_RECORD_NOT_FOUND", "%s", message)
	answer.Reason, answer.Seen, answer.LookedUpAt = string(missing.Seen.Outcome), append([]string{}, missing.Seen.Texts...), missing.At
	return answer
}
