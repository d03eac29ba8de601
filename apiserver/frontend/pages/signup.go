package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// signUpPage is the form of a sign-up.
type signUpPage struct {
	// Open reports that users can sign up. The deployment must send mail, because a sign-up needs an emailed code.
	Open bool
	// Password reports that the user can choose a password, and PasswordRequired that the user must.
	Password, PasswordRequired bool
	MinLength                  string
	// Organization reports that the sign-up must create an organization.
	Organization bool
	// Email is the invited address, "" if the sign-up has no open invitation.
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

// invitation returns the token of the invitation in the page's query, "" for none.
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
