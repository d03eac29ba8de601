package pages

import (
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/openapi/enduserapi"
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
	if sent.Action == "sign-out" {
		operation = "/session/sign-out"
	}
	if err := v.api.call(http.MethodPost, operation, map[string]string{"signin_id": sent.value("signin_id")}, nil); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("", "/account")
}
