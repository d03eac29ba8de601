package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// ownPasswordPage is where one changes one's password.
type ownPasswordPage struct {
	// Has reports that there is one.
	Has       bool
	MinLength string
	// Removable reports that one can sign in without it, and Reset that it can be replaced without knowing it.
	Removable, Reset bool
}

func showOwnPassword(v *visit) error {
	password, code := ways(v)
	if !password {
		return nothingThere()
	}
	var me enduserapi.OwnAccount
	if err := v.api.call(http.MethodGet, "/me", nil, &me); err != nil {
		return err
	}
	own := ownPasswordPage{Has: me.HasPassword, MinLength: minLength(v), Removable: me.HasPassword && code, Reset: canReset(v)}
	return v.render("ownpassword", v.text.Text("ownpassword.title"), own)
}

func takeOwnPassword(v *visit) error {
	sent := v.form
	if sent.Action == "remove" {
		if err := v.api.call(http.MethodDelete, "/me/password", map[string]string{"current_password": sent.value("current_password")}, nil); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("password_removed", "/account/password")
	}
	sent.Action = "change"
	body := map[string]any{"new_password": sent.value("new_password"), "sign_out_others": sent.ticked("sign_out_others")}
	if current, asked := sent.values["current_password"]; asked {
		body["current_password"] = current
	}
	if err := v.api.call(http.MethodPost, "/me/update-password", body, nil); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("password_changed", "/account/password")
}
