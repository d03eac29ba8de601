package pages

import (
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/openapi/enduserapi"
)

// invitationPage asks whether to accept an invitation.
type invitationPage struct {
	// SignIn and SignUp lead back here, and to a sign-up that accepts.
	SignIn, SignUp string
	// Add leads to a sign-in with another account.
	Add string
}

func showInvitation(v *visit) error {
	token := v.r.PathValue("token")
	here := at("/invitations/{id}", token)
	return v.render("invitation", v.text.Text("invitation.title"), invitationPage{
		SignIn: v.link("/sign-in", "continue", here), SignUp: v.link("/sign-up", "invitation", token), Add: v.link("/sign-in", "add", "1", "continue", here),
	})
}

func takeInvitation(v *visit) error {
	sent := v.form
	if v.who.User == nil {
		return v.redirect("", at("/invitations/{id}", v.r.PathValue("token")))
	}
	sent.Action = "accept"
	var accepted enduserapi.AcceptedInvitation
	if err := v.api.call(http.MethodPost, "/organizations/invitations/accept", map[string]string{"token": v.r.PathValue("token")}, &accepted); err != nil {
		return v.again(sent, err)
	}
	joined := accepted.Membership.Organization
	if err := v.api.call(http.MethodPost, "/session/switch-organization", map[string]string{"organization_id": joined.Id}, nil); err != nil {
		return err
	}
	return v.redirect("joined", at("/organizations/{id}", joined.Slug))
}
