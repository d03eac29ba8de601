package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// devicePage asks for the code that a device shows, or shows the decision.
type devicePage struct {
	// Typed is the code in the link that opened the page.
	Typed string
	// Granted and Denied report the decision.
	Granted, Denied bool
}

// maxUserCode is the maximum length of a device's code in a link, in bytes.
const maxUserCode = 20

func showDevice(v *visit) error {
	query := v.r.URL.Query()
	own := devicePage{Granted: query.Has("granted"), Denied: query.Has("denied")}
	if code := query.Get("user_code"); len(code) <= maxUserCode {
		own.Typed = code
	}
	return v.render("device", v.text.Text("device.title"), own)
}

// takeDevice redirects to the authorization request of a device. A link with a code only fills in the form, so that the
// receiver of such a link can first compare the code with the device.
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
