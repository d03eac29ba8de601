package pages

import (
	"net/http"
	"slices"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// showReauthenticate asks the signed-in user for a proof that the account has. The page's query can restrict the proofs
// to those that help.
func showReauthenticate(v *visit) error {
	options, err := v.api.ReauthenticationOptions(v.r.Context(), enduserapi.Empty{})
	if err != nil {
		return err
	}
	ways := options.Data.Strategies
	if asked := wayQuery(v.r.URL.Query()); len(asked) > 0 {
		helpful := slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return !slices.Contains(asked, way) })
		if len(helpful) > 0 {
			ways = helpful
		}
	}
	if options.Data.PublicKey == nil {
		ways = slices.DeleteFunc(slices.Clone(ways), func(way string) bool { return way == wayPasskey })
	}
	own := proofPage{Options: optionsJSON(options.Data.PublicKey)}
	own.choose(v, ways)
	own.Connections = ownConnections(v)
	return v.render("reauthenticate", v.text.Text("reauthenticate.title"), own)
}

func takeReauthenticate(v *visit) error {
	sent := v.form
	if connection, is := strings.CutPrefix(sent.Action, "sso-"); is {
		return reauthenticateAt(v, sent, connection)
	}
	body := enduserapi.Reauthentication{Strategy: enduserapi.ReauthenticationStrategy(sent.Action)}
	switch sent.Action {
	case wayPasskey, wayTOTP, wayRecovery:
		var ok bool
		if body.Code, body.Credential, ok = sent.proof(v); !ok {
			return v.show(sent, http.StatusBadRequest)
		}
	case actionSend:
		body.Strategy = enduserapi.ReauthenticationStrategySms
	case actionCode:
		body.Strategy = enduserapi.ReauthenticationStrategyEmailOtp
	default:
		sent.Action = wayPassword
		if sent.value("password") == "" {
			sent.fail("password", v.text.Text("invalid.password"))
			return v.show(sent, http.StatusBadRequest)
		}
		body = enduserapi.Reauthentication{Strategy: enduserapi.ReauthenticationStrategyPassword, Password: given(sent.value("password"))}
	}
	if _, err := v.api.Reauthenticate(v.r.Context(), body); err != nil {
		return proofRefused(v, sent, err)
	}
	switch sent.Action {
	case actionCode:
		newest := v.api.session.SigninAttempts[0]
		v.state.begin(flow{Email: v.who.User.Email, Attempt: newest.Id, Sends: 1, SentAt: v.now.Unix()}, v.now)
		return v.redirect("", "/reauthenticate/code", "attempt", newest.Id)
	case actionSend:
		newest := v.api.session.SigninAttempts[0]
		if err := sendText(v, newest.Id); err != nil {
			return proofRefused(v, sent, err)
		}
		return v.redirect("code_sent", "/reauthenticate/text", "attempt", newest.Id)
	}
	return onwardTold(v, "proved", "/account")
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

// showReauthenticateText asks for the code of a text.
func showReauthenticateText(v *visit) error {
	if !waitsForFactor(v, attempt(v)) {
		return v.onward("/account")
	}
	own := proofPage{Way: waySMS, Back: v.link("/reauthenticate")}
	own.textSent(v, attempt(v))
	own.Sent = true
	return v.render("secondfactor", v.text.Text("reauthenticate.title"), own)
}

func takeReauthenticateText(v *visit) error {
	sent := v.form
	if sent.Action == "resend" {
		if err := sendText(v, attempt(v)); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("code_sent", "/reauthenticate/text", "attempt", attempt(v))
	}
	sent.Action = waySMS
	code, _, ok := sent.proof(v)
	if !ok {
		return v.show(sent, http.StatusBadRequest)
	}
	body := enduserapi.SecondFactorProof{SigninAttemptId: attempt(v), Strategy: enduserapi.SecondFactorProofStrategySms, Code: code}
	if _, err := v.api.AttemptSecondFactor(v.r.Context(), body); err != nil {
		if refusedBy(err, "INVALID_ATTEMPT") || refusedBy(err, "TOO_MANY_ATTEMPTS") {
			return v.redirect("attempt_over", "/reauthenticate")
		}
		return proofRefused(v, sent, err)
	}
	v.state.Flow, v.state.changed = nil, true
	return onwardTold(v, "proved", "/account")
}
