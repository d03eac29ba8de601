package pages

import (
	"net/http"
	"slices"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// invitationPage shows an invitation, and asks whether to accept it.
type invitationPage struct {
	*enduserapi.InvitationLookup
	// Inviter is the inviter's name, or the inviter's email address if there is no name.
	Inviter string
	// Right reports that the signed-in user has the invited address.
	Right bool
	// Other is the id of the session's sign-in whose account has the invited address, "" for none.
	Other string
	// SignIn is the address of a sign-in that returns to this page, and SignUp that of a sign-up that accepts the
	// invitation. Add is the address of a sign-in that adds another account and returns to this page.
	SignIn, SignUp, Add string
}

// lookUp returns the invitation of a token, nil if it is not open.
func lookUp(v *visit, token string) (*enduserapi.InvitationLookup, error) {
	found, err := v.api.LookUpInvitation(v.r.Context(), enduserapi.InvitationAccept{Token: token})
	if refused := refusal(err); refused != nil && refused.Status < http.StatusInternalServerError {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &found.Data, nil
}

// invitedEmail returns the invited address if the page's query has an open invitation, else "".
func invitedEmail(v *visit) (string, error) {
	if invitation(v) == "" {
		return "", nil
	}
	found, err := lookUp(v, invitation(v))
	if err != nil || found == nil {
		return "", err
	}
	return found.Email, nil
}

func showInvitation(v *visit) error {
	token := v.r.PathValue("token")
	here := at("/invitations/{id}", token)
	found, err := lookUp(v, token)
	if err != nil {
		return err
	}
	if found == nil {
		v.form, v.status = nil, http.StatusNotFound
		return v.render("invitation", v.text.Text("invitation.over"), invitationPage{})
	}
	own := invitationPage{
		InvitationLookup: found, SignIn: v.link("/sign-in", "invitation", token, "continue", here), SignUp: v.link("/sign-up", "invitation", token, "continue", "/organizations"),
		Add: v.link("/sign-in", "add", "1", "invitation", token, "continue", here),
	}
	if own.Inviter = text.Person(found.Inviter.FirstName, found.Inviter.LastName); own.Inviter == "" {
		own.Inviter = found.Inviter.Email
	}
	if err := own.match(v); err != nil {
		return err
	}
	return v.render("invitation", v.text.Text("invitation.title", "organization", found.Organization.Name), own)
}

// match sets Right and Other: which account of the session has the invited address.
func (own *invitationPage) match(v *visit) error {
	if v.who.User == nil {
		return nil
	}
	emails, err := emails(v)
	if err != nil {
		return err
	}
	own.Right = slices.ContainsFunc(emails, func(e enduserapi.EmailAddress) bool { return e.Verified && strings.EqualFold(e.Email, own.Email) })
	if own.Right {
		return nil
	}
	accounts, err := v.api.ListAccounts(v.r.Context())
	if err != nil {
		return err
	}
	for _, a := range accounts.Data {
		if strings.EqualFold(a.User.Email, own.Email) {
			own.Other = a.SigninId
		}
	}
	return nil
}

func takeInvitation(v *visit) error {
	sent, here := v.form, at("/invitations/{id}", v.r.PathValue("token"))
	if v.who.User == nil {
		return v.redirect("", here)
	}
	if sent.Action == "switch" {
		if err := switchSignIn(v, sent); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("", here)
	}
	sent.Action = "accept"
	accepted, err := v.api.AcceptInvitation(v.r.Context(), enduserapi.InvitationAccept{Token: v.r.PathValue("token")})
	if err != nil {
		return v.again(sent, err)
	}
	joined := accepted.Data.Membership.Organization
	if err := switchOrganization(v, joined.Id); err != nil {
		return err
	}
	return v.redirect("joined", at("/organizations/{id}", joined.Slug))
}
