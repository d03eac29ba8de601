package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/cause"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
)

// run runs a command line with env as its environment.
func run(t *testing.T, env map[string]string, args ...string) (out, problems string, code int) {
	t.Helper()
	var stdout, stderr strings.Builder
	root := newRoot(surroundings{in: strings.NewReader(""), out: &stdout, err: &stderr, lookup: func(name string) (string, bool) {
		value, found := env[name]
		return value, found
	}})
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	if err != nil {
		stderr.WriteString(terminal.Clean(err.Error()))
	}
	return stdout.String(), stderr.String(), exitCode(err)
}

// answering starts a server with the same response to every request. asked is the last request.
func answering(t *testing.T, status int, body string) (url string, asked *http.Request) {
	t.Helper()
	asked = &http.Request{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = *r.Clone(context.Background())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

func TestHostileNamesDoNotSteerTheTerminal(t *testing.T) {
	const hostile = "Ada\x1b]0;gotcha\a\u009b2J\u202e"
	name, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	server, asked := answering(t, http.StatusOK, fmt.Sprintf(`{"data":[{"id":"7","email":"a@b.example","first_name":%s,"last_name":"","primary_phone_number":null,
		"disabled":true,"created_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z"}],"has_more":true,"limit":1,"offset":4,"total":9}`, name))
	env := map[string]string{envServer: server, envAPIKey: "the-key"}
	for _, format := range []string{formatTable, formatJSON, formatYAML} {
		out, problems, code := run(t, env, "users", "-o", format, "--limit", "1", "--offset", "4")
		if code != 0 {
			t.Fatalf("%d: %s", code, problems)
		}
		for line := range strings.SplitSeq(out, "\n") {
			if terminal.Clean(line) != line {
				t.Errorf("%s steers the terminal: %q", format, line)
			}
		}
		if format == formatTable && !strings.Contains(out, "1 of 9 users; --offset 5 shows the next.") {
			t.Errorf("got %s", out)
		}
	}
	if got := asked.Header.Get("Authorization"); got != "Bearer the-key" {
		t.Errorf("the server received the Authorization header %q", got)
	}
	refusing, _ := answering(t, http.StatusForbidden, `{"message":"no\u001b[2J"}`)
	_, problems, _ := run(t, map[string]string{envServer: refusing, envAPIKey: "the-key"}, "users")
	if strings.Contains(problems, "\x1b") || !strings.Contains(problems, `no\u001b[2J`) {
		t.Errorf("a refusal: %q", problems)
	}
}

func TestWhatAServerRefusesIsASentence(t *testing.T) {
	for _, tc := range []struct {
		name   string
		status int
		body   string
		code   int
		says   string
	}{
		{"not accepted", http.StatusUnauthorized, `{"message":"no"}`, exitNoAccess, "does not accept the credential"},
		{"no right", http.StatusForbidden, `{"message":"users:read is missing"}`, exitNoAccess, "users:read is missing"},
		{"away for a while", http.StatusServiceUnavailable, `{"message":"the store is out of reach"}`, exitNoAccess, "is unavailable (503): the store is out of reach"},
		{"a proxy before it", http.StatusGatewayTimeout, ``, exitNoAccess, "is unavailable (504)"},
		{"something else", http.StatusOK, `<html>`, exitFault, "is not the right listener of a Cardea server"},
		{"a redirect", http.StatusFound, ``, exitFault, "responded 302"},
	} {
		server, _ := answering(t, tc.status, tc.body)
		_, problems, code := run(t, map[string]string{envAPIKey: "hunter2-key"}, "users", "--server", server)
		if code != tc.code || !strings.Contains(problems, tc.says) || strings.Contains(problems, "hunter2") {
			t.Errorf("%s: %d %q", tc.name, code, problems)
		}
	}
}

func TestHowAServerIsNamed(t *testing.T) {
	for _, tc := range []struct {
		name, server, key string
		code              int
		says              string
	}{
		{"no listener", "http://127.0.0.1:1", "hunter2", exitNoAccess, "unreachable"},
		{"no URL", "http://user:hunter2@acme.example", "hunter2", exitUsage, "--server must be a URL"},
		{"none", "", "hunter2", exitUsage, "port-forward"},
		{"a key of two lines", "http://127.0.0.1:1", "hunter2\nhunter2", exitUsage, "CARDEA_API_KEY holds no API key"},
		{"no key", "http://127.0.0.1:1", "", exitUsage, "no credential is set"},
	} {
		_, problems, code := run(t, map[string]string{envServer: tc.server, envAPIKey: tc.key}, "users")
		if code != tc.code || !strings.Contains(problems, tc.says) || strings.Contains(problems, "hunter2") {
			t.Errorf("%s: %d %q", tc.name, code, problems)
		}
	}
}

// An API server without our CRDs answers 404 for the group's version.
func TestAClusterWithoutCardea(t *testing.T) {
	server, _ := answering(t, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{name: x, cluster: {server: %q}}]\ncontexts: [{name: x, context: {cluster: x, user: x}}]\nusers: [{name: x}]\n", server)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"why"}, {"doctor"}, {"export"}, {"key", "rotate", "x"}} {
		_, problems, code := run(t, nil, append(args, "--kubeconfig", file)...)
		if code != exitNoAccess || !strings.Contains(problems, "Cardea is not installed there: choose another cluster with --context") ||
			!strings.Contains(problems, "helm upgrade --install") || !strings.Contains(problems, "install.yaml") || strings.Contains(problems, "config/crd") {
			t.Errorf("%v: %d %q", args, code, problems)
		}
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{
		{"why", "-o", "xml"}, {"why", "a/b/c"}, {"key"}, {"key", "reveal"}, {"users", "--limit", "0"}, {"users", "extra"}, {"keys"}, {"keys", "shop", "--limit", "101"}, {"analytics", "--days", "0"},
		{"analytics", "--from", "yesterday"}, {"analytics", "--from", "2026-02-01T00:00:00Z", "--to", "2026-01-01T00:00:00Z"}, {"decide", "GET", "/"},
		{"decide", "--key-id", "x", "a", "GET", "/"}, {"users", "--api-key-file", "a", "--use-key", "b"}, {"nonsense"},
	} {
		if _, problems, code := run(t, nil, args...); code != exitUsage || problems == "" {
			t.Errorf("%v: %d %q", args, code, problems)
		}
	}
}

func TestArguments(t *testing.T) {
	if got := strings.Join(arguments([]string{"/usr/bin/kubectl-cardea", "why"}), " "); got != "why" {
		t.Errorf("got %q", got)
	}
	if got := strings.Join(arguments([]string{"/usr/bin/" + completer, "why", ""}), " "); got != "__complete why " {
		t.Errorf("got %q", got)
	}
}

func TestATreeIsDrawn(t *testing.T) {
	leaf := &cause.Node{Field: "spec.appRef", Kind: "APIAuthApp", Name: "shop", State: cause.NotReady, Findings: []cause.Finding{
		{Condition: "Accepted", Status: "False", Reason: "Conflict", Message: "slug is held\nby \x1b[31manother", Fix: "choose another"},
	}, DependsOn: []*cause.Node{{Field: "spec.deploymentRef", Kind: "IdentityDeployment", Name: "acme", State: cause.Missing}}}
	other := &cause.Node{Field: "spec.rateLimitSchemeRef", Kind: "RateLimitScheme", Name: "free", State: cause.NotReady, Above: true}
	root := &cause.Node{Kind: "APIKey", Name: "web", State: cause.Ready, DependsOn: []*cause.Node{leaf, other}}
	var b strings.Builder
	if err := (diagnosis{Resources: []*cause.Node{root}, Looked: 1}).write(&b, terminal.Style{}, "acme"); err != nil {
		t.Fatal(err)
	}
	want := `APIKey/web  active, but a resource that it depends on is not
├─ spec.appRef: APIAuthApp/shop  not ready
│  │  Accepted=False Conflict: slug is held by \u001b[31manother
│  │    → choose another
│  └─ spec.deploymentRef: IdentityDeployment/acme  missing
└─ spec.rateLimitSchemeRef: RateLimitScheme/free  not ready, see above
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestATreeShowsWhatToRegister(t *testing.T) {
	secret := &cause.Node{Field: "spec.client.clientSecretRef", Kind: "Secret", Name: "globex", State: cause.Missing}
	root := &cause.Node{Kind: "Connection", Name: "globex", State: cause.NotReady, DependsOn: []*cause.Node{secret}, Register: &cause.Registration{
		RedirectURIs: []string{"https://id.acme.example/sso/7/callback", "https://login.acme.example/sso/7/callback"}, BackchannelLogoutURL: "https://id.acme.example/sso/7/backchannel-logout",
	}}
	var b strings.Builder
	if err := (diagnosis{Resources: []*cause.Node{root}, Looked: 1}).write(&b, terminal.Style{}, "acme"); err != nil {
		t.Fatal(err)
	}
	want := `Connection/globex  not ready
│  redirect URIs to register at the identity provider:
│    https://id.acme.example/sso/7/callback
│    https://login.acme.example/sso/7/callback
│  back-channel logout URL, if the identity provider has a field for it:
│    https://id.acme.example/sso/7/backchannel-logout
└─ spec.client.clientSecretRef: Secret/globex  missing
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestATreeShowsWhatToRegisterForSAML(t *testing.T) {
	root := &cause.Node{Kind: "Connection", Name: "globex", State: cause.NotReady, Register: &cause.Registration{
		EntityID: "https://old.example/sp", ACSURLs: []string{"https://id.acme.example/sso/7/acs", "https://login.acme.example/sso/7/acs"},
		MetadataURL: "https://id.acme.example/sso/7/metadata", CertificateExpiresAt: "2030-01-01T00:00:00Z",
	}}
	var b strings.Builder
	if err := (diagnosis{Resources: []*cause.Node{root}, Looked: 1}).write(&b, terminal.Style{}, "acme"); err != nil {
		t.Fatal(err)
	}
	want := `Connection/globex  not ready
   metadata URL for the identity provider, if it reads metadata; otherwise enter the values below:
     https://id.acme.example/sso/7/metadata
   entity ID (audience):
     https://old.example/sp
   assertion consumer service (ACS) URLs:
     https://id.acme.example/sso/7/acs
     https://login.acme.example/sso/7/acs
   the identity provider's certificate expires at:
     2030-01-01T00:00:00Z
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestATreeShowsWhatToRegisterForADirectory(t *testing.T) {
	root := &cause.Node{Kind: "Directory", Name: "globex", State: cause.Ready, Register: &cause.Registration{
		SCIMURL: "https://id.acme.example/scim/v2/7", TokenSecret: "globex-scim", TokenKey: "scim-token",
	}}
	var b strings.Builder
	if err := (diagnosis{Resources: []*cause.Node{root}, Looked: 1}).write(&b, terminal.Style{}, "acme"); err != nil {
		t.Fatal(err)
	}
	want := `Directory/globex  active
   SCIM base URL (tenant URL) for the identity provider:
     https://id.acme.example/scim/v2/7
   bearer token for the identity provider, in a Secret:
     globex-scim, key scim-token
`
	if !strings.HasPrefix(b.String(), want) {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Without --client-ip, the key's address ranges are not checked, and the output says so.
func TestDecideSaysWhatItDidNotJudge(t *testing.T) {
	server, asked := answering(t, http.StatusOK, `{"key_id":"k","app_slug":"shop","is_active":true,"permissions":[],"resource":"/","method":"GET","allowed":true,"rules":[]}`)
	const hint = "not checked: set --client-ip"
	for _, address := range []string{"", "192.0.2.7"} {
		args := []string{"decide", "--key-id", "k", "GET", "/", "--server", server}
		if address != "" {
			args = append(args, "--client-ip", address)
		}
		out, problems, code := run(t, map[string]string{envAPIKey: "the-key"}, args...)
		if code != 0 || strings.Contains(out, hint) != (address == "") || asked.URL.Query().Get("client_ip") != address {
			t.Errorf("address %q: %d %s%s", address, code, out, problems)
		}
		out, _, _ = run(t, map[string]string{envAPIKey: "the-key"}, append(args, "-o", "json")...)
		if !strings.Contains(out, fmt.Sprintf(`"address_checked": %t`, address != "")) {
			t.Errorf("address %q: %s", address, out)
		}
	}
}

func TestARefusedKeyMayBeOneOfAnotherAddress(t *testing.T) {
	for _, checked := range []bool{false, true} {
		var b strings.Builder
		v := evaluate(explanation{Allowed: true}, nil)
		v.AddressChecked = checked
		if err := v.write(&b, terminal.Style{}); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "or the address is outside of its ranges") != checked {
			t.Errorf("address checked %v: %s", checked, b.String())
		}
	}
}

func TestJudge(t *testing.T) {
	allowed := explanation{IsActive: true, Allowed: true, Permissions: []string{"orders:read"}}
	limited, inactive := allowed, allowed
	limited.Allowed, inactive.IsActive = false, false
	for _, tc := range []struct {
		name     string
		told     explanation
		required []string
		status   int
	}{
		{"allowed", allowed, []string{"orders:read"}, 200},
		{"a permission is missing", allowed, []string{"orders:read", "orders:write"}, 403},
		{"limited", limited, nil, 429},
		{"a missing permission uses nothing up", limited, []string{"orders:write"}, 403},
		{"refused whatever it may", inactive, []string{"orders:write"}, 401},
		{"all", explanation{IsActive: true, Allowed: true, Permissions: []string{"*"}}, []string{"x:y"}, 200},
	} {
		if got := evaluate(tc.told, tc.required); got.Status != tc.status {
			t.Errorf("%s: %d %s", tc.name, got.Status, got.Reason)
		}
	}
}

func TestPeriod(t *testing.T) {
	now := time.Date(2026, 5, 4, 23, 30, 0, 0, time.FixedZone("", -2*3600)) // 2026-05-05 in UTC
	begin, end, err := period(now, 2, "", "")
	if err != nil || begin != "2026-05-04T00:00:00Z" || end != "2026-05-06T00:00:00Z" {
		t.Errorf("%s to %s, %v", begin, end, err)
	}
	begin, end, err = period(now, 14, "2026-05-01T02:00:00+02:00", "2026-05-02T00:00:00Z")
	if err != nil || begin != "2026-05-01T00:00:00Z" || end != "2026-05-02T00:00:00Z" {
		t.Errorf("%s to %s, %v", begin, end, err)
	}
}
