package pages

import (
	"net/http"
	"slices"
	"strings"

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

// passkeySignals reports to the browser which passkeys the account has, and which was removed.
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
