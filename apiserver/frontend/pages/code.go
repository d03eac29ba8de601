package pages

import (
	"slices"
	"strings"
	"unicode"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// codePage asks for the code of an attempt.
type codePage struct {
	// To is where the code went, "" where this browser does not know.
	To string
	// Wait is how many seconds are left until another can be asked for, and WaitText says so, with {n} for the number.
	Wait     int
	WaitText string
	// Back is where one begins again.
	Back string
}

// cooldowns are the seconds between the sends of codes: after the first, the second, and each later one. The API keeps
// them; what is shown here only spares a refusal.
var cooldowns = []int{30, 60, 120}

// waitFor returns how many seconds are left of the cool-down after the last of a number of sends.
func waitFor(sends int, sinceLast int64) int {
	if sends < 1 {
		return 0
	}
	return max(cooldowns[min(sends, len(cooldowns))-1]-int(sinceLast), 0)
}

// attempt is the id of the attempt that a page of a code is about.
func attempt(v *visit) string { return v.r.URL.Query().Get("attempt") }

func (v *visit) codePage(title, back string) error {
	own := codePage{Back: v.link(back, adding(v)...)}
	if f := v.state.Flow; f != nil && f.Attempt == attempt(v) {
		own.To, own.Wait = f.Email, waitFor(f.Sends, v.now.Unix()-f.SentAt)
	}
	own.WaitText = v.text.Text("code.wait")
	return v.render("code", v.text.Text(title), own)
}

// pending reports whether the page's sign-in, or proof, waits for its code.
func pending(v *visit) bool {
	return slices.ContainsFunc(v.api.session.SigninAttempts, func(a enduserapi.SignInAttempt) bool {
		return a.Id == attempt(v) && !a.Completed && a.CurrentStep == "verify_email_otp"
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

// attemptOver leads on from an attempt that is not there: completed, by this browser's other click perhaps, or over.
func attemptOver(v *visit, back string) error {
	if v.who.User != nil && !v.r.URL.Query().Has("add") {
		return v.onward("/account")
	}
	return v.redirect("attempt_over", back)
}

func takeSignInCode(v *visit) error { return takeCode(v, signInAttempt(v), "/sign-in/code", "") }

func takeSignUpCode(v *visit) error { return takeCode(v, signUpAttempt(v), "/sign-up/code", "") }

// signInAttempt and signUpAttempt name the page's attempt, as what it is an attempt of.
func signInAttempt(v *visit) enduserapi.AttemptChoice {
	id := attempt(v)
	return enduserapi.AttemptChoice{SigninAttemptId: &id}
}

func signUpAttempt(v *visit) enduserapi.AttemptChoice {
	id := attempt(v)
	return enduserapi.AttemptChoice{SignupAttemptId: &id}
}

// takeCode completes an attempt by its code, with a notice ("" for none), or asks for another code.
func takeCode(v *visit, of enduserapi.AttemptChoice, page, notice string) error {
	done, err := enterCode(v, of, page)
	if err != nil || !done {
		return err
	}
	v.state.Flow, v.state.changed = nil, true
	if notice != "" {
		v.state.notify(notice, v.now)
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

// typedCode is a code as people paste it, without what stands between its digits.
func typedCode(typed string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '-' || r == '\u2013' {
			return -1
		}
		return r
	}, typed)
}
