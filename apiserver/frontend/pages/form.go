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

// The members of every form, beside those of its own.
const (
	memberToken  = "form_token"
	memberUser   = "form_user"
	memberAction = "action"
)

// form is a sent form with its faults.
type form struct {
	// Action identifies one of a page's forms.
	Action string
	// token and user are from the page: its proof, and the user who signed in, "" for none.
	token, user string
	values      map[string]string
	// Faults are what is wrong, each with its field; Message is what is wrong with the whole.
	Faults  []fault
	Message string
	// Restored reports that it was kept over a sign-in.
	Restored bool
}

// fault is what is wrong with a field.
type fault struct{ Field, Message string }

// secret reports whether a field's value is never shown or kept.
func secret(name string) bool { return strings.Contains(name, "password") || name == "code" }

// chosen reports whether a member comes from a button of the page and was not typed.
func chosen(name string) bool { return name == "id" || strings.HasSuffix(name, "_id") }

// value returns what was typed in a field, as it is.
func (f *form) value(name string) string {
	if f == nil {
		return ""
	}
	return f.values[name]
}

// ticked reports whether a box was ticked.
func (f *form) ticked(name string) bool { return f.value(name) != "" }

// trimmed returns what was typed in a field, without blanks around it.
func (f *form) trimmed(name string) string { return strings.TrimSpace(f.value(name)) }

// member is a trimmed value, nil where the form has none of that name.
func (f *form) member(name string) *string {
	if _, there := f.values[name]; !there {
		return nil
	}
	value := f.trimmed(name)
	return &value
}

// fail notes that a field is wrong.
func (f *form) fail(field, message string) { f.Faults = append(f.Faults, fault{field, message}) }

// refused reports that it was not taken.
func (f *form) refused() bool { return f != nil && (len(f.Faults) > 0 || f.Message != "") }

// fault returns what is wrong with a field, "" for nothing.
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

// readForm reads the body, of at most 16 KiB as the API's are. Every member is there once, in UTF-8.
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
		f.values[name] = strings.ReplaceAll(values[0], "\r\n", "\n") // as browsers send what was typed in several lines
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

// genuine reports whether a form was made here, for this browser, and for who it says.
func genuine(v *visit, sent *form) bool {
	return v.keys.accepts(sent.token, v.tenant.Key(), v.state.Nonce, sent.user)
}

// admit checks a form against its token, which is bound to this browser and to the current user.
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
	v.form, v.api.user = sent, maker // another tab may switch the account before the operation runs
	return nil
}

// answered is errAnswered where nothing went wrong.
func answered(v *visit, err error) error {
	if err != nil {
		return err
	}
	return errAnswered
}
