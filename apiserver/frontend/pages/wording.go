package pages

import (
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/client"
)

// Waits of up to tellSeconds seconds are shown in seconds, of up to tellMinutes seconds in minutes, others in hours.
const (
	tellSeconds = 120
	tellMinutes = 2 * 60 * 60
)

// wait returns a wait in words.
func wait(v *visit, seconds int) string {
	switch {
	case seconds <= tellSeconds:
		return v.text.Count("wait.seconds", seconds)
	case seconds <= tellMinutes:
		return v.text.Count("wait.minutes", (seconds+59)/60)
	}
	return v.text.Count("wait.hours", (seconds+3599)/3600)
}

// seconds returns the whole seconds of a wait.
func seconds(wait time.Duration) int { return int(wait / time.Second) }

// word returns the message of a refusal: the text in the catalog for its code, or the API's message if the catalog has
// none, with its limits.
func word(v *visit, refused *client.Error) string {
	message := refused.Message
	if key := "error." + refused.Code; v.text.Has(key) {
		message = v.text.Text(key, "min", minLength(v), "detail", refused.Message)
	}
	return wordLimits(v, refused, message)
}

// wordLimits appends the number of attempts left and the wait of a refusal to its message.
func wordLimits(v *visit, refused *client.Error, message string) string {
	if len(refused.Faults) > 0 && refused.Faults[0].AttemptsRemaining != nil {
		message += " " + v.text.Count("error.attempts_left", *refused.Faults[0].AttemptsRemaining)
	}
	if refused.RetryAfter > 0 {
		message += " " + v.text.Text("error.wait", "wait", wait(v, seconds(refused.RetryAfter)))
	}
	return message
}

// wordFaults adds the reasons of a refusal to a form. A reason is added to the field that the error code or the fault
// names, or to the whole form if it names none.
func wordFaults(v *visit, sent *form, refused *client.Error) {
	if refused.Code != "VALIDATION_ERROR" {
		message := word(v, refused)
		for _, field := range fieldsOf[refused.Code] {
			if _, there := sent.values[field]; there {
				sent.fail(field, message)
				return
			}
		}
		sent.Message = message
		return
	}
	for _, e := range refused.Faults {
		member, _, _ := strings.Cut(e.Message, " ")
		member, _, _ = strings.Cut(member, "/")
		if field, other := fieldOf[member]; other {
			member = field
		}
		switch known := v.text.Has("invalid." + member); {
		case known && sent.fault(member) == "":
			sent.fail(member, v.text.Text("invalid."+member, "min", minLength(v)))
		case known: // the field already has a message
		case sent.Message == "":
			sent.Message = e.Message
		}
	}
}

// minLength is the least number of characters of a new password.
func minLength(v *visit) string {
	return strconv.Itoa(v.tenant.Settings.EffectiveSignIn().PasswordMinLength)
}

// fieldsOf are the form fields of each error code. The message is shown at the first one that the form has.
var fieldsOf = map[string][]string{
	"WEAK_PASSWORD":            {"password", "new_password"},
	"INVALID_CURRENT_PASSWORD": {"current_password"},
	"SAME_PASSWORD":            {"new_password"},
	"EMAIL_EXISTS":             {"email"},
	"EMAIL_LIMIT_REACHED":      {"email"},
	"PHONE_LIMIT_REACHED":      {"phone_number"},
	"INVALID_CONFIRMATION":     {"confirmation"},
	"INVALID_METADATA":         {"metadata_xml"},
	"INVALID_ROLE":             {"role"},
	"INVALID_CODE":             {"code"},
	"EXPIRED_CODE":             {"code"},
	"CODE_USED":                {"code"},
	"INVALID_PHONE":            {"phone_number"},
	"PHONE_EXISTS":             {"phone_number"},
	"INVALID_INVITATION":       {"invitation_token"},
	"INVALID_APP":              {"app_slug"},
	"INVALID_USER_CODE":        {"user_code"},
	"ALREADY_MEMBER":           {"email"},
	"CONNECTION_NOT_FOUND":     {"connection"},
}

// fieldOf maps members of API requests to form fields with other names. The field names do not end in "_id", because
// the pages do not keep the values of such fields when the user has to sign in again.
var fieldOf = map[string]string{
	"role_id": "role", "user_id": "user", "client_id": "client", "entity_id": "entity", "connection_id": "connection", "group_roles": "group",
}
