package pages

import (
	"net/http"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// accountPage shows the signed-in user's account and all accounts of the session.
type accountPage struct {
	Accounts []enduserapi.Account
	// Offer shows the offer of a passkey.
	Offer bool
}

func showAccount(v *visit) error {
	accounts, err := v.api.ListAccounts(v.r.Context())
	if err != nil {
		return err
	}
	offer, err := takeOffer(v)
	if err != nil {
		return err
	}
	return v.render("account", v.text.Text("account.title"), accountPage{accounts.Data, offer})
}

func takeAccount(v *visit) error {
	sent := v.form
	var err error
	switch sent.Action {
	case "not-now":
		return restOffer(v)
	case "rename":
		return rename(v, sent)
	case "sign-out":
		id := sent.value("signin_id")
		_, err = v.api.SignOut(v.r.Context(), enduserapi.SignOut{SigninId: &id})
	default:
		err = switchSignIn(v, sent)
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect("", "/account")
}

// switchSignIn makes the chosen account of the session active.
func switchSignIn(v *visit, sent *form) error {
	_, err := v.api.SwitchSignIn(v.r.Context(), enduserapi.SignInChoice{SigninId: sent.value("signin_id")})
	return err
}

func rename(v *visit, sent *form) error {
	body := enduserapi.OwnAccountPatch{FirstName: sent.member("first_name"), LastName: sent.member("last_name")}
	if _, err := v.api.RenameMe(v.r.Context(), body); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("renamed", "/account")
}

func showDeleteAccount(v *visit) error {
	return v.render("deleteaccount", v.text.Text("deleteaccount.title"), nil)
}

// takeDeleteAccount deletes the account if the user typed its primary address. The page itself then sends the
// confirmation that the operation requires.
func takeDeleteAccount(v *visit) error {
	sent := v.form
	sent.Action = "delete"
	if !strings.EqualFold(sent.trimmed("confirmation"), v.who.User.Email) {
		sent.fail("confirmation", v.text.Text("deleteaccount.mismatch", "email", v.who.User.Email))
		return v.show(sent, http.StatusBadRequest)
	}
	if _, err := v.api.DeleteAccount(v.r.Context(), enduserapi.AccountDeletion{Confirmation: enduserapi.DELETEMYACCOUNT, UserId: &sent.user}); err != nil {
		return v.again(sent, err)
	}
	v.state.Draft, v.state.Flow, v.state.changed = nil, nil, true
	return v.redirect("account_deleted", "/sign-in")
}
