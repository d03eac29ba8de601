package backend

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// keyWorld serves three apps: shop, with keys of customers; tools, with keys that have management permissions; and
// closed, which is inactive. It also has a role of organizations, and a declared key of shop.
func keyWorld(t *testing.T, more ...store.Document) served {
	t.Helper()
	at := time.Unix(1700000000, 0)
	k := newCluster()
	k.objects["shop"] = `{"metadata":{"namespace":"ns","name":"shop","uid":"uid-20","resourceVersion":"1","generation":1},"spec":{"deploymentRef":{"name":"acme"},"slug":"shop"}}`
	return serveWith(t, k, nil, append(more,
		fixed(t, "APIAuthApp", "shop", "uid-20", 20, "shop", at, document.APIAuthApp{Slug: "shop", Name: "Shop", Active: true, KeyPrefix: "shop", Permissions: []string{"orders:read", "orders:write"}}),
		fixed(t, "APIAuthApp", "tools", "uid-21", 21, "tools", at, document.APIAuthApp{Slug: "tools", Name: "Tools", Active: true, Permissions: []string{"*"}}),
		fixed(t, "APIAuthApp", "closed", "uid-22", 22, "closed", at, document.APIAuthApp{Slug: "closed", Name: "Closed", Permissions: []string{"*"}}),
		fixed(t, "B2BSettings", "b2b", "uid-14", 14, document.B2BKey, at, document.B2BSettings{Enabled: true, DefaultWorkspaceLimit: 5}),
		fixed(t, "MembershipRole", "clerk", "uid-23", 23, "", at, document.MembershipRole{Level: "Organization", Name: "Clerk", Permissions: []string{"orders:read"}}),
		fixed(t, "APIKey", "backend", "uid-24", 24, "", at, document.APIKey{App: "shop", Name: "Backend", Permissions: []string{"orders:read"}, Verifiers: []document.Verifier{{ID: mint(t).ID(), Last4: "last"}}}),
	)...)
}

type keyJSON struct {
	ID                   string
	KeyID                *string `json:"key_id"`
	Name                 string
	Permissions          []string
	OrgRolePermissions   []string `json:"org_role_permissions"`
	Metadata             json.RawMessage
	OwnerUserID          *string `json:"owner_user_id"`
	KeyPrefix, KeySuffix string
	IsActive             bool       `json:"is_active"`
	ExpiresAt            *time.Time `json:"expires_at"`
	RevokedAt            *time.Time `json:"revoked_at"`
	RevokedReason        *string    `json:"revoked_reason"`
	RotatedFrom          *string    `json:"rotated_from"`
	Source               string
}

// creates creates a key of an app and returns it with its secret.
func (s served) creates(t *testing.T, app, body string) (key keyJSON, secret string) {
	t.Helper()
	answer := s.send("POST", "/api-auth/apps/"+app+"/keys", body)
	var made struct {
		Key    keyJSON
		Secret string
	}
	if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil || answer.Code != 200 {
		t.Fatalf("create a key: %d %s", answer.Code, answer.Body)
	}
	return made.Key, made.Secret
}

// says sends a request, and expects a status and some texts in the response. It returns the body.
func (s served) says(t *testing.T, method, path, body string, status int, texts ...string) string {
	t.Helper()
	answer := s.send(method, path, body)
	if answer.Code != status {
		t.Fatalf("%s %s %s: %d %s, want %d", method, path, body, answer.Code, answer.Body, status)
	}
	for _, text := range texts {
		if !strings.Contains(answer.Body.String(), text) {
			t.Errorf("%s %s %s: %s lacks %q", method, path, body, answer.Body, text)
		}
	}
	return answer.Body.String()
}

func (s served) key1(t *testing.T, path string) (key keyJSON) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.says(t, "GET", path, "", 200)), &key); err != nil {
		t.Fatal(err)
	}
	return key
}

const shopKeys = "/api-auth/apps/shop/keys"

func TestKeyLifecycle(t *testing.T) {
	s := keyWorld(t)
	key, secret := s.creates(t, "shop", `{"name":" Customer ","permissions":["orders:read","orders:read"],"metadata":{"plan":"gold", "n": 1.50},"expires_at":"2999-01-02T03:04:05.678+01:00"}`)
	if key.Name != "Customer" || len(key.Permissions) != 1 || string(key.Metadata) != `{"plan":"gold","n":1.50}` || !key.IsActive || key.Source != "runtime" ||
		key.ExpiresAt.Format(time.RFC3339Nano) != "2999-01-02T02:04:05.678Z" || !strings.HasPrefix(secret, "shop_") {
		t.Fatalf("made %+v", key)
	}
	at := shopKeys + "/" + key.ID
	if body := s.says(t, "GET", at, "", 200, `"key_suffix":"`+secret[len(secret)-4:]+`"`, `"key_prefix":"shop"`); strings.Contains(body, secret) {
		t.Error("a key's secret is served again")
	}
	s.says(t, "PATCH", at, `{}`, 200, `"name":"Customer"`)
	s.says(t, "PATCH", at, `{"name":"New","permissions":["*"],"metadata":null,"expires_at":null,"rate_limit_scheme_slug":"free"}`, 200,
		`"name":"New"`, `"permissions":["*"]`, `"metadata":{}`, `"expires_at":null`, `"rate_limit_scheme_slug":"free"`)

	var rotated struct {
		Key    keyJSON
		Secret string
	}
	if err := json.Unmarshal([]byte(s.says(t, "POST", at+"/rotate", `{"overlap_seconds":60}`, 200)), &rotated); err != nil {
		t.Fatal(err)
	}
	if rotated.Key.Name != "New" || *rotated.Key.RotatedFrom != key.ID || rotated.Secret == secret || rotated.Key.ID == key.ID {
		t.Errorf("rotated to %+v", rotated.Key)
	}
	if old := s.key1(t, at); !old.IsActive || old.ExpiresAt == nil || old.RevokedAt != nil {
		t.Errorf("a key within its overlap is %+v", old)
	}
	s.says(t, "POST", at+"/rotate", `{}`, 409, "rotated already")
	next := shopKeys + "/" + rotated.Key.ID
	s.says(t, "POST", next+"/rotate", `{}`, 200)
	if old := s.key1(t, next); old.IsActive || *old.RevokedReason != "rotated" {
		t.Errorf("a key that was rotated without overlap is %+v", old)
	}
	s.says(t, "POST", at+"/revoke", `{"reason":"leaked"}`, 200, `"is_active":false`, `"revoked_reason":"leaked"`)
	s.says(t, "POST", at+"/revoke", `{"reason":"other"}`, 200, `"revoked_reason":"leaked"`)
	s.says(t, "PATCH", at, `{"name":"x"}`, 409)
}

func TestKeysAreFoundByDecisionKeyID(t *testing.T) {
	declared := mint(t)
	s := keyWorld(t,
		fixed(t, "APIKey", "rotated", "uid-25", 25, "", time.Unix(1700000000, 0), document.APIKey{
			App: "shop", Name: "Rotated", Verifiers: []document.Verifier{{ID: declared.ID(), Last4: "last"}, {ID: "previous0001", Last4: "prev"}},
		}),
		fixed(t, "APIKey", "unissued", "uid-26", 26, "", time.Unix(1700000000, 0), document.APIKey{App: "shop", Name: "Unissued"}),
	)
	key, secret := s.creates(t, "shop", `{"name":"Customer"}`)
	minted, err := apikey.Parse(secret)
	if err != nil {
		t.Fatal(err)
	}
	if key.KeyID == nil || *key.KeyID != minted.ID() {
		t.Fatalf("key_id is %v, want %s", key.KeyID, minted.ID())
	}
	at := shopKeys + "/" + minted.ID()
	for _, path := range []string{at, shopKeys + "/" + key.ID} {
		s.says(t, "GET", path, "", 200, `"id":"`+key.ID+`"`, `"key_id":"`+minted.ID()+`"`)
	}
	s.says(t, "GET", shopKeys, "", 200, `"key_id":"`+minted.ID()+`"`)
	s.says(t, "PATCH", at, `{"name":"New"}`, 200, `"name":"New"`)
	s.says(t, "POST", at+"/rotate", `{"overlap_seconds":60}`, 200, `"rotated_from":"`+key.ID+`"`)
	s.says(t, "POST", at+"/revoke", `{}`, 200, `"id":"`+key.ID+`"`, `"is_active":false`)

	for _, id := range []string{"25", declared.ID(), "previous0001"} {
		s.says(t, "GET", shopKeys+"/"+id, "", 200, `"id":"25"`, `"key_id":"`+declared.ID()+`"`)
		s.says(t, "POST", shopKeys+"/"+id+"/revoke", `{}`, 409, "rotated")
	}
	s.says(t, "GET", shopKeys+"/26", "", 200, `"key_id":null`)

	other, _ := s.creates(t, "tools", `{"name":"other"}`)
	for _, id := range []string{*other.KeyID, "unknown00000", "no-id"} {
		s.says(t, "GET", shopKeys+"/"+id, "", 404, ":id")
		s.says(t, "POST", shopKeys+"/"+id+"/revoke", `{}`, 404, ":id")
	}
}

// A decision names an imported key, which has no public id, by its id.
func TestImportedKeyUsesRowIDAsKeyID(t *testing.T) {
	s := keyWorld(t)
	err := s.rows.Change(context.Background(), "ns/acme", func(tx people.Tx) error {
		return tx.APIKeys().InsertAPIKey(people.APIKey{ID: 77, Digest: [32]byte{7}, App: "shop", Name: "Imported", CreatedAt: time.Unix(1700000000, 0), UpdatedAt: time.Unix(1700000000, 0)})
	})
	if err != nil {
		t.Fatal(err)
	}
	s.says(t, "GET", shopKeys+"/77", "", 200, `"key_id":"77"`)
}

func TestKeyValidation(t *testing.T) {
	s := keyWorld(t)
	key, _ := s.creates(t, "shop", `{"name":"one"}`)
	other, _ := s.creates(t, "tools", `{"name":"other"}`)
	for _, c := range []struct {
		method, path, body string
		status             int
		texts              []string
	}{
		{"POST", shopKeys, `{}`, 400, []string{"/name"}},
		{"POST", shopKeys, `{"name":"x","admin":true}`, 400, []string{"/admin"}},
		{"POST", shopKeys, `{"name":"x","permissions":["orders:read","orders:delete","a b"]}`, 400, []string{"/permissions/1", "orders:delete", "/permissions/2"}},
		{"POST", shopKeys, `{"name":"x","metadata":[]}`, 400, []string{"/metadata"}},
		{"POST", shopKeys, `{"name":"x","metadata":{"a":"` + strings.Repeat("x", 4096) + `"}}`, 400, []string{"/metadata", "4096"}},
		{"POST", shopKeys, `{"name":"x","expires_at":"2000-01-01T00:00:00Z"}`, 400, []string{"/expires_at", "future"}},
		{"POST", shopKeys, `{"name":"x","expires_at":"tomorrow"}`, 400, []string{"/expires_at", "RFC 3339"}},
		{"POST", shopKeys, `{"name":"x","organization_id":"1"}`, 400, []string{"/owner_user_id"}},
		{"POST", shopKeys, `{"name":"x","owner_user_id":"1"}`, 400, []string{"/owner_user_id", "no user"}},
		{"POST", shopKeys, `{"name":"x","owner_user_id":"one"}`, 400, []string{"/owner_user_id", "must be an id"}},
		{"POST", shopKeys, `{"name":"x","rate_limit_scheme_slug":"none"}`, 400, []string{"/rate_limit_scheme_slug"}},
		{"POST", "/api-auth/apps/none/keys", `{"name":"x"}`, 404, []string{":slug"}},
		{"GET", "/api-auth/apps/none/keys", "", 404, nil},
		{"GET", shopKeys + "?limit=0&cursor=x&owner_user_id=y&include_inactive=z", "", 400, []string{"?limit", "?cursor", "?owner_user_id", "?include_inactive"}},
		{"GET", shopKeys + "?cursor=r01", "", 400, []string{"?cursor"}},
		{"GET", shopKeys + "/none", "", 404, []string{":id"}},
		{"GET", shopKeys + "/" + other.ID, "", 404, []string{":id"}},
		{"PATCH", shopKeys + "/" + other.ID, `{"name":"x"}`, 404, nil},
		{"POST", shopKeys + "/" + other.ID + "/revoke", `{}`, 404, nil},
		{"POST", shopKeys + "/" + key.ID + "/rotate", `{"overlap_seconds":2592001}`, 400, []string{"/overlap_seconds"}},
		{"POST", shopKeys + "/" + key.ID + "/rotate", `{"overlap_seconds":-1}`, 400, []string{"/overlap_seconds"}},
		{"POST", shopKeys + "/" + key.ID + "/revoke", `{"reason":"` + strings.Repeat("x", 501) + `"}`, 400, []string{"/reason"}},
		{"PATCH", shopKeys + "/24", `{"name":"x"}`, 409, []string{"APIKey", "backend"}},
		{"POST", shopKeys + "/24/rotate", `{}`, 409, []string{"backend"}},
		{"POST", shopKeys + "/24/revoke", `{}`, 409, []string{"backend"}},
		{"GET", "/api-auth/apps/tools/keys/24", "", 404, nil},
		{"DELETE", "/api-auth/apps/none", "", 404, nil},
		{"POST", "/api-auth/apps", `{"app_slug":"No","name":"","key_prefix":"A-","permissions":["x y"],"resources":["r"],"rate_limit_scheme_slug":"none"}`, 400,
			[]string{"/app_slug", "/name", "/key_prefix", "/permissions/0", "/resources", "/rate_limit_scheme_slug"}},
		{"POST", "/api-auth/apps", `{"app_slug":"shop","name":"Shop"}`, 409, []string{"/app_slug", "taken"}},
		{"PATCH", "/api-auth/apps/none", `{"name":"x"}`, 404, nil},
	} {
		s.says(t, c.method, c.path, c.body, c.status, c.texts...)
	}
}

func TestListKeysPagesDeclaredFirst(t *testing.T) {
	s := keyWorld(t)
	var want []string
	for _, name := range []string{"a", "b", "c", "d"} {
		key, _ := s.creates(t, "shop", `{"name":"`+name+`"}`)
		want = append(want, key.ID)
	}
	slices.Sort(want) // ids have equal lengths, so this is their numeric order; within a millisecond it is random
	slices.Reverse(want)
	s.says(t, "POST", shopKeys+"/"+want[3]+"/revoke", `{}`, 200)
	read := func(query string) (ids []string) {
		for cursor := ""; ; {
			var page struct {
				Keys       []keyJSON
				HasMore    bool    `json:"has_more"`
				NextCursor *string `json:"next_cursor"`
			}
			if err := json.Unmarshal([]byte(s.says(t, "GET", shopKeys+"?"+query+cursor, "", 200)), &page); err != nil {
				t.Fatal(err)
			}
			for _, key := range page.Keys {
				ids = append(ids, key.ID)
			}
			if !page.HasMore {
				if page.NextCursor != nil {
					t.Error("the last page has a cursor")
				}
				return ids
			}
			cursor = "&cursor=" + *page.NextCursor
		}
	}
	active := append([]string{"24"}, want[:3]...)
	for _, query := range []string{"", "limit=1", "limit=2", "limit=3", "limit=4", "limit=5"} {
		if got := read(query); strings.Join(got, " ") != strings.Join(active, " ") {
			t.Errorf("%s: %v, want %v", query, got, active)
		}
	}
	if got := read("limit=2&include_inactive=true"); strings.Join(got, " ") != strings.Join(append([]string{"24"}, want...), " ") {
		t.Errorf("with inactive ones: %v", got)
	}
	if got := read("owner_user_id=1"); len(got) != 0 {
		t.Errorf("of a user without keys: %v", got)
	}
}

func TestBoundKeyFollowsOwnersRoleAndMembership(t *testing.T) {
	s := keyWorld(t)
	user, stranger, organization := s.makes(t, "/users", `{"email":"grace@example.com"}`), s.makes(t, "/users", `{"email":"eve@example.com"}`), s.makes(t, "/organizations", `{"name":"Navy"}`)
	s.says(t, "POST", shopKeys, `{"name":"x","owner_user_id":"`+user+`","organization_id":"`+organization+`"}`, 400, "no member")
	s.says(t, "POST", "/organizations/"+organization+"/members", `{"user_id":"`+user+`","role_id":"23"}`, 200)
	s.says(t, "POST", shopKeys, `{"name":"x","owner_user_id":"`+stranger+`","organization_id":"`+organization+`"}`, 400, "no member")
	s.says(t, "POST", shopKeys, `{"name":"x","owner_user_id":"`+user+`","workspace_id":"99"}`, 400, "/workspace_id")
	bound, _ := s.creates(t, "shop", `{"name":"bound","permissions":["*"],"owner_user_id":"`+user+`","organization_id":"`+organization+`"}`)
	own, _ := s.creates(t, "shop", `{"name":"own","permissions":["*"],"owner_user_id":"`+user+`"}`)
	if strings.Join(bound.OrgRolePermissions, " ") != "orders:read" || *bound.OwnerUserID != user {
		t.Errorf("bound: %+v", bound)
	}
	for query, want := range map[string]int{"owner_user_id=" + user: 2, "organization_id=" + organization: 1, "owner_user_id=" + stranger: 0} {
		if got := strings.Count(s.says(t, "GET", shopKeys+"?"+query, "", 200), `"app_slug"`); got != want {
			t.Errorf("%s: %d keys, want %d", query, got, want)
		}
	}
	s.says(t, "DELETE", "/organizations/"+organization+"/members/"+user, "", 204)
	s.says(t, "GET", shopKeys+"/"+bound.ID, "", 404)
	s.says(t, "GET", shopKeys+"/"+own.ID, "", 200)
	s.says(t, "DELETE", "/users/"+user, "", 204)
	s.says(t, "GET", shopKeys+"/"+own.ID, "", 404)
}

// following lets the handler's authenticator follow the keys of the store. It returns the key cache, and a function
// that returns the status of a request with a key.
func following(t *testing.T, s served) (*keycache.Cache, func(secret string) int) {
	t.Helper()
	cache := keycache.New(keycache.Options{Store: s.rows, Clock: time.Now, Log: logr.Discard()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	s.authenticator.Keys = cache
	return cache, func(secret string) int {
		as := s
		as.key = secret
		return as.send("GET", "/api-auth/rate-limit-schemes", "").Code
	}
}

func TestBackendAcceptsStoredKeysAndRefusesDeadOnesAlike(t *testing.T) {
	s := keyWorld(t)
	_, status := following(t, s)
	user := s.makes(t, "/users", `{"email":"grace@example.com"}`)
	manages, secret := s.creates(t, "tools", `{"name":"manages","permissions":["rate_limit_schemes:read"]}`)
	_, none := s.creates(t, "tools", `{"name":"none"}`)
	_, bound := s.creates(t, "tools", `{"name":"bound","permissions":["*"],"owner_user_id":"`+user+`"}`)
	_, closed := s.creates(t, "closed", `{"name":"closed","permissions":["*"]}`)
	_, shop := s.creates(t, "shop", `{"name":"shop","permissions":["*"]}`)
	for what, c := range map[string]struct {
		secret string
		want   int
	}{
		"a key that may": {secret, 200}, "a key without permissions": {none, 403}, "a key that acts for a person": {bound, 403}, "a key of an inactive app": {closed, 401},
		"a key whose app may not": {shop, 403}, "a key that is none": {mint(t).Plain(), 401}, "text": {"sk_live_x", 401},
	} {
		if got := status(c.secret); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
	s.says(t, "POST", "/api-auth/apps/tools/keys/"+manages.ID+"/revoke", `{}`, 200)
	deadline := time.Now().Add(time.Second)
	for status(secret) != 401 {
		if time.Now().After(deadline) {
			t.Fatal("a revoked key is still accepted after a second")
		}
	}
	as := func(secret string) string {
		s := s
		s.key = secret
		body := s.send("GET", "/api-auth/rate-limit-schemes", "").Body.String()
		return body[:strings.Index(body, "request_id")]
	}
	if as(secret) != as(mint(t).Plain()) || as(secret) != as(closed) {
		t.Error("the refusals differ")
	}
	status(none) // a cached key needs no store for a second
	if err := s.rows.Close(); err != nil {
		t.Fatal(err)
	}
	if got := status(none); got != 403 {
		t.Errorf("a cached key while the store is unavailable: %d, want 403", got)
	}
	if got := status(mint(t).Plain()); got != 503 {
		t.Errorf("a key that is not cached while the store is unavailable: %d, want 503", got)
	}
	if got := status(s.key); got != 200 {
		t.Errorf("a declared key while the store is unavailable: %d, want 200", got)
	}
}

func TestKeyCannotGrantMissingPermission(t *testing.T) {
	s := keyWorld(t)
	following(t, s)
	strong, _ := s.creates(t, "tools", `{"name":"strong","permissions":["users:write"]}`)
	_, weak := s.creates(t, "tools", `{"name":"weak","permissions":["api_keys:write","api_keys:read","api_auth_apps:write"]}`)
	s.key = weak
	tools := "/api-auth/apps/tools/keys"
	s.says(t, "POST", tools, `{"name":"x","permissions":["users:write"]}`, 403, "users:write")
	s.says(t, "POST", tools, `{"name":"x","permissions":["*"]}`, 403)
	s.says(t, "POST", tools+"/"+strong.ID+"/rotate", `{}`, 403, "users:write")
	s.says(t, "PATCH", tools+"/"+strong.ID, `{"permissions":["users:write","users:read"]}`, 403, "users:read")
	s.says(t, "PATCH", tools+"/"+strong.ID, `{"name":"renamed","permissions":["users:write"]}`, 200)
	s.says(t, "POST", "/api-auth/apps", `{"app_slug":"mine","name":"Mine","permissions":["*"]}`, 403)
	s.says(t, "POST", tools, `{"name":"x","permissions":["api_keys:read","orders:read"]}`, 200)
	s.says(t, "POST", shopKeys, `{"name":"x","permissions":["*"]}`, 200)
	s.key = s.reader
	for _, request := range []string{"GET " + shopKeys, "POST " + shopKeys, "GET /api-auth/apps", "PATCH /api-auth/apps/shop"} {
		method, path, _ := strings.Cut(request, " ")
		if answer := s.send(method, path, "{}"); answer.Code != http.StatusForbidden {
			t.Errorf("%s by a key without the permission: %d", request, answer.Code)
		}
	}
}

// An expired key cannot be extended. Another key can be extended only by a credential that has its permissions.
func TestExtendingKeyNeedsPermissionToCreateIt(t *testing.T) {
	s := keyWorld(t)
	following(t, s)
	now := time.Now()
	expired := people.APIKey{
		ID: 99, PublicID: "expiredkey01", App: "tools", Name: "expired", Permissions: []string{"*"}, CreatedAt: now.Add(-time.Hour), UpdatedAt: now, ExpiresAt: now.Add(-time.Minute),
	}
	if err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(expired) }); err != nil {
		t.Fatal(err)
	}
	soon, later := now.Add(time.Hour).UTC().Format(time.RFC3339), now.Add(2*time.Hour).UTC().Format(time.RFC3339)
	strong, _ := s.creates(t, "tools", `{"name":"strong","permissions":["users:write"],"expires_at":"`+soon+`"}`)
	own, weak := s.creates(t, "tools", `{"name":"weak","permissions":["api_keys:write"],"expires_at":"`+soon+`"}`)
	tools := "/api-auth/apps/tools/keys/"
	s.says(t, "PATCH", tools+"99", `{"expires_at":null}`, 409, "has expired")
	s.says(t, "PATCH", tools+"99", `{"name":"renamed"}`, 409)
	admin := s.key
	s.key = weak
	s.says(t, "PATCH", tools+"99", `{"expires_at":null}`, 409)
	s.says(t, "PATCH", tools+strong.ID, `{"expires_at":null}`, 403, "users:write")
	s.says(t, "PATCH", tools+strong.ID, `{"expires_at":"`+later+`"}`, 403, "users:write")
	s.says(t, "PATCH", tools+strong.ID, `{"name":"renamed"}`, 200)
	s.says(t, "PATCH", tools+strong.ID, `{"expires_at":"`+now.Add(time.Minute).UTC().Format(time.RFC3339)+`"}`, 200)
	s.says(t, "PATCH", tools+own.ID, `{"expires_at":"`+later+`"}`, 200)
	s.key = admin
	s.says(t, "PATCH", tools+strong.ID, `{"expires_at":null}`, 200)
}

func TestKeysOfOtherTenantsAreNotFound(t *testing.T) {
	s := keyWorld(t)
	foreign := people.APIKey{ID: 77, PublicID: "foreign", App: "shop", Name: "foreign", CreatedAt: time.Now(), UpdatedAt: time.Now()}
	if err := s.rows.Change(t.Context(), "ns/other", func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(foreign) }); err != nil {
		t.Fatal(err)
	}
	s.says(t, "GET", shopKeys+"/77", "", 404)
	s.says(t, "PATCH", shopKeys+"/77", `{"name":"mine"}`, 404)
	s.says(t, "POST", shopKeys+"/77/rotate", `{}`, 404)
	s.says(t, "POST", shopKeys+"/77/revoke", `{}`, 404)
	if strings.Contains(s.says(t, "GET", shopKeys+"?include_inactive=true", "", 200), `"77"`) {
		t.Error("another tenant's key is listed")
	}
}

// makes creates an object and returns its id.
func (s served) makes(t *testing.T, path, body string) string {
	t.Helper()
	answer := s.send("POST", path, body)
	var made struct{ ID string }
	if err := json.Unmarshal(answer.Body.Bytes(), &made); err != nil || answer.Code != 200 {
		t.Fatalf("POST %s: %d %s", path, answer.Code, answer.Body)
	}
	return made.ID
}
