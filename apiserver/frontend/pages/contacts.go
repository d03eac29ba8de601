package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// contact is a kind of address that people add and prove by a code: numbers and email addresses. Its pages are alike.
type contact struct {
	// page is the list, below which each has its own.
	page string
	// member is what the form calls what is typed.
	member string
	// insert adds one and returns its id. makePrimary, remove and prepare are about the one with an id: prepare sends a
	// code, and verify enters it.
	insert                       func(v *visit, typed string) (id string, err error)
	makePrimary, remove, prepare func(v *visit, id string) error
	verify                       func(v *visit, id, code string) error
	// flow begins the name of a proof in the pages' cookie.
	flow string
	// typed cleans what was typed.
	typed func(string) string
	// The notices of what was done.
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

// take does what a form of the list asks for.
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

// add adds one and sends its first code, which is all that is left to do with it.
func (c contact) add(v *visit) error {
	sent := v.form
	sent.Action = "add"
	id, err := c.insert(v, c.typed(sent.value(c.member)))
	if err != nil {
		return v.again(sent, err)
	}
	// Whether a code can be sent is said where it is typed: it is added either way.
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

// send sends a code to one of them.
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

// codePage is the page of one of them: to is where its code goes.
func (c contact) codePage(v *visit, to string) codePage {
	own := codePage{To: to, WaitText: v.text.Text("code.wait")}
	if f := v.state.Flow; f != nil && f.Attempt == c.flow+v.r.PathValue("id") {
		own.Wait = waitFor(f.Sends, v.now.Unix()-f.SentAt)
	}
	return own
}

// takeCode proves one of them, or sends another code.
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
		return v.redirect("", c.page) // the other of two clicks
	case err != nil:
		return v.again(sent, err)
	}
	return v.redirect(c.noticeVerified, c.page)
}
