package pages

import (
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// ownPasswordPage is the page on which the user changes the password.
type ownPasswordPage struct {
	// Has reports that the user has a password.
	Has       bool
	MinLength string
	// Removable reports that the user can sign in without the password, and Reset that a forgotten password can be
	// replaced.
	Removable, Reset bool
}

func showOwnPassword(v *visit) error {
	password, code := ways(v)
	if !password {
		return nothingThere()
	}
	me, err := v.api.GetMe(v.r.Context())
	if err != nil {
		return err
	}
	own := ownPasswordPage{Has: me.Data.HasPassword, MinLength: minLength(v), Removable: me.Data.HasPassword && code, Reset: canReset(v)}
	return v.render("ownpassword", v.text.Text("ownpassword.title"), own)
}

func takeOwnPassword(v *visit) error {
	sent := v.form
	if sent.Action == "remove" {
		if _, err := v.api.RemovePassword(v.r.Context(), enduserapi.PasswordRemoval{CurrentPassword: sent.value("current_password")}); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("password_removed", "/account/password")
	}
	sent.Action = "change"
	others := sent.ticked("sign_out_others")
	body := enduserapi.PasswordUpdate{NewPassword: sent.value("new_password"), SignOutOthers: &others}
	if current, asked := sent.values["current_password"]; asked {
		body.CurrentPassword = &current
	}
	if _, err := v.api.UpdatePassword(v.r.Context(), body); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("password_changed", "/account/password")
}
