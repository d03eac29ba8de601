package pages

import (
	"net/http"
)

// signUpPage is the form of a sign-up.
type signUpPage struct {
	// Open reports that one can sign up: a code has to reach the address.
	Open bool
	// Password reports that one can have a password, and PasswordRequired that one must.
	Password, PasswordRequired bool
	MinLength                  string
	// Organization reports that one has to be created.
	Organization bool
	// Email is the address that is invited, "" where none is.
	Email string
	// Invited reports that the sign-up accepts an invitation.
	Invited bool
}

func (v *visit) signUpPage() signUpPage {
	password, code := ways(v)
	invited := invitation(v) != ""
	return signUpPage{
		Open: mails(v), Password: password, PasswordRequired: !code, MinLength: minLength(v), Invited: invited,
		Organization: v.tenant.RequireOrganization(invited) != nil,
	}
}

// invitation is the token that a sign-up comes with.
func invitation(v *visit) string { return v.r.URL.Query().Get("invitation") }

func showSignUp(v *visit) error {
	own := v.signUpPage()
	var err error
	if own.Email, err = invitedEmail(v); err != nil {
		return err
	}
	return v.render("signup", v.text.Text("signup.title", "name", v.name()), own)
}

func takeSignUp(v *visit) error {
	sent, own := v.form, v.signUpPage()
	sent.Action = "signup"
	body := map[string]string{"email": sent.trimmed("email")}
	for _, name := range []string{"first_name", "last_name", "organization_name"} {
		if typed := sent.trimmed(name); typed != "" {
			body[name] = typed
		}
	}
	if own.Password && sent.value("password") != "" {
		body["password"] = sent.value("password")
	}
	if own.Invited {
		body["invitation_token"] = invitation(v)
		delete(body, "organization_name")
	}
	if own.Organization && body["organization_name"] == "" {
		sent.fail("organization_name", v.text.Text("invalid.organization_name"))
		return v.show(sent, http.StatusBadRequest)
	}
	if err := v.api.call(http.MethodPost, "/auth/signup", body, nil); err != nil {
		return v.again(sent, err)
	}
	newest := v.api.session.SignupAttempts[0]
	v.state.begin(flow{Email: newest.Email, Attempt: newest.Id, Sends: 1, SentAt: v.now.Unix()}, v.now)
	return v.redirect("", "/sign-up/code", "attempt", newest.Id)
}
