package pages

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
)

// The members that every form has, in addition to the members of the page.
const (
	memberToken  = "form_token"
	memberUser   = "form_user"
	memberAction = "action"
)

// form is a sent form with its faults.
type form struct {
	// Action identifies one of a page's forms.
	Action string
	// token and user come from the page: its form token, and the id of the user then signed in, "" for none.
	token, user string
	values      map[string]string
	// Faults are the errors of single fields. Message is an error of the whole form.
	Faults  []fault
	Message string
	// Restored reports that the form comes from a draft that was kept during a sign-in.
	Restored bool
}

// fault is an error of a field.
type fault struct{ Field, Message string }

// secret reports whether a field's value is never shown or kept.
func secret(name string) bool {
	switch name {
	case "code", "codes", "credential":
		return true
	}
	return strings.Contains(name, "password") || strings.Contains(name, "secret")
}

// chosen reports whether a member comes from a button of the page and was not typed.
func chosen(name string) bool { return name == "id" || strings.HasSuffix(name, "_id") }

// value returns the value of a field unchanged.
func (f *form) value(name string) string {
	if f == nil {
		return ""
	}
	return f.values[name]
}

// ticked reports whether a box was ticked.
func (f *form) ticked(name string) bool { return f.value(name) != "" }

// trimmed returns the value of a field without surrounding white space.
func (f *form) trimmed(name string) string { return strings.TrimSpace(f.value(name)) }

// member returns the trimmed value of a field, nil if the form does not have the field.
func (f *form) member(name string) *string {
	if _, there := f.values[name]; !there {
		return nil
	}
	value := f.trimmed(name)
	return &value
}

// fail adds an error of a field.
func (f *form) fail(field, message string) { f.Faults = append(f.Faults, fault{field, message}) }

// refused reports whether the form has an error.
func (f *form) refused() bool { return f != nil && (len(f.Faults) > 0 || f.Message != "") }

// fault returns the error of a field, "" for none.
func (f *form) fault(field string) string {
	if f == nil {
		return ""
	}
	for _, fault := range f.Faults {
		if fault.Field == field {
			return fault.Message
		}
	}
	return ""
}

// readForm reads the form in the body. It refuses a body of more than 16 KiB (the bound of the API), a member that
// occurs twice, and a member that is not UTF-8.
func readForm(v *visit) (*form, error) {
	raw, err := io.ReadAll(http.MaxBytesReader(v.ResponseWriter, v.r.Body, body.MaxEndUserBytes))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		failure(v, http.StatusRequestEntityTooLarge, "too_large")
		return nil, errAnswered
	}
	if err != nil {
		failure(v, http.StatusBadRequest, "bad_form")
		return nil, errAnswered
	}
	parsed, err := url.ParseQuery(string(raw))
	f := &form{values: map[string]string{}}
	for name, values := range parsed {
		if len(values) != 1 || !utf8.ValidString(name) || !utf8.ValidString(values[0]) {
			err = errors.New("a member is doubled or not in UTF-8")
		}
		f.values[name] = strings.ReplaceAll(values[0], "\r\n", "\n") // browsers send line breaks as CRLF
	}
	if err != nil {
		failure(v, http.StatusBadRequest, "bad_form")
		return nil, errAnswered
	}
	f.Action, f.token, f.user = f.values[memberAction], f.values[memberToken], f.values[memberUser]
	for _, name := range []string{memberAction, memberToken, memberUser} {
		delete(f.values, name)
	}
	return f, nil
}

// genuine reports whether the form's token is valid for the deployment, this browser and the user that the form names.
func genuine(v *visit, sent *form) bool {
	return v.keys.accepts(sent.token, v.tenant.Key(), v.state.Nonce, sent.user)
}

// admit accepts a form if its token is valid and it was made for the active user, or for no user on a page that needs
// no sign-in. Otherwise it writes the response and returns errAnswered.
func admit(v *visit, sent *form) error {
	maker, genuine := sent.user, genuine(v, sent)
	switch active := v.user(); {
	case genuine && maker != "" && active == "":
		v.keepDraft(sent, maker)
		v.toSignIn()
		return errAnswered
	case v.page.signedIn && active == "":
		v.toSignIn()
		return errAnswered
	case !genuine || v.page.signedIn && maker == "":
		sent.Message = v.text.Text("form.stale")
		return answered(v, v.show(sent, http.StatusForbidden))
	case maker != "" && maker != active:
		sent.Message = v.text.Text("form.other_user", "email", v.who.User.Email)
		return answered(v, v.show(sent, http.StatusConflict))
	}
	if closed(v) {
		v.keepDraft(sent, maker)
		v.toAndBack(requiredPath)
		return errAnswered
	}
	v.form, v.api.user = sent, maker // another tab may switch the account before the operation runs
	return nil
}

// answered returns err, or errAnswered if err is nil.
func answered(v *visit, err error) error {
	if err != nil {
		return err
	}
	return errAnswered
}
