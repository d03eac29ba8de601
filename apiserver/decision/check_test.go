package decision

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

func TestCheckAllowsAndCounts(t *testing.T) {
	w := newWorld(t)
	w.limit(
		scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 2, Endpoints: []string{"POST /v1/*"}},
		scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 100, Mode: "per_app"},
	)
	for left := 1; left >= 0; left-- {
		a := w.check(w.plain, "POST", "/v1/orders", `,"required_permissions":["orders:write"]`)
		if a.StatusCode != http.StatusOK || a.body["allowed"] != true || a.body["reason"] != nil || a.body["retry_after"] != nil {
			t.Fatalf("%d %v", a.StatusCode, a.body)
		}
		limits := a.body["rate_limits"].([]any)[0]
		if want := (map[string]any{"rule": "2/1s", "limit": 2.0, "remaining": float64(left)}); !reflect.DeepEqual(limits, want) {
			t.Errorf("the rule is %v, want %v", limits, want)
		}
		if got := a.body["permissions"]; !reflect.DeepEqual(got, []any{"orders:read", "orders:write"}) {
			t.Errorf("permissions %v are not those within the app's ceiling", got)
		}
		identity := a.body["identity"].(map[string]any)
		if identity["app_slug"] != "shop" || identity["key_name"] != "Key k" || identity["key_id"] != w.plain[3:15] || identity["owner_user_id"] != nil {
			t.Errorf("identity %v", identity)
		}
	}
	a := w.check(w.plain, "POST", "/v1/orders")
	headers := a.body["headers"].(map[string]any)
	if a.StatusCode != http.StatusOK || a.body["allowed"] != false || a.body["reason"] != "rate_limited" || a.body["blocked_rule"] != "2/1s" || a.body["retry_after"] != 1.0 {
		t.Fatalf("%d %v", a.StatusCode, a.body)
	}
	if headers["Retry-After"] != "1" || headers["RateLimit-Policy"] != `"2/1s";q=2;w=1, "100/calendar_day";q=100` || !strings.HasPrefix(headers["RateLimit"].(string), `"2/1s";r=0;t=1, "100/calendar_day";r=98;t=`) {
		t.Errorf("headers %v", headers)
	}
	if a = w.check(w.plain, "GET", "/v1/orders"); a.body["allowed"] != true || len(a.body["rate_limits"].([]any)) != 1 {
		t.Errorf("a GET is under the day's rule alone: %v", a.body)
	}
	w.Clock.Advance(time.Second)
	if a = w.check(w.plain, "POST", "/v1/%6frders/../orders?x=/"); a.body["allowed"] != true {
		t.Errorf("after the second that Retry-After said: %v", a.body)
	}
}

func TestCheckOfMissingPermissionConsumesNothing(t *testing.T) {
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1})
	for _, permission := range []string{"beyond:the-ceiling", "unknown"} {
		a := w.check(w.plain, "GET", "/", `,"required_permissions":["orders:read","`+permission+`"]`)
		if a.StatusCode != http.StatusOK || a.body["allowed"] != false || a.body["reason"] != "permission_denied" || a.body["blocked_rule"] != nil || len(a.body["rate_limits"].([]any)) != 0 {
			t.Errorf("%d %v", a.StatusCode, a.body)
		}
	}
	if a := w.check(w.plain, "GET", "/"); a.body["allowed"] != true {
		t.Errorf("the one request of the hour was consumed: %v", a.body)
	}
}

func TestCheckMirrorsStatus(t *testing.T) {
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1})
	body := func(more string) string {
		return `{"principal":{"type":"api_key","value":"` + w.plain + `"},"method":"GET","resource":"/"` + more + `}`
	}
	for _, step := range []struct {
		path, more string
		want       int
	}{
		{"/v1/authz/check?status=http", `,"required_permissions":["x"]`, 403}, {"/v1/authz/check?status=http", "", 200}, {"/v1/authz/check?status=http", "", 429},
		{"/v1/authz/check", "", 200}, {"/v1/authz/check?status=ftp", "", 400}, {"/v1/authz/check?status=http&status=http", "", 400},
	} {
		if a := w.ask("POST", step.path, body(step.more)); a.StatusCode != step.want {
			t.Errorf("%s %s: %d, want %d: %v", step.path, step.more, a.StatusCode, step.want, a.body)
		}
	}
}

// Every reason why a credential is not accepted gets the same 401.
func TestCheckRefusesCredentials(t *testing.T) {
	w := newWorld(t)
	past := w.Clock.Now().Add(-time.Second)
	expired := w.declare("expired", func(k *document.APIKey) { k.Verifiers[0].ExpiresAt = &past })
	elsewhere := w.declare("elsewhere", func(k *document.APIKey) { k.AllowedCIDRs = []string{"203.0.113.0/24"} })
	revoked := w.given(func(k *people.APIKey) { k.RevokedAt = past })
	ended := w.given(func(k *people.APIKey) { k.ExpiresAt = past })
	inactive := w.given(func(k *people.APIKey) { k.App = "gone" })
	w.Eventually("the keys are known", func() bool { return w.api.Snapshots.Current().Len() == 5 })
	other := "0"
	if w.plain[20] == '0' {
		other = "1"
	}
	changed := w.plain[:20] + other + w.plain[21:]
	var first map[string]any
	for name, key := range map[string]string{
		"expired": expired, "elsewhere": elsewhere, "revoked": revoked, "ended": ended, "app gone": inactive, "changed": changed,
		"unknown": "ck_000000000000000000000000000000000000000000000000", "no key": "hello", "a token": "eyJ.e30.x",
	} {
		a := w.check(key, "GET", "/")
		delete(a.body, "request_id")
		if a.StatusCode != http.StatusUnauthorized || a.body["allowed"] != false || a.body["identity"] != nil || a.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.body)
		}
		if first == nil {
			first = a.body
		}
		if !reflect.DeepEqual(a.body, first) {
			t.Errorf("%s gets another response: %v, others get %v", name, a.body, first)
		}
	}
	if a := w.check(elsewhere, "GET", "/", `,"client_ip":"203.0.113.9"`); a.body["allowed"] != true {
		t.Errorf("from its network: %v", a.body)
	}
}

// A runtime key is evaluated like a declared key, with its metadata, and a revocation takes effect immediately.
func TestCheckOfRuntimeKey(t *testing.T) {
	w := newWorld(t)
	var row people.APIKey
	key := w.given(func(k *people.APIKey) { row = *k })
	for range 2 {
		a := w.check(key, "GET", "/", `,"required_permissions":["orders:read"]`)
		if a.body["allowed"] != true || !reflect.DeepEqual(a.body["metadata"], map[string]any{"plan": "gold"}) || !reflect.DeepEqual(a.body["permissions"], []any{"orders:read"}) {
			t.Fatalf("%v", a.body)
		}
	}
	row.RevokedAt, row.UpdatedAt = w.Clock.Now(), w.Clock.Now()
	w.Must(w.Store.Change(t.Context(), tenant, func(tx people.Tx) error { return tx.APIKeys().UpdateAPIKey(row) }))
	w.Eventually("it is refused", func() bool { return w.check(key, "GET", "/").StatusCode == http.StatusUnauthorized })
}

func TestCheckRefusesBodies(t *testing.T) {
	w := newWorld(t)
	principal := `"principal":{"type":"api_key","value":"` + w.plain + `"}`
	rest := `,"method":"GET","resource":"/"`
	for name, tc := range map[string]struct {
		body string
		want int
		at   string
	}{
		"empty":                 {`{}`, 400, "/principal"},
		"unknown member":        {`{` + principal + rest + `,"x":1}`, 400, "/x"},
		"unknown of principal":  {`{"principal":{"type":"api_key","value":"v","x":1}` + rest + `}`, 400, "/principal/x"},
		"principal type":        {`{"principal":{"type":"password","value":"v"}` + rest + `}`, 400, "/principal/type"},
		"principal no object":   {`{"principal":"v"` + rest + `}`, 400, "/principal"},
		"no value":              {`{"principal":{"type":"api_key"}` + rest + `}`, 400, "/principal/value"},
		"no method":             {`{` + principal + `,"resource":"/"}`, 400, "/method"},
		"method":                {`{` + principal + `,"method":"get","resource":"/"}`, 400, "/method"},
		"empty resource":        {`{` + principal + `,"method":"GET","resource":""}`, 400, "/resource"},
		"client_ip":             {`{` + principal + rest + `,"client_ip":"300.1.1.1"}`, 400, "/client_ip"},
		"zone":                  {`{` + principal + rest + `,"client_ip":"fe80::1%eth0"}`, 400, "/client_ip"},
		"permissions":           {`{` + principal + rest + `,"required_permissions":"x"}`, 400, "/required_permissions"},
		"many permissions":      {`{` + principal + rest + `,"required_permissions":["` + strings.Repeat(`x","`, 64) + `x"]}`, 400, "/required_permissions"},
		"NUL":                   {`{` + principal + `,"method":"GET","resource":"/a\u0000"}`, 400, ""},
		"encoded slash":         {`{` + principal + `,"method":"GET","resource":"/a%2Fb"}`, 400, ""},
		"path without slash":    {`{` + principal + `,"method":"GET","resource":"v1"}`, 400, ""},
		"twice the same member": {`{` + principal + rest + `,"method":"GET"}`, 400, ""},
		"no JSON":               {`{`, 400, ""},
		"16 KiB and one":        {`{` + principal + rest + `,"user_agent":"` + strings.Repeat("x", 16<<10) + `"}`, 413, ""},
		"a megabyte":            {strings.Repeat("[", 1<<20), 413, ""},
	} {
		a := w.ask("POST", "/v1/authz/check", tc.body)
		if a.StatusCode != tc.want || a.body["message"] == "" || a.body["request_id"] == nil {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.body)
			continue
		}
		if at := a.body["errors"].([]any)[0].(map[string]any)["field"]; tc.at != "" && at != tc.at {
			t.Errorf("%s: at %v, want %s", name, at, tc.at)
		}
	}
	if a := w.ask("GET", "/v1/authz/check", ""); a.StatusCode != 405 || a.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d", a.StatusCode)
	}
	if a := w.ask("POST", "/v1/authz/checks", "{}"); a.StatusCode != 404 {
		t.Errorf("another path: %d", a.StatusCode)
	}
	if a := w.ask("POST", "/v1/authz/check", "", "Content-Type: text/plain"); a.StatusCode != 415 {
		t.Errorf("no JSON said: %d", a.StatusCode)
	}
}

// After a hundred bad keys a minute from an address, lookups for that address are refused, while cached keys pass.
func TestUnknownKeysAreThrottled(t *testing.T) {
	w := newWorld(t)
	known := w.given(func(*people.APIKey) {})
	key, err := apikey.Read(known)
	w.Must(err)
	w.Eventually("the key is cached", func() bool { // a read from before the first poll of the feed is not
		if a := w.check(known, "GET", "/", `,"client_ip":"2001:db8::1"`); a.body["allowed"] != true {
			t.Fatalf("%v", a.body)
		}
		_, cached := w.keys.Cached(key.Digest())
		return cached
	})
	late, later := w.given(func(*people.APIKey) {}), w.given(func(*people.APIKey) {})
	wrong := "x"
	if w.plain[20:21] == wrong {
		wrong = "y"
	}
	guess := w.plain[:20] + wrong + w.plain[21:]
	for i := range 100 {
		if a := w.check(guess, "GET", "/", `,"client_ip":"2001:db8::1"`); a.StatusCode != http.StatusUnauthorized {
			t.Fatalf("wrong key %d: %d %v", i, a.StatusCode, a.body)
		}
	}
	for name, tc := range map[string]struct {
		key, client string
		want        int
	}{
		"a look-up from there": {late, "2001:db8::2", 429}, "known here": {known, "2001:db8::3", 200}, "declared": {w.plain, "2001:db8::3", 200},
		"from elsewhere": {later, "2001:db8:0:1::1", 200},
	} {
		if a := w.check(tc.key, "GET", "/", `,"client_ip":"`+tc.client+`"`); a.StatusCode != tc.want || tc.want == 429 && a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v, want %d", name, a.StatusCode, a.body, tc.want)
		}
	}
}

func TestCheckWithStatusHasTheLimitsAsHeaders(t *testing.T) {
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 1})
	check := func(query string) answer {
		return w.ask(http.MethodPost, "/v1/authz/check"+query, `{"principal":{"type":"api_key","value":"`+w.plain+`"},"method":"GET","resource":"/"}`)
	}
	if a := check("?status=http"); a.StatusCode != 200 || a.Header.Get("RateLimit") == "" || a.Header.Get("RateLimit-Policy") == "" {
		t.Errorf("allowed: %d %v", a.StatusCode, a.Header)
	}
	if a := check("?status=http"); a.StatusCode != 429 || a.Header.Get("Retry-After") != "60" {
		t.Errorf("limited: %d %v", a.StatusCode, a.Header)
	}
	if a := check(""); a.StatusCode != 200 || a.Header.Get("Retry-After") != "" {
		t.Errorf("without the status: %d %v", a.StatusCode, a.Header)
	}
}

func TestCheckNamesTheMemberOfARefusedPath(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/a%2Fb", "/public/..;/admin", "no-slash"} {
		a := w.check(w.plain, "GET", path)
		faults, _ := a.body["errors"].([]any)
		if a.StatusCode != 400 || len(faults) != 1 || faults[0].(map[string]any)["field"] != "/resource" {
			t.Errorf("%s: %d %v", path, a.StatusCode, a.body)
		}
	}
}
