package pages

import (
	"errors"
	"net/http"
)

// contact is a kind of address that people add and prove by a code: numbers and email addresses. Its pages are alike.
type contact struct {
	// page is the list, below which each has its own; operations are the API's below which it has its.
	page, operations string
	// member is what the API and the form call what is typed.
	member string
	// flow begins the name of a proof in the pages' cookie.
	flow string
	// typed cleans what was typed.
	typed func(string) string
	// The notices of what was done.
	noticePrimary, noticeRemoved, noticeVerified, noticeUnsent string
}

var phoneContact = contact{
	page: "/account/phones", operations: "/me/phone-numbers", member: "phone_number", flow: "phone:", typed: typedPhone,
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
		err = v.api.call(http.MethodPost, at(c.operations+"/{id}/make-primary", id), struct{}{}, nil)
	case "remove":
		notice = c.noticeRemoved
		err = v.api.call(http.MethodDelete, at(c.operations+"/{id}", id), nil, nil)
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
	var added struct {
		ID string `json:"id"`
	}
	if err := v.api.call(http.MethodPost, c.operations, map[string]string{c.member: c.typed(sent.value(c.member))}, &added); err != nil {
		return v.again(sent, err)
	}
	// Whether a code can be sent is said where it is typed: it is added either way.
	notice := "code_sent"
	err := c.send(v, added.ID)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError && refused.Code != "NOT_AUTHENTICATED":
		notice = c.noticeUnsent
	case err != nil:
		return err
	}
	return v.redirect(notice, at(c.page+"/{id}", added.ID))
}

// send sends a code to one of them.
func (c contact) send(v *visit, id string) error {
	if err := v.api.call(http.MethodPost, at(c.operations+"/{id}/prepare-verification", id), struct{}{}, nil); err != nil {
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
	err := v.api.call(http.MethodPost, at(c.operations+"/{id}/attempt-verification", id), map[string]string{"code": typedCode(sent.value("code"))}, nil)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.Code == "ALREADY_VERIFIED":
		return v.redirect("", c.page) // the other of two clicks
	case err != nil:
		return v.again(sent, err)
	}
	return v.redirect(c.noticeVerified, c.page)
}
