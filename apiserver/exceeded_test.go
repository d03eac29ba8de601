package apiserver_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// TestExceededLimitsAreEvents: refusals of a limit are one event with their number, which only readers get that ask for
// the type. It names the scheme, the rule, the key and the app, and no address.
func TestExceededLimitsAreEvents(t *testing.T) {
	t.Parallel()
	w := newReplicated(t, "")
	scheme := w.Put(v1alpha1.KindRateLimitScheme, "partners", acme, "partners", document.RateLimitScheme{Slug: "partners", Name: "Partners", Rules: []scheme.Rule{
		{Unit: "day", Duration: 1, MaxRequests: 2, Mode: "per_app_and_ip", Endpoints: []string{"POST /orders"}},
		{Unit: "day", Duration: 1, MaxRequests: 3, Mode: "per_ip", Endpoints: []string{"POST /refunds"}},
	}})
	app := w.Put(v1alpha1.KindAPIAuthApp, "partner", acme, "partner", document.APIAuthApp{Slug: "partner", Active: true, Permissions: []string{"*"}, Scheme: "partners"})
	limited, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIKey, "limited", acme, "", document.APIKey{App: "partner", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: limited.ID(), Digest: limited.Digest()}}})
	w.servers = append(w.servers, w.start(w.Store))
	refused := 0
	ask := func(path string) {
		body := fmt.Sprintf(`{"principal":{"type":"api_key","value":%q},"method":"POST","resource":%q,"client_ip":"192.0.2.77"}`, limited.Plain(), path)
		answer := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodPost, "/v1/authz/check", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w.servers[0].Decision().ServeHTTP(answer, r)
		if strings.Contains(answer.Body.String(), `"rate_limited"`) {
			refused++
		}
	}
	for range 7 {
		ask("/orders")
		ask("/refunds")
	}
	if refused != 5+4 {
		t.Fatalf("%d requests were refused", refused)
	}
	read := func(query string) (list backendapi.EventList) {
		status, answer := w.ask(0, w.admin, "GET", "/events?since=1970-01-01T00:00:00Z&"+query, "")
		if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK || strings.Contains(answer, "192.0.2.77") {
			t.Fatalf("%d %s", status, answer)
		}
		return list
	}
	w.Eventually("both limits are reported", func() bool { return len(read("types=rate_limit.*").Data) == 2 })
	for _, e := range read("types=rate_limit.exceeded").Data {
		var data map[string]any
		w.Must(json.Unmarshal(e.Data, &data))
		want := map[string]any{"scheme": "partners", "rule": "2/1d", "mode": "per_app_and_ip", "app_id": ids.Format(app), "count": 5.0}
		if data["mode"] == "per_ip" {
			want = map[string]any{"scheme": "partners", "rule": "3/1d", "mode": "per_ip", "count": 4.0}
		}
		if want["window_started_at"] = data["window_started_at"]; fmt.Sprint(data) != fmt.Sprint(want) || e.Subject.Type != "rate_limit_scheme" || e.Subject.Id != ids.Format(scheme) || e.Actor.Type != "system" {
			t.Errorf("%+v: %s", e, e.Data)
		}
	}
	for _, query := range []string{"", "types=*"} {
		if list := read(query); len(list.Data) != 0 {
			t.Errorf("%s: %d events", query, len(list.Data))
		}
	}
}
