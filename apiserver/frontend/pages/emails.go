package pages

import (
	"net/http"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

var emailContact = contact{
	page: "/account/emails", operations: "/me/email-addresses", member: "email", flow: "email:", typed: strings.TrimSpace,
	noticePrimary: "email_primary", noticeRemoved: "email_removed", noticeVerified: "email_verified", noticeUnsent: "email_unsent",
}

// emailsPage shows one's email addresses.
type emailsPage struct {
	Emails []enduserapi.EmailAddress
	// Open reports that addresses can be verified here.
	Open bool
}

func emails(v *visit) (list []enduserapi.EmailAddress, err error) {
	err = v.api.call(http.MethodGet, "/me/email-addresses", nil, &list)
	return list, err
}

func showEmails(v *visit) error {
	own := emailsPage{Open: mails(v)}
	var err error
	if own.Emails, err = emails(v); err != nil {
		return err
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
