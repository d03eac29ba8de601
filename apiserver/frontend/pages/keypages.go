package pages

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oapi-codegen/nullable"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// keysPage shows one's API keys.
type keysPage struct {
	Keys      []enduserapi.OwnApiKey
	Apps      []enduserapi.KeyApp
	Lifetimes []lifetime
	// Made is a key that was just made, the only time that its secret is seen; nil for none.
	Made *enduserapi.OwnApiKeyWithSecret
}

// lifetime is how long a key can be asked to live.
type lifetime struct{ Hours, Text string }

// lifetimes are those that are offered, the best first.
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
	// Shown at once instead of behind a redirect: the secret is kept nowhere, not even in a cookie for a moment.
	v.form = nil
	return v.showKeys(&made.Data)
}

// grantMember begins the names of boxes, one for each permission: a form's members are there once.
const grantMember = "grant:"

// granted are the permissions whose boxes were ticked.
func granted(sent *form) []string {
	out := []string{}
	for name := range sent.values {
		if permission, is := strings.CutPrefix(name, grantMember); is {
			out = append(out, permission)
		}
	}
	return out
}

// grantBox is a permission's box in a form.
type grantBox struct {
	ID, Name, Permission string
	Ticked               bool
}

func grantOf(f formView, permission string) grantBox {
	name := grantMember + permission
	_, ticked := f.form.values[name]
	return grantBox{ID: f.ID(name), Name: name, Permission: permission, Ticked: ticked}
}
