package bench

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	listedAgents   = 10_000
	listedTools    = 50
	startDocuments = 100_000
)

// filler puts documents of one deployment into a store, as an operator does.
type filler struct {
	store   store.Store
	term    store.Term
	created time.Time
}

// fill opens a store and puts a tenant into it. The returned key and token may do everything.
func (w *world) fill(t *testing.T, url string) (f *filler, key, token string) {
	t.Helper()
	f = &filler{store: openStore(t, url), created: time.Unix(1_700_000_000, 0)}
	check(t, f.store.Migrate(t.Context()))
	var err error
	f.term, err = f.store.Acquire(t.Context(), "bench", time.Second)
	check(t, err)
	minted, err := apikey.Mint(rand.Reader, "ck")
	check(t, err)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	public := jose.JSONWebKey{Key: private.Public(), KeyID: "k", Algorithm: string(jose.ES256), Use: "sig"}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}})
	check(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: "k"}}, nil)
	check(t, err)
	signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":"https://idp.example","aud":"cardea","exp":%d,"sub":"backend","scope":"*"}`, time.Now().Add(time.Hour).Unix()))
	check(t, err)
	token, err = signed.CompactSerialize()
	check(t, err)
	check(t, f.put(t.Context(), v1alpha1.KindIdentityDeployment, deployment, deployment, 1, document.Deployment{
		ManagementWrites: "Enabled", FieldConflicts: "Reject",
		JWTIssuers: []document.JWTIssuer{{Name: "idp", Issuer: "https://idp.example", Audiences: []string{"cardea"}, Algorithms: []string{"ES256"}, JWKS: set, PermissionsClaim: "scope"}},
	}))
	check(t, f.put(t.Context(), v1alpha1.KindAPIAuthApp, "backend", "backend", 2, document.APIAuthApp{Slug: "backend", Active: true, Permissions: []string{"*"}}))
	check(t, f.put(t.Context(), v1alpha1.KindAPIKey, "key", "", 3, document.APIKey{
		App: "backend", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}},
	}))
	return f, minted.Plain(), token
}

func (f *filler) put(ctx context.Context, kind, name, key string, id int64, content any) error {
	return f.write(ctx, store.Put{Document: f.document(kind, name, key, id)}, content)
}

// replace writes a document that put has written before.
func (f *filler) replace(ctx context.Context, kind, name, key string, id int64, content any) error {
	known := f.document(kind, name, key, id)
	return f.write(ctx, store.Put{Document: known, SeenUID: known.UID}, content)
}

func (f *filler) document(kind, name, key string, id int64) store.Document {
	return store.Document{
		Owner:      store.Owner{Identity: store.Identity{Kind: kind, Namespace: "bench", Name: name}, UID: "uid-" + kind + name},
		Generation: 1, Deployment: "bench/" + deployment, ID: id, Key: key,
	}
}

func (f *filler) write(ctx context.Context, put store.Put, content any) error {
	payload, err := document.Encode(document.Meta{CreatedAt: f.created, UpdatedAt: f.created}, content)
	if err != nil {
		return err
	}
	put.Payload = payload
	_, err = f.store.Put(ctx, f.term, put)
	return err
}

func (f *filler) scheme(ctx context.Context, i int) error {
	slug := fmt.Sprintf("scheme-%06d", i)
	return f.put(ctx, v1alpha1.KindRateLimitScheme, slug, slug, int64(1_000_000+i), document.RateLimitScheme{
		Slug: slug, Name: slug, Rules: []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: 60}},
	})
}

func toolName(i int) string { return fmt.Sprintf("tool-%02d", i) }

func (f *filler) tool(ctx context.Context, i int) error {
	return f.put(ctx, v1alpha1.KindAITool, toolName(i), "", int64(2_000_000+i), document.AITool{
		Name: toolName(i), Description: "Books a visit of a technician.", Type: "api", Active: true, Endpoint: "https://api.example/visits", Method: "POST", TimeoutSeconds: 30,
		Parameters:        []document.ToolParameter{{Name: "day", Type: "string", Required: true}},
		RequestBodySchema: []schemafield.Field{{Name: "day", FieldType: "STRING", Required: true, EnumValues: []json.RawMessage{}, Properties: []schemafield.Field{}}},
	})
}

func (f *filler) agent(ctx context.Context, i int) error {
	agent := document.AIAgent{
		Name: fmt.Sprintf("Agent %05d", i), Description: "Plans the visits of the technicians.", Model: "vendor/large-2", SystemPrompt: "Be brief and kind.",
		Temperature: "0.7", Tools: []string{toolName(0), toolName(1), toolName(2)}, Active: true,
	}
	if i == 0 {
		agent.Tools = nil
		for n := range listedTools {
			agent.Tools = append(agent.Tools, toolName(n))
		}
	}
	return f.put(ctx, v1alpha1.KindAIAgent, fmt.Sprintf("agent-%05d", i), "", int64(3_000_000+i), agent)
}

// TestBenchReads compares the two large reads with a bare handler that returns the same bytes, and a request with a
// token to the same request with an API key.
func TestBenchReads(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	f, key, token := w.fill(t, url)
	each(t, listedTools, f.tool)
	each(t, listedAgents, f.agent)
	check(t, f.scheme(t.Context(), 0))
	server := w.start(t, testkit.Launch{Role: "server", Store: url, Env: []string{"GOMAXPROCS=1"}})
	if runtime.NumCPU() < 2 {
		t.Skip("needs a processor for the server and one for the generator")
	}
	pin(t, server.PID(), "0")
	pin(t, os.Getpid(), "1")
	defer pin(t, os.Getpid(), fmt.Sprintf("0-%d", runtime.NumCPU()-1))
	at := func(path, credential string) *subject {
		t.Helper()
		answer, err := testkit.Do("GET", server.Backend+path, credential, "")
		check(t, err)
		if answer.Status != http.StatusOK {
			t.Fatal(answer.Status, string(answer.Raw))
		}
		return &subject{pid: server.PID(), address: strings.TrimPrefix(server.Backend, "http://"), path: path, credential: credential, body: answer.Raw}
	}
	const setting = "server on one processor, generator on the other"
	for _, read := range []struct{ what, path string }{
		{"GET of 20 of 10,000 agents", "/ai-agents?page=1&per_page=20"}, {"GET of an agent's 50 tools", "/ai/agents/3000000/tools"},
	} {
		subjects := w.besideBare(t, at(read.path, key))
		pin(t, subjects[0].pid, "0")
		compare(t, subjects, read.what+", authentication included: throughput", ">= 0.5", setting)
	}
	byKey, byToken := at(schemesPath+"/scheme-000000", key), at(schemesPath+"/scheme-000000", token)
	byKey.name, byToken.name = "by key", "by token"
	byKey.ready(t)
	byToken.ready(t)
	compare(t, []*subject{byKey, byToken}, "GET of one scheme with a token (ES256): throughput", "-", setting)
}

// TestBenchStart starts a server over 100,000 documents.
func TestBenchStart(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	f, _, _ := w.fill(t, url)
	each(t, startDocuments, f.scheme)
	begin := time.Now()
	server := w.start(t, testkit.Launch{Role: "server", Store: url})
	took := time.Since(begin)
	documents, err := server.Metric("cardea_snapshot_documents")
	check(t, err)
	if documents < startDocuments {
		t.Fatalf("%.0f documents", documents)
	}
	now, most := memory(t, server.PID())
	row("start of a server over 100,000 documents: until it is ready, resident memory; PostgreSQL", "-", "%.1f s, %.0f MiB (at most %.0f MiB)", took.Seconds(), now, most)
}
