package pages

import (
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// phonesPage shows the user's phone numbers.
type phonesPage struct {
	Phones []enduserapi.PhoneNumber
	// Open reports that numbers can be verified here.
	Open bool
}

func showPhones(v *visit) error {
	phones, err := v.api.ListPhoneNumbers(v.r.Context())
	if err != nil {
		return err
	}
	return v.render("phones", v.text.Text("phones.title"), phonesPage{phones.Data, v.tenant.Settings.SMS != nil})
}

// typedPhone returns an entered number without the separators between its digits.
func typedPhone(typed string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -()./\u00a0", r) {
			return -1
		}
		return r
	}, typed)
}

// phonePage asks for the code of a phone number.
type phonePage struct {
	codePage
	Phone enduserapi.PhoneNumber
}

func showPhone(v *visit) error {
	phones, err := v.api.ListPhoneNumbers(v.r.Context())
	if err != nil {
		return err
	}
	for _, phone := range phones.Data {
		switch {
		case phone.Id != v.r.PathValue("id"):
			continue
		case phone.Verified:
			return v.redirect("", "/account/phones")
		}
		return v.render("phone", v.text.Text("phone.title"), phonePage{phoneContact.codePage(v, phone.PhoneNumber), phone})
	}
	return nothingThere()
}
