package enduser_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// configured declares a deployment and waits until its config fulfills a condition.
func (w *world) configured(d document.Deployment, holds func(map[string]any) bool) map[string]any {
	w.T.Helper()
	w.Declare(d)
	var config map[string]any
	w.Eventually("the config", func() bool {
		config = w.browser().ok("GET", "/auth/config", "")
		return holds(config)
	})
	return config
}

func TestConfigReturnsSignInMethods(t *testing.T) {
	onSQLite(t, func(w *world) {
		config := w.browser().ok("GET", "/auth/config", "")
		id := config["deployment"].(map[string]any)["id"].(string)
		want := fmt.Sprintf(`{"deployment":{"id":%q,"name":"Acme","mode":"staging"},"password":{"enabled":true,"min_length":15},"email_code":{"enabled":true},
			"organizations":{"enabled":true,"required_for_signup":false},"phone":{"enabled":true,"countries":["US"]},
			"pages":{"enabled":true,"url":"","logo_url":"","accent_color":"","support_email":"","privacy_url":"","terms_url":""},"languages":["en","de"],
			"passkey":{"enabled":false,"relying_party_id":null},"second_factor":{"totp":false,"sms":false,"required":"one_factor"},"connections":[],"connections_only":false}`, id)
		expectJSON(t, config, want)
		if parseID(id) == 0 {
			t.Errorf("id %q", id)
		}

		d := w.Settings()
		d.DisplayName, d.Mode, d.SMS = "Acme Two", "Production", nil
		d.SignIn = &document.SignInSettings{PasswordMinLength: 20, EmailCode: true}
		d.Pages = &document.Pages{
			Disabled: true, URL: "https://a.example", LogoURL: "https://a.example/l", AccentColor: "#000000", SupportEmail: "h@a.example",
			PrivacyURL: "https://a.example/p", TermsURL: "https://a.example/t",
		}
		w.DeclareB2B(document.B2BSettings{Enabled: false, RequireOrgForSignup: true})
		config = w.configured(d, func(c map[string]any) bool {
			return c["deployment"].(map[string]any)["name"] == "Acme Two" && c["organizations"].(map[string]any)["enabled"] == false
		})
		expectJSON(t, config, fmt.Sprintf(`{"deployment":{"id":%q,"name":"Acme Two","mode":"production"},"password":{"enabled":false,"min_length":20},"email_code":{"enabled":true},
			"organizations":{"enabled":false,"required_for_signup":false},"phone":{"enabled":false,"countries":null},
			"pages":{"enabled":false,"url":"https://a.example","logo_url":"https://a.example/l","accent_color":"#000000","support_email":"h@a.example",
			"privacy_url":"https://a.example/p","terms_url":"https://a.example/t"},"languages":["en","de"],
			"passkey":{"enabled":false,"relying_party_id":null},"second_factor":{"totp":false,"sms":false,"required":"one_factor"},"connections":[],"connections_only":false}`, id))

		d.SMS = &document.SMS{Provider: "Log", DailyBudget: 1}
		w.DeclareB2B(document.B2BSettings{Enabled: true, RequireOrgForSignup: true})
		config = w.configured(d, func(c map[string]any) bool {
			return c["phone"].(map[string]any)["enabled"] == true && c["organizations"].(map[string]any)["enabled"] == true
		})
		if config["phone"].(map[string]any)["countries"] != nil || config["organizations"].(map[string]any)["required_for_signup"] != true {
			t.Errorf("no list of countries means all: %v", config)
		}
		b := w.browser()
		b.host = "unknown.example"
		b.refused(404, "DEPLOYMENT_NOT_FOUND", "GET", "/auth/config", "")
		b.host = "localhost"
		b.refused(405, "METHOD_NOT_ALLOWED", "POST", "/auth/config", "{}")
	})
}

// expectJSON compares an object with its JSON.
func expectJSON(t *testing.T, got map[string]any, want string) {
	t.Helper()
	var wanted map[string]any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("got %v\nwant %v", got, wanted)
	}
}

func TestListAccountsOfTheSession(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, ada := w.signedUp("ada@example.com")
		w.Clock.Advance(time.Second)
		grace := b.signUp("grace@example.com", `,"first_name":"Grace"`)
		accounts := func(b *browser) (emails []string, active string) {
			for _, a := range b.list("/session/accounts") {
				user := a["user"].(map[string]any)
				emails = append(emails, user["email"].(string))
				if a["active"] == true {
					active = user["id"].(string)
				}
			}
			return emails, active
		}
		if emails, active := accounts(b); strings.Join(emails, " ") != "ada@example.com grace@example.com" || active != grace {
			t.Errorf("%v, %s is active", emails, active)
		}
		first := b.last.Body.Session.SignIns[0]["id"].(string)
		b.ok("POST", "/session/switch-sign-in", fmt.Sprintf(`{"signin_id":%q}`, first))
		if _, active := accounts(b); active != ada {
			t.Errorf("%s is active after the switch", active)
		}
		other, _ := w.signedUp("eve@example.com")
		if emails, _ := accounts(other); strings.Join(emails, " ") != "eve@example.com" {
			t.Errorf("another browser sees %v", emails)
		}
		w.browser().refused(401, "NOT_AUTHENTICATED", "GET", "/session/accounts", "")
	})
}

func TestListAPIKeyApps(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		if apps := b.list("/me/api-key-apps"); len(apps) != 0 {
			t.Errorf("undeclared apps: %v", apps)
		}
		w.keyApps(7)
		apps := b.list("/me/api-key-apps")
		if len(apps) != 1 {
			t.Fatalf("apps: %v", apps)
		}
		// A key cannot have permissions that the app itself lacks.
		expectJSON(t, apps[0], `{"slug":"shop","name":"Shop","description":"","permissions":["orders:read"],"max_keys":7}`)
		w.browser().refused(401, "NOT_AUTHENTICATED", "GET", "/me/api-key-apps", "")
	})
}
