package pages

import (
	"html/template"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
)

// securityPath is the path of the page with the second factors of the user.
const securityPath = "/account/security"

// codesLow is the number of recovery codes from which on the page asks for new ones.
const codesLow = 2

// securityPage shows the user's second factors and passkeys.
type securityPage struct {
	enduserapi.SecondFactors
	// Fixed reports that the second step cannot be turned off, because the deployment requires it. Any reports that the
	// account has a factor.
	Fixed, Any bool
	// PasskeysOpen, AppsOpen and TextsOpen report which kinds of factors the deployment enables.
	PasskeysOpen, AppsOpen, TextsOpen bool
	// Numbers are the verified numbers that are no second factor.
	Numbers []enduserapi.PhoneNumber
	// Left says how many recovery codes are left, "" if none were made. Low reports that only few are.
	Left string
	Low  bool
	// Signals are messages for the browser's passkeys.
	Signals []signal
}

func showSecurity(v *visit) error {
	settings, open := v.tenant.Settings.Strong()
	if !open {
		return nothingThere()
	}
	list, err := v.api.ListSecondFactors(v.r.Context())
	if err != nil {
		return err
	}
	own := securityPage{
		SecondFactors: list.Data, Fixed: list.Data.Required != assurance.OneFactor.String(), PasskeysOpen: settings.Passkey && settings.RelyingParty != "",
		AppsOpen: settings.TOTP, TextsOpen: settings.SMS && v.tenant.Settings.SMS != nil, Signals: passkeySignals(v, list.Data.Passkeys),
	}
	own.Any = len(own.Totp)+len(own.Sms)+len(own.Passkeys) > 0
	if codes := own.RecoveryCodes; codes != nil {
		own.Left, own.Low = v.text.Count("security.codes_left", codes.Left), codes.Left <= codesLow
	}
	if own.TextsOpen && !v.held { // the API lists no numbers to a user who must show or add a factor
		phones, err := v.api.ListPhoneNumbers(v.r.Context())
		if err != nil {
			return err
		}
		for _, phone := range phones.Data {
			factor := slices.ContainsFunc(own.Sms, func(f enduserapi.TextFactor) bool { return f.PhoneNumberId == phone.Id })
			if phone.Verified && !factor {
				own.Numbers = append(own.Numbers, phone)
			}
		}
	}
	return v.render("security", v.text.Text("security.title"), own)
}

// passkeySignals notifies the browser which passkeys the account has, and which was removed.
func passkeySignals(v *visit, passkeys []enduserapi.Passkey) (out []signal) {
	party := relyingParty(v)
	handles := map[string][]string{}
	var order []string
	for _, p := range passkeys {
		if p.RelyingPartyId != party {
			continue
		}
		if handles[p.UserHandle] == nil {
			order = append(order, p.UserHandle)
		}
		handles[p.UserHandle] = append(handles[p.UserHandle], p.CredentialId)
	}
	for _, handle := range order {
		out = append(out, newSignal("signalAllAcceptedCredentials", map[string]any{"rpId": party, "userId": handle, "allAcceptedCredentialIds": handles[handle]}))
	}
	if removed := v.state.Removed; removed != "" {
		v.state.Removed, v.state.changed = "", true
		out = append(out, unknownCredential(v, removed))
	}
	return out
}

func takeSecurity(v *visit) error {
	sent, ctx, id := v.form, v.r.Context(), v.form.value("id")
	if passkey, is := strings.CutPrefix(sent.Action, "rename-"); is {
		if _, err := v.api.RenamePasskey(ctx, passkey, enduserapi.PasskeyRename{Name: sent.trimmed("name")}); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("passkey_renamed", securityPath)
	}
	notice := ""
	var err error
	var changed *enduserapi.SecondFactorsChangedEnvelope
	switch sent.Action {
	case "on":
		notice = "two_step_on"
		changed, err = v.api.ChangeTwoStep(ctx, enduserapi.TwoStepChange{TwoStep: true})
	case "off":
		notice = "two_step_off"
		_, err = v.api.ChangeTwoStep(ctx, enduserapi.TwoStepChange{TwoStep: false})
	case "remove-totp":
		notice = "factor_removed"
		_, err = v.api.RemoveAuthenticator(ctx, id)
	case "remove-passkey":
		notice = "passkey_removed"
		err = removePasskey(v, id)
	case "add-text":
		notice = "factor_added"
		changed, err = v.api.AddTextFactor(ctx, enduserapi.TextFactorChoice{PhoneNumberId: id})
	case "remove-text":
		notice = "factor_removed"
		_, err = v.api.RemoveTextFactor(ctx, id)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	switch {
	case err != nil:
		return v.again(sent, err)
	case changed != nil && changed.Data.Codes != nil:
		return showMadeCodes(v, *changed.Data.Codes)
	}
	return v.redirect(notice, securityPath)
}

// removePasskey removes a passkey, and remembers its id for the next page, which reports it to the browser.
func removePasskey(v *visit, id string) error {
	have, err := v.api.ListPasskeys(v.r.Context())
	if err != nil {
		return err
	}
	if _, err := v.api.RemovePasskey(v.r.Context(), id); err != nil {
		return err
	}
	for _, p := range have.Data {
		if p.Id == id && p.RelyingPartyId == relyingParty(v) {
			v.state.Removed, v.state.changed = p.CredentialId, true
		}
	}
	return nil
}

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

// codesPage shows the recovery codes that were just made, or offers to make new ones.
type codesPage struct {
	// Codes are the new codes, nil if none were made now. They are shown only this time. Joined are the codes one a line.
	Codes  []string
	Joined string
	// Left says how many codes are left, "" if none were made.
	Left string
	// Next is the address of the page that follows.
	Next string
}

func showCodes(v *visit) error {
	if _, open := v.tenant.Settings.Strong(); !open {
		return nothingThere()
	}
	list, err := v.api.ListSecondFactors(v.r.Context())
	if err != nil {
		return err
	}
	own := codesPage{}
	if codes := list.Data.RecoveryCodes; codes != nil {
		own.Left = v.text.Count("security.codes_left", codes.Left)
	}
	return v.render("codes", v.text.Text("codes.title"), own)
}

// showMadeCodes shows new recovery codes, without a redirect, so that they are in no cookie and no address.
func showMadeCodes(v *visit, codes []string) error {
	if err := readSession(v); err != nil { // a proof may have opened the other pages
		return err
	}
	own := codesPage{Codes: codes, Joined: strings.Join(codes, "\n"), Next: v.link(securityPath)}
	if to, ok := target(v, v.r.URL.Query().Get("continue")); ok {
		own.Next = to
	}
	v.form, v.status = nil, http.StatusOK
	return v.render("codes", v.text.Text("codes.title"), own)
}

// codesFormat matches recovery codes, one a line.
var codesFormat = regexp.MustCompile(`^[0-9a-z]{4}(-[0-9a-z]{4}){5}(\n[0-9a-z]{4}(-[0-9a-z]{4}){5}){0,9}\n?$`)

func takeCodes(v *visit) error {
	sent := v.form
	if sent.Action == "download" {
		return downloadCodes(v, sent.value("codes"))
	}
	sent.Action = "make"
	made, err := v.api.MakeRecoveryCodes(v.r.Context(), enduserapi.Empty{})
	if err != nil {
		return v.again(sent, err)
	}
	return showMadeCodes(v, made.Data.Codes)
}

// downloadCodes returns the recovery codes of a form as a text file.
func downloadCodes(v *visit, codes string) error {
	if !codesFormat.MatchString(codes) {
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	v.sendHeader()
	v.Header().Set("Content-Type", "text/plain; charset=utf-8")
	v.Header().Set("Content-Disposition", `attachment; filename="recovery-codes.txt"`)
	v.WriteHeader(http.StatusOK)
	_, err := v.Write([]byte(site.Host(v.r) + "\n" + v.who.User.Email + "\n\n" + strings.TrimSpace(codes) + "\n"))
	return err
}

// requiredPage says why the user must show or add a factor, and how.
type requiredPage struct {
	Why, What string
	// Show is the address of the page on which the user shows a factor, "" if the user must add one.
	Show string
	// Passkey, App and Text report which kinds of factors the user can add.
	Passkey, App, Text bool
	// Accounts reports that the browser is signed in to other accounts.
	Accounts bool
}

func showRequired(v *visit) error {
	read, err := v.api.GetAssurance(v.r.Context())
	if err != nil {
		return err
	}
	has, required := parseLevel(read.Data.Level), parseLevel(read.Data.Required)
	own := requiredPage{Accounts: len(v.api.session.Signins) > 1}
	add := read.Data.Enroll
	own.Why = why(v, read.Data.RequiredBy)
	if asked := parseLevel(v.r.URL.Query().Get("level")); asked > required { // an organization that is not active requires it
		required, add, own.Why = asked, v.tenant.Enrollable(asked), v.text.Text("required.by_organization")
	}
	if has >= required {
		return v.onward("/account")
	}
	own.What = v.text.Text("required.two_factors")
	if required == assurance.PhishingResistant {
		own.What = v.text.Text("required.phishing_resistant")
	}
	if len(add) == 0 {
		own.Show = v.link("/reauthenticate")
	}
	own.Passkey, own.App = slices.Contains(add, wayPasskey), slices.Contains(add, wayTOTP)
	own.Text = slices.Contains(add, waySMS) && !v.held
	return v.render("required", v.text.Text("required.title"), own)
}

// why says who requires a level.
func why(v *visit, by *string) string {
	switch {
	case by == nil || *by == "account":
		return v.text.Text("required.by_account")
	case *by == "deployment":
		return v.text.Text("required.by_deployment", "name", v.name())
	}
	return v.text.Text("required.by_organization")
}

// parseLevel returns a level by its name in the API, assurance.None for an unknown name.
func parseLevel(name string) assurance.Level {
	for _, level := range []assurance.Level{assurance.OneFactor, assurance.TwoFactors, assurance.PhishingResistant} {
		if level.String() == name {
			return level
		}
	}
	return assurance.None
}
