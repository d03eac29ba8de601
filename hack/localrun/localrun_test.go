package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
)

// A variable that env exports arrives in a shell unchanged, whatever characters it contains.
func TestEnvIsSourceable(t *testing.T) {
	t.Parallel()
	e := env{
		kubeconfig:   "/a folder/it's/kubeconfig",
		baseURL:      "http://127.0.0.1:8080",
		deploymentID: "4711",
		apiKey:       `ck_$HOME"\` + "`x`",
		binDir:       "/a folder/bin",

		frontendURL: "http://localhost:8081", inboxURL: "http://127.0.0.1:8084",
		issuer: "http://localhost:8081/oauth/tools", clientID: "12", clientSecret: `cs_'$HOME`, publicClientID: "13",
	}
	file := filepath.Join(t.TempDir(), "env")
	if err := writeEnv(file, e.render()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v (%v), want 0600", info.Mode(), err)
	}
	shell := exec.Command("/bin/sh", "-c", `. "$1"; printf '%s\n' "$KUBECONFIG" "$CARDEA_BASE_URL" "$CARDEA_DEPLOYMENT_ID" "$CARDEA_API_KEY" "$PATH" \
		"$CARDEA_FRONTEND_URL" "$CARDEA_INBOX_URL" "$CARDEA_ISSUER" "$CARDEA_OAUTH_CLIENT_ID" "$CARDEA_OAUTH_CLIENT_SECRET" "$CARDEA_OAUTH_PUBLIC_CLIENT_ID"`, "sh", file)
	shell.Env = []string{"PATH=/usr/bin"}
	got, err := shell.Output()
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{e.kubeconfig, e.baseURL, e.deploymentID, e.apiKey, e.binDir + ":/usr/bin", e.frontendURL, e.inboxURL, e.issuer, e.clientID, e.clientSecret, e.publicClientID, ""}, "\n")
	if string(got) != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestBannerHoldsNoSecret(t *testing.T) {
	t.Parallel()
	e := env{apiKey: "ck_secret", jwt: "a.b.c", clientSecret: "cs_secret", issuer: "http://localhost:8081/oauth/tools", baseURL: "http://127.0.0.1:8080", frontendURL: "http://localhost:8081", inboxURL: "http://127.0.0.1:8084"}
	text := bannerText(e, locations{}, nil)
	for _, secret := range []string{e.apiKey, e.jwt, e.clientSecret} {
		if strings.Contains(text, secret) {
			t.Errorf("the banner holds %s", secret)
		}
	}
	for _, place := range []string{e.frontendURL + "/", e.baseURL + "/console", e.baseURL + "/docs", e.issuer + "\n", e.inboxURL + "/_inbox", e.inboxURL + "/_webhooks"} {
		if !strings.Contains(text, place) {
			t.Errorf("the banner lacks %s", place)
		}
	}
}

// The samples name the preferred ports. The applied sample is patched only if the message gateway stand-in has other
// ports.
func TestCarrierPatch(t *testing.T) {
	t.Parallel()
	if patch := carrierPatch(preferred); patch != "" {
		t.Errorf("with the preferred ports: %s", patch)
	}
	elsewhere := preferred
	elsewhere.CarrierHTTP, elsewhere.CarrierSMTP = 1, 2
	want := `{"spec":{"email":{"smtp":{"port":2}},"sms":{"twilio":{"baseURL":"http://127.0.0.1:1"}}}}`
	if patch := carrierPatch(elsewhere); patch != want {
		t.Errorf("elsewhere: %s, want %s", patch, want)
	}
	sample, err := os.ReadFile(filepath.Join("..", "..", "config", "samples", "identitydeployment.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	token := base64.StdEncoding.EncodeToString([]byte(messagegateway.DefaultAuthToken))
	for _, line := range []string{
		fmt.Sprintf("port: %d", preferred.CarrierSMTP), "baseURL: http://" + address(preferred.CarrierHTTP), "accountSID: " + messagegateway.DefaultAccountSID, "auth-token: " + token,
	} {
		if !strings.Contains(string(sample), line) {
			t.Errorf("the sample lacks %q", line)
		}
	}
}

// The manifest has no URL of a port that the stand-in does not have, and the receiver verifies with both secrets of a
// rotation.
func TestEndpointOfTheLocalReceiver(t *testing.T) {
	t.Parallel()
	manifest := endpointManifest("corp/main", "http://127.0.0.1:18084/_webhooks")
	for _, line := range []string{"  name: local-inbox\n  namespace: corp\n", "  deploymentRef:\n    name: main\n", "  url: http://127.0.0.1:18084/_webhooks\n"} {
		if !strings.Contains(manifest, line) {
			t.Errorf("the manifest lacks %q:\n%s", line, manifest)
		}
	}
	for data, want := range map[string]string{
		`{"signing-secret":"d2hzZWNfYQ=="}`: "whsec_a", `{"signing-secret":"d2hzZWNfYQ==","previous-signing-secret":"d2hzZWNfYg=="}`: "whsec_a whsec_b", `{}`: "",
	} {
		if got, err := secretsOf([]byte(data)); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v", data, got, err)
		}
	}
	if _, err := secretsOf([]byte(`{"signing-secret":"?"}`)); err == nil || strings.Contains(err.Error(), "?") {
		t.Errorf("data that is not base64: %v", err)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		object string
		want   bool
	}{
		"ready":            {`{"metadata":{"generation":2},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}}`, true},
		"not ready":        {`{"metadata":{"generation":2},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"False"}]}}`, false},
		"ready before":     {`{"metadata":{"generation":3},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}}`, false},
		"other conditions": {`{"metadata":{"generation":1},"status":{"observedGeneration":1,"conditions":[{"type":"Accepted","status":"True"}]}}`, false},
		"never seen":       {`{"metadata":{"generation":1},"status":{"observedGeneration":-1}}`, false},
	}
	for name, tt := range tests {
		objects, err := parseObjects([]byte(tt.object))
		if err != nil || len(objects) != 1 {
			t.Errorf("%s: %d objects, %v", name, len(objects), err)
			continue
		}
		if got := objects[0].ready(); got != tt.want {
			t.Errorf("%s: ready is %t", name, got)
		}
	}
}

// The start waits only for samples; the user's own objects are reported.
func TestSplit(t *testing.T) {
	t.Parallel()
	objects, err := parseObjects([]byte(`{"kind":"List","items":[
		{"apiVersion":"iam.cardea.dev/v1alpha1","kind":"APIKey","metadata":{"namespace":"acme","name":"sample","generation":1}},
		{"apiVersion":"iam.cardea.dev/v1alpha1","kind":"APIKey","metadata":{"namespace":"mine","name":"sample","generation":1}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	unready, others := split(objects, map[string]bool{"apikey.iam.cardea.dev acme/sample": true})
	if len(unready) != 1 || unready[0].Metadata.Namespace != "acme" || len(others) != 1 || others[0].Metadata.Namespace != "mine" {
		t.Errorf("unready %v, others %v", unready, others)
	}
}

func TestPortsAreRemembered(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ports.json")
	first, err := choosePorts(file, func(port int) bool { return port != preferred.Backend })
	if err != nil {
		t.Fatal(err)
	}
	if first.Backend == preferred.Backend || first.APIServer != preferred.APIServer {
		t.Errorf("with a backend port that is taken: %+v", first)
	}
	second, err := choosePorts(file, func(int) bool { return true })
	if err != nil || second != first {
		t.Errorf("second start: %+v (%v), want %+v", second, err, first)
	}
}
