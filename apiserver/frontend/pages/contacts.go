package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// contact is a kind of address that users add and verify with a code: phone numbers or email addresses. The pages of
// both kinds are alike.
type contact struct {
	// page is the path of the list. Each address has a page below it.
	page string
	// member is the name of the form field in which the address is entered.
	member string
	// insert adds an address and returns its id. makePrimary, remove, prepare and verify apply to the address with an
	// id: prepare sends a code to it, and verify submits the code.
	insert                       func(v *visit, typed string) (id string, err error)
	makePrimary, remove, prepare func(v *visit, id string) error
	verify                       func(v *visit, id, code string) error
	// flow is the prefix of the address's id in state.Flow.Attempt.
	flow string
	// typed normalizes an entered address.
	typed func(string) string
	// The keys of the notices after each action. noticeUnsent means that no code could be sent.
	noticePrimary, noticeRemoved, noticeVerified, noticeUnsent string
}

var phoneContact = contact{
	page: "/account/phones", member: "phone_number", flow: "phone:", typed: typedPhone,
	insert: func(v *visit, typed string) (string, error) {
		added, err := v.api.AddPhoneNumber(v.r.Context(), enduserapi.PhoneNumberCreate{PhoneNumber: typed})
		if err != nil {
			return "", err
		}
		return added.Data.Id, nil
	},
	makePrimary: func(v *visit, id string) error {
		_, err := v.api.MakePhoneNumberPrimary(v.r.Context(), id, enduserapi.Empty{})
		return err
	},
	remove: func(v *visit, id string) error {
		_, err := v.api.RemovePhoneNumber(v.r.Context(), id)
		return err
	},
	prepare: func(v *visit, id string) error {
		_, err := v.api.PreparePhoneVerification(v.r.Context(), id, enduserapi.Empty{})
		return err
	},
	verify: func(v *visit, id, code string) error {
		_, err := v.api.VerifyPhoneNumber(v.r.Context(), id, enduserapi.Code{Code: code})
		return err
	},
	noticePrimary: "phone_primary", noticeRemoved: "phone_removed", noticeVerified: "phone_verified", noticeUnsent: "phone_unsent",
}

// take performs the action of a form on the list.
func (c contact) take(v *visit) error {
	sent, id := v.form, v.form.value("id")
	var err error
	notice := ""
	switch sent.Action {
	case "primary":
		notice = c.noticePrimary
		err = c.makePrimary(v, id)
	case "remove":
		notice = c.noticeRemoved
		err = c.remove(v, id)
	default:
		return c.add(v)
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, c.page)
}

// add adds an address, sends its first code, and redirects to the page that asks for the code.
func (c contact) add(v *visit) error {
	sent := v.form
	sent.Action = "add"
	id, err := c.insert(v, c.typed(sent.value(c.member)))
	if err != nil {
		return v.again(sent, err)
	}
	// The address is added even if no code can be sent. The page that asks for the code shows a notice then.
	notice := "code_sent"
	err = c.send(v, id)
	switch refused := refusal(err); {
	case refused != nil && refused.Status < http.StatusInternalServerError && refused.Code != "NOT_AUTHENTICATED":
		notice = c.noticeUnsent
	case err != nil:
		return err
	}
	return v.redirect(notice, at(c.page+"/{id}", id))
}

// send sends a code to an address.
func (c contact) send(v *visit, id string) error {
	if err := c.prepare(v, id); err != nil {
		return err
	}
	sends := 0
	if f := v.state.Flow; f != nil && f.Attempt == c.flow+id {
		sends = f.Sends
	}
	v.state.begin(flow{Attempt: c.flow + id, Sends: sends + 1, SentAt: v.now.Unix()}, v.now)
	return nil
}

// codePage returns the page that asks for the code of an address. to is the address to which the code is sent.
func (c contact) codePage(v *visit, to string) codePage {
	own := codePage{To: to, WaitText: v.text.Text("code.wait")}
	if f := v.state.Flow; f != nil && f.Attempt == c.flow+v.r.PathValue("id") {
		own.Wait = waitFor(f.Sends, v.now.Unix()-f.SentAt)
	}
	return own
}

// takeCode verifies an address with the entered code, or sends another code.
func (c contact) takeCode(v *visit) error {
	sent, id := v.form, v.r.PathValue("id")
	if sent.Action == "resend" {
		if err := c.send(v, id); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("code_sent", at(c.page+"/{id}", id))
	}
	sent.Action = "code"
	err := c.verify(v, id, typedCode(sent.value("code")))
	switch {
	case refusedBy(err, "ALREADY_VERIFIED"):
		return v.redirect("", c.page) // the second of two clicks
	case err != nil:
		return v.again(sent, err)
	}
	return v.redirect(c.noticeVerified, c.page)
}
