package pages

import (
	"net/http"
)

const (
	// restCookie is the name of the cookie of a browser whose user declined the offer of a passkey.
	restCookie = "cardea_no_passkey"
	// restSeconds is how long the offer rests after that: 30 days.
	restSeconds = 30 * 24 * 60 * 60
)

// restName returns the name of the cookie restCookie, with the prefix of the pages' cookie.
func restName(v *visit) string {
	if v.secure() {
		return hostPrefix + restCookie
	}
	return restCookie
}

// offerPasskey makes the account page offer a passkey once, after a sign-in without one.
func offerPasskey(v *visit) {
	settings, open := v.tenant.Settings.Strong()
	if !open || !settings.Passkey || settings.RelyingParty == "" {
		return
	}
	if _, err := v.r.Cookie(restName(v)); err == nil {
		return
	}
	v.state.Offer, v.state.changed = true, true
}

// takeOffer reports whether the page offers a passkey now: the user has signed in without one, and has none.
func takeOffer(v *visit) (bool, error) {
	if !v.state.Offer {
		return false, nil
	}
	v.state.Offer, v.state.changed = false, true
	passkeys, err := v.api.ListPasskeys(v.r.Context())
	if err != nil {
		return false, err
	}
	return len(passkeys.Data) == 0, nil
}

// restOffer makes the offer rest in this browser.
func restOffer(v *visit) error {
	cookie := http.Cookie{
		Name: restName(v), Value: "1", Path: "/", MaxAge: restSeconds, HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: v.secure(),
	}
	v.Header().Add("Set-Cookie", cookie.String())
	return v.redirect("", "/account")
}
