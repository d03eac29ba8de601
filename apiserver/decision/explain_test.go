package decision

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

// operator declares and returns a key that may request explanations.
func (w *world) operator() string {
	w.Put(v1alpha1.KindAPIAuthApp, "ops", tenant, "ops", document.APIAuthApp{Slug: "ops", Name: "Ops", Permissions: []string{"decisions:read"}, Active: true})
	key := w.declare("ops", func(k *document.APIKey) { k.App, k.Permissions = "ops", []string{"decisions:read"} })
	w.Eventually("the operator's key is known", func() bool { return w.check(key, "GET", "/").StatusCode == 200 })
	return key
}

func TestExplain(t *testing.T) {
	w := newWorld(t)
	w.limit(
		scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 2, Endpoints: []string{"POST /v1/*"}},
		scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 100, Mode: "per_app"},
	)
	given := w.given(func(*people.APIKey) {})
	bearer := "Authorization: Bearer " + w.operator()
	for range 2 {
		w.check(w.plain, "POST", "/v1/orders")
	}
	question := "/v1/authz/explain?method=POST&resource=/v1/orders&key_id="
	for range 3 { // nothing is consumed
		a := w.ask("GET", question+w.plain[3:15], "", bearer)
		if a.StatusCode != 200 || a.body["allowed"] != false || a.body["scheme"] != "limits" || a.body["scheme_from"] != "app" || a.body["retry_after"] != 60.0 {
			t.Fatalf("%d %v", a.StatusCode, a.body)
		}
		minute, day := a.body["rules"].([]any)[0].(map[string]any), a.body["rules"].([]any)[1].(map[string]any)
		if minute["rule"] != "2/1min" || minute["remaining"] != 0.0 || minute["denies"] != true || minute["mode"] != "per_key" || minute["returns_at"] == nil {
			t.Errorf("the minute's rule: %v", minute)
		}
		if day["remaining"] != 98.0 || day["denies"] != false || day["mode"] != "per_app" {
			t.Errorf("the day's rule: %v", day)
		}
	}
	for _, id := range []string{"1", given[3:15]} {
		if a := w.ask("GET", question+id, "", bearer); a.StatusCode != 200 || a.body["allowed"] != true || a.body["key_id"] != given[3:15] {
			t.Errorf("a runtime key by %s: %d %v", id, a.StatusCode, a.body)
		}
	}
	for name, tc := range map[string]struct {
		path, header string
		want         int
	}{
		"no credential": {question + "1", "X: y", 401}, "no permission": {question + "1", "Authorization: Bearer " + w.plain, 403},
		"unknown key": {question + "zzz", bearer, 404}, "unknown number": {question + "77", bearer, 404},
		"unknown public id": {question + "abcdefghijkl", bearer, 404}, "what no key can have": {question + "abcdefghijk%00", bearer, 404}, "a whole key": {question + given, bearer, 404},
		"no key": {"/v1/authz/explain?method=GET&resource=/", bearer, 400},
		"method": {"/v1/authz/explain?key_id=1&method=get&resource=/", bearer, 400}, "path": {"/v1/authz/explain?key_id=1&method=GET&resource=/a%252Fb/%00", bearer, 400},
		"twice": {question + "1&key_id=2", bearer, 400}, "client": {question + "1&client_ip=x", bearer, 400},
	} {
		if a := w.ask("GET", tc.path, "", tc.header); a.StatusCode != tc.want || strings.Contains(fmt.Sprint(a.body), given) {
			t.Errorf("%s: %d %v, want %d", name, a.StatusCode, a.body, tc.want)
		}
	}
}

// A key's address ranges are evaluated if the question names an address.
func TestExplainEvaluatesClientAddress(t *testing.T) {
	w := newWorld(t)
	ranged := w.declare("ranged", func(k *document.APIKey) { k.AllowedCIDRs = []string{"203.0.113.0/24"} })
	bearer := "Authorization: Bearer " + w.operator()
	w.Eventually("the key is known", func() bool {
		return w.ask("GET", "/v1/authz/explain?method=POST&resource=/v1/orders&key_id="+ranged[3:15], "", bearer).StatusCode == 200
	})
	for client, want := range map[string]float64{"": 200, "&client_ip=203.0.113.7": 200, "&client_ip=198.51.100.1": 401} {
		a := w.ask("GET", "/v1/authz/explain?method=POST&resource=/v1/orders&key_id="+ranged[3:15]+client, "", bearer)
		if a.StatusCode != 200 || a.body["allowed"] != (want == 200) {
			t.Errorf("%q: %d %v", client, a.StatusCode, a.body)
		}
	}
}

// A key of another deployment is treated as unknown.
func TestExplainOfAnotherTenant(t *testing.T) {
	w := newWorld(t)
	bearer := "Authorization: Bearer " + w.operator()
	const other = "apps/other"
	w.Put(v1alpha1.KindIdentityDeployment, "other", other, "", document.Deployment{DisplayName: "Other"})
	w.Put(v1alpha1.KindAPIAuthApp, "theirs", other, "theirs", document.APIAuthApp{Slug: "theirs", Name: "Theirs", Active: true})

	w.Must(w.Store.Change(t.Context(), other, func(tx people.Tx) error {
		return tx.APIKeys().InsertAPIKey(people.APIKey{ID: 99, PublicID: "abcdefghijkl", App: "theirs", Name: "x", Prefix: "ck", Suffix: "aaaa", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
	}))
	for _, id := range []string{"99", "abcdefghijkl"} {
		if a := w.ask("GET", "/v1/authz/explain?method=GET&resource=/&key_id="+id, "", bearer); a.StatusCode != 404 {
			t.Errorf("%s: %d %v", id, a.StatusCode, a.body)
		}
	}
}
