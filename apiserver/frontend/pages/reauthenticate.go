package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// reauthenticatePage asks the signed-in user to authenticate again.
type reauthenticatePage struct {
	// Password reports that the user has a password, and Code that a code can be sent.
	Password, Code bool
}

func showReauthenticate(v *visit) error {
	me, err := v.api.GetMe(v.r.Context())
	if err != nil {
		return err
	}
	password, code := ways(v)
	return v.render("reauthenticate", v.text.Text("reauthenticate.title"), reauthenticatePage{Password: password && me.Data.HasPassword, Code: code})
}

func takeReauthenticate(v *visit) error {
	sent := v.form
	body := enduserapi.Reauthentication{Strategy: enduserapi.ReauthenticationStrategyEmailOtp}
	if sent.Action != "code" {
		sent.Action = "password"
		if sent.value("password") == "" {
			sent.fail("password", v.text.Text("invalid.password"))
			return v.show(sent, http.StatusBadRequest)
		}
		body = enduserapi.Reauthentication{Strategy: enduserapi.ReauthenticationStrategyPassword, Password: given(sent.value("password"))}
	}
	if _, err := v.api.Reauthenticate(v.r.Context(), body); err != nil {
		return v.again(sent, err)
	}
	if sent.Action == "password" {
		v.state.notify("proved", v.now)
		return v.onward("/account")
	}
	newest := v.api.session.SigninAttempts[0]
	v.state.begin(flow{Email: v.who.User.Email, Attempt: newest.Id, Sends: 1, SentAt: v.now.Unix()}, v.now)
	return v.redirect("", "/reauthenticate/code", "attempt", newest.Id)
}

func showReauthenticateCode(v *visit) error {
	if !pending(v) {
		return v.onward("/account")
	}
	return v.codePage("code.title", "/reauthenticate")
}

func takeReauthenticateCode(v *visit) error {
	return takeCode(v, signInAttempt(v), "/reauthenticate/code", "proved")
}
