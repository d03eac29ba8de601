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
	// Inviter is who invites, by name where there is one.
	Inviter string
	// Right reports that the signed-in user has the invited address.
	Right bool
	// Other is the sign-in of the session that has it, "" for none.
	Other string
	// SignIn and SignUp lead back here, and to a sign-up that accepts. Add leads to a sign-in with another account.
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

// invitedEmail is the address that the invitation of a sign-in or sign-up is for, "" where there is none.
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

// match finds out who of those signed in has the address.
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
