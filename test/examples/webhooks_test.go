package examples

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/internal/webhook"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	webhooksPage = "webhooks.md"
	eventsPage   = "events.md"
)

// numbers numbers the recorded events, which GET /events then lists.
func (w *world) numbers() {
	w.T.Helper()
	worker := sequencer.New(sequencer.Options{Store: w.Store, Clock: w.Clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
	for more := true; more; {
		var failed map[string]error
		more, failed = worker.Pass(w.T.Context())
		for _, err := range failed {
			w.Must(err)
		}
	}
}

// sends runs a server that sends the events of the deployment to its endpoints.
func (w *world) sends() {
	w.T.Helper()
	follower := snapshot.NewFollower(w.Store, 10*time.Millisecond, w.Clock.Now, logr.Discard())
	dispatcher := webhooks.New(webhooks.Options{
		Store: w.Store, Snapshots: follower, Keyring: w.Keyring, Signer: tokensigner.New(w.Keyring), Clock: w.Clock.Now, Log: logr.Discard(), Server: "one", Version: "test",
		Egress: egress.NewPolicy([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, nil), Registry: prometheus.NewRegistry(),
	})
	ctx, cancel := context.WithCancel(w.T.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = follower.Run(ctx) })
	running.Go(func() { _ = dispatcher.Run(ctx) })
	w.T.Cleanup(func() { cancel(); running.Wait() })
}

// signing is the secret of the endpoint in these tests.
var signing = "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{9}, 32))

// expectEvents declares an endpoint whose receiver is a program of the page, at an address, and expects that it prints
// each event once, and that it refuses a request without a valid signature.
func (w *world) expectEvents(at string, spec process.Spec) {
	w.T.Helper()
	spec.Env = append(spec.Env, "SIGNING_SECRET="+signing)
	w.start(at, spec)
	printed := func(text string) int {
		raw, err := os.ReadFile(filepath.Join(w.group.LogDir(), spec.Name+".log"))
		w.Must(err)
		return strings.Count(string(raw), text)
	}
	id := ids.Format(ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", "crm"))
	w.Clock.Advance(time.Since(w.Clock.Now())) // receivers compare the time of a signature with their own
	w.Put(v1alpha1.KindWebhookEndpoint, "crm", frontendtest.Deployment, "", document.WebhookEndpoint{
		Name: "crm", URL: "http://" + at + "/hooks/identity", Types: []string{"*"}, Format: document.WebhookStandard, Scheme: document.WebhookHMAC,
		Ordering: document.WebhookByEntity, TimeoutSeconds: 15, MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
		Secrets: []document.SealedSecret{{Sealed: w.Keyring.Seal(document.SealedEndpointSecret, id, []byte(signing))}},
	})
	w.sends()
	endpoint := ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", "crm")
	w.Eventually("a server has the endpoint's state", func() (found bool) {
		w.Must(w.Store.View(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) (err error) {
			_, found, err = tx.Webhooks().WebhookState(endpoint)
			return err
		}))
		return found
	})
	manager, err := backend.New(w.backend, client.WithToken(w.manager))
	w.Must(err)
	user, err := manager.CreateUser(w.T.Context(), backend.UserCreate{Email: "grace@example.com"})
	w.Must(err)
	w.numbers()
	w.Eventually("the program prints the event", func() bool { return printed("user.created user/"+user.Id+"\n") == 1 })

	key, err := webhook.ParseSecret(signing)
	w.Must(err)
	body := []byte(`{"id":"evt_77","type":"user.again","sequence":"77","subject":{"type":"user","id":"1"}}`)
	post := func(at string, when time.Time, change func(http.Header)) int {
		r, err := http.NewRequestWithContext(w.T.Context(), http.MethodPost, "http://"+at+"/hooks/identity", bytes.NewReader(body))
		w.Must(err)
		webhook.Sign(r.Header, "evt_77", when, body, key)
		change(r.Header)
		response, err := http.DefaultClient.Do(r)
		w.Must(err)
		w.Must(response.Body.Close())
		return response.StatusCode
	}
	unchanged := func(http.Header) {}
	for range 2 {
		if got := post(at, time.Now(), unchanged); got != http.StatusNoContent {
			w.T.Errorf("a repeated request: %d", got)
		}
	}
	for name, got := range map[string]int{
		"an old request": post(at, time.Now().Add(-6*time.Minute), unchanged), "another id": post(at, time.Now(), func(h http.Header) { h.Set("webhook-id", "evt_78") }),
		"no signature": post(at, time.Now(), func(h http.Header) { h.Del("webhook-signature") }), "a signature of others": post(at, time.Now(), func(h http.Header) { h.Set("webhook-signature", "v1,é") }),
	} {
		if got != http.StatusUnauthorized {
			w.T.Errorf("%s: %d", name, got)
		}
	}
	if n := printed("77 user.again user/1"); n != 1 {
		w.T.Errorf("the program prints an event that came twice %d times", n)
	}
}

// onPort returns the program of a page at the port of an address.
func onPort(text, at string) string {
	_, port, _ := strings.Cut(at, ":")
	return strings.NewReplacer(`"127.0.0.1:9000"`, `"127.0.0.1:`+port+`"`, "listen(9000,", "listen("+port+",", `("127.0.0.1", 9000)`, `("127.0.0.1", `+port+`)`).Replace(text)
}

// built returns a compiled Go program of a page.
func built(t *testing.T, text string) string {
	t.Helper()
	dir := folder(t, map[string]string{"main.go": text})
	application := filepath.Join(dir, "application")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", application, filepath.Join(dir, "main.go"))
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return application
}

func TestGoReceivesWebhooks(t *testing.T) {
	t.Parallel()
	w, at := newWorld(t), address(t)
	application := built(t, onPort(block(t, webhooksPage, "go", 0), at))
	w.expectEvents(at, process.Spec{Name: "hooks", Path: application, Dir: filepath.Dir(application)})
}

func TestTypeScriptReceivesWebhooks(t *testing.T) {
	t.Parallel()
	node, at := program(t, "node", "install nodejs 20 or newer"), address(t)
	dir := compiled(t, onPort(block(t, webhooksPage, "ts", 0), at))
	newWorld(t).expectEvents(at, process.Spec{Name: "hooks", Path: node, Args: []string{"main.js"}, Dir: dir})
}

func TestPythonReceivesWebhooks(t *testing.T) {
	t.Parallel()
	python, at := program(t, "python3", "install python3"), address(t)
	dir := folder(t, map[string]string{"main.py": onPort(block(t, webhooksPage, "python", 0), at)})
	newWorld(t).expectEvents(at, process.Spec{Name: "hooks", Path: python, Args: []string{"main.py"}, Dir: dir})
}

// askVerified reads [publicKey, headers, body] from an argument and prints what the page's function returns.
const askVerified = `
import { verified } from "./verified.js"
console.log(JSON.parse(process.argv[2]).map(([key, headers, body]) => verified(key, headers, body)).join())
`

func TestNodeVerifiesEd25519ByThePage(t *testing.T) {
	t.Parallel()
	node := program(t, "node", "install nodejs 20 or newer")
	dir := folder(t, map[string]string{"verified.js": block(t, webhooksPage, "js", 0), "ask.js": askVerified, "package.json": `{"type":"module"}`})
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	public := webhook.Public(private.Public().(ed25519.PublicKey))
	body := `{"type":"user.created"}`
	request := func(at time.Time, body string) []any {
		header, headers := http.Header{}, map[string]string{}
		webhook.Sign(header, "evt_1", at, []byte(`{"type":"user.created"}`), webhook.Private(private))
		for name := range header {
			headers[strings.ToLower(name)] = header.Get(name)
		}
		return []any{public, headers, body}
	}
	input, err := json.Marshal([]any{request(time.Now(), body), request(time.Now().Add(-6*time.Minute), body), request(time.Now(), `{"type":"user.deleted"}`)})
	if err != nil {
		t.Fatal(err)
	}
	ask := exec.CommandContext(t.Context(), node, "ask.js", string(input))
	ask.Dir = dir
	if out, err := ask.CombinedOutput(); err != nil || string(out) != "true,false,false\n" {
		t.Errorf("said %q: %v", out, err)
	}
}
