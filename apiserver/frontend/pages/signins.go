package pages

import (
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// signInsPage shows the user's active and ended sign-ins.
type signInsPage struct {
	// Current is the sign-in of this browser, Others are the other active sign-ins, and Ended the ended ones.
	Current, Others, Ended []ownSignIn
	// WithEnded reports that the user requested the ended sign-ins.
	WithEnded bool
}

// ownSignIn is a sign-in with a readable name of its browser.
type ownSignIn struct {
	enduserapi.OwnSignIn
	Browser string
	// LevelText is what the sign-in has proven, in words.
	LevelText string
}

func showSignIns(v *visit) error {
	own := signInsPage{WithEnded: v.r.URL.Query().Has("ended")}
	list, err := v.api.ListOwnSignIns(v.r.Context(), enduserapi.EndUserListOwnSignInsParams{IncludeExpired: &own.WithEnded})
	if err != nil {
		return err
	}
	for _, signIn := range list.Data {
		shown := ownSignIn{signIn, browser(v, signIn.UserAgent), levelText(v, signIn.Level)}
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
		if _, err := v.api.SignOutOthers(v.r.Context(), enduserapi.Empty{}); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("others_signed_out", "/account/sessions")
	}
	if _, err := v.api.SignOutElsewhere(v.r.Context(), sent.value("id"), enduserapi.Empty{}); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("signin_ended", "/account/sessions")
}
