package pages

import (
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

var emailContact = contact{
	page: "/account/emails", member: "email", flow: "email:", typed: strings.TrimSpace,
	insert: func(v *visit, typed string) (string, error) {
		added, err := v.api.AddEmailAddress(v.r.Context(), enduserapi.EmailAddressCreate{Email: typed})
		if err != nil {
			return "", err
		}
		return added.Data.Id, nil
	},
	makePrimary: func(v *visit, id string) error {
		_, err := v.api.MakeEmailAddressPrimary(v.r.Context(), id, enduserapi.Empty{})
		if err == nil {
			v.state.Readdressed, v.state.changed = true, true
		}
		return err
	},
	remove: func(v *visit, id string) error {
		_, err := v.api.RemoveEmailAddress(v.r.Context(), id)
		return err
	},
	prepare: func(v *visit, id string) error {
		_, err := v.api.PrepareEmailVerification(v.r.Context(), id, enduserapi.Empty{})
		return err
	},
	verify: func(v *visit, id, code string) error {
		_, err := v.api.VerifyEmailAddress(v.r.Context(), id, enduserapi.Code{Code: code})
		return err
	},
	noticePrimary: "email_primary", noticeRemoved: "email_removed", noticeVerified: "email_verified", noticeUnsent: "email_unsent",
}

// emailsPage shows the user's email addresses.
type emailsPage struct {
	Emails []enduserapi.EmailAddress
	// Open reports that addresses can be verified here.
	Open bool
	// Signals are messages for the browser's passkeys.
	Signals []signal
}

func emails(v *visit) ([]enduserapi.EmailAddress, error) {
	list, err := v.api.ListEmailAddresses(v.r.Context())
	if err != nil {
		return nil, err
	}
	return list.Data, nil
}

func showEmails(v *visit) error {
	own := emailsPage{Open: mails(v)}
	var err error
	if own.Emails, err = emails(v); err != nil {
		return err
	}
	if v.state.Readdressed {
		v.state.Readdressed, v.state.changed = false, true
		own.Signals = addressSignals(v)
	}
	return v.render("emails", v.text.Text("emails.title"), own)
}

// emailPage asks for the code of an email address.
type emailPage struct {
	codePage
	Email enduserapi.EmailAddress
}

func showEmail(v *visit) error {
	emails, err := emails(v)
	if err != nil {
		return err
	}
	for _, email := range emails {
		switch {
		case email.Id != v.r.PathValue("id"):
			continue
		case email.Verified:
			return v.redirect("", "/account/emails")
		}
		return v.render("email", v.text.Text("email.title"), emailPage{emailContact.codePage(v, email.Email), email})
	}
	return nothingThere()
}

// addressSignals reports to the browser the primary address, which names the account's passkeys there.
func addressSignals(v *visit) (out []signal) {
	list, err := v.api.ListPasskeys(v.r.Context())
	if err != nil {
		return nil // the page itself works without
	}
	party, seen := relyingParty(v), map[string]bool{}
	for _, p := range list.Data {
		if p.RelyingPartyId == party && !seen[p.UserHandle] {
			seen[p.UserHandle] = true
			out = append(out, newSignal("signalCurrentUserDetails", map[string]any{
				"rpId": party, "userId": p.UserHandle, "name": v.who.User.Email, "displayName": v.who.User.Email,
			}))
		}
	}
	return out
}
