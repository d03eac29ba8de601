package pages

import (
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi/enduserapi"
)

// reauthenticatePage asks the signed-in user to authenticate again.
type reauthenticatePage struct {
	// Password reports that they have one, and Code that a code can be sent.
	Password, Code bool
}

func showReauthenticate(v *visit) error {
	var me enduserapi.OwnAccount
	if err := v.api.call(http.MethodGet, "/me", nil, &me); err != nil {
		return err
	}
	password, code := ways(v)
	return v.render("reauthenticate", v.text.Text("reauthenticate.title"), reauthenticatePage{Password: password && me.HasPassword, Code: code})
}

func takeReauthenticate(v *visit) error {
	sent := v.form
	body := map[string]string{"strategy": byCode}
	if sent.Action != "code" {
		sent.Action = "password"
		if sent.value("password") == "" {
			sent.fail("password", v.text.Text("invalid.password"))
			return v.show(sent, http.StatusBadRequest)
		}
		body = map[string]string{"strategy": byPassword, "password": sent.value("password")}
	}
	if err := v.api.call(http.MethodPost, "/session/reauthenticate", body, nil); err != nil {
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
	return takeCode(v, "signin_attempt_id", "/reauthenticate/code", "proved")
}
