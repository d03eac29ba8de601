package oauth_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/store/people"
)

// happens runs do, and compares the types of its events.
func (w *world) happens(do func(), want ...events.Type) []people.LoggedEvent {
	w.T.Helper()
	return frontendtest.Happens(w.T, w.Store, do, want...)
}

func TestGrantsLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		code := ""
		granted := w.happens(func() { code = p.allow(c.request("openid jobs:read")).Get("code") }, events.OAuthGrantCreated)[0]
		for _, want := range []string{fmt.Sprintf(`"client_id":%q`, c.id), fmt.Sprintf(`"user_id":%q`, p.id), `"scopes":["openid","jobs:read"]`} {
			if !strings.Contains(granted.Data, want) {
				t.Errorf("%s lacks %s", granted.Data, want)
			}
		}
		if granted.SubjectType != "oauth_grant" || granted.Actor != "user:"+p.id {
			t.Errorf("%+v", granted)
		}
		w.happens(func() { p.allow(c.request("openid jobs:read")) })
		w.happens(func() { c.post("/token", redeem(code)) })
		w.Clock.Advance(time.Minute)
		replayed := w.happens(func() { c.post("/token", redeem(code)) }, events.OAuthCodeReplayed)[0]
		if replayed.SubjectID != granted.SubjectID || replayed.Actor != "oauth_client:"+c.id {
			t.Errorf("%+v", replayed)
		}
		w.happens(func() { c.post("/token", redeem(code)) })
		stolen := c.post("/token", redeem(p.allow(c.request("openid jobs:read")).Get("code"))).text("refresh_token")
		c.refresh(c.refresh(stolen).text("refresh_token"))
		w.Clock.Advance(11 * time.Second)
		reused := w.happens(func() { c.refresh(stolen) }, events.OAuthTokenReused)[0]
		if reused.SubjectType != "oauth_grant" || reused.SubjectID != granted.SubjectID {
			t.Errorf("%+v", reused)
		}
		revoked := w.happens(func() { p.ask("DELETE", "/me/oauth-grants/"+granted.SubjectID, nil) }, events.OAuthGrantRevoked)[0]
		if revoked.SubjectID != granted.SubjectID || strings.Contains(revoked.Data, "scopes") {
			t.Errorf("%+v", revoked)
		}
		w.happens(func() { p.allow(c.request("jobs:read")) }, events.OAuthGrantCreated)
		key := w.apiKey("admin", frontendtest.Deployment, "oauth_clients:read", "oauth_clients:write")
		grants := w.backend(key, "GET", clientsPath+"/"+c.id+"/grants", "").body["grants"].([]any)
		w.happens(func() {
			w.backend(key, "POST", "/oauth/apps/portal/grants/"+grants[0].(map[string]any)["id"].(string)+"/revoke", "")
		}, events.OAuthGrantRevoked)
	})
}

func TestClientsLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.openToAll()
		key := w.apiKey("admin", frontendtest.Deployment, "oauth_clients:read", "oauth_clients:write")
		var made answer
		created := w.happens(func() {
			made = w.backend(key, "POST", clientsPath, `{"client_name":"Reports","redirect_uris":["`+callback+`"]}`)
		}, events.OAuthClientCreated)[0]
		if created.SubjectType != "oauth_client" || created.SubjectID != made.text("client_id") || !strings.Contains(created.Data, `"source":"backend"`) || !strings.HasPrefix(created.Actor, "key:") {
			t.Errorf("%+v", created)
		}
		path := clientsPath + "/" + made.text("client_id")
		w.happens(func() { w.backend(key, "PATCH", path, `{"client_name":"Other"}`) }, events.OAuthClientUpdated)
		w.happens(func() { w.backend(key, "PATCH", path, `{"client_name":"Other"}`) })
		w.happens(func() { w.backend(key, "POST", path+"/rotate-secret", `{}`) }, events.OAuthClientRotated)
		w.happens(func() { w.backend(key, "DELETE", path, "") }, events.OAuthClientDeleted)
		w.happens(func() { w.backend(key, "DELETE", path, "") })

		says := map[string]any{"client_name": "Shop", "redirect_uris": []string{callback}}
		registered := w.happens(func() { made = w.ask("POST", "/register", "", says) }, events.OAuthClientCreated)[0]
		if registered.Actor != "anonymous" || !strings.Contains(registered.Data, `"source":"registered"`) {
			t.Errorf("%+v", registered)
		}
		own, token := "/register/"+made.text("client_id"), made.text("registration_access_token")
		says["client_id"], says["client_name"] = made.text("client_id"), "Shop 2"
		w.happens(func() { w.ask("PUT", own, token, says) }, events.OAuthClientUpdated)
		w.happens(func() { w.ask("PUT", own, token, says) })
		w.happens(func() { w.ask("DELETE", own, token, nil) }, events.OAuthClientDeleted)

		at, p := newSite(t), w.signUp("ada@example.com")
		id := at.URL + "/agent.json"
		at.says(map[string]any{"client_id": id, "client_name": "Agent", "redirect_uris": []string{callback}}, "")
		document := w.happens(func() { p.authorize((&client{w: w, id: id}).request("jobs:read")) }, events.OAuthClientCreated)[0]
		if document.SubjectID != id || !strings.Contains(document.Data, `"source":"metadata_document"`) {
			t.Errorf("%+v", document)
		}
	})
}

func TestIdleClientsLogTheirDeletion(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.openToAll()
		made := w.ask("POST", "/register", "", map[string]any{"client_name": "Shop", "redirect_uris": []string{callback}})
		c, p := &client{w: w, id: made.text("client_id"), secret: made.text("client_secret")}, w.signUp("ada@example.com")
		w.happens(func() { p.allow(c.request("jobs:read")) }, events.OAuthGrantCreated)
		w.Clock.Advance(people.IdleClientFor + 48*time.Hour)
		now := w.Clock.Now()
		keep := people.Retention{Audit: 10 * people.IdleClientFor, ToolCalls: 10 * people.IdleClientFor, Events: events.Expiry{At: now}}
		deleted := w.happens(func() {
			_, err := w.Store.Purge(t.Context(), now, keep, 100)
			w.Must(err)
		}, events.SessionEnded, events.OAuthClientDeleted)[1]
		if deleted.SubjectID != c.id || deleted.Actor != "system" {
			t.Errorf("%+v", deleted)
		}
	})
}

// TestRegistrationsLogBoundedEvents: registrations need no account, and above the bound of a day they have no events.
func TestRegistrationsLogBoundedEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.openToAll()
		before := len(frontendtest.Logged(t, w.Store, 0))
		done := 0
		for n := range 260 {
			says := map[string]any{"client_name": fmt.Sprint("Agent ", n), "redirect_uris": []string{callback}}
			made := w.ask("POST", "/register", "", says)
			if made.status != 201 {
				t.Fatalf("%d %s", made.status, made.raw)
			}
			done++
			w.ask("DELETE", "/register/"+made.text("client_id"), made.text("registration_access_token"), nil)
		}
		if n := len(frontendtest.Logged(t, w.Store, int64(before))); n != 500 {
			t.Errorf("%d registrations and deletions logged %d events", done, n)
		}
	})
}
