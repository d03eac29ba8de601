package webhooks_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/event"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// fails returns the error of the published library for a request and a secret.
func fails(t *testing.T, secret string, one received) error {
	t.Helper()
	library, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	return library.Verify(one.body, one.header)
}

func verify(t *testing.T, secret string, one received) {
	t.Helper()
	if err := fails(t, secret, one); err != nil {
		t.Fatalf("%v: %v", one.header, err)
	}
}

// changed returns a request with another value of a header.
func changed(one received, name, value string) received {
	one.header = one.header.Clone()
	one.header.Set(name, value)
	return one
}

func TestChangedRequestsDoNotVerify(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	w.follows(w.endpoint("crm", r.URL, nil))
	w.happens(events.UserCreated, 1)
	w.Eventually("the event arrives", func() bool { return len(r.all()) == 1 })
	good := r.all()[0]
	verify(t, secrets[0], good)
	body := good
	body.body = bytes.Replace(body.body, []byte("user.created"), []byte("user.deleted"), 1)
	for name, one := range map[string]received{
		"body": body, "id": changed(good, "webhook-id", "evt_1"), "timestamp": changed(good, "webhook-timestamp", strconv.FormatInt(time.Now().Unix()+1, 10)),
		"old timestamp": changed(good, "webhook-timestamp", strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10)),
		"signature":     changed(good, "webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(make([]byte, 32))),
	} {
		if fails(t, secrets[0], one) == nil {
			t.Errorf("a request with another %s verifies", name)
		}
	}
	if fails(t, secrets[1], good) == nil {
		t.Error("a request verifies with another secret")
	}
}

func TestRequestsAreSignedWithBothSecretsInTheOverlap(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	id := ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", "crm")
	until := w.Clock.Now().Add(2 * time.Minute)
	w.follows(w.endpoint("crm", r.URL, func(c *document.WebhookEndpoint) {
		previous := document.SealedSecret{Sealed: w.Keyring.Seal(document.SealedEndpointSecret, ids.Format(id), []byte(secrets[1])), ExpiresAt: &until}
		c.Secrets = append(c.Secrets, previous)
	}))
	w.happens(events.UserCreated, 1)
	w.Eventually("the first event arrives", func() bool { return len(r.all()) == 1 })
	one := r.all()[0]
	verify(t, secrets[0], one)
	verify(t, secrets[1], one)
	first, _, _ := strings.Cut(one.header.Get("webhook-signature"), " ")
	verify(t, secrets[0], changed(one, "webhook-signature", first))
	w.Clock.Advance(2*time.Minute + time.Second)
	w.happens(events.UserCreated, 2)
	w.Eventually("the second event arrives", func() bool { return len(r.all()) == 2 })
	later := r.all()[1]
	verify(t, secrets[0], later)
	if fails(t, secrets[1], later) == nil {
		t.Error("the previous secret still signs after the overlap")
	}
}

func TestEd25519SignatureVerifiesWithThePublishedKey(t *testing.T) {
	t.Parallel()
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
	one := r.all()[0]
	encoded, found := strings.CutPrefix(one.header.Get("webhook-signature"), "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	signed := slices.Concat([]byte(one.header.Get("webhook-id")+"."+one.header.Get("webhook-timestamp")+"."), one.body)
	if !found || err != nil || !ed25519.Verify(private.Public().(ed25519.PublicKey), signed, signature) {
		t.Errorf("%v", one.header)
	}
}

func TestCloudEventsAreReadByThePublishedLibrary(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.serves("one")
	w.follows(w.endpoint("bus", r.URL, func(c *document.WebhookEndpoint) { c.Format = document.WebhookCloudEvents }))
	w.happens(events.UserCreated, 1)
	w.Eventually("the event arrives", func() bool { return len(r.all()) == 1 })
	one := r.all()[0]
	verify(t, secrets[0], one)
	read, err := cloudevents.NewEventFromHTTPRequest(&http.Request{Header: one.header, Body: http.NoBody})
	if read != nil && err == nil && len(read.Data()) > 0 {
		t.Error("an empty body has data")
	}
	var e event.Event
	if err := e.UnmarshalJSON(one.body); err != nil {
		t.Fatalf("%s: %v", one.body, err)
	}
	var data struct {
		Actor struct {
			Type string `json:"type"`
		} `json:"actor"`
	}
	if err := e.DataAs(&data); err != nil || e.Validate() != nil || one.header.Get("Content-Type") != cloudevents.ApplicationCloudEventsJSON || e.ID() != one.header.Get("webhook-id") ||
		e.Type() != "dev.cardea.iam.user.created.v1" || e.Subject() != "user/1" || e.Extensions()["sequence"] != "1" || data.Actor.Type != "system" {
		t.Errorf("%v: %v", e, err)
	}
}
