package pages

import (
	"net/http"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// phonesPage shows one's phone numbers.
type phonesPage struct {
	Phones []enduserapi.PhoneNumber
	// Open reports that numbers can be verified here.
	Open bool
}

func showPhones(v *visit) error {
	own := phonesPage{Open: v.tenant.Settings.SMS != nil}
	if err := v.api.call(http.MethodGet, "/me/phone-numbers", nil, &own.Phones); err != nil {
		return err
	}
	return v.render("phones", v.text.Text("phones.title"), own)
}

// typedPhone is a number as people write it, without what they put between digits.
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
	var phones []enduserapi.PhoneNumber
	if err := v.api.call(http.MethodGet, "/me/phone-numbers", nil, &phones); err != nil {
		return err
	}
	for _, phone := range phones {
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
