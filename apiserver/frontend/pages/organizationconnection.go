package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// ssoListed is how many failed sign-ins a page shows.
const ssoListed = 20

// connectionPage is where an admin finishes, tests and changes a connection of the organization.
type connectionPage struct {
	place
	Connection enduserapi.OrganizationConnection
	// Complete reports that the connection has an issuer and a client, or what is needed of a provider of SAML.
	Complete bool
	// Status says whether it can be used, and Guides what to do at the provider.
	Status string
	Guides []guide
	// Enforcements and Roles are the options of the forms.
	Enforcements, Roles []option
	Failures            []enduserapi.ConnectionFailure
	roleNames           map[string]string
}

// RoleName returns the name of a mapped role, or its id if the role is gone.
func (own connectionPage) RoleName(id string) string {
	if name, known := own.roleNames[id]; known {
		return name
	}
	return id
}

// guide says what to do at a provider.
type guide struct{ Provider, Steps string }

func guides(v *visit, c enduserapi.OrganizationConnection) []guide {
	if c.Saml != nil {
		return []guide{
			{v.text.Text("sso.okta"), v.text.Text("sso.saml_okta_steps")}, {v.text.Text("sso.entra"), v.text.Text("sso.saml_entra_steps")},
			{v.text.Text("sso.google"), v.text.Text("sso.saml_google_steps")}, {v.text.Text("sso.keycloak"), v.text.Text("sso.saml_keycloak_steps")},
			{v.text.Text("sso.other"), v.text.Text("sso.saml_other_steps")},
		}
	}
	return []guide{
		{v.text.Text("sso.okta"), v.text.Text("sso.okta_steps")}, {v.text.Text("sso.entra"), v.text.Text("sso.entra_steps")},
		{v.text.Text("sso.google"), v.text.Text("sso.google_steps")}, {v.text.Text("sso.keycloak"), v.text.Text("sso.keycloak_steps")},
		{v.text.Text("sso.other"), v.text.Text("sso.other_steps")},
	}
}

// complete reports whether users could sign in by a connection.
func complete(c enduserapi.OrganizationConnection) bool {
	if c.Saml != nil {
		return c.Saml.MetadataUrl != "" || c.Saml.EntityId != ""
	}
	return c.Issuer != "" && c.ClientId != ""
}

// status says in words whether a connection can be used.
func status(v *visit, c enduserapi.OrganizationConnection) string {
	switch {
	case c.Saml != nil && !complete(c):
		return v.text.Text("sso.saml_unfinished")
	case !complete(c):
		return v.text.Text("sso.unfinished")
	case c.Saml != nil && c.Saml.MetadataUrl == "":
		return v.text.Text("sso.saml_given")
	case c.Reachable == nil:
		return v.text.Text("sso.not_fetched")
	case !*c.Reachable:
		return v.text.Text("sso.unreachable", "error", c.LastError)
	}
	return v.text.Text("sso.reachable")
}

func showOrganizationConnection(v *visit) error {
	in, err := connecting(v)
	if err != nil {
		return err
	}
	o := in.Membership.Organization
	got, err := v.api.GetOrganizationConnection(v.r.Context(), o.Id, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	own := connectionPage{place: in, Connection: got.Data, Complete: complete(got.Data), roleNames: map[string]string{}}
	own.Status, own.Guides, own.Enforcements = status(v, got.Data), guides(v, got.Data), enforcements(v)
	roles, err := roles(v, o.Id, "organization")
	if err != nil {
		return err
	}
	for _, role := range roles {
		own.roleNames[*role.Id] = role.Name
	}
	own.Roles = choices(v, roles, "sso.choose_role", func(permission string) bool { return in.Setup || in.may(permission) })
	failures, err := v.api.ListOrganizationConnectionFailures(v.r.Context(), o.Id, got.Data.Id)
	if err != nil {
		return err
	}
	own.Failures = failures.Data[:min(len(failures.Data), ssoListed)]
	return v.render("ssoconnection", got.Data.DisplayName, own)
}

func takeOrganizationConnection(v *visit) error {
	in, err := connecting(v)
	if err != nil {
		return err
	}
	o, id, sent := in.Membership.Organization, v.r.PathValue("id"), v.form
	got, err := v.api.GetOrganizationConnection(v.r.Context(), o.Id, id)
	if err != nil {
		return v.again(sent, err)
	}
	switch sent.Action {
	case "test":
		return testConnection(v, in, id)
	case "delete":
		if sent.trimmed("confirmation") != got.Data.DisplayName {
			sent.fail("confirmation", v.text.Text("invalid.confirmation"))
			return v.show(sent, http.StatusBadRequest)
		}
		if _, err := v.api.RemoveOrganizationConnection(v.r.Context(), o.Id, id); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("connection_removed", at("/organizations/{id}/sso", o.Slug))
	}
	body, known := connectionChange(sent)
	switch {
	case sent.Action == actionMap || sent.Action == actionUnmap:
		err = mapClaim(v, o.Id, id)
	case known:
		_, err = v.api.UpdateOrganizationConnection(v.r.Context(), o.Id, id, body)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect("connection_changed", connectionAddress(o.Slug, id))
}

// The forms that add and remove a role of a claim.
const (
	actionMap   = "map"
	actionUnmap = "unmap"
)

// codeConnectionChanged is the error code of a change of a connection that another change preceded.
const codeConnectionChanged = "CONNECTION_CHANGED"

// mapClaim adds or removes a role of a claim of a connection.
func mapClaim(v *visit, organization, id string) error {
	return untilUnchanged(codeConnectionChanged, func() error {
		now, err := v.api.GetOrganizationConnection(v.r.Context(), organization, id)
		if err != nil {
			return err
		}
		_, err = v.api.UpdateOrganizationConnection(v.r.Context(), organization, id, enduserapi.OrganizationConnectionUpdate{
			RoleMappings: changedMappings(v.form, now.Data.RoleMappings), ExpectedUpdatedAt: now.Data.UpdatedAt,
		})
		return err
	})
}

// changedMappings returns the mappings of a connection after a form of a claim.
func changedMappings(sent *form, now []enduserapi.RoleMapping) *[]enduserapi.RoleMapping {
	mappings := []enduserapi.RoleMapping{}
	for _, m := range now {
		if sent.Action == actionMap || m.Claim != sent.value("claim") || m.Value != sent.value("value") {
			mappings = append(mappings, m)
		}
	}
	if sent.Action == actionMap {
		mappings = append(mappings, enduserapi.RoleMapping{Claim: sent.trimmed("claim"), Value: sent.trimmed("value"), RoleId: sent.value("role")})
	}
	return &mappings
}

// connectionChange returns what another form of the page changes.
func connectionChange(sent *form) (body enduserapi.OrganizationConnectionUpdate, known bool) {
	body.Confirmation = given(sent.trimmed("confirmation"))
	switch sent.Action {
	case "name":
		body.DisplayName = sent.member("display_name")
	case "metadata-url":
		body.MetadataUrl = sent.member("metadata_url")
	case "metadata-xml":
		body.MetadataXml = sent.member("metadata_xml")
	case "stated":
		body.EntityId, body.SsoUrl, body.Certificate = sent.member("entity"), sent.member("sso_url"), sent.member("certificate")
	case "change":
		body.DisplayName, body.Issuer, body.ClientId = sent.member("display_name"), given(sent.trimmed("issuer")), given(sent.trimmed("client"))
		body.ClientSecret = given(sent.trimmed("client_secret"))
	case "rules":
		active, justInTime := sent.ticked("is_active"), sent.ticked("just_in_time")
		body.Enforcement = (*enduserapi.OrganizationConnectionUpdateEnforcement)(sent.member("enforcement"))
		body.IsActive, body.JustInTime = &active, &justInTime
	default:
		return body, false
	}
	return body, true
}

// testConnection leads the admin to the provider, which adds the admin's identity there. A user of a setup link signs
// in instead. The page shows afterwards whether it worked.
func testConnection(v *visit, in place, id string) error {
	intent, back := "link", connectionAddress(in.Membership.Organization.Slug, id)
	if in.Setup {
		intent = "sign_in"
	}
	begun, err := v.api.BeginSSO(v.r.Context(), enduserapi.SSOBegin{ConnectionId: id, Intent: &intent, Continue: &back})
	if err != nil {
		return v.again(v.form, err)
	}
	v.location(begun.Data.AuthorizationUrl)
	return nil
}
