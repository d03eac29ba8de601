package pages

import (
	"html/template"
	"net/http"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// authenticatorPage adds an authenticator app.
type authenticatorPage struct {
	// ID is the id of the app that waits for its first code, "" before it has a secret.
	ID string
	// QR is the QR code as an SVG element. Secret is the secret in groups of four characters.
	QR     template.HTML
	Secret string
}

func showAuthenticator(v *visit) error {
	if settings, open := v.tenant.Settings.Strong(); !open || !settings.TOTP {
		return nothingThere()
	}
	own := authenticatorPage{}
	if v.form != nil && v.form.Action == "confirm" && v.form.refused() {
		return showEnrollment(v)
	}
	return v.render("authenticator", v.text.Text("authenticator.title"), own)
}

// showEnrollment shows the secret of the app that the user adds, and asks for its first code. The page is shown without
// a redirect, so that the secret is in no cookie and no address.
func showEnrollment(v *visit) error {
	enrollment, err := v.api.AddAuthenticator(v.r.Context(), enduserapi.FactorName{Name: given(v.form.trimmed("name"))})
	if err != nil {
		v.form.Action = "begin"
		return v.again(v.form, err)
	}
	e := enrollment.Data
	own := authenticatorPage{ID: e.Id, Secret: inGroups(e.Secret), QR: template.HTML(e.QrSvg)} //nolint:gosec // the API generated the SVG
	return v.render("authenticator", v.text.Text("authenticator.title"), own)
}

// inGroups returns a text in groups of four characters.
func inGroups(text string) string {
	var out strings.Builder
	for i, r := range text {
		if i > 0 && i%4 == 0 {
			out.WriteByte(' ')
		}
		out.WriteRune(r)
	}
	return out.String()
}

func takeAuthenticator(v *visit) error {
	sent := v.form
	if sent.Action != "confirm" {
		sent.Action = "begin"
		return showEnrollment(v)
	}
	code := sent.trimmed("code")
	confirmed, err := v.api.ConfirmAuthenticator(v.r.Context(), sent.value("id"), enduserapi.FactorCode{Code: code})
	refused := refusal(err)
	switch {
	case refused == nil && err != nil:
		return err
	case refused == nil && confirmed.Data.Codes != nil:
		return showMadeCodes(v, *confirmed.Data.Codes)
	case refused == nil:
		return onwardTold(v, "factor_added", securityPath)
	case refused.Code == "FACTOR_NOT_FOUND", refused.Code == "EXPIRED_CODE":
		return v.redirect("enrollment_over", "/account/security/totp")
	case refused.Code == "VALIDATION_ERROR":
		sent.fail("code", v.text.Text("totp.form"))
	case refused.Code == "INVALID_CODE":
		sent.fail("code", wordLimits(v, refused, v.text.Text("totp.wrong")))
	default:
		return v.again(sent, err)
	}
	return v.show(sent, refused.Status)
}

// newPasskeyPage adds a passkey.
type newPasskeyPage struct {
	Options string
	// Key reports that the page adds a security key, which is only a second factor.
	Key bool
	// Suggested is the name that is filled in.
	Suggested string
	// Other is the address of the page that adds the other kind.
	Other string
}

func showNewPasskey(v *visit) error {
	own := newPasskeyPage{Suggested: browser(v, v.r.UserAgent()), Key: v.r.URL.Query().Get("kind") == string(enduserapi.PasskeyKindKindSecurityKey)}
	kind := enduserapi.PasskeyKindKindPasskey
	own.Other = v.link("/account/security/passkey", "kind", string(enduserapi.PasskeyKindKindSecurityKey))
	if own.Key {
		kind, own.Other = enduserapi.PasskeyKindKindSecurityKey, v.link("/account/security/passkey")
	}
	options, err := v.api.PasskeyCreationOptions(v.r.Context(), enduserapi.PasskeyKind{Kind: &kind})
	if err != nil {
		return err
	}
	own.Options = optionsJSON(&options.Data.PublicKey)
	return v.render("newpasskey", v.text.Text("newpasskey.title"), own)
}

func takeNewPasskey(v *visit) error {
	sent := v.form
	sent.Action = wayPasskey
	_, credential, ok := sent.proof(v)
	if !ok {
		return v.show(sent, http.StatusBadRequest)
	}
	name := sent.trimmed("name")
	if name == "" {
		name = browser(v, v.r.UserAgent())
	}
	_, err := v.api.AddPasskey(v.r.Context(), enduserapi.PasskeyCreate{Credential: *credential, Name: &name})
	switch refused := refusal(err); {
	case refused != nil && refused.Code == "VALIDATION_ERROR" && len(refused.Faults) > 0 && strings.HasPrefix(refused.Faults[0].Message, "name"):
		return v.again(sent, err)
	case err != nil:
		return proofRefused(v, sent, err)
	}
	return onwardTold(v, "passkey_added", securityPath)
}
