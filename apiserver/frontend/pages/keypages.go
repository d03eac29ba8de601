package pages

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// keysPage shows the user's API keys.
type keysPage struct {
	Keys      []enduserapi.OwnApiKey
	Apps      []enduserapi.KeyApp
	Lifetimes []lifetime
	// Made is a key that was just created, nil for none. Its secret is shown only this time.
	Made *enduserapi.OwnApiKeyWithSecret
}

// lifetime is a lifetime of a key that the form offers. Hours is "" for a key that does not expire.
type lifetime struct{ Hours, Text string }

// lifetimes are the offered lifetimes, the recommended one first.
var lifetimes = []lifetime{{"2160", "keys.quarter"}, {"720", "keys.month"}, {"8760", "keys.year"}, {"", "keys.forever"}}

func showKeys(v *visit) error { return v.showKeys(nil) }

func (v *visit) showKeys(made *enduserapi.OwnApiKeyWithSecret) error {
	keys, err := v.api.ListApiKeys(v.r.Context())
	if err != nil {
		return err
	}
	apps, err := v.api.ListApiKeyApps(v.r.Context())
	if err != nil {
		return err
	}
	own := keysPage{Keys: keys.Data, Apps: apps.Data, Made: made, Lifetimes: lifetimes}
	return v.render("keys", v.text.Text("keys.title"), own)
}

func takeKeys(v *visit) error {
	sent := v.form
	if sent.Action == "delete" {
		if _, err := v.api.RemoveApiKey(v.r.Context(), sent.value("id")); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("key_deleted", "/account/keys")
	}
	permissions := granted(sent)
	body := enduserapi.OwnApiKeyCreate{AppSlug: strings.TrimPrefix(sent.Action, "make-"), Name: sent.trimmed("name"), Permissions: &permissions}
	if hours := sent.value("expires"); hours != "" {
		offered := slices.ContainsFunc(lifetimes, func(l lifetime) bool { return l.Hours == hours })
		lives, err := time.ParseDuration(hours + "h")
		if err != nil || !offered {
			sent.fail("expires", v.text.Text("invalid.expires_at"))
			return v.show(sent, http.StatusBadRequest)
		}
		body.ExpiresAt = nullable.NewNullableWithValue(v.now.Add(lives).Truncate(time.Second))
	}
	made, err := v.api.AddApiKey(v.r.Context(), body)
	if err != nil {
		return v.again(sent, err)
	}
	// The page is shown without a redirect, so that the secret is not stored anywhere, not even briefly in a cookie.
	v.form = nil
	return v.showKeys(&made.Data)
}

// grantMember is the prefix of the names of checkboxes, one for each permission. Each has a different name, because
// readForm refuses a member that occurs twice.
const grantMember = "grant:"

// granted returns the permissions whose checkboxes were ticked.
func granted(sent *form) []string {
	out := []string{}
	for name := range sent.values {
		if permission, is := strings.CutPrefix(name, grantMember); is {
			out = append(out, permission)
		}
	}
	return out
}

// grantBox is the checkbox of a permission in a form.
type grantBox struct {
	ID, Name, Permission string
	Ticked               bool
}

func grantOf(f formView, permission string) grantBox {
	name := grantMember + permission
	_, ticked := f.form.values[name]
	return grantBox{ID: f.ID(name), Name: name, Permission: permission, Ticked: ticked}
}
