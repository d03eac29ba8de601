package decision

import (
	"net/http"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// The responses of each convention, as its proxy expects them.
func TestForward(t *testing.T) {
	for name, tc := range map[string]struct {
		path            string
		method, uri     string
		limited, denied int
		malformed       int
	}{
		"nginx":           {"/v1/forward/nginx?permission=orders:write", "X-Original-Method", "X-Original-URI", 429, 403, 403},
		"nginx, 403 only": {"/v1/forward/nginx?permission=orders:write&deny=403", "X-Original-Method", "X-Original-URI", 403, 403, 403},
		"traefik":         {"/v1/forward/traefik?permission=orders:write", "X-Forwarded-Method", "X-Forwarded-Uri", 429, 403, 400},
		"caddy":           {"/v1/forward/caddy?permission=orders:write", "X-Forwarded-Method", "X-Forwarded-Uri", 429, 403, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.limit(scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 1, Mode: "per_ip", Endpoints: []string{"POST /v1/*"}})
			request := []string{tc.method + ": POST", tc.uri + ": /v1/orders?x=1", "X-Forwarded-For: 203.0.113.9"}
			key := "Authorization: Bearer " + w.plain
			a := w.ask("GET", tc.path, "", append(request, key)...)
			if a.StatusCode != 200 || a.Header.Get("X-Cardea-Key-Id") != w.plain[3:15] || a.Header.Get("X-Cardea-App") != "shop" || a.Header.Get("X-Cardea-Permissions") != "orders:read,orders:write" ||
				a.Header.Get("RateLimit") != `"1/1min";r=0;t=60` || a.Header.Get("RateLimit-Policy") != `"1/1min";q=1;w=60` || a.body != nil {
				t.Fatalf("allowed: %d %v %v", a.StatusCode, a.Header, a.body)
			}
			if _, sent := a.Header["X-Cardea-Owner-User-Id"]; !sent {
				t.Error("the response does not set an identity header, so the client may set it")
			}
			a = w.ask("GET", tc.path, "", append(request, "X-API-Key: "+w.plain)...)
			if a.StatusCode != tc.limited || a.Header.Get("Retry-After") != "60" || tc.limited == 403 && a.Header.Get("X-Auth-Status") != "429" || a.Header.Get("X-Cardea-Key-Id") != "" {
				t.Errorf("limited: %d %v", a.StatusCode, a.Header)
			}
			for what, headers := range map[string][]string{
				"another client":    {request[0], request[1], "X-Forwarded-For: 203.0.113.10", key},
				"a forged hop left": {request[0], request[1], "X-Forwarded-For: 203.0.113.10, 203.0.113.11", key},
			} {
				if a = w.ask("GET", tc.path, "", headers...); a.StatusCode != 200 {
					t.Errorf("%s: %d", what, a.StatusCode)
				}
			}
			lacking := w.ask("GET", tc.path+"&permission=admin", "", append(request, key)...)
			if lacking.StatusCode != tc.denied {
				t.Errorf("permission: %d", lacking.StatusCode)
			}
			for what, headers := range map[string][]string{
				"no method": {request[1], key}, "no uri": {request[0], key}, "two methods": {request[0], request[0], request[1], key},
				"two uris": {request[0], request[1], request[1], key}, "no path": {request[0], tc.uri + ": orders", key}, "encoded slash": {request[0], tc.uri + ": /v1%2Forders", key},
				"the other convention": {"X-Other-Method: GET", "X-Other-Uri: /", key}, "no such method": {tc.method + ": post it", request[1], key},
			} {
				if a = w.ask("GET", tc.path, "", headers...); a.StatusCode != tc.malformed {
					t.Errorf("%s: %d, want %d", what, a.StatusCode, tc.malformed)
				}
			}
			for what, headers := range map[string][]string{
				"no credential": request, "two": append([]string{key, key}, request...), "both ways": append([]string{key, "X-API-Key: " + w.plain}, request...),
				"another scheme": append([]string{"Authorization: Basic " + w.plain}, request...), "unknown": append([]string{key + "x"}, request...),
			} {
				if a = w.ask("GET", tc.path, "", headers...); a.StatusCode != 401 || a.Header.Get("WWW-Authenticate") == "" {
					t.Errorf("%s: %d", what, a.StatusCode)
				}
			}
			if a = w.ask("GET", tc.path+"&permision=x", "", append(request, key)...); a.StatusCode != tc.malformed {
				t.Errorf("a misspelt option of the gateway: %d", a.StatusCode)
			}
		})
	}
}

// The path after the prefix is the request's path, unchanged.
func TestForwardEnvoy(t *testing.T) {
	w := newWorld(t)
	w.limit(scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 1, Endpoints: []string{"PUT /v1/orders"}})
	key := "Authorization: Bearer " + w.plain
	for i, step := range []struct {
		method, path string
		want         int
	}{
		{"PUT", "/v1/forward/envoy//v1/./orders?permission=admin", 200}, {"PUT", "/v1/forward/envoy/v1/orders", 429}, {"GET", "/v1/forward/envoy/v1/orders", 200},
		{"PUT", "/v1/forward/envoy/v1/other/%2e%2e/orders", 429}, {"PUT", "/v1/forward/envoy/v1%2Forders", 400}, {"PUT", "/v1/forward/envoyage", 404}, {"PUT", "/v1/forward/envoy", 400},
	} {
		if a := w.ask(step.method, step.path, "", key); a.StatusCode != step.want {
			t.Errorf("step %d: %d, want %d: %v", i, a.StatusCode, step.want, a.body)
		}
	}
}

// The gateway's configured path selects the behavior without a decision.
func TestForwardUnavailable(t *testing.T) {
	w := newWorld(t, func(o *Options) {
		o.Snapshots = snapshot.NewFollower(nil, time.Hour, o.Clock, o.Log) // never loads
	})
	headers := []string{"X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "X-Cardea-Key-Id: forged", "Authorization: Bearer " + w.plain}
	for query, want := range map[string]int{"": http.StatusServiceUnavailable, "?unavailable=deny": 403, "?unavailable=allow": 200} {
		a := w.ask("GET", "/v1/forward/caddy"+query, "", headers...)
		if a.StatusCode != want {
			t.Errorf("%s: %d, want %d", query, a.StatusCode, want)
		}
		if id, sent := a.Header["X-Cardea-Key-Id"]; want == 200 && (!sent || id[0] != "") {
			t.Error("a client without an accepted credential can set the identity headers")
		}
	}
}
