package enduser

import (
	"mime"
	"net/http"
	"net/url"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/ids"
)

// required reads a mandatory member with the function read.
func required[T any](o *body.Object, member string, read func(*body.Object, string) T) (value T) {
	if o.Require(member) {
		value = read(o, member)
	}
	return value
}

// readAttemptID reads the id of the attempt that a request names, and whether it is an attempt to sign up.
func readAttemptID(o *body.Object) (id int64, signUp bool) {
	up, in := o.Has("signup_attempt_id"), o.Has("signin_attempt_id")
	switch {
	case up == in:
		o.Fault("signup_attempt_id", "or signin_attempt_id is required, exactly one of them")
		return 0, false
	case up:
		return required(o, "signup_attempt_id", input.ID), true
	}
	return required(o, "signin_attempt_id", input.ID), false
}

// readCode reads a code as entered. A malformed code does not count as a try.
func readCode(o *body.Object) string {
	if !o.Require("code") {
		return ""
	}
	typed, ok := o.String("code")
	if !ok {
		return ""
	}
	code, ok := verification.Normalize(typed)
	if !ok {
		o.Fault("code", "must be the six digits of the message, as a string")
	}
	return code
}

// readForm reads the form of a request that a provider or its page sends.
func readForm(c *call, most int64) (url.Values, error) {
	media, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || media != "application/x-www-form-urlencoded" {
		return nil, apierror.New(http.StatusUnsupportedMediaType, "the Content-Type is not application/x-www-form-urlencoded: send a form")
	}
	raw, err := body.Read(c.r, most)
	if err != nil {
		return nil, err
	}
	form, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, apierror.New(http.StatusBadRequest, "the form is malformed: encode it by application/x-www-form-urlencoded")
	}
	return form, nil
}

// pathID returns the id in the path, or the refusal of an unknown object.
func pathID(c *call, unknown error) (int64, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return 0, c.answerTo(unknown)
	}
	return id, nil
}
