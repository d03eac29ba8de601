package enduser

import (
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/permission"
)

// getConfig returns the deployment's sign-in methods and the settings of its pages, for a front end before the sign-in.
func getConfig(c *call) (reply, error) {
	t := c.request.Tenant
	offers, err := connectionOffers(c)
	if err != nil {
		return reply{}, c.answerTo(err)
	}
	signIn, pages := t.Settings.EffectiveSignIn(), t.Settings.EffectivePages()
	out := enduserapi.AuthConfig{
		Deployment: enduserapi.ConfigDeployment{
			Id: format(t.Entry.ID), Name: t.AppName(), Mode: enduserapi.ConfigDeploymentMode(strings.ToLower(t.Settings.Mode)),
		},
		Password:      enduserapi.ConfigPassword{Enabled: signIn.Password, MinLength: signIn.PasswordMinLength},
		EmailCode:     enduserapi.ConfigEmailCode{Enabled: signIn.EmailCode},
		Organizations: enduserapi.ConfigOrganizations{Enabled: t.B2B.Enabled, RequiredForSignup: t.B2B.Enabled && t.B2B.RequireOrgForSignup},
		Phone:         enduserapi.ConfigPhone{Enabled: t.Settings.SMS != nil},
		Pages: enduserapi.ConfigPages{
			Enabled: !pages.Disabled, Url: pages.URL, LogoUrl: pages.LogoURL, AccentColor: pages.AccentColor, SupportEmail: pages.SupportEmail,
			PrivacyUrl: pages.PrivacyURL, TermsUrl: pages.TermsURL,
		},
		Languages: c.Languages, Connections: offers, ConnectionsOnly: signIn.ConnectionsOnly,
	}
	strong, open := t.Settings.Strong()
	out.SecondFactor.Required = assurance.OneFactor.String()
	if open {
		out.Passkey.Enabled = factors.RequirePasskeys(t, true) == nil
		required := assurance.Require(c.now, assurance.Demand{By: assurance.ByDeployment, Requirement: strong.Required.Effective()})
		out.SecondFactor = enduserapi.ConfigSecondFactor{Totp: strong.TOTP, Sms: strong.SMS && t.Settings.SMS != nil, Required: required.Level.String()}
	}
	if out.Passkey.Enabled {
		out.Passkey.RelyingPartyId = &strong.RelyingParty
	}
	if t.Settings.SMS != nil {
		out.Phone.Countries = t.Settings.SMS.AllowedCountries
	}
	return reply{data: out}, nil
}

// listAccounts lists the accounts that are signed in to the session.
func listAccounts(c *call) (reply, error) {
	out := []enduserapi.Account{}
	err := c.view(func(u *account.Unit) error {
		for _, g := range c.session.SignIns {
			user, found, err := u.Users().User(g.User)
			if err != nil {
				return err
			}
			if found {
				out = append(out, enduserapi.Account{SigninId: format(g.ID), Active: g.ID == c.session.ActiveSignIn, User: *viewUser(user)})
			}
		}
		return nil
	})
	return reply{data: out}, err
}

// listKeyApps lists the apps for which the user can create API keys.
func listKeyApps(c *call) (reply, error) {
	out := []enduserapi.KeyApp{}
	for _, app := range c.request.SelfServiceApps() {
		view := enduserapi.KeyApp{Slug: app.Slug, Name: app.Name, Permissions: grantable(app), MaxKeys: app.SelfService.MaxKeysPerUser}
		if app.Description != nil {
			view.Description = *app.Description
		}
		out = append(out, view)
	}
	return reply{data: out}, nil
}

// grantable returns the permissions that users may give to keys of an app, sorted: the permissions of the app's
// self-service settings within the app's ceiling, without permission.All.
func grantable(app *snapshot.App) []string {
	within := permission.NewSet(app.SelfService.Permissions).Within(app.Ceiling)
	return slices.DeleteFunc(within, func(name string) bool { return name == permission.All })
}
