package limits

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/keycache"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store"
)

// feed is a store at one position, with the deployment ns/acme and one scheme with the slug free.
type feed struct {
	documents []store.Document
	position  store.Position
}

func (f feed) Load(context.Context) ([]store.Document, store.Position, error) {
	return f.documents, f.position, nil
}

func (f feed) Changes(_ context.Context, after store.Position) ([]store.Change, store.Position, error) {
	return nil, after, nil
}

func (f feed) Signals(context.Context) <-chan struct{} { return nil }

// state is the configuration at a revision, in which the scheme free is a resource with a name, an id and a limit.
func state(t *testing.T, revision int64, name string, id, limit int64) *snapshot.Snapshot {
	t.Helper()
	return stateOf(t, revision, declared{name: name, slug: "free", id: id, rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: limit}}})
}

// declared is a scheme of a state.
type declared struct {
	name, slug string
	id         int64
	rules      []scheme.Rule
}

// stateOf returns the configuration at a revision with schemes, the first of which is the deployment's default.
func stateOf(t *testing.T, revision int64, schemes ...declared) *snapshot.Snapshot {
	t.Helper()
	doc := func(kind, name, key string, id int64, content any) store.Document {
		payload, err := document.Encode(document.Meta{CreatedAt: time.Unix(1, 0)}, content)
		if err != nil {
			t.Fatal(err)
		}
		return store.Document{
			Owner: store.Owner{Identity: store.Identity{Kind: kind, Namespace: "ns", Name: name}}, Deployment: "ns/acme", ID: id, Key: key, Payload: payload,
		}
	}
	f := feed{position: store.Position{Revision: revision}, documents: []store.Document{
		doc(v1alpha1.KindIdentityDeployment, "acme", "", 1, document.Deployment{DefaultScheme: schemes[0].name}),
	}}
	for _, of := range schemes {
		f.documents = append(f.documents, doc(v1alpha1.KindRateLimitScheme, of.name, of.slug, of.id, document.RateLimitScheme{Slug: of.slug, Rules: of.rules}))
	}
	follower := snapshot.NewFollower(f, time.Hour, time.Now, logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = follower.Run(ctx) }()
	<-follower.Loaded()
	cancel()
	<-done
	return follower.Current()
}

// world is a limiter whose newest configuration the test sets.
type world struct {
	*Limiter
	t   *testing.T
	now *snapshot.Snapshot
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.Limiter = New(engine.NewEngine(engine.DefaultMaxBytes), engine.NewClock(time.Now).Now, nil, func() *snapshot.Snapshot { return w.now })
	return w
}

// limit returns the limit of the scheme that binds a principal of the deployment, for a request that began under s.
func (w *world) limit(s *snapshot.Snapshot) int64 {
	w.t.Helper()
	entry, found := s.Deployment("ns/acme")
	if !found {
		w.t.Fatal("no deployment")
	}
	b, err := w.Bind(s, &credential.Principal{Deployment: entry, Settings: snapshot.ContentOf[document.Deployment](entry), Subject: "x"})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Scheme.Rules()[0].Limit
}

// A request that began under an older state does not activate older rules, and a restored store, whose revisions start
// again, is no older state.
func TestNewestConfigurationBinds(t *testing.T) {
	w := newWorld(t)
	before, after, restored := state(t, 10, "free", 4, 5), state(t, 11, "free", 4, 6), state(t, 3, "free", 4, 7)
	for i, step := range []struct {
		newest, of *snapshot.Snapshot
		want       int64
	}{{before, before, 5}, {after, before, 5}, {after, after, 6}, {after, before, 6}, {restored, restored, 7}, {restored, after, 7}} {
		w.now = step.newest
		if got := w.limit(step.of); got != step.want {
			t.Errorf("step %d: the limit is %d, want %d", i, got, step.want)
		}
	}
}

// A scheme that was deleted and declared again by another resource is one metric series. Two equal series would prevent
// all collection.
func TestMetricsOfASlugThatMoved(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	for i, s := range []*snapshot.Snapshot{state(t, 1, "free", 4, 5), state(t, 2, "other", 9, 5)} {
		w.now = s
		w.limit(s)
		families, err := registry.Gather()
		if err != nil {
			t.Fatalf("scrape %d: %v", i, err)
		}
		series := 0
		for _, family := range families {
			if family.GetName() == "cardea_ratelimit_rule_decisions_total" {
				series = len(family.GetMetric())
			}
		}
		if series != 2 {
			t.Errorf("scrape %d: %d series of the rule, want allowed and denied", i, series)
		}
	}
}

// A key is bound once per state of the configuration, and again after a change of the state or of the scheme in its
// row.
func TestBindingsFollowTheConfiguration(t *testing.T) {
	w := newWorld(t)
	bindings := NewBindings(w.Limiter)
	before, after := state(t, 10, "free", 4, 5), state(t, 11, "free", 4, 6)
	of := func(s *snapshot.Snapshot, key *keycache.Key) *Binding {
		w.now = s
		entry, _ := s.Deployment("ns/acme")
		b, err := bindings.Of(s, &credential.Principal{Deployment: entry, Settings: snapshot.ContentOf[document.Deployment](entry), KeyID: "k", Runtime: key})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	plain, own := &keycache.Key{ID: 1}, &keycache.Key{ID: 1, Scheme: "free"}
	first := of(before, plain)
	if first.SchemeFrom != "deployment" || first.Scheme.Rules()[0].Limit != 5 || of(before, plain) != first {
		t.Errorf("%+v, want the deployment's scheme, bound once", first)
	}
	if b := of(before, own); b.SchemeFrom != "key" {
		t.Errorf("%+v, want the key's own scheme", b)
	}
	if b := of(after, plain); b == first || b.Scheme.Rules()[0].Limit != 6 {
		t.Errorf("the limit is %d, want that of the newer state", b.Scheme.Rules()[0].Limit)
	}
}
