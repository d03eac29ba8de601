package pages

import (
	"net/http"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// signInsPage shows where one is signed in, and where one was.
type signInsPage struct {
	// Current is the one of this browser, Others are the rest, and Ended those that are over.
	Current, Others, Ended []ownSignIn
	// WithEnded reports that those that are over were asked for.
	WithEnded bool
}

// ownSignIn is a sign-in, with its browser in words.
type ownSignIn struct {
	enduserapi.OwnSignIn
	Browser string
}

func showSignIns(v *visit) error {
	own := signInsPage{WithEnded: v.r.URL.Query().Has("ended")}
	operation := "/me/signins"
	if own.WithEnded {
		operation += "?include_expired=true"
	}
	var list []enduserapi.OwnSignIn
	if err := v.api.call(http.MethodGet, operation, nil, &list); err != nil {
		return err
	}
	for _, signIn := range list {
		shown := ownSignIn{signIn, browser(v, signIn.UserAgent)}
		switch {
		case signIn.Current:
			own.Current = append(own.Current, shown)
		case signIn.ExpiresAt.After(v.now):
			own.Others = append(own.Others, shown)
		default:
			own.Ended = append(own.Ended, shown)
		}
	}
	return v.render("signins", v.text.Text("signins.title"), own)
}

func takeSignIns(v *visit) error {
	sent := v.form
	if sent.Action == "others" {
		if err := v.api.call(http.MethodPost, "/me/signins/signout-others", struct{}{}, nil); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("others_signed_out", "/account/sessions")
	}
	if err := v.api.call(http.MethodPatch, at("/me/signins/{id}/signout", sent.value("id")), struct{}{}, nil); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("signin_ended", "/account/sessions")
}
