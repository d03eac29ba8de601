package pages

import (
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// ssoPage lists the connections of an organization to its admins.
type ssoPage struct {
	place
	Connections []enduserapi.OrganizationConnection
	// Links are the setup links of the organization, and Made is one that was just made, nil for none. Its address is
	// shown only this time.
	Links []enduserapi.SetupLink
	Made  *enduserapi.SetupLink
	// Types are the types that the organization may set up.
	Types []option
	// Provisions reports that setup links can be for directories.
	Provisions bool
	rules      map[string]string
}

// Rule returns an enforcement in words.
func (own ssoPage) Rule(enforcement string) string { return own.rules[enforcement] }

// connectionTypes returns the types of connections that organizations may set up.
func connectionTypes(v *visit) (types []option) {
	for _, name := range v.tenant.Settings.EffectiveConnections().Types {
		label := v.text.Text("sso.type_oidc")
		if name == string(enduserapi.SAML) {
			label = v.text.Text("sso.type_saml")
		}
		types = append(types, option{name, label})
	}
	return types
}

// enforcements returns the enforcements in words.
func enforcements(v *visit) []option {
	return []option{
		{"Optional", v.text.Text("sso.enforcement_optional")}, {"Domains", v.text.Text("sso.enforcement_domains")}, {"Members", v.text.Text("sso.enforcement_members")},
	}
}

func showSSO(v *visit) error {
	in, err := connecting(v)
	if err != nil {
		return err
	}
	return renderSSO(v, in, nil)
}

func renderSSO(v *visit, in place, made *enduserapi.SetupLink) error {
	own := ssoPage{place: in, Made: made, Types: connectionTypes(v), rules: map[string]string{}}
	for _, rule := range enforcements(v) {
		own.rules[rule.Value] = rule.Label
	}
	if in.MayConnect {
		list, err := v.api.ListOrganizationConnections(v.r.Context(), in.Membership.Organization.Id)
		if err != nil {
			return err
		}
		own.Connections = list.Data
	}
	if in.MayConnect && !in.Setup {
		links, err := v.api.ListSetupLinks(v.r.Context(), in.Membership.Organization.Id)
		if err != nil {
			return err
		}
		own.Links = links.Data
		if own.Provisions, err = provisions(v, in.Membership.Organization.Id); err != nil {
			return err
		}
	}
	return v.render("sso", v.text.Text("sso.title"), own)
}

// takeSSO sets up a connection with a name only, or makes and deletes setup links. The page of the connection shows
// what to register at the provider, and asks for the rest.
func takeSSO(v *visit) error {
	sent := v.form
	in, err := connecting(v)
	if err != nil {
		return err
	}
	o := in.Membership.Organization
	switch sent.Action {
	case "link":
		return makeSetupLink(v, in)
	case "unlink":
		if _, err := v.api.RemoveSetupLink(v.r.Context(), o.Id, sent.value("link_id")); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("setup_link_removed", at("/organizations/{id}/sso", o.Slug))
	}
	sent.Action = "add"
	kind := sent.value("type")
	if types := connectionTypes(v); kind == "" && len(types) > 0 {
		kind = types[0].Value // a page with one type has no choice
	}
	made, err := v.api.AddOrganizationConnection(v.r.Context(), o.Id, enduserapi.OrganizationConnectionCreate{
		Type: enduserapi.OrganizationConnectionCreateType(kind), DisplayName: sent.trimmed("display_name"),
	})
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect("connection_added", connectionAddress(o.Slug, made.Data.Id))
}

func connectionAddress(slug, id string) string {
	return at(at("/organizations/{id}/sso", slug)+"/{id}", id)
}
