package webhooks_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
	"github.com/cardea-iam/cardea/store/people"
)

// presented is a request as test/webhooks/verify.js reads it, with the secret or the public key of its receiver.
type presented struct {
	Secret    string            `json:"secret,omitempty"`
	PublicKey string            `json:"publicKey,omitempty"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	// name is that of the case. verifies reports whether each verifier accepts the request.
	name     string
	verifies bool
}

func present(name string, one received, secret string, verifies bool) presented {
	p := presented{Secret: secret, Headers: map[string]string{}, Body: string(one.body), name: name, verifies: verifies}
	for header, values := range one.header {
		p.Headers[strings.ToLower(header)] = strings.Join(values, ", ")
	}
	return p
}

// said is what the verifiers said of a request, "" for one that verifies; nil: it was not asked.
type said struct {
	StandardWebhooks, Svix, Ed25519, EventError *string
	Event                                       map[string]any
}

// installed skips a test without Node.js or the published libraries.
func installed(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(peers, "node_modules", ".installed")); err != nil {
		t.Skip("the npm packages are missing: make test-webhooks installs them")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("node is missing: install nodejs 20 or newer")
	}
}

const peers = "../../../test/webhooks"

// ask lets the published libraries verify requests, and checks that each of standardwebhooks and svix decides as the
// cases say. Requests with a public key are verified with node:crypto only.
func ask(t *testing.T, cases ...presented) []said {
	t.Helper()
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "node", "verify.js")
	command.Dir, command.Stdin, command.Stderr = peers, bytes.NewReader(input), os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []said
	if err := json.Unmarshal(output, &all); err != nil || len(all) != len(cases) {
		t.Fatalf("%s: %v", output, err)
	}
	for i, one := range cases {
		verifiers := map[string]*string{"standardwebhooks": all[i].StandardWebhooks, "svix": all[i].Svix}
		if one.PublicKey != "" {
			verifiers = map[string]*string{"node:crypto": all[i].Ed25519}
		}
		for verifier, text := range verifiers {
			if text == nil || (*text == "") != one.verifies {
				t.Errorf("%s: %s says %v", one.name, verifier, text)
			}
		}
	}
	return all
}

// altered returns requests that differ from a good one in what the signature protects.
func altered(good received) map[string]received {
	body := good
	body.body = bytes.Replace(body.body, []byte("user.created"), []byte("user.deleted"), 1)
	at, _ := strconv.ParseInt(good.header.Get("webhook-timestamp"), 10, 64)
	return map[string]received{
		"another body": body, "another id": changed(good, "webhook-id", "evt_1"),
		"another timestamp": changed(good, "webhook-timestamp", strconv.FormatInt(at+1, 10)),
		"no signature":      changed(good, "webhook-signature", ""),
	}
}

// sentEarlier returns a request that was sent and signed correctly before a time.
func sentEarlier(t *testing.T, good received, before time.Duration, keys ...webhook.Key) received {
	t.Helper()
	at, err := strconv.ParseInt(good.header.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	old := good
	old.header = good.header.Clone()
	webhook.Sign(old.header, good.header.Get("webhook-id"), time.Unix(at, 0).Add(-before), good.body, keys...)
	return old
}

func TestPublishedLibrariesVerifyRequests(t *testing.T) {
	t.Parallel()
	installed(t)
	w, r, other := newWorld(t, ""), newReceiver(t), newReceiver(t)
	r.answers(func(rw http.ResponseWriter, one received) {
		if one.header.Get("Cardea-Attempt") == "1" {
			rw.WriteHeader(http.StatusInternalServerError)
		}
	})
	w.serves("one")
	id := w.endpoint("crm", r.URL, nil)
	w.follows(id)
	w.follows(w.endpoint("other", other.URL, nil))
	w.happens(events.UserCreated, 1)
	w.Eventually("another endpoint gets the event", func() bool { return len(other.all()) == 1 })
	w.Eventually("the first request failed", func() bool { return w.state(id).Failures == 1 })
	w.Clock.Advance(7 * time.Second)
	w.Eventually("the event is sent again", func() bool { return len(r.all()) == 2 })
	w.Eventually("the delivery has ended", func() bool {
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
	})
	w.Clock.Advance(2 * time.Second)
	r.answers(nil)
	_, err := w.replays(id, webhooks.Wanted{Events: []int64{w.numbered()[0].ID}})
	w.Must(err)
	w.Eventually("the event is sent a third time by a replay", func() bool { return len(r.all()) == 3 })
	first, second, replayed, elsewhere := r.all()[0], r.all()[1], r.all()[2], other.all()[0]
	times := map[string]bool{}
	for _, one := range []received{first, second, replayed} {
		times[one.header.Get("webhook-timestamp")] = true
	}
	for _, one := range []received{second, replayed, elsewhere} {
		if one.header.Get("webhook-id") != first.header.Get("webhook-id") {
			t.Errorf("%v, then %v", first.header, one.header)
		}
	}
	if len(times) != 3 || replayed.header.Get("Cardea-Replay") == "" {
		t.Errorf("the timestamps %v, the last request %v", times, replayed.header)
	}
	key, err := webhook.ParseSecret(secrets[0])
	w.Must(err)
	cases := []presented{
		present("the first request", first, secrets[0], true),
		present("the second request of the same event", second, secrets[0], true),
		present("the request of a replay", replayed, secrets[0], true),
		present("the request of another endpoint", elsewhere, secrets[0], true),
		present("another secret", first, secrets[1], false),
		present("a request of four minutes ago", sentEarlier(t, first, 4*time.Minute, key), secrets[0], true),
		present("a request of six minutes ago", sentEarlier(t, first, 6*time.Minute, key), secrets[0], false),
	}
	for name, one := range altered(first) {
		cases = append(cases, present(name, one, secrets[0], false))
	}
	ask(t, cases...)
}

func TestPublishedLibrariesVerifyBothSecretsInTheOverlap(t *testing.T) {
	t.Parallel()
	installed(t)
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	until := w.Clock.Now().Add(2 * time.Minute)
	w.follows(w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) {
		id := ids.Format(ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", "crm"))
		c.Secrets = append(c.Secrets, document.SealedSecret{Sealed: w.Keyring.Seal(document.SealedEndpointSecret, id, []byte(secrets[1])), ExpiresAt: &until})
	}))
	w.happens(events.UserCreated, 1)
	w.Eventually("the first event arrives", func() bool { return len(r.all()) == 1 })
	w.Clock.Advance(2*time.Minute + time.Second)
	w.happens(events.UserCreated, 2)
	w.Eventually("the second event arrives", func() bool { return len(r.all()) == 2 })
	during, after := r.all()[0], r.all()[1]
	ask(t,
		present("the current secret in the overlap", during, secrets[0], true), present("the previous secret in the overlap", during, secrets[1], true),
		present("the current secret after the overlap", after, secrets[0], true), present("the previous secret after the overlap", after, secrets[1], false),
	)
}

// Neither standardwebhooks nor svix verifies Ed25519 (v1a) in Node.js: both refuse the request. The program verifies it
// with node:crypto, by the steps of docs/webhooks.md.
func TestNodeVerifiesEd25519Signatures(t *testing.T) {
	t.Parallel()
	installed(t)
	w, r := newWorld(t, ""), newReceiver(t)
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize))
	der, err := x509.MarshalPKCS8PrivateKey(private)
	w.Must(err)
	w.Put(v1alpha1.KindIdentityDeployment, "acme", deployment, "acme", document.Deployment{
		DisplayName: "Acme", WebhookKeys: []document.SigningKey{{ID: "k1", Sealed: w.Keyring.Seal(document.SealedWebhookKey, "k1", der)}},
	})
	w.serves("one")
	w.follows(w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) { c.Scheme, c.Secrets = document.WebhookEd25519, nil }))
	w.happens(events.UserCreated, 1)
	w.Eventually("the event arrives", func() bool { return len(r.all()) == 1 })
	good := r.all()[0]
	with := func(name string, one received, key ed25519.PublicKey, verifies bool) presented {
		p := present(name, one, "", verifies)
		p.PublicKey = webhook.Public(key)
		return p
	}
	public := private.Public().(ed25519.PublicKey)
	another := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize)).Public().(ed25519.PublicKey)
	cases := []presented{
		with("the request", good, public, true), with("another key", good, another, false),
		with("a request of six minutes ago", sentEarlier(t, good, 6*time.Minute, webhook.Private(private)), public, false),
		present("a library that only knows v1", good, secrets[0], false),
	}
	for name, one := range altered(good) {
		cases = append(cases, with(name, one, public, false))
	}
	ask(t, cases...)
}

func TestPublishedLibraryReadsCloudEvents(t *testing.T) {
	t.Parallel()
	installed(t)
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	w.follows(w.endpoint("bus", r.URL, func(c *document.WebhookEndpoint) { c.Format = document.WebhookCloudEvents }))
	w.happens(events.UserCreated, 1)
	w.Eventually("the event arrives", func() bool { return len(r.all()) == 1 })
	one := r.all()[0]
	got := ask(t, present("the request", one, secrets[0], true))[0]
	id, tenant := one.header.Get("webhook-id"), ids.Format(ids.Derive(v1alpha1.KindIdentityDeployment, "acme", "acme"))
	want := map[string]any{
		"specversion": "1.0", "id": id, "source": "urn:cardea:deployment:" + tenant, "type": "dev.cardea.iam.user.created.v1", "subject": "user/1",
		"time": got.Event["time"], "datacontenttype": "application/json", "sequence": "1", "deploymentid": tenant,
		"data": map[string]any{"method": "password", "actor": map[string]any{"type": "system", "id": ""}, "organization_id": nil, "workspace_id": nil},
	}
	text, _ := got.Event["time"].(string)
	at, err := time.Parse(time.RFC3339, text)
	if got.EventError == nil || *got.EventError != "" || !reflect.DeepEqual(got.Event, want) || err != nil || w.Clock.Now().Sub(at).Abs() > time.Minute {
		t.Errorf("read %v, want %v (%v)", got.Event, want, err)
	}
}
