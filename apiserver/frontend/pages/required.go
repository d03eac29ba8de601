package pages

import (
	"slices"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// requiredPage says why the user must show or add a factor, and how.
type requiredPage struct {
	Why, What string
	// Show is the address of the page on which the user shows a factor, "" if the user must add one.
	Show string
	// Passkey, App and Text report which kinds of factors the user can add.
	Passkey, App, Text bool
	// Accounts reports that the browser is signed in to other accounts.
	Accounts bool
}

// byApp is the value of the query parameter by if an app requires the level.
const byApp = "app"

func showRequired(v *visit) error {
	read, err := v.api.GetAssurance(v.r.Context())
	if err != nil {
		return err
	}
	has, required := parseLevel(read.Data.Level), parseLevel(read.Data.Required)
	own := requiredPage{Accounts: len(v.api.session.Signins) > 1}
	add := read.Data.Enroll
	own.Why = why(v, read.Data.RequiredBy)
	if asked := parseLevel(v.r.URL.Query().Get("level")); asked > required { // an app, or an organization that is not active, requires it
		required, add, own.Why = asked, v.tenant.Enrollable(asked), v.text.Text("required.by_organization")
		if v.r.URL.Query().Get("by") == byApp {
			own.Why = v.text.Text("required.by_app")
		}
	}
	if has >= required {
		return v.onward("/account")
	}
	own.What = v.text.Text("required.two_factors")
	if required == assurance.PhishingResistant {
		own.What = v.text.Text("required.phishing_resistant")
	}
	if len(add) == 0 {
		own.Show = v.link("/reauthenticate")
	}
	own.Passkey, own.App = slices.Contains(add, wayPasskey), slices.Contains(add, wayTOTP)
	own.Text = slices.Contains(add, waySMS) && !v.held
	return v.render("required", v.text.Text("required.title"), own)
}

// why says who requires a level.
func why(v *visit, by *string) string {
	switch {
	case by == nil || *by == "account":
		return v.text.Text("required.by_account")
	case *by == "deployment":
		return v.text.Text("required.by_deployment", "name", v.name())
	}
	return v.text.Text("required.by_organization")
}

// parseLevel returns a level by its name in the API, assurance.None for an unknown name.
func parseLevel(name string) assurance.Level {
	for _, level := range []assurance.Level{assurance.OneFactor, assurance.TwoFactors, assurance.PhishingResistant} {
		if level.String() == name {
			return level
		}
	}
	return assurance.None
}
