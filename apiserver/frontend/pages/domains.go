package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// domainsPage shows the domains of an organization to the members who manage its connections.
type domainsPage struct {
	place
	Domains []domainRow
}

// domainRow is a domain with its state and the outcome of the last lookup in words.
type domainRow struct {
	enduserapi.Domain
	StateText, OutcomeText string
	// NeedsRecord reports that the record must be added, or stay.
	NeedsRecord bool
}

func showDomains(v *visit) error {
	in, err := connecting(v)
	if err != nil {
		return err
	}
	own := domainsPage{place: in}
	list, err := v.api.ListDomains(v.r.Context(), in.Membership.Organization.Id)
	if err != nil {
		return err
	}
	for _, d := range list.Data {
		own.Domains = append(own.Domains, domainRow{Domain: d, StateText: domainState(v, d), OutcomeText: lookupOutcome(v, d.Outcome), NeedsRecord: d.VerifiedBy != "backend"})
	}
	return v.render("domains", v.text.Text("domains.title"), own)
}

// domainState returns the state of a domain in words.
func domainState(v *visit, d enduserapi.Domain) string {
	switch {
	case d.Effect == "displaced":
		return v.text.Text("domains.displaced")
	case d.State == "verified":
		return v.text.Text("domains.verified")
	case d.State == "failing":
		return v.text.Text("domains.failing")
	case d.State == "lapsed":
		return v.text.Text("domains.lapsed")
	case d.State == "expired":
		return v.text.Text("domains.expired")
	}
	return v.text.Text("domains.pending")
}

// lookupOutcome returns the outcome of a lookup in words, "" before the first one.
func lookupOutcome(v *visit, outcome string) string {
	switch outcome {
	case "":
		return ""
	case "found":
		return v.text.Text("domains.found")
	case "taken":
		return v.text.Text("domains.taken")
	case "other_value":
		return v.text.Text("domains.other_value")
	case "no_record":
		return v.text.Text("domains.no_record")
	}
	return v.text.Text("domains.unavailable")
}

func takeDomains(v *visit) error {
	sent := v.form
	in, err := connecting(v)
	if err != nil {
		return err
	}
	o := in.Membership.Organization
	notice, id := "", sent.value("domain_id")
	switch sent.Action {
	case "add":
		notice = "domain_added"
		_, err = v.api.AddDomain(v.r.Context(), o.Id, enduserapi.DomainCreate{Name: sent.trimmed("domain")})
		if refused := refusal(err); refused != nil && refused.Code == "VALIDATION_ERROR" {
			sent.fail("domain", v.text.Text("invalid.domain"))
			return v.show(sent, refused.Status)
		}
	case "verify":
		notice = "domain_verified"
		_, err = v.api.VerifyDomain(v.r.Context(), o.Id, id, enduserapi.Empty{})
	case "remove":
		notice = "domain_removed"
		_, err = v.api.RemoveDomain(v.r.Context(), o.Id, id)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, at("/organizations/{id}", o.Slug)+"/domains")
}
