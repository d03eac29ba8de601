package backend

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

var schemeResource = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "ratelimitschemes"}

// fixedFeed is a feed of documents that never change.
type fixedFeed []store.Document

func (f fixedFeed) Load(context.Context) ([]store.Document, store.Position, error) {
	return f, store.Position{Revision: 1}, nil
}

func (f fixedFeed) Changes(_ context.Context, after store.Position) ([]store.Change, store.Position, error) {
	return nil, after, nil
}

func (f fixedFeed) Signals(context.Context) <-chan struct{} { return nil }

// fakeKubernetes holds the resource behind the scheme free. Each answer is decoded into the caller's object, as the
// real client does, so that fields of an earlier answer remain.
type fakeKubernetes struct {
	// live is the JSON of the resource at each Get; the last one stays.
	live []string
	// patched is the JSON that a successful Patch returns.
	patched string
	// errs are the errors of the next writes, nil for success. Later writes return the error in always.
	errs []error
	// always is the error of a write for which errs has no entry, nil for success.
	always  error
	patches []string
	deletes int
}

func (k *fakeKubernetes) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if key.Name != "free" || len(k.live) == 0 {
		return apierrors.NewNotFound(schemeResource, key.Name)
	}
	now := k.live[0]
	if len(k.live) > 1 {
		k.live = k.live[1:]
	}
	return json.Unmarshal([]byte(now), obj)
}

func (k *fakeKubernetes) next() error {
	if len(k.errs) == 0 {
		return k.always
	}
	err := k.errs[0]
	k.errs = k.errs[1:]
	return err
}

func (k *fakeKubernetes) Create(context.Context, client.Object, ...client.CreateOption) error {
	return k.next()
}

func (k *fakeKubernetes) Patch(_ context.Context, obj client.Object, patch client.Patch, _ ...client.PatchOption) error {
	raw, err := patch.Data(obj)
	if err != nil {
		return err
	}
	k.patches = append(k.patches, string(raw))
	if err := k.next(); err != nil {
		return err
	}
	return json.Unmarshal([]byte(k.patched), obj)
}

func (k *fakeKubernetes) Delete(context.Context, client.Object, ...client.DeleteOption) error {
	k.deletes++
	return k.next()
}

// served is a handler over a fixed configuration.
type served struct {
	http.Handler
	// key has all permissions, reader may only read rate-limit schemes.
	key, reader string
	// keyID is the public id of key.
	keyID string
	rows  *sqlstore.Store
	// authenticator is the authenticator of the handler.
	authenticator *credential.Authenticator
	// path is the file of the store.
	path string
}

// counted is a store whose analytics are replaced.
type counted struct {
	people.Store
	people.Analytics
}

func (c counted) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	return c.Analytics.Summarize(ctx, deployment, period, before, recent)
}

// serve returns a handler that writes configuration to kubernetes.
func serve(t testing.TB, kubernetes Kubernetes) served {
	t.Helper()
	return serveWith(t, kubernetes, nil)
}

// serveWith is serve with analytics, if not nil, and with more documents.
func serveWith(t testing.TB, kubernetes Kubernetes, analytics people.Analytics, more ...store.Document) served {
	t.Helper()
	return serveChanged(t, kubernetes, analytics, func(*Options) {}, more...)
}

// serveChanged is serveWith, with options that the caller may change.
func serveChanged(t testing.TB, kubernetes Kubernetes, analytics people.Analytics, change func(*Options), more ...store.Document) served {
	t.Helper()
	all, reader := mint(t), mint(t)
	created := time.Unix(1700000000, 0)
	feed := fixedFeed{
		fixed(t, "IdentityDeployment", "acme", "uid-1", 7, "acme", created, document.Deployment{ManagementWrites: "Enabled", FieldConflicts: "Reject"}),
		fixed(t, "APIAuthApp", "app", "uid-2", 1, "app", created, document.APIAuthApp{Slug: "app", Active: true, Permissions: []string{"*"}}),
		fixed(t, "APIKey", "all", "uid-3", 2, "", created, document.APIKey{App: "app", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: all.ID(), Digest: all.Digest()}}}),
		fixed(t, "APIKey", "reader", "uid-4", 3, "", created, document.APIKey{App: "app", Permissions: []string{"rate_limit_schemes:read"}, Verifiers: []document.Verifier{{ID: reader.ID(), Digest: reader.Digest()}}}),
		fixed(t, "RateLimitScheme", "free", "uid-5", 4, "free", created, document.RateLimitScheme{
			Slug: "free", Name: "Free", Rules: []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: 60}},
		}),
	}
	world := serveFeed(t, kubernetes, append(feed, more...), servertest.SQLite(t), analytics, change)
	world.key, world.reader, world.keyID = all.Plain(), reader.Plain(), all.ID()
	return world
}

// serveFeed returns a handler over a configuration and the store at a URL, with options that the caller may change.
func serveFeed(t testing.TB, kubernetes Kubernetes, feed fixedFeed, url string, analytics people.Analytics, change func(*Options)) served {
	t.Helper()
	follower := snapshot.NewFollower(feed, time.Hour, time.Now, logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = follower.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	<-follower.Loaded()
	var rows people.Store
	sqlite, err := sqlstore.Open(ctx, url, sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	if err == nil {
		t.Cleanup(func() { _ = sqlite.Close() })
		err = sqlite.Migrate(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	rows = sqlite
	if analytics != nil {
		rows = counted{Store: sqlite, Analytics: analytics}
	}
	options := Options{
		Snapshots: follower, Kubernetes: kubernetes, Authenticator: &credential.Authenticator{Clock: time.Now}, Clock: time.Now,
		Limiter: limits.New(engine.NewEngine(engine.DefaultMaxBytes), engine.NewClock(time.Now).Now, nil, follower.Current), Log: logr.Discard(), Metrics: httpapi.NewMetrics(prometheus.NewRegistry(), "backend", nil),
		Tools:       toolset.NewSets(time.Now, logr.Discard()),
		TestWebhook: testsWebhook,
		// Package agents tests the calls themselves, through both listeners.
		CallTool: func(*httpapi.Exchange, *http.Request, toolset.Call) (*backendapi.ToolCallResult, error) {
			const text = "The tool is not configured, so nothing was sent. Do not call it again; say that the tool is unavailable."
			return &backendapi.ToolCallResult{
				CallId: "420634165248009003", Status: "failed", IsError: true, Content: []backendapi.ToolContent{{Type: "text", Text: ptr.To(text)}},
				Error: &backendapi.ToolCallFailure{Code: "not_configured", Message: text}, LatencyMs: 3,
			}, nil
		},
		People: rows, Hasher: password.NewHasher(password.DefaultCost), Random: rand.Reader, patience: 10 * time.Millisecond, // the feed never changes, so no write is ever applied
	}
	change(&options)
	options.Callers = caller.New(caller.Options{Authenticator: options.Authenticator, Tokens: bearer.NewAccessTokens(options.Keyring), People: rows, Clock: options.Clock})
	handler, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	return served{Handler: handler, rows: sqlite, path: strings.TrimPrefix(url, "sqlite://"), authenticator: options.Authenticator}
}

func mint(t testing.TB) apikey.Key {
	t.Helper()
	key, err := apikey.Mint(rand.Reader, "ck")
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func fixed(t testing.TB, kind, name, uid string, id int64, key string, created time.Time, content any) store.Document {
	t.Helper()
	payload, err := document.Encode(document.Meta{CreatedAt: created, UpdatedAt: created}, content)
	if err != nil {
		t.Fatal(err)
	}
	return store.Document{
		Owner:      store.Owner{Identity: store.Identity{Kind: kind, Namespace: "ns", Name: name}, UID: uid},
		Generation: 1, Deployment: "ns/acme", ID: id, Key: key, Payload: payload,
	}
}

// resourceJSON returns the live resource of the scheme free, with more members of spec such as `,"description":"x"`.
func resourceJSON(version, more string) string {
	return `{"metadata":{"namespace":"ns","name":"free","uid":"uid-5","resourceVersion":"` + version + `","generation":1,` +
		`"creationTimestamp":"2023-11-14T22:13:20Z"},"spec":{"deploymentRef":{"name":"acme"},"slug":"free","displayName":"Free",` +
		`"rules":[{"unit":"minute","duration":1,"maxRequests":60}]` + more + `}}`
}

// managed returns a resource with managed fields and annotations.
func managed(annotations map[string]string, entries ...metav1.ManagedFieldsEntry) *v1alpha1.RateLimitScheme {
	return &v1alpha1.RateLimitScheme{ObjectMeta: metav1.ObjectMeta{Name: "free", UID: types.UID("u"), Annotations: annotations, ManagedFields: entries}}
}

func keyOf(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: "ns", Name: name}
}

// failing is a Kubernetes API that must not be called: every call fails.
type failing struct{}

var errAway = errors.New("the Kubernetes API was asked")

func (failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errAway
}
func (failing) Create(context.Context, client.Object, ...client.CreateOption) error { return errAway }
func (failing) Patch(context.Context, client.Object, client.Patch, ...client.PatchOption) error {
	return errAway
}
func (failing) Delete(context.Context, client.Object, ...client.DeleteOption) error { return errAway }
