package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// devicePage asks for the code that a device shows, or says what was decided.
type devicePage struct {
	// Typed is the code that a link brought.
	Typed string
	// Granted and Denied report the decision.
	Granted, Denied bool
}

// maxUserCode is the longest code of a device that a link brings, in bytes.
const maxUserCode = 20

func showDevice(v *visit) error {
	query := v.r.URL.Query()
	own := devicePage{Granted: query.Has("granted"), Denied: query.Has("denied")}
	if code := query.Get("user_code"); len(code) <= maxUserCode {
		own.Typed = code
	}
	return v.render("device", v.text.Text("device.title"), own)
}

// takeDevice redirects to the request of a device. A link with the code leads no further than this page, so that the
// receiver of such a link must look at their own device first.
func takeDevice(v *visit) error {
	sent := v.form
	if sent.trimmed("user_code") == "" {
		sent.fail("user_code", v.text.Text("invalid.user_code"))
		return v.show(sent, http.StatusBadRequest)
	}
	found, err := v.api.ClaimUserCode(v.r.Context(), enduserapi.UserCode{UserCode: sent.trimmed("user_code")})
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect("", at(authorizePath+"/{id}", found.Data.Request))
}
