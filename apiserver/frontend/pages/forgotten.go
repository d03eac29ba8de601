package pages

import (
	"slices"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// forgottenPage asks for the address of an account whose password is forgotten.
type forgottenPage struct {
	// Open reports that the deployment has passwords and sends mail.
	Open bool
	// Email is the address that was entered before.
	Email string
}

// canReset reports whether a forgotten password can be replaced here.
func canReset(v *visit) bool {
	password, _ := ways(v)
	return password && mails(v)
}

func showForgotten(v *visit) error {
	own := forgottenPage{Open: canReset(v)}
	if v.state.Flow != nil {
		own.Email = v.state.Flow.Email
	}
	return v.render("forgotten", v.text.Text("forgotten.title"), own)
}

func takeForgotten(v *visit) error {
	sent := v.form
	sent.Action = "forgotten"
	email := sent.trimmed("email")
	if _, err := v.api.ForgotPassword(v.r.Context(), enduserapi.ForgotPassword{Email: email}); err != nil {
		return v.again(sent, err)
	}
	newest := v.api.session.SigninAttempts[0]
	v.state.begin(flow{Email: email, Attempt: newest.Id, Sends: 1, SentAt: v.now.Unix()}, v.now)
	return v.redirect("", "/forgot-password/code", "attempt", newest.Id)
}

func showForgottenCode(v *visit) error {
	if proven(v) {
		return v.redirect("", "/forgot-password/new", "attempt", attempt(v))
	}
	if !pending(v) {
		return v.redirect("attempt_over", "/forgot-password")
	}
	return v.codePage("code.title", "/forgot-password")
}

func takeForgottenCode(v *visit) error {
	done, err := enterCode(v, signInAttempt(v), "/forgot-password/code")
	if err != nil || !done {
		return err
	}
	return v.redirect("", "/forgot-password/new", "attempt", attempt(v))
}

// proven reports whether the page's attempt waits for the new password.
func proven(v *visit) bool {
	return slices.ContainsFunc(v.api.session.SigninAttempts, func(a enduserapi.SignInAttempt) bool {
		return a.Id == attempt(v) && !a.Completed && a.CurrentStep == "new_password"
	})
}

// newPasswordPage asks for the new password.
type newPasswordPage struct{ Email, MinLength string }

func showNewPassword(v *visit) error {
	if !proven(v) {
		return v.redirect("attempt_over", "/forgot-password")
	}
	own := newPasswordPage{MinLength: minLength(v)}
	if f := v.state.Flow; f != nil && f.Attempt == attempt(v) {
		own.Email = f.Email
	}
	return v.render("newpassword", v.text.Text("newpassword.title"), own)
}

func takeNewPassword(v *visit) error {
	sent := v.form
	sent.Action = "reset"
	others, access := sent.ticked("sign_out_others"), sent.ticked("revoke_access")
	body := enduserapi.ResetPassword{SigninAttemptId: attempt(v), Password: sent.value("password"), SignOutOthers: &others, RevokeAccess: &access}
	if _, err := v.api.ResetPassword(v.r.Context(), body); err != nil {
		if refusedBy(err, "INVALID_ATTEMPT") {
			return v.redirect("attempt_over", "/forgot-password")
		}
		return v.again(sent, err)
	}
	if f := v.state.Flow; f != nil {
		v.state.begin(flow{Email: f.Email}, v.now) // the sign-in page fills in the address
	}
	return v.redirect("password_reset", "/sign-in")
}
