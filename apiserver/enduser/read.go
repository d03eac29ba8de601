package enduser

import (
	"strings"

	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/verification"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// readEmail reads a required email member.
func readEmail(o *body.Object, name string) string {
	if !o.Require(name) {
		return ""
	}
	sent, ok := o.String(name)
	if !ok {
		return ""
	}
	email, err := text.Email(sent)
	if err != nil {
		o.Fault(name, "%s", err)
	}
	return email
}

// readName reads an optional name member of a person: "" if absent.
func readName(o *body.Object, name string) string {
	value, ok := o.String(name)
	if !ok || strings.TrimSpace(value) == "" {
		return ""
	}
	trimmed, err := text.Name(value)
	if err != nil {
		o.Fault(name, "%s", err)
	}
	return trimmed
}

// readOrganizationName reads the name of an organization or workspace.
func readOrganizationName(o *body.Object, name string, required bool) string {
	if required {
		o.Require(name)
	}
	value, ok := o.String(name)
	if !ok {
		return ""
	}
	trimmed, err := text.Name(value)
	if err != nil {
		o.Fault(name, "%s", err)
	}
	return trimmed
}

func readDescription(o *body.Object) string {
	value, ok := o.String("description")
	if !ok {
		return ""
	}
	trimmed, err := text.Description(value)
	if err != nil {
		o.Fault("description", "%s", err)
	}
	return trimmed
}

// readID reads a member that is an id. Required ones that are absent are a fault.
func readID(o *body.Object, name string, required bool) int64 {
	if !required && !o.Has(name) {
		return 0
	}
	if !o.Require(name) {
		return 0
	}
	value, ok := o.String(name)
	if !ok {
		return 0
	}
	id, err := ids.Parse(value)
	if err != nil {
		o.Fault(name, "must be an id: a string with a decimal integer, such as \"123\"")
	}
	return id
}

// readAttemptID reads the one id of an attempt that a request names.
func readAttemptID(o *body.Object) (id int64, kind string) {
	up, in := o.Has("signup_attempt_id"), o.Has("signin_attempt_id")
	switch {
	case up == in:
		o.Fault("signup_attempt_id", "or signin_attempt_id is required, exactly one of them")
		return 0, ""
	case up:
		return readID(o, "signup_attempt_id", true), people.AttemptSignUp
	}
	return readID(o, "signin_attempt_id", true), people.AttemptSignIn
}

// readCode reads a code as people type it. An ill-formed one spends no try.
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
