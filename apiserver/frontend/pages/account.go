package pages

import (
	"net/http"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// accountPage shows who one is, and the other accounts of the session.
type accountPage struct {
	Accounts []enduserapi.Account
}

func showAccount(v *visit) error {
	var own accountPage
	if err := v.api.call(http.MethodGet, "/session/accounts", nil, &own.Accounts); err != nil {
		return err
	}
	return v.render("account", v.text.Text("account.title"), own)
}

func takeAccount(v *visit) error {
	sent := v.form
	operation := "/session/switch-sign-in"
	switch sent.Action {
	case "rename":
		return rename(v, sent)
	case "sign-out":
		operation = "/session/sign-out"
	}
	if err := v.api.call(http.MethodPost, operation, map[string]string{"signin_id": sent.value("signin_id")}, nil); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("", "/account")
}

func rename(v *visit, sent *form) error {
	body := map[string]string{}
	for _, name := range []string{"first_name", "last_name"} {
		if _, there := sent.values[name]; there {
			body[name] = sent.trimmed(name)
		}
	}
	if err := v.api.call(http.MethodPatch, "/me", body, nil); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("renamed", "/account")
}

func showDeleteAccount(v *visit) error {
	return v.render("deleteaccount", v.text.Text("deleteaccount.title"), nil)
}

// takeDeleteAccount deletes the account of who typed its address, which the operation's own confirmation stands for.
func takeDeleteAccount(v *visit) error {
	sent := v.form
	sent.Action = "delete"
	if !strings.EqualFold(sent.trimmed("confirmation"), v.who.User.Email) {
		sent.fail("confirmation", v.text.Text("deleteaccount.mismatch", "email", v.who.User.Email))
		return v.show(sent, http.StatusBadRequest)
	}
	if err := v.api.call(http.MethodDelete, "/me/account", map[string]string{"confirmation": "DELETE_MY_ACCOUNT", "user_id": sent.user}, nil); err != nil {
		return v.again(sent, err)
	}
	v.state.Draft, v.state.Flow, v.state.changed = nil, nil, true
	return v.redirect("account_deleted", "/sign-in")
}
