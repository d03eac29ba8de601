package enduser_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// keyApps declares shop, which lets users create keys, and closed, which does not.
func (w *world) keyApps(most int) {
	w.T.Helper()
	shop := document.APIAuthApp{
		Slug: "shop", Name: "Shop", KeyPrefix: "shop", Active: true, Permissions: []string{"orders:read", "orders:write"},
		SelfService: &document.KeySelfService{MaxKeysPerUser: most, Permissions: []string{"orders:read", "orders:delete"}},
	}
	w.Put(v1alpha1.KindAPIAuthApp, "shop", deploymentName, "shop", shop)
	w.Put(v1alpha1.KindAPIAuthApp, "closed", deploymentName, "closed", document.APIAuthApp{Slug: "closed", Name: "Closed", Active: true, Permissions: []string{"*"}})
	shop.Slug, shop.Active = "idle", false
	w.Put(v1alpha1.KindAPIAuthApp, "idle", deploymentName, "idle", shop)
	b := w.browser()
	b.signUp("probe@example.com")
	w.Eventually("the apps are served", func() bool {
		return b.do("POST", "/me/api-keys", `{"app_slug":"shop","name":"probe"}`).Status == 200
	})
}

// makesKey creates a key and returns its id and its secret.
func (b *browser) makesKey(body string) (id, secret string) {
	b.w.T.Helper()
	made := b.ok("POST", "/me/api-keys", body)
	return made["key"].(map[string]any)["id"].(string), made["secret"].(string)
}

const laptop = `{"app_slug":"shop","name":"Laptop","permissions":["orders:read"]}`

func TestDeleteAPIKeyByDecisionID(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.keyApps(10)
		b, _ := w.signedUp("ada@example.com")
		_, secret := b.makesKey(laptop)
		minted, err := apikey.Parse(secret)
		if err != nil {
			t.Fatal(err)
		}
		if keys := b.list("/me/api-keys"); keys[0]["key_id"] != minted.ID() {
			t.Errorf("key_id is %v, want %s", keys[0]["key_id"], minted.ID())
		}
		other, _ := w.signedUp("grace@example.com")
		other.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/"+minted.ID(), "")
		b.ok("DELETE", "/me/api-keys/"+minted.ID(), "")
		if keys := b.list("/me/api-keys"); len(keys) != 0 {
			t.Errorf("after the deletion: %v", keys)
		}
	})
}

func TestAPIKeyLifecycle(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.keyApps(10)
		b, user := w.signedUp("ada@example.com")
		id, secret := b.makesKey(laptop)
		second, _ := b.makesKey(`{"app_slug":"shop","name":"Phone","expires_at":"2999-01-01T00:00:00Z"}`)
		keys := b.list("/me/api-keys")
		if len(keys) != 2 || !strings.HasPrefix(secret, "shop_") || strings.Contains(b.last.Raw, secret) {
			t.Fatalf("keys: %v", keys)
		}
		w.tx(func(tx people.Tx) error {
			k, _, err := tx.APIKeys().APIKey(parseID(id))
			if k.Owner != parseID(user) || strings.Join(k.Permissions, " ") != "orders:read" || k.App != "shop" {
				t.Errorf("made: %+v", k)
			}
			return err
		})
		if n := w.audited("api_key.created"); n != 3 {
			t.Errorf("%d creations are audited, want 3", n)
		}
		b.ok("DELETE", "/me/api-keys/"+id, "")
		b.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/"+id, "")
		if keys = b.list("/me/api-keys"); len(keys) != 1 || keys[0]["id"] != second {
			t.Errorf("after a deletion: %v", keys)
		}
		w.tx(func(tx people.Tx) error { // a key that the application revoked is no longer visible to the user
			k, _, err := tx.APIKeys().APIKey(parseID(second))
			k.RevokedAt = w.Clock.Now()
			if err == nil {
				err = tx.APIKeys().UpdateAPIKey(k)
			}
			return err
		})
		b.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/"+second, "")
		if keys = b.list("/me/api-keys"); len(keys) != 0 {
			t.Errorf("after a revocation: %v", keys)
		}
	})
}

func TestBodiesOfOwnKeys(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.keyApps(10)
		b, _ := w.signedUp("ada@example.com")
		for body, code := range map[string]string{
			`{`:                                                  "VALIDATION_ERROR",
			`{"app_slug":"shop"}`:                                "VALIDATION_ERROR",
			`{"name":"x"}`:                                       "VALIDATION_ERROR",
			`{"app_slug":"shop","name":" "}`:                     "VALIDATION_ERROR",
			`{"app_slug":7,"name":"x"}`:                          "VALIDATION_ERROR",
			`{"app_slug":"none","name":"x"}`:                     "INVALID_APP",
			`{"app_slug":"closed","name":"x"}`:                   "INVALID_APP",
			`{"app_slug":"idle","name":"x"}`:                     "INVALID_APP",
			`{"app_slug":"shop\u0000","name":"x"}`:               "INVALID_APP",
			`{"app_slug":"shop","name":"x","owner_user_id":"1"}`: "VALIDATION_ERROR",
			`{"app_slug":"shop","name":"x","metadata":{}}`:       "VALIDATION_ERROR",
			`{"app_slug":"shop","name":"x","permissions":["orders:write"]}`:      "VALIDATION_ERROR", // the app has it, but users may not grant it
			`{"app_slug":"shop","name":"x","permissions":["orders:delete"]}`:     "VALIDATION_ERROR", // users may grant it, but the app lacks it
			`{"app_slug":"shop","name":"x","permissions":["*"]}`:                 "VALIDATION_ERROR",
			`{"app_slug":"shop","name":"x","permissions":"orders:read"}`:         "VALIDATION_ERROR",
			`{"app_slug":"shop","name":"x","expires_at":"2000-01-01T00:00:00Z"}`: "VALIDATION_ERROR",
			`{"app_slug":"shop","name":"x","expires_at":"soon"}`:                 "VALIDATION_ERROR",
		} {
			b.refused(400, code, "POST", "/me/api-keys", body)
		}
		b.refused(413, "PAYLOAD_TOO_LARGE", "POST", "/me/api-keys", `{"name":"`+strings.Repeat("x", 16<<10)+`"}`)
		unrelated := w.browser()
		unrelated.refused(401, "NOT_AUTHENTICATED", "GET", "/me/api-keys", "")
		unrelated.refused(401, "NOT_AUTHENTICATED", "POST", "/me/api-keys", laptop)
		unrelated.refused(401, "NOT_AUTHENTICATED", "DELETE", "/me/api-keys/1", "")
		b.refused(403, "ORIGIN_NOT_ALLOWED", "POST", "/me/api-keys", laptop, "Origin", "https://evil.example")
		b.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/none", "")
	})
}

func TestUsersAccessOnlyTheirOwnAPIKeys(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.keyApps(10)
		ada, _ := w.signedUp("ada@example.com")
		eve, _ := w.signedUp("eve@example.com")
		id, _ := ada.makesKey(laptop)
		eve.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/"+id, "")
		if keys := eve.list("/me/api-keys"); len(keys) != 0 {
			t.Errorf("keys of another user: %v", keys)
		}
		// Keys of another tenant are not visible either, even if its user has the same id.
		other := w.browser()
		other.host = "other.localhost"
		other.refused(401, "NOT_AUTHENTICATED", "GET", "/me/api-keys", "")
		foreign := people.APIKey{ID: 99, PublicID: "foreign", App: "shop", Name: "x", Owner: 1, CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()}
		w.Must(w.Store.Change(t.Context(), anotherName, func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(foreign) }))
		ada.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/99", "")
		// A key of the application itself has no owner.
		w.tx(func(tx people.Tx) error {
			return tx.APIKeys().InsertAPIKey(people.APIKey{ID: 98, PublicID: "apps", Digest: [32]byte{1}, App: "shop", Name: "x", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
		})
		ada.refused(404, "API_KEY_NOT_FOUND", "DELETE", "/me/api-keys/98", "")
	})
}

func TestOwnKeysHaveLimits(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.keyApps(3)
		b, user := w.signedUp("ada@example.com")
		var all sync.WaitGroup
		for range 6 {
			tab := b.as(b.cookie())
			all.Go(func() {
				resp, err := tab.raw("POST", "/me/api-keys", laptop)
				if err == nil {
					_ = resp.Body.Close()
				}
			})
		}
		all.Wait()
		keys := b.list("/me/api-keys")
		if len(keys) != 3 {
			t.Fatalf("%d keys were created concurrently, want at most 3", len(keys))
		}
		b.refused(400, "API_KEY_LIMIT_REACHED", "POST", "/me/api-keys", laptop)
		b.ok("DELETE", fmt.Sprint("/me/api-keys/", keys[0]["id"]), "")
		b.makesKey(laptop)
		// A user can create a hundred keys per day, including deleted ones.
		w.tx(func(tx people.Tx) error {
			for range 100 {
				if _, err := tx.Limits().Count("api-keys", user, w.Clock.Now(), w.Clock.Now().Add(time.Hour)); err != nil {
					return err
				}
			}
			return nil
		})
		b.ok("DELETE", fmt.Sprint("/me/api-keys/", b.list("/me/api-keys")[0]["id"]), "")
		if a := b.refused(429, "RATE_LIMITED", "POST", "/me/api-keys", laptop); a.Header.Get("Retry-After") == "" {
			t.Error("a limit without Retry-After")
		}
		w.Clock.Advance(25 * time.Hour)
		b.signIn("ada@example.com")
		b.makesKey(laptop)
	})
}

func TestAPIKeysEndWithTheAccount(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.keyApps(10)
		b, user := w.signedUp("ada@example.com")
		id, _ := b.makesKey(laptop)
		w.tx(func(tx people.Tx) error { return tx.Users().DeleteUser(parseID(user)) })
		w.tx(func(tx people.Tx) error {
			_, found, err := tx.APIKeys().APIKey(parseID(id))
			if found {
				w.T.Error("a key outlives its owner")
			}
			return err
		})
	})
}
