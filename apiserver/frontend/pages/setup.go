package pages

import (
	"net/http"
	"slices"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// readSetup reads what the session's setup link permits on a page that setup links can open. Such a visit needs no
// signed-in user.
func readSetup(v *visit) error {
	if v.page.setup == "" {
		return nil
	}
	got, err := v.api.GetSetup(v.r.Context())
	if refusedBy(err, "INVALID_SETUP_LINK") {
		return nil
	}
	if err != nil {
		return err
	}
	if got.Data.Organization.Slug == v.r.PathValue("slug") && slices.Contains(got.Data.Intents, v.page.setup) {
		v.setup, v.page.signedIn = &got.Data, false
	}
	return nil
}

// connecting returns the organization of the path if the user, or the session's setup link, may manage its
// connections, domains or directories.
func connecting(v *visit) (place, error) {
	if v.setup != nil {
		o := v.setup.Organization
		in := place{Open: true, MayConnect: true, Setup: true}
		in.Membership.Organization.Id, in.Membership.Organization.Name, in.Membership.Organization.Slug = o.Id, o.Name, o.Slug
		return in, nil
	}
	in, err := v.place()
	if err == nil && !in.MayConnect && !v.form.refused() {
		err = nothingThere()
	}
	return in, err
}

// setupPage shows what a setup link permits.
type setupPage struct {
	Setup enduserapi.Setup
	// SSO, Domains and Directory report that the link permits to set up connections, domains and directories.
	SSO, Domains, Directory bool
}

func showSetup(v *visit) error {
	got, err := v.api.GetSetup(v.r.Context())
	if err != nil {
		return err
	}
	return v.render("setup", v.text.Text("setup.title"), setupPage{
		Setup: got.Data, SSO: slices.Contains(got.Data.Intents, "sso"), Domains: slices.Contains(got.Data.Intents, "domains"),
		Directory: slices.Contains(got.Data.Intents, "directory"),
	})
}

// setupLinkPage asks for the code that opens a setup link.
type setupLinkPage struct {
	// Email is the address to which the code was sent, "" before that, and Organization the name of the organization.
	Email, Organization string
}

func showSetupLink(v *visit) error {
	return v.render("setuplink", v.text.Text("setup.title"), setupLinkPage{})
}

func takeSetupLink(v *visit) error {
	sent, token := v.form, v.r.PathValue("token")
	switch sent.Action {
	case "send":
		prepared, err := v.api.PrepareSetup(v.r.Context(), enduserapi.SetupChoice{Token: token})
		if err != nil {
			return v.again(sent, err)
		}
		return v.render("setuplink", v.text.Text("setup.title"), setupLinkPage{Email: prepared.Data.Email, Organization: prepared.Data.Organization.Name})
	case "code":
		if _, err := v.api.VerifySetup(v.r.Context(), enduserapi.SetupProof{Token: token, Code: sent.trimmed("code")}); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("", "/setup")
	}
	failure(v, http.StatusBadRequest, "bad_form")
	return nil
}

// makeSetupLink makes a setup link, and shows its address, this once.
func makeSetupLink(v *visit, in place) error {
	sent := v.form
	body := enduserapi.SetupLinkCreate{Email: sent.trimmed("email")}
	for _, intent := range []enduserapi.SetupLinkCreateIntents{
		enduserapi.SetupLinkCreateIntentsSso, enduserapi.SetupLinkCreateIntentsDomains, enduserapi.SetupLinkCreateIntentsDirectory,
	} {
		if sent.ticked(string(intent)) {
			body.Intents = append(body.Intents, intent)
		}
	}
	made, err := v.api.MakeSetupLink(v.r.Context(), in.Membership.Organization.Id, body)
	if err != nil {
		return v.again(sent, err)
	}
	v.form = nil
	return renderSSO(v, in, &made.Data)
}
