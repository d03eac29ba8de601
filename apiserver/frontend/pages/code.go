package pages

import (
	"slices"
	"strings"
	"unicode"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// codePage asks for the code of an attempt.
type codePage struct {
	// To is the address to which the code was sent, "" if the browser's cookie does not have it.
	To string
	// Wait is how many seconds remain until another code can be requested. WaitText is the text for it, with {n} for
	// the number.
	Wait     int
	WaitText string
	// Back is the address of the page on which the user can begin again.
	Back string
}

// cooldowns are the seconds to wait after the first, the second and each later send of a code. The API enforces them.
// The page shows them so that users do not send requests that would be refused.
var cooldowns = []int{30, 60, 120}

// waitFor returns how many seconds remain of the cool-down after a number of sends. sinceLast is the number of seconds
// since the last send.
func waitFor(sends int, sinceLast int64) int {
	if sends < 1 {
		return 0
	}
	return max(cooldowns[min(sends, len(cooldowns))-1]-int(sinceLast), 0)
}

// attempt returns the id of the attempt in the page's query.
func attempt(v *visit) string { return v.r.URL.Query().Get("attempt") }

func (v *visit) codePage(title, back string) error {
	own := codePage{Back: v.link(back, adding(v)...)}
	if f := v.state.Flow; f != nil && f.Attempt == attempt(v) {
		own.To, own.Wait = f.Email, waitFor(f.Sends, v.now.Unix()-f.SentAt)
	}
	own.WaitText = v.text.Text("code.wait")
	return v.render("code", v.text.Text(title), own)
}

// pending reports whether the page's attempt to sign in, to reauthenticate or to reset a password waits for its code.
func pending(v *visit) bool {
	return slices.ContainsFunc(v.api.session.SigninAttempts, func(a enduserapi.SignInAttempt) bool {
		return a.Id == attempt(v) && !a.Completed && (a.CurrentStep == "verify_email_otp" || a.CurrentStep == stepVerifyEmail)
	})
}

func showSignInCode(v *visit) error {
	if !pending(v) {
		return attemptOver(v, "/sign-in")
	}
	return v.codePage("code.title", "/sign-in")
}

func showSignUpCode(v *visit) error {
	pending := slices.ContainsFunc(v.api.session.SignupAttempts, func(a enduserapi.SignUpAttempt) bool { return a.Id == attempt(v) })
	if !pending {
		return attemptOver(v, "/sign-up")
	}
	return v.codePage("code.title", "/sign-up")
}

// attemptOver redirects from the page of an attempt that is not pending: the attempt expired, or was completed, for
// example by a second click.
func attemptOver(v *visit, back string) error {
	if v.who.User != nil && !v.r.URL.Query().Has("add") {
		return v.onward("/account")
	}
	return v.redirect("attempt_over", back)
}

func takeSignInCode(v *visit) error { return takeCode(v, signInAttempt(v), "/sign-in/code", "") }

func takeSignUpCode(v *visit) error { return takeCode(v, signUpAttempt(v), "/sign-up/code", "") }

// signInAttempt and signUpAttempt identify the page's attempt to the API, as a sign-in attempt or a sign-up attempt.
func signInAttempt(v *visit) enduserapi.AttemptChoice {
	id := attempt(v)
	return enduserapi.AttemptChoice{SigninAttemptId: &id}
}

func signUpAttempt(v *visit) enduserapi.AttemptChoice {
	id := attempt(v)
	return enduserapi.AttemptChoice{SignupAttemptId: &id}
}

// takeCode completes an attempt with its code and sets a notice ("" for none), or requests another code.
func takeCode(v *visit, of enduserapi.AttemptChoice, page, notice string) error {
	done, err := enterCode(v, of, page)
	if err != nil || !done {
		return err
	}
	if waitsForFactor(v, attempt(v)) {
		return toSecondFactor(v, attempt(v))
	}
	v.state.Flow, v.state.changed = nil, true
	if notice != "" {
		v.state.notify(notice, v.now)
	} else {
		offerPasskey(v) // it was a sign-in or a sign-up
	}
	return v.onward("/account")
}

// enterCode sends the entered code of an attempt, or requests another code. done reports that the code was right;
// otherwise the response is written.
func enterCode(v *visit, of enduserapi.AttemptChoice, page string) (done bool, err error) {
	sent := v.form
	if sent.Action == "resend" {
		_, err = v.api.PrepareVerification(v.r.Context(), of)
	} else {
		sent.Action = "code"
		_, err = v.api.AttemptVerification(v.r.Context(), enduserapi.AttemptCode{
			SigninAttemptId: of.SigninAttemptId, SignupAttemptId: of.SignupAttemptId, Code: typedCode(sent.value("code")),
		})
	}
	if err != nil {
		if refusedBy(err, "INVALID_ATTEMPT") {
			return false, v.redirect("", page, append(adding(v), "attempt", attempt(v))...)
		}
		return false, v.again(sent, err)
	}
	if sent.Action != "resend" {
		return true, nil
	}
	if f := v.state.Flow; f != nil && f.Attempt == attempt(v) {
		v.state.begin(flow{Email: f.Email, Attempt: f.Attempt, Sends: f.Sends + 1, SentAt: v.now.Unix()}, v.now)
	}
	return false, v.redirect("code_sent", page, append(adding(v), "attempt", attempt(v))...)
}

// typedCode returns an entered code without white space and dashes.
func typedCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '-' || r == '\u2013' {
			return -1
		}
		return r
	}, typed)
}
