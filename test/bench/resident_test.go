package bench

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	residentResources = 10_000
	residentKeys      = 100_000
	residentTokens    = 10_000
	// residentLimit is GOMEMLIMIT of config/server/deployment.yaml, whose memory limit is 512 MiB.
	residentLimit = "460MiB"
	// heapProfile names the variable with the path of a file, to which the heap profile of the loaded server is written.
	heapProfile = "CARDEA_BENCH_HEAP_PROFILE"
)

// residentManifest declares what the load uses: %[1]s is the namespace. The scheme has three rules that count each key
// alone.
const residentManifest = `
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: acme, namespace: %[1]s}
spec: {mode: Staging, frontendHosts: [localhost], permissionCatalog: {organization: ["orders:read", "orders:write"]}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: three, namespace: %[1]s}
spec:
  deploymentRef: {name: acme}
  slug: three
  rules:
  - {unit: minute, duration: 1, maxRequests: 1000}
  - {unit: hour, duration: 1, maxRequests: 20000}
  - {unit: calendar_day, duration: 1, maxRequests: 100000}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: customers, namespace: %[1]s}
spec: {deploymentRef: {name: acme}, slug: customers, permissions: ["*"], rateLimitSchemeRef: {name: three}}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: portal, namespace: %[1]s}
spec: {deploymentRef: {name: acme}, slug: portal}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: partners, namespace: %[1]s}
spec: {deploymentRef: {name: acme}, slug: partners}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: service, namespace: %[1]s}
spec:
  oauthAppRef: {name: portal}
  grantTypes: [ClientCredentials]
  machinePermissions: ["orders:read", "orders:write"]
  accessToken: {lifetimeSeconds: 3600}
  secretTemplate: {}
`

// TestBenchResident measures the resident memory of a server process that has 10,000 resources, and whose decisions
// have used 100,000 runtime keys with three rules each and 10,000 access tokens. It compares the server with itself
// before the decisions.
func TestBenchResident(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	w.start(t, testkit.Launch{Role: "operator", Store: url})
	w.declareResident(t, url)
	keys := w.customerKeys(t, url)
	profiles, err := controlplane.FreePort()
	check(t, err)
	r := &resident{profiles: fmt.Sprintf("127.0.0.1:%d", profiles)}
	r.Cardea = w.start(t, testkit.Launch{
		Role: "server", Store: url, Flags: []string{"--pprof-address=" + r.profiles}, Env: []string{"GOMEMLIMIT=" + residentLimit},
	})
	if documents := r.metric(t, "cardea_snapshot_documents"); documents < residentResources {
		t.Fatalf("the server has %.0f documents", documents)
	}
	r.report(t, "an idle server over 10,000 resources, PostgreSQL")

	tokens := w.accessTokens(t, r)
	for range 2 { // the second time, the server must still have every key
		r.decide(t, len(keys), func(i int) string { return forwardRequest(keys[i]) })
		r.decide(t, len(tokens), func(i int) string {
			return checkRequest(`{"principal":{"type":"oauth_access_token","value":"` + tokens[i] + `"},"method":"GET","resource":"/v1/things"}`)
		})
	}
	r.report(t, "the same server after decisions with 100,000 runtime keys by three rules and with 10,000 access tokens")
	r.expectHeld(t)
	r.reportCaches(t, len(tokens[0]))
	row("load average then", "-", "%s", loadAverage())
}

// declareResident creates 10,000 resources in addition to the manifest's, and waits until the store has all of them.
func (w *world) declareResident(t *testing.T, url string) {
	t.Helper()
	w.tenant(t)
	if out, err := w.Kubectl(t.Context(), fmt.Sprintf(residentManifest, w.namespace), "apply", "-f", "-"); err != nil {
		t.Fatal(err, out)
	}
	begin := time.Now()
	each(t, residentResources, func(ctx context.Context, i int) error { return w.Client.Create(ctx, w.mixed(i)) })
	st := openStore(t, url)
	await(t, drainWithin, time.Second, func() bool {
		documents, _, err := st.Load(t.Context())
		check(t, err)
		return len(documents) >= residentResources+8 // with the manifest's, and the tenant's app and key
	})
	row("10,000 mixed resources created by 8 workers, until the store has them", "-", "%.0f s", time.Since(begin).Seconds())
}

// mixed returns the resource with a number from 0 to 9,999: 4,000 tools, 1,000 agents of five tools, 2,000 roles, 1,000
// scopes, 1,500 rate limit schemes of one rule and 500 apps.
func (w *world) mixed(i int) client.Object {
	name := fmt.Sprintf("resource-%05d", i)
	switch {
	case i < 4000:
		tool := testkit.Tool(w.namespace, deployment, name)
		tool.Spec.Description = ptr.To(v1alpha1.Description("Books a visit of a technician."))
		tool.Spec.Method, tool.Spec.Endpoint = ptr.To(v1alpha1.HTTPMethod("POST")), ptr.To(v1alpha1.URL("https://api.acme.example/v1/visits"))
		tool.Spec.RequestBodySchema = []v1alpha1.SchemaField{{Name: "day", FieldType: "STRING"}, {Name: "note", FieldType: "STRING"}}
		return tool
	case i < 5000:
		agent := testkit.Agent(w.namespace, deployment, name)
		agent.Spec.Description, agent.Spec.SystemPrompt = ptr.To(v1alpha1.Description("Plans the visits of the technicians.")), ptr.To("Be brief and kind.")
		for n := range 5 {
			agent.Spec.ToolRefs = append(agent.Spec.ToolRefs, v1alpha1.AIToolReference{Name: fmt.Sprintf("resource-%05d", (5*i+n)%4000)})
		}
		return agent
	case i < 7000:
		return testkit.Role(w.namespace, deployment, name, v1alpha1.RoleLevelOrganization, "orders:read")
	case i < 8000:
		return testkit.OAuthScope(w.namespace, "partners", name, "read:"+name)
	case i < 9500:
		return testkit.Scheme(w.namespace, deployment, name)
	default:
		return testkit.App(w.namespace, deployment, name, "orders:read", "orders:write")
	}
}

// customerKeys puts runtime keys of the app "customers" into the store, and returns them.
func (w *world) customerKeys(t *testing.T, url string) []string {
	t.Helper()
	makeKeys(t.Context(), t, url, 0, residentKeys)
	plain, numbers, publicIDs, digests := make([]string, residentKeys), make([]int64, residentKeys), make([]string, residentKeys), make([][]byte, residentKeys)
	for i := range plain {
		minted, err := apikey.Mint(rand.Reader, apikey.DefaultPrefix)
		check(t, err)
		digest := minted.Digest()
		plain[i], numbers[i], publicIDs[i], digests[i] = minted.Plain(), int64(i+1), minted.ID(), digest[:]
	}
	config, err := pgx.ParseConfig(url)
	check(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close() //nolint:errcheck // only this test used it
	_, err = db.ExecContext(t.Context(), `UPDATE api_keys SET deployment = $1, app = 'customers', public_id = new.public_id, digest = new.digest
		FROM unnest($2::bigint[], $3::text[], $4::bytea[]) AS new (id, public_id, digest) WHERE api_keys.id = new.id`, w.namespace+"/"+deployment, numbers, publicIDs, digests)
	check(t, err)
	_, err = db.ExecContext(t.Context(), "VACUUM ANALYZE api_keys")
	check(t, err)
	return plain
}

// accessTokens gets different access tokens from the authorization server by client credentials.
func (w *world) accessTokens(t *testing.T, r *resident) []string {
	t.Helper()
	var secret corev1.Secret
	check(t, w.Client.Get(t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "service"}, &secret))
	form := url.Values{
		"grant_type": {"client_credentials"}, "client_id": {string(secret.Data["client-id"])}, "client_secret": {string(secret.Data["client-secret"])},
	}.Encode()
	kept := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	defer kept.CloseIdleConnections()
	tokens := make([]string, residentTokens)
	each(t, len(tokens), func(ctx context.Context, i int) (err error) {
		tokens[i], err = r.token(ctx, kept, form)
		return err
	})
	seen := map[string]bool{}
	for _, token := range tokens {
		seen[token] = true
	}
	if len(seen) != residentTokens {
		t.Fatalf("only %d tokens differ", len(seen))
	}
	return tokens
}

// resident is the server whose memory is measured.
type resident struct {
	*testkit.Cardea
	// profiles is the host:port of the profiles.
	profiles string
}

// token requests an access token, which must be a JWT.
func (r *resident) token(ctx context.Context, with *http.Client, form string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Frontend+"/oauth/portal/token", strings.NewReader(form))
	if err != nil {
		return "", err
	}
	request.Host = "localhost"
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := with.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	var answer struct {
		Token string `json:"access_token"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || strings.Count(answer.Token, ".") != 2 {
		return "", fmt.Errorf("no token: %d %s", response.StatusCode, raw)
	}
	return answer.Token, nil
}

// decide sends requests 0 to n-1 to the decision listener over kept connections, and expects each to be allowed.
func (r *resident) decide(t *testing.T, n int, request func(i int) string) {
	t.Helper()
	idle := make(chan *bufio.ReadWriter, workers)
	for _, conn := range dialHTTP(t, r.Decision, workers) {
		idle <- conn
	}
	each(t, n, func(_ context.Context, i int) error {
		conn := <-idle
		defer func() { idle <- conn }()
		return exchange(conn, request(i))
	})
}

func (r *resident) metric(t *testing.T, name string, fragments ...string) float64 {
	t.Helper()
	value, err := r.Metric(name, fragments...)
	check(t, err)
	return value
}

// expect fails the test unless a metric has a value.
func (r *resident) expect(t *testing.T, want float64, name string, fragments ...string) {
	t.Helper()
	if got := r.metric(t, name, fragments...); got != want {
		t.Errorf("%s%v is %.0f, want %.0f", name, fragments, got, want)
	}
}

// report prints the resident memory of the server, what is left of it after a garbage collection, and its parts.
func (r *resident) report(t *testing.T, what string) {
	t.Helper()
	before, _ := r.settled(t)
	r.collect(t)
	after, most := r.settled(t)
	mebi := func(name string) float64 { return r.metric(t, name) / (1 << 20) }
	used, spans := mebi("go_memstats_heap_alloc_bytes"), mebi("go_memstats_heap_inuse_bytes")
	kept := mebi("go_memstats_heap_sys_bytes") - mebi("go_memstats_heap_released_bytes")
	row(what+": VmRSS when settled, VmRSS after a garbage collection, VmHWM", "<= 512 MiB", "%.0f MiB, %.0f MiB, %.0f MiB", before, after, most)
	row("... of it after the collection: objects; gaps between them; free heap; the rest of the runtime; pages of the binary", "-",
		"%.0f; %.0f; %.0f; %.0f; %.0f MiB", used, spans-used, kept-spans, statusMiB(t, r.PID(), "RssAnon")-kept, statusMiB(t, r.PID(), "RssFile"))
}

// settled waits until the resident memory has changed by less than 1 % for five seconds, at most half a minute. It
// returns the resident memory and its maximum, in MiB.
func (r *resident) settled(t *testing.T) (now, most float64) {
	t.Helper()
	begin, since, reference := time.Now(), time.Now(), 0.0
	await(t, time.Minute, 200*time.Millisecond, func() bool {
		now, most = memory(t, r.PID())
		if now > 1.01*reference || now < 0.99*reference {
			reference, since = now, time.Now()
		}
		return time.Since(since) > 5*time.Second || time.Since(begin) > 30*time.Second
	})
	return now, most
}

// collect runs a garbage collection in the server, and keeps its heap profile if heapProfile names a file.
func (r *resident) collect(t *testing.T) {
	t.Helper()
	response, err := http.Get("http://" + r.profiles + "/debug/pprof/heap?gc=1")
	check(t, err)
	defer response.Body.Close()
	profile, err := io.ReadAll(response.Body)
	check(t, err)
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	if file := os.Getenv(heapProfile); file != "" {
		check(t, os.WriteFile(file, profile, 0o600))
	}
}

// expectHeld fails the test unless every request was allowed, each key was read from the store once, and the server
// still has all keys, counters and tokens. A verified token leaves its cache only by eviction.
func (r *resident) expectHeld(t *testing.T) {
	t.Helper()
	r.expect(t, 2*(residentKeys+residentTokens), "cardea_decisions_total", `outcome="allowed"`)
	r.expect(t, residentKeys, "cardea_api_key_reads_total", `outcome="found"`)
	r.expect(t, residentKeys, "cardea_api_keys_held")
	r.expect(t, 0, "cardea_api_keys_evicted_total")
	r.expect(t, residentKeys, "cardea_ratelimit_counters")
	r.expect(t, 0, "cardea_ratelimit_evicted_total")
	r.expect(t, 0, "cardea_share_exhausted_total", `share="access_tokens"`)
}

// reportCaches prints what the caches have. The decision cache is too small for all keys, so it evicts.
func (r *resident) reportCaches(t *testing.T, tokenBytes int) {
	t.Helper()
	cache := func(what, bound, entries, bytes, share string) {
		t.Helper()
		row("... "+what+": entries, bytes that count toward the bound, evicted", bound, "%.0f, %.1f MiB, %.0f",
			r.metric(t, entries), r.metric(t, bytes)/(1<<20), r.metric(t, "cardea_share_exhausted_total", `share="`+share+`"`))
	}
	cache("runtime keys", "80 MiB", "cardea_api_keys_held", "cardea_api_key_bytes", "api_keys")
	cache("keys with counters of three rules", "128 MiB", "cardea_ratelimit_counters", "cardea_ratelimit_counter_bytes", "counters")
	cache("decision cache", "80 MiB", "cardea_decision_cached", "cardea_decision_cache_bytes", "decisions")
	row("... verified access tokens: entries, length of each, evicted", "16 MiB", "%d, %d bytes, %.0f",
		residentTokens, tokenBytes, r.metric(t, "cardea_share_exhausted_total", `share="access_tokens"`))
}
