package pages

import (
	"net/http"
	"slices"
	"time"

	"github.com/oapi-codegen/nullable"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
)

// require reads what the form about the requirement shows.
func (own *settingsPage) require(v *visit) error {
	if _, open := v.tenant.Settings.Strong(); !open || !own.Owner || !own.Open || v.tenant.B2B.OrganizationAssuranceOff {
		return nil
	}
	o := own.Membership.Organization
	own.Levels = []option{{assurance.OneFactor.String(), v.text.Text("settings.level_one_factor")}}
	for level, label := range map[assurance.Level]string{
		assurance.TwoFactors: v.text.Text("settings.level_two_factors"), assurance.PhishingResistant: v.text.Text("settings.level_phishing_resistant"),
	} {
		if len(v.tenant.Enrollable(level)) > 0 {
			own.Levels = append(own.Levels, option{level.String(), label})
		}
	}
	slices.SortFunc(own.Levels, func(a, b option) int { return int(parseLevel(a.Value) - parseLevel(b.Value)) })
	if o.EnforceFrom != nil {
		own.From = o.EnforceFrom.UTC().Format(time.DateOnly)
	}
	required := parseLevel(o.RequiredAssurance)
	if own.Required = required > assurance.OneFactor; !own.Required || !own.Membership.Assurance.Satisfied {
		return nil
	}
	all, more, err := members(organizationMembers(v, o.Id), "")
	own.More = more != ""
	own.NotReady = slices.DeleteFunc(all, func(m enduserapi.OrganizationMember) bool {
		return m.SecondFactor == nil || parseLevel(*m.SecondFactor) >= required
	})
	return err
}

// takeRequirement changes what the organization requires of its members.
func takeRequirement(v *visit, sent *form, o enduserapi.MemberOrganization) error {
	level := enduserapi.OrganizationPatchRequiredAssurance(sent.value("level"))
	body := enduserapi.OrganizationPatch{RequiredAssurance: &level, EnforceFrom: nullable.NewNullNullable[time.Time]()}
	if typed := sent.trimmed("from"); typed != "" {
		from, err := time.Parse(time.DateOnly, typed)
		if err != nil {
			sent.fail("from", v.text.Text("invalid.date"))
			return v.show(sent, http.StatusBadRequest)
		}
		body.EnforceFrom = nullable.NewNullableWithValue(from)
	}
	if _, err := v.api.ChangeOrganization(v.r.Context(), o.Id, body); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("organization_changed", at("/organizations/{id}/settings", o.Slug))
}
