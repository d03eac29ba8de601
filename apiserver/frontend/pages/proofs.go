package pages

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/client"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// The strategies of the API by which users prove who they are. They are also the actions of the forms.
const (
	wayPasskey  = "passkey"
	wayTOTP     = "totp"
	waySMS      = "sms"
	wayRecovery = "recovery_code"
	wayPassword = "password"
	wayEmail    = "email_otp"
)

// The actions of forms that request a text and a code by mail.
const (
	actionSend = "send"
	actionCode = "code"
)

// requiredPath is the path of the page that says which factor a user must show or add.
const requiredPath = "/account/security/required"

// proofPage asks for one of the proofs that an account has.
type proofPage struct {
	// Connections are those at which the user has an identity.
	Connections []enduserapi.IdentityConnection
	// Way is the strategy that the page asks for, "" if there is none. Others are links to the other strategies.
	Way    string
	Others []wayLink
	// Email reports that the form of the password offers a code by mail, too.
	Email bool
	// Options are the options for a passkey as JSON.
	Options string
	// Number is what is shown of the phone number. Sent reports that a code was sent to it.
	Number string
	Sent   bool
	// Wait is how many seconds remain until another text can be requested. WaitText is the text for it.
	Wait     int
	WaitText string
	// Back is the address of the page on which the user can begin again.
	Back string
}

// wayLink is a link to a page that asks for another proof.
type wayLink struct{ Address, Text string }

// wayText names a strategy.
func wayText(v *visit, way string) string {
	switch way {
	case wayPasskey:
		return v.text.Text("way.passkey")
	case wayTOTP:
		return v.text.Text("way.totp")
	case waySMS:
		return v.text.Text("way.sms")
	case wayRecovery:
		return v.text.Text("way.recovery_code")
	case wayPassword:
		return v.text.Text("way.password")
	}
	return v.text.Text("way.email_otp")
}

// choose sets the strategy that the page asks for: that of the refused form, else the one in the page's query, else the
// first one.
func (own *proofPage) choose(v *visit, ways []string) {
	wanted := v.r.URL.Query().Get("way")
	if v.form.refused() {
		wanted = v.form.Action
		switch wanted {
		case actionSend:
			wanted = waySMS
		case actionCode:
			wanted = wayEmail
		}
	}
	if len(ways) > 0 && !slices.Contains(ways, wanted) {
		wanted = ways[0]
	}
	for _, way := range ways {
		if way == wanted {
			own.Way = way
			continue
		}
		if way == wayEmail && wanted == wayPassword {
			own.Email = true
			continue
		}
		own.Others = append(own.Others, wayLink{v.link(v.r.URL.Path, append(v.kept(), "way", way)...), wayText(v, way)})
	}
}

// textSent sets whether a text was sent for an attempt.
func (own *proofPage) textSent(v *visit, attempt string) {
	own.WaitText = v.text.Text("code.wait")
	if f := v.state.Flow; f != nil && f.Attempt == textFlow+attempt {
		own.Sent, own.Wait = true, waitFor(f.Sends, v.now.Unix()-f.SentAt)
	}
}

// textFlow is the prefix of an attempt's id in state.Flow.Attempt if a text was sent for the attempt.
const textFlow = "sms:"

// sendText sends a text for an attempt.
func sendText(v *visit, attempt string) error {
	strategy := enduserapi.SecondFactorChoiceStrategySms
	if _, err := v.api.PrepareSecondFactor(v.r.Context(), enduserapi.SecondFactorChoice{SigninAttemptId: attempt, Strategy: &strategy}); err != nil {
		return err
	}
	next := flow{Attempt: textFlow + attempt, Sends: 1, SentAt: v.now.Unix()}
	if f := v.state.Flow; f != nil {
		next.Email = f.Email
		if f.Attempt == next.Attempt {
			next.Sends = f.Sends + 1
		}
	}
	v.state.begin(next, v.now)
	return nil
}

// optionsJSON returns the options of a passkey operation for a data attribute, "" for none.
func optionsJSON(options *map[string]any) string {
	if options == nil {
		return ""
	}
	raw, err := json.Marshal(*options)
	if err != nil {
		return ""
	}
	return string(raw)
}

// credential returns the credential that the script entered into a form, nil if there is none.
func (f *form) credential() *map[string]any {
	var out map[string]any
	if json.Unmarshal([]byte(f.value("credential")), &out) != nil || out == nil {
		return nil
	}
	return &out
}

// proof returns the code or the credential of a form whose action is a strategy. If it has none, proof returns false,
// and the page must be shown again.
func (f *form) proof(v *visit) (code *string, credential *map[string]any, ok bool) {
	if f.Action == wayPasskey {
		if credential = f.credential(); credential == nil {
			f.Message = v.text.Text("passkey.refused")
		}
		return nil, credential, credential != nil
	}
	typed := strings.TrimSpace(f.value("code"))
	if typed == "" {
		f.fail("code", formOfCode(v, f.Action))
		return nil, nil, false
	}
	return &typed, nil, true
}

// formOfCode says what the code of a strategy looks like.
func formOfCode(v *visit, way string) string {
	switch way {
	case wayTOTP:
		return v.text.Text("totp.form")
	case wayRecovery:
		return v.text.Text("recovery.form")
	}
	return v.text.Text("invalid.code")
}

// proofRefused shows the page again with the reason for which a proof was refused.
func proofRefused(v *visit, sent *form, err error) error {
	refused := refusal(err)
	if refused == nil {
		return err
	}
	switch {
	case refused.Code == "VALIDATION_ERROR" && sent.Action == wayPasskey, refused.Code == "INVALID_CREDENTIALS" && sent.Action == wayPasskey:
		sent.Message = v.text.Text("passkey.refused")
	case refused.Code == "VALIDATION_ERROR" && sent.Action != actionSend:
		sent.fail("code", formOfCode(v, sent.Action))
	case refused.Code == "INVALID_CODE" && sent.Action == wayTOTP:
		sent.fail("code", wordLimits(v, refused, v.text.Text("totp.wrong")))
	case refused.Code == "INVALID_CODE" && sent.Action == wayRecovery:
		sent.fail("code", wordLimits(v, refused, v.text.Text("recovery.wrong")))
	default:
		return v.again(sent, err)
	}
	return v.show(sent, refused.Status)
}

// asksForProof reports whether the user can repeat a refused request after showing or adding a factor.
func asksForProof(refused *client.Error) bool {
	switch refused.Code {
	case "REAUTHENTICATION_REQUIRED", "STEP_UP_REQUIRED", "ENROLLMENT_REQUIRED":
		return true
	}
	return false
}

// toProof redirects the browser to the page on which the user shows or adds a factor, and which returns to this page.
// It reports false if a refusal asks for neither.
func toProof(v *visit, refused *client.Error) bool {
	if !asksForProof(refused) {
		return false
	}
	if refused.Code == "ENROLLMENT_REQUIRED" {
		v.toAndBack(requiredPath, "level", v.api.demand.Level)
		return true
	}
	v.toAndBack("/reauthenticate", "ways", strings.Join(v.api.demand.Strategies, " "))
	return true
}

// signal is a message for the browser's passkeys, which the script sends: a method of PublicKeyCredential and its
// argument as JSON.
type signal struct{ Method, Argument string }

func newSignal(method string, argument map[string]any) signal {
	return signal{method, optionsJSON(&argument)}
}

// unknownCredential reports to the browser that the server has no passkey with an id.
func unknownCredential(v *visit, id string) signal {
	return newSignal("signalUnknownCredential", map[string]any{"rpId": relyingParty(v), "credentialId": id})
}

// relyingParty returns the relying party of the deployment's passkeys.
func relyingParty(v *visit) string {
	settings, _ := v.tenant.Settings.Strong()
	return settings.RelyingParty
}

// signInOptions returns the options for a sign-in with a passkey as JSON, "" if there are no passkeys.
func signInOptions(v *visit) string {
	settings, open := v.tenant.Settings.Strong()
	if !open || !settings.Passkey || settings.RelyingParty == "" {
		return ""
	}
	options, err := v.api.PasskeyOptions(v.r.Context(), enduserapi.Empty{})
	if err != nil {
		return "" // the other ways to sign in still work
	}
	return optionsJSON(&options.Data.PublicKey)
}

// signInByPasskey signs in with the passkey in a form.
func signInByPasskey(v *visit, sent *form) error {
	_, credential, ok := sent.proof(v)
	if !ok {
		return v.show(sent, http.StatusBadRequest)
	}
	_, err := v.api.SignIn(v.r.Context(), enduserapi.SignIn{Strategy: enduserapi.SignInStrategyPasskey, Credential: credential})
	if refusedBy(err, "INVALID_CREDENTIALS") {
		v.unknown, _ = (*credential)["id"].(string)
	}
	if err != nil {
		return proofRefused(v, sent, err)
	}
	v.state.Flow, v.state.changed = nil, true
	return v.onward("/account")
}

// levelText returns a level in words.
func levelText(v *visit, level string) string {
	switch level {
	case "phishing_resistant":
		return v.text.Text("level.phishing_resistant")
	case "two_factors":
		return v.text.Text("level.two_factors")
	}
	return v.text.Text("level.one_factor")
}

// wayQuery returns the strategies that the page's query permits, nil for all.
func wayQuery(asked url.Values) []string { return strings.Fields(asked.Get("ways")) }
