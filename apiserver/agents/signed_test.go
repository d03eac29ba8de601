package agents_test

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// webhookKey is a key that signs the calls of a deployment's tools.
func (w *world) webhookKey(expiresAt *time.Time) document.SigningKey {
	w.T.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	w.Must(err)
	public := jose.JSONWebKey{Key: private.Public(), Algorithm: string(jose.EdDSA), Use: "sig"}
	thumbprint, err := public.Thumbprint(crypto.SHA256)
	w.Must(err)
	public.KeyID = base64.RawURLEncoding.EncodeToString(thumbprint)
	raw, err := json.Marshal(public)
	w.Must(err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	w.Must(err)
	return document.SigningKey{ID: public.KeyID, Public: raw, Sealed: w.Keyring.Seal(document.SealedWebhookKey, public.KeyID, der), ExpiresAt: expiresAt}
}

// newSignedWorld is a world whose deployment signs calls: with a function, a webhook, and an agent at its URL.
func newSignedWorld(t *testing.T, url string) *world {
	t.Helper()
	w := newWorldOver(t, url)
	w.declareWebhookKeys(w.webhookKey(nil))
	fields := []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}, {Name: "copies", FieldType: "INTEGER"}}
	w.declareTool("print", document.AITool{Name: "Print", Type: "function", Method: "GET", Endpoint: w.up.URL + "/hooks?from=agent", RequestBodySchema: fields})
	w.declareTool("ship", document.AITool{Name: "Ship", Type: "webhook", Method: "GET", Endpoint: w.up.URL + "/hooks", RequestBodySchema: fields, TimeoutSeconds: 1})
	w.declareHosted("print", "ship")
	return w
}

func (w *world) declareWebhookKeys(keys ...document.SigningKey) {
	w.T.Helper()
	settings := w.Settings()
	settings.WebhookKeys = keys
	w.Declare(settings)
}

// declareHosted declares the agent support with its URL and tools.
func (w *world) declareHosted(tools ...string) {
	w.T.Helper()
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, Tools: tools, URL: agentURL})
	w.Eventually("the agent lists its tools", func() bool {
		return len(names(w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))) == len(tools)
	})
}

// envelope is the body of a signed call.
type envelope struct {
	Type      string
	Timestamp time.Time
	Data      struct {
		CallID      string `json:"call_id"`
		Tool, Agent struct{ ID, Name string }
		Endpoint    string
		Arguments   map[string]any
		UserID      *string `json:"user_id"`
		ResultURL   string  `json:"result_url"`
		ResultToken string  `json:"result_token"`
	}
}

func (w *world) envelope(of sent) (e envelope) {
	w.T.Helper()
	w.Must(json.Unmarshal([]byte(of.body), &e))
	return e
}

// publishedKeys returns the public keys that the deployment publishes.
func (w *world) publishedKeys() (keys []ed25519.PublicKey) {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), "GET", w.Server.URL+"/.well-known/webhook-keys.json", nil)
	w.Must(err)
	r.Host = "localhost"
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	var set struct {
		Keys []struct {
			PublicKey string `json:"public_key"`
		}
	}
	w.Must(json.NewDecoder(resp.Body).Decode(&set))
	for _, one := range set.Keys {
		encoded, found := strings.CutPrefix(one.PublicKey, "whpk_")
		key, err := base64.StdEncoding.DecodeString(encoded)
		if !found || err != nil {
			w.T.Fatalf("the published key %q: %v", one.PublicKey, err)
		}
		keys = append(keys, key)
	}
	return keys
}

// signedBy reports whether the i-th signature of a request is that of a key.
func signedBy(of sent, i int, key ed25519.PublicKey) bool {
	signatures := strings.Fields(of.header.Get("webhook-signature"))
	if i >= len(signatures) {
		return false
	}
	encoded, found := strings.CutPrefix(signatures[i], "v1a,")
	signature, err := base64.StdEncoding.DecodeString(encoded)
	return found && err == nil && ed25519.Verify(key, []byte(of.header.Get("webhook-id")+"."+of.header.Get("webhook-timestamp")+"."+of.body), signature)
}

func TestFunctionIsCalledBySignedRequest(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	text, code := w.call("print", `{"number":"1007"}`)
	if text != `{"state":"open"}` || code != "" {
		t.Errorf("got %q, %q", text, code)
	}
	got, count := w.up.last()
	e := w.envelope(got)
	record := w.recorded(1)[0]
	if count != 1 || got.method != "POST" || got.url != "/hooks?from=agent" || got.header.Get("Content-Type") != "application/json" || got.header.Get("Authorization") != "" {
		t.Errorf("%d requests, the last %+v", count, got)
	}
	if got.header.Get("webhook-id") != "call_"+ids.Format(record.ID) || e.Data.CallID != ids.Format(record.ID) || e.Type != "agent.tool.call" || e.Timestamp.Unix() != w.Clock.Now().Unix() {
		t.Errorf("%v, %+v", got.header, e)
	}
	if e.Data.Tool.Name != "print" || e.Data.Agent.Name != "support" || e.Data.Arguments["number"] != "1007" || len(e.Data.Arguments) != 1 || e.Data.UserID != nil || e.Data.ResultURL != "" ||
		e.Data.Endpoint != w.up.URL+"/hooks?from=agent" {
		t.Errorf("%+v", e.Data)
	}
	if keys := w.publishedKeys(); len(keys) != 1 || !signedBy(got, 0, keys[0]) || signedBy(sent{header: got.header, body: got.body + " "}, 0, keys[0]) {
		t.Errorf("%d published keys, signature %s", len(keys), got.header.Get("webhook-signature"))
	}
}

func TestReplacedKeySignsUntilItExpires(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	ends := w.Clock.Now().Add(time.Hour)
	w.declareWebhookKeys(w.webhookKey(nil), w.webhookKey(&ends))
	w.Eventually("both keys are published", func() bool { return len(w.publishedKeys()) == 2 })
	keys := w.publishedKeys()
	w.call("print", `{"number":"1"}`)
	got, _ := w.up.last()
	if !signedBy(got, 0, keys[0]) || !signedBy(got, 1, keys[1]) {
		t.Errorf("signatures %s", got.header.Get("webhook-signature"))
	}
	w.Clock.Advance(2 * time.Hour)
	w.call("print", `{"number":"1"}`)
	got, _ = w.up.last()
	if left := w.publishedKeys(); len(left) != 1 || !left[0].Equal(keys[0]) || !signedBy(got, 0, keys[0]) || strings.Contains(got.header.Get("webhook-signature"), " ") {
		t.Errorf("%d keys, signatures %s", len(left), got.header.Get("webhook-signature"))
	}
}

func TestToolSignsWithItsOwnSecret(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(rand.Text()+rand.Text()))
	tool := document.AITool{Name: "Print", Type: "function", Method: "GET", Endpoint: w.up.URL, SigningSecret: true}
	w.declareTool("print", tool)
	w.Eventually("a tool without its secret is not listed", func() bool {
		return len(names(w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))) == 1
	})
	id := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "print"))
	tool.SealedSigningSecret = w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(id, document.ToolSigningSecret), []byte(secret))
	w.declareTool("print", tool)
	w.up.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(rw, "the secret is "+secret)
	}
	w.declareHosted("print", "ship")
	if text, _ := w.call("print", `{}`); text != "the secret is [redacted]" {
		t.Error(text)
	}
	got, _ := w.up.last()
	peer, err := standardwebhooks.NewWebhook(secret)
	w.Must(err)
	// The peer compares the time of the signature with its own, which is not the clock of the test.
	if err := peer.VerifyIgnoringTimestamp([]byte(got.body), got.header); err != nil {
		t.Error(err)
	}
	if err := peer.VerifyIgnoringTimestamp([]byte(got.body+" "), got.header); err == nil {
		t.Error("the peer accepts another body")
	}
}

func TestWithoutAKeyNoSignedToolIsListed(t *testing.T) {
	t.Parallel()
	w := newSignedWorld(t, "")
	w.declareWebhookKeys()
	w.Eventually("no tool is listed", func() bool {
		return len(names(w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))) == 0
	})
	a := w.post("support", w.key, callBody("print", `{"number":"1"}`))
	if _, count := w.up.last(); count != 0 || !strings.Contains(a.raw, "Unknown tool") {
		t.Errorf("%d requests, %s", count, a.raw)
	}
}
