package agents_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// expectRefusal checks that a response is a JSON-RPC error without an id, and names its request.
func expectRefusal(t *testing.T, name string, a answer) {
	t.Helper()
	problem, _ := a.body["error"].(map[string]any)
	data, _ := problem["data"].(map[string]any)
	_, hasID := a.body["id"]
	if a.body["jsonrpc"] != "2.0" || hasID || problem["code"] != -32000.0 || problem["message"] == "" || data["request_id"] == nil || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("%s: the refusal is %s", name, a.raw)
	}
}

// An agent is served only at the first host of its deployment. A page that resolves its own name to the server, or that
// names the host in another header, reaches no agent.
func TestAgentIsServedAtItsDeclaredHost(t *testing.T) {
	w := newPeopleWorld(t, nil)
	const rival = "rival/rival"
	w.Put(v1alpha1.KindIdentityDeployment, "rival", rival, "rival", document.Deployment{DisplayName: "Rival", Mode: "Staging", FrontendHosts: []string{"rival.localhost"}})
	w.Put(v1alpha1.KindAIAgent, "theirs", rival, "", document.AIAgent{Name: "Theirs", Active: true, URL: "http://rival.localhost/mcp/theirs"})
	port := w.Server.URL[strings.LastIndexByte(w.Server.URL, ':'):]
	for host, want := range map[string]int{
		"localhost": 200, "localhost" + port: 200, "localhost:443": 200, "LocalHost": 200, "localhost.": 200,
		"app.localhost": 404, "app.localhost" + port: 404, "rival.localhost": 404, "rebound.example": 404, "rebound.example" + port: 404, "127.0.0.1": 404, "127.0.0.1" + port: 404, "[::1]": 404,
		"localhost.rebound.example": 404, "a.localhost": 404,
	} {
		for name, header := range map[string][]string{
			"no further header": nil, "the host in other headers": {"X-Forwarded-Host", "localhost", "Forwarded", "host=localhost", "X-Host", "localhost"}, "an origin of its own": {"Origin", "http://" + host},
		} {
			if header != nil && want == 200 {
				continue
			}
			a := w.post("support", w.key, listing, append([]string{"Host", host}, header...)...)
			if a.status != want {
				t.Errorf("Host %s, %s: %d %s", host, name, a.status, a.raw)
			}
			if want == 404 {
				expectRefusal(t, host, a)
			}
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", w.Server.URL+"/.well-known/oauth-protected-resource/mcp/support", http.NoBody)
		w.Must(err)
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		w.Must(err)
		w.Must(resp.Body.Close())
		if resp.StatusCode != want {
			t.Errorf("the metadata at Host %s: %d", host, resp.StatusCode)
		}
	}
	if a := w.post("theirs", w.key, listing, "Host", "rival.localhost"); a.status != 401 {
		t.Errorf("the other deployment's agent at its host: %d %s", a.status, a.raw)
	}
	if a := w.post("theirs", w.key, listing, "Host", "localhost"); a.status != 404 {
		t.Errorf("the other deployment's agent at this host: %d %s", a.status, a.raw)
	}
}

// Pages of the deployment's hosts and of allowed origins may call an agent; pages of every other origin may not. The
// origin is checked before the credential, and after the agent.
func TestOnlyPagesOfKnownOriginsCallAnAgent(t *testing.T) {
	w := newPeopleWorld(t, nil)
	port := w.Server.URL[strings.LastIndexByte(w.Server.URL, ':'):]
	for _, tc := range []struct {
		origin, host string
		status       int
		readable     bool // the page may read the response
	}{
		{"http://localhost", "localhost", 200, false}, {"https://localhost", "localhost", 200, false}, {"https://app.localhost", "localhost", 200, false}, {"http://app.localhost", "localhost", 200, false},
		{"http://localhost" + port, "localhost" + port, 200, false}, {"http://app.localhost" + port, "localhost" + port, 200, false},
		{"https://app.example.com", "localhost", 200, true}, {"https://app.example.com", "localhost" + port, 200, true},
		{"null", "localhost", 403, false}, {"", "localhost", 403, false}, {"https://evil.example", "localhost", 403, false}, {"https://rebound.example" + port, "localhost" + port, 403, false},
		{"http://localhost:1", "localhost" + port, 403, false}, {"http://localhost" + port, "localhost", 403, false}, {"http://127.0.0.1" + port, "localhost" + port, 403, false},
		{"http://app.example.com", "localhost", 403, false}, {"https://app.example.com:8443", "localhost", 403, false}, {"https://APP.example.com", "localhost", 403, false},
		{"https://app.example.com.evil.example", "localhost", 403, false}, {"https://evil.example#https://app.example.com", "localhost", 403, false}, {"https://x.app.example.com", "localhost", 403, false},
		{"https://localhost/", "localhost", 403, false}, {"https://localhost@evil.example", "localhost", 403, false}, {"https://user@localhost", "localhost", 403, false}, {"ftp://localhost", "localhost", 403, false},
		{"https://localhost, https://evil.example", "localhost", 403, false}, {"chrome-extension://localhost", "localhost", 403, false},
	} {
		name := fmt.Sprintf("Origin %q at Host %s", tc.origin, tc.host)
		header := []string{"Host", tc.host, "Origin", tc.origin}
		a := w.post("support", w.key, listing, header...)
		if a.status != tc.status {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
		allowed := a.header.Get("Access-Control-Allow-Origin")
		if want := map[bool]string{true: tc.origin}[tc.readable]; allowed != want || a.header.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: the response is readable by %q", name, allowed)
		}
		unsigned := w.post("support", "", listing, header...)
		if want := map[int]int{200: 401, 403: 403}[tc.status]; unsigned.status != want {
			t.Errorf("%s without a credential: %d", name, unsigned.status)
		}
		if tc.status == 403 {
			expectRefusal(t, name, a)
			if a := w.post("unknown", w.key, listing, header...); a.status != 404 {
				t.Errorf("%s at an unknown agent: %d", name, a.status)
			}
			if a := w.post("support", w.key, listening, append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen")...); a.status != 403 {
				t.Errorf("%s opens a stream: %d", name, a.status)
			}
		}
	}
	if a := w.post("support", w.key, listing); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a program, which sends no Origin: %d %v", a.status, a.header)
	}
	if _, count := w.up.last(); count != 0 {
		t.Errorf("%d calls were sent", count)
	}
}

// A production deployment is served with TLS only, so its own pages have origins with https.
func TestPagesWithoutTLSAreForeignInProduction(t *testing.T) {
	w := newWorld(t)
	settings := w.Settings()
	settings.Mode = string(v1alpha1.DeploymentModeProduction)
	w.Declare(settings)
	for origin, want := range map[string]int{"https://localhost": 200, "http://localhost": 403, "https://app.localhost": 200, "http://app.localhost": 403} {
		if a := w.post("support", w.key, listing, "Origin", origin); a.status != want {
			t.Errorf("%s: %d %s", origin, a.status, a.raw)
		}
	}
}

// Two values of a header could be read differently by the server and by a proxy in front of it.
func TestRepeatedOriginIsRefused(t *testing.T) {
	w := newWorld(t)
	r, err := http.NewRequestWithContext(t.Context(), "POST", w.Server.URL+"/mcp/support", strings.NewReader(listing))
	w.Must(err)
	r.Host = "localhost"
	r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + w.key}, "Origin": {"https://localhost", "https://evil.example"}}
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	raw, err := io.ReadAll(resp.Body)
	w.Must(err)
	w.Must(resp.Body.Close())
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("%d %s", resp.StatusCode, raw)
	}
}

// The agent without a frontend host has no address for the Model Context Protocol.
func TestAgentOfADeploymentWithoutHostsIsCalledOnTheBackendOnly(t *testing.T) {
	w := newWorld(t)
	const hostless = "rival/rival"
	w.Put(v1alpha1.KindIdentityDeployment, "rival", hostless, "rival", document.Deployment{DisplayName: "Rival", Mode: "Production"})
	key := w.declareKey("theirs", hostless, "ai_agents:call")
	w.Put(v1alpha1.KindAITool, "find", hostless, "", document.AITool{Name: "Find", Type: "api", Active: true, Method: "GET", Endpoint: w.up.URL, TimeoutSeconds: 5})
	w.Put(v1alpha1.KindAIAgent, "support", hostless, "", document.AIAgent{Name: "Support", Active: true, Tools: []string{"find"}})
	for _, host := range []string{"", "localhost", "app.localhost", "rival"} {
		a := w.post("support", key, listing, "Host", host)
		if host == "localhost" && a.status != 401 || host != "localhost" && a.status != 404 {
			t.Errorf("Host %q: %d %s", host, a.status, a.raw)
		}
	}
	if a := w.directAnswer(key, "rival", "support", "find", `{}`); a.Code != 200 || !strings.Contains(a.Body.String(), `"completed"`) {
		t.Errorf("the backend: %d %s", a.Code, a.Body)
	}
}
