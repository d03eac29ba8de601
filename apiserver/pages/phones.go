package pages

import (
	"errors"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/openapi/enduserapi"
)

// phonesPage shows one's phone numbers.
type phonesPage struct {
	Phones []enduserapi.PhoneNumber
	// Open tells that numbers can be verified here.
	Open bool
}

func showPhones(v *visit) error {
	own := phonesPage{Open: v.tenant.Settings.SMS != nil}
	if err := v.api.call(http.MethodGet, "/me/phone-numbers", nil, &own.Phones); err != nil {
		return err
	}
	return v.render("phones", v.text.Text("phones.title"), own)
}

func takePhones(v *visit) error {
	sent, id := v.form, v.form.value("id")
	var err error
	notice := ""
	switch sent.Action {
	case "primary":
		notice = "phone_primary"
		err = v.api.call(http.MethodPost, at("/me/phone-numbers/{id}/make-primary", id), struct{}{}, nil)
	case "remove":
		notice = "phone_removed"
		err = v.api.call(http.MethodDelete, at("/me/phone-numbers/{id}", id), nil, nil)
	default:
		return v.addPhone(sent)
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, "/account/phones")
}

// addPhone adds a number and sends its first code, which is all that is left to do with it.
func (v *visit) addPhone(sent *form) error {
	sent.Action = "add"
	var added enduserapi.PhoneNumber
	if err := v.api.call(http.MethodPost, "/me/phone-numbers", map[string]string{"phone_number": typedPhone(sent.value("phone_number"))}, &added); err != nil {
		return v.again(sent, err)
	}
	return v.sendPhoneCode(added.Id, 0)
}

// sendPhoneCode sends a code to a number, and leads to where it is typed. Whether it can be sent is said there: the number is added
// either way.
func (v *visit) sendPhoneCode(id string, sent int) error {
	notice := "code_sent"
	err := v.api.call(http.MethodPost, at("/me/phone-numbers/{id}/prepare-verification", id), struct{}{}, nil)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Code != "NOT_AUTHENTICATED":
		notice = "code_not_sent"
	case err != nil:
		return err
	default:
		v.state.begin(flow{Attempt: "phone:" + id, Sends: sent + 1, SentAt: v.now.Unix()}, v.now)
	}
	return v.redirect(notice, at("/account/phones/{id}", id))
}

// typedPhone is a number as people write it, without what they put between digits.
func typedPhone(typed string) string {
	var out []rune
	for _, r := range typed {
		if r != ' ' && r != '-' && r != '(' && r != ')' && r != '.' && r != '/' && r != '\u00a0' {
			out = append(out, r)
		}
	}
	return string(out)
}

// phoneID is the number that a page is about.
func (v *visit) phoneID() string { return v.r.PathValue("id") }

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
		if phone.Id != v.phoneID() {
			continue
		}
		if phone.Verified {
			return v.redirect("", "/account/phones")
		}
		own := phonePage{Phone: phone, codePage: codePage{To: phone.PhoneNumber, WaitText: v.text.Text("code.wait")}}
		if f := v.state.Flow; f != nil && f.Attempt == "phone:"+phone.Id {
			own.Wait = waitFor(f.Sends, v.now.Unix()-f.SentAt)
		}
		return v.render("phone", v.text.Text("phone.title"), own)
	}
	return &refusal{Status: http.StatusNotFound, Code: "NOT_FOUND"}
}

func takePhone(v *visit) error {
	sent := v.form
	if sent.Action == "resend" {
		err := v.api.call(http.MethodPost, at("/me/phone-numbers/{id}/prepare-verification", v.phoneID()), struct{}{}, nil)
		if err != nil {
			return v.again(sent, err)
		}
		sends := 0
		if f := v.state.Flow; f != nil && f.Attempt == "phone:"+v.phoneID() {
			sends = f.Sends
		}
		v.state.begin(flow{Attempt: "phone:" + v.phoneID(), Sends: sends + 1, SentAt: v.now.Unix()}, v.now)
		return v.redirect("code_sent", at("/account/phones/{id}", v.phoneID()))
	}
	sent.Action = "code"
	err := v.api.call(http.MethodPost, at("/me/phone-numbers/{id}/attempt-verification", v.phoneID()), map[string]string{"code": typedCode(sent.value("code"))}, nil)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.Code == "ALREADY_VERIFIED":
		return v.redirect("", "/account/phones") // the other of two clicks
	case err != nil:
		return v.again(sent, err)
	}
	return v.redirect("phone_verified", "/account/phones")
}
