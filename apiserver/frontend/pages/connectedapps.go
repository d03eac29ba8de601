package pages

import (
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// connectedApp is a grant to an app as the page shows it.
type connectedApp struct {
	enduserapi.OauthGrant
	Scopes []askedScope
	// Organization is the name of the grant's organization, "" if there is none or the user is no longer a member.
	Organization string
}

func showConnectedApps(v *visit) error {
	listed, err := v.api.ListOauthGrants(v.r.Context())
	if err != nil {
		return err
	}
	grants := listed.Data
	var asked []*string
	for _, grant := range grants {
		asked = append(asked, grant.OrganizationId)
	}
	names, err := organizationNames(v, asked)
	if err != nil {
		return err
	}
	apps := []connectedApp{}
	for _, grant := range grants {
		app := connectedApp{OauthGrant: grant, Scopes: wordScopes(v, grant.Scopes)}
		if grant.OrganizationId != nil {
			app.Organization = names[*grant.OrganizationId]
		}
		if app.ClientName == "" {
			app.ClientName = v.text.Text("apps.gone")
		}
		apps = append(apps, app)
	}
	return v.render("connectedapps", v.text.Text("apps.title"), apps)
}

// organizationNames returns the names of the user's organizations by their ids. It reads none if all asked ids are nil.
func organizationNames(v *visit, asked []*string) (map[string]string, error) {
	names := map[string]string{}
	for _, id := range asked {
		if id == nil {
			continue
		}
		memberships, err := memberships(v)
		if err != nil {
			return nil, err
		}
		for _, m := range memberships {
			names[m.Organization.Id] = m.Organization.Name
		}
		return names, nil
	}
	return names, nil
}

func takeConnectedApps(v *visit) error {
	sent := v.form
	if _, err := v.api.RemoveOauthGrant(v.r.Context(), sent.value("id")); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("app_disconnected", "/account/apps")
}

// wordScopes returns the names and descriptions of scopes: those that the tenant declares now, or the catalog's names
// for the scopes that every app has.
func wordScopes(v *visit, scopes []enduserapi.AskedScope) (words []askedScope) {
	for _, scope := range scopes {
		shown := askedScope{Name: scope.DisplayName, Description: scope.Description}
		if shown.Name == "" {
			shown.Name = builtInScope(v, scope.Scope)
		}
		words = append(words, shown)
	}
	return words
}

// builtInScope returns the catalog's name for a scope that every app has, and the scope itself for any other.
func builtInScope(v *visit, name string) string {
	switch name {
	case "openid":
		return v.text.Text("scope.openid")
	case "profile":
		return v.text.Text("scope.profile")
	case "email":
		return v.text.Text("scope.email")
	case "phone":
		return v.text.Text("scope.phone")
	case "groups":
		return v.text.Text("scope.groups")
	case "offline_access":
		return v.text.Text("scope.offline_access")
	}
	return name
}
