package pages

import (
	"net/http"
	"slices"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// stepSecondFactor is the step of an attempt that waits for a second factor.
const stepSecondFactor = "second_factor"

// waitsForFactor reports whether an attempt waits for a second factor.
func waitsForFactor(v *visit, attempt string) bool {
	return slices.ContainsFunc(v.api.session.SigninAttempts, func(a enduserapi.SignInAttempt) bool {
		return a.Id == attempt && !a.Completed && a.CurrentStep == stepSecondFactor
	})
}

// toSecondFactor redirects the browser to the page that asks for the second factor of an attempt.
func toSecondFactor(v *visit, attempt string) error {
	return v.redirect("", "/sign-in/second-factor", append(adding(v), "attempt", attempt)...)
}

func showSecondFactor(v *visit) error {
	if !waitsForFactor(v, attempt(v)) {
		return attemptOver(v, "/sign-in")
	}
	offered, err := v.api.PrepareSecondFactor(v.r.Context(), enduserapi.SecondFactorChoice{SigninAttemptId: attempt(v)})
	if refusedBy(err, "INVALID_ATTEMPT") {
		return attemptOver(v, "/sign-in")
	}
	if err != nil {
		return err
	}
	own := proofPage{Options: optionsJSON(offered.Data.PublicKey), Back: v.link("/sign-in", adding(v)...)}
	var ways []string
	for _, factor := range offered.Data.Factors {
		if factor.PhoneNumber != nil && own.Number == "" {
			own.Number = *factor.PhoneNumber
		}
		if way := string(factor.Type); !slices.Contains(ways, way) {
			ways = append(ways, way)
		}
	}
	own.choose(v, ways)
	own.textSent(v, attempt(v))
	return v.render("secondfactor", v.text.Text("secondfactor.title"), own)
}

func takeSecondFactor(v *visit) error {
	sent := v.form
	if sent.Action == actionSend || sent.Action == "resend" {
		sent.Action = actionSend
		if err := sendText(v, attempt(v)); err != nil {
			return factorRefused(v, sent, err)
		}
		return v.redirect("code_sent", "/sign-in/second-factor", append(adding(v), "attempt", attempt(v), "way", waySMS)...)
	}
	code, credential, ok := sent.proof(v)
	if !ok {
		return v.show(sent, http.StatusBadRequest)
	}
	body := enduserapi.SecondFactorProof{SigninAttemptId: attempt(v), Strategy: enduserapi.SecondFactorProofStrategy(sent.Action), Code: code, Credential: credential}
	if _, err := v.api.AttemptSecondFactor(v.r.Context(), body); err != nil {
		return factorRefused(v, sent, err)
	}
	if waitsForFactor(v, attempt(v)) {
		return toSecondFactor(v, attempt(v))
	}
	v.state.Flow, v.state.changed = nil, true
	if sent.Action == wayRecovery {
		return onwardTold(v, "recovery_used", "/account/security")
	}
	if sent.Action != wayPasskey {
		offerPasskey(v)
	}
	return v.onward("/account")
}

// factorRefused responds to a refused second factor. If the attempt is over, the user begins again.
func factorRefused(v *visit, sent *form, err error) error {
	refused := refusal(err)
	switch {
	case refused != nil && refused.Code == "INVALID_ATTEMPT":
		return attemptOver(v, "/sign-in")
	case refused != nil && refused.Code == "TOO_MANY_ATTEMPTS" && refused.RetryAfter == 0:
		return v.redirect("too_many_codes", "/sign-in", adding(v)...)
	}
	return proofRefused(v, sent, err)
}
