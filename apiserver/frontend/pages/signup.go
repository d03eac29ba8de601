package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
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
	body := enduserapi.SignUp{
		Email: sent.trimmed("email"), FirstName: given(sent.trimmed("first_name")), LastName: given(sent.trimmed("last_name")),
		OrganizationName: given(sent.trimmed("organization_name")),
	}
	if own.Password {
		body.Password = given(sent.value("password"))
	}
	if own.Invited {
		body.InvitationToken, body.OrganizationName = given(invitation(v)), nil
	}
	if own.Organization && body.OrganizationName == nil {
		sent.fail("organization_name", v.text.Text("invalid.organization_name"))
		return v.show(sent, http.StatusBadRequest)
	}
	if _, err := v.api.SignUp(v.r.Context(), body); err != nil {
		return v.again(sent, err)
	}
	newest := v.api.session.SignupAttempts[0]
	v.state.begin(flow{Email: newest.Email, Attempt: newest.Id, Sends: 1, SentAt: v.now.Unix()}, v.now)
	return v.redirect("", "/sign-up/code", "attempt", newest.Id)
}
