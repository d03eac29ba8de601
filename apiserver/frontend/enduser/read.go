package enduser

import (
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
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
