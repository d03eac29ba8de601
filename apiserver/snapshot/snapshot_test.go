package snapshot

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

func doc(t *testing.T, kind, name string, id int64, key string, created time.Time, content any) store.Document {
	t.Helper()
	payload, err := document.Encode(document.Meta{CreatedAt: created, UpdatedAt: created}, content)
	if err != nil {
		t.Fatal(err)
	}
	return store.Document{
		Owner:      store.Owner{Identity: store.Identity{Kind: kind, Namespace: "ns", Name: name}, UID: "uid-" + name},
		Generation: 1, Deployment: "ns/acme", ID: id, Key: key, Payload: payload,
	}
}

func TestChangesKeepIndexesCorrect(t *testing.T) {
	start := time.Unix(1700000000, 0)
	key, _ := apikey.Mint(rand.Reader, "ck")
	moved := []document.Verifier{{ID: key.ID(), Digest: key.Digest()}}
	s, err := build([]store.Document{
		doc(t, "IdentityDeployment", "acme", 7, "acme", start, document.Deployment{FrontendHosts: []string{"a.example", "b.example"}}),
		doc(t, "APIAuthApp", "app", 1, "app", start, document.APIAuthApp{Slug: "app", Active: true, Scheme: "free"}),
		doc(t, "APIKey", "k1", 2, "", start, document.APIKey{App: "app", Verifiers: moved}),
		doc(t, "RateLimitScheme", "free", 3, "free", start, document.RateLimitScheme{Slug: "free"}),
		doc(t, "RateLimitScheme", "paid", 4, "paid", start.Add(time.Second), document.RateLimitScheme{Slug: "paid"}),
		doc(t, "FutureKind", "x", 5, "", start, map[string]any{}),
	}, store.Position{Revision: 6})
	if err != nil {
		t.Fatal(err)
	}
	if d, found := s.Deployment("ns/acme"); !found || d.ID != 7 {
		t.Fatal("deployment not found")
	}
	if k, found := s.APIKey(key.ID()); !found || k.Content.App != "app" || !k.Verifier.Digest.Equal(key.Digest()) {
		t.Fatal("key not found")
	}
	if _, found := s.ByHost("b.example"); !found || s.Count("RateLimitScheme", "ns/acme") != 2 || s.Len() != 5 {
		t.Fatal("host, count or length")
	}
	if got := slugs(s); got != "paid free " {
		t.Errorf("listed %q, want the newest first", got)
	}
	if referrers := s.Referrers(store.Identity{Kind: "RateLimitScheme", Namespace: "ns", Name: "free"}); len(referrers) != 1 || referrers[0].Name != "app" {
		t.Errorf("referrers of free: %v", referrers)
	}

	next, err := s.apply([]store.Change{
		{Document: doc(t, "APIKey", "k2", 8, "", start, document.APIKey{App: "app", Verifiers: moved})},
		{Document: store.Document{Owner: store.Owner{Identity: store.Identity{Kind: "APIKey", Namespace: "ns", Name: "k1"}}}, Deleted: true},
		{Document: doc(t, "IdentityDeployment", "acme", 7, "acme", start, document.Deployment{FrontendHosts: []string{"b.example"}})},
		{Document: store.Document{Owner: store.Owner{Identity: store.Identity{Kind: "RateLimitScheme", Namespace: "ns", Name: "paid"}}}, Deleted: true},
		{Document: doc(t, "APIAuthApp", "app", 1, "app", start, document.APIAuthApp{Slug: "app", Active: true})},
	}, store.Position{Revision: 11})
	if err != nil {
		t.Fatal(err)
	}
	if k, found := next.APIKey(key.ID()); !found || k.Entry.Name != "k2" {
		t.Error("a key that moved to another document must stay with its new owner")
	}
	if _, found := next.ByHost("a.example"); found || slugs(next) != "free " || next.Count("RateLimitScheme", "ns/acme") != 1 {
		t.Error("stale host, list or count")
	}
	if referrers := next.Referrers(store.Identity{Kind: "RateLimitScheme", Namespace: "ns", Name: "free"}); len(referrers) != 0 {
		t.Errorf("stale referrers: %v", referrers)
	}
	if _, found := s.ByHost("a.example"); !found || slugs(s) != "paid free " {
		t.Error("the older snapshot changed")
	}
}

func slugs(s *Snapshot) string {
	out := ""
	s.List("RateLimitScheme", "ns/acme", func(e *Entry) bool { out += e.Key + " "; return true })
	return out
}

func TestUnreadableDocumentDoesNotAffectOthers(t *testing.T) {
	bad := doc(t, "RateLimitScheme", "bad", 1, "bad", time.Now(), document.RateLimitScheme{Slug: "bad"})
	bad.Payload = []byte(`{"v":99}`)
	closed := doc(t, "APIKey", "closed", 2, "", time.Now(), document.APIKey{App: "app", AllowedCIDRs: []string{"nonsense"}, Verifiers: []document.Verifier{{ID: "id"}}})
	good := doc(t, "RateLimitScheme", "good", 3, "good", time.Now(), document.RateLimitScheme{Slug: "good"})
	s, err := build([]store.Document{bad, closed, good}, store.Position{})
	if err == nil {
		t.Error("the faults are not returned")
	}
	if _, found := s.BySlug("RateLimitScheme", "ns/acme", "good"); !found {
		t.Error("the good one is not served")
	}
	if _, found := s.APIKey("id"); found {
		t.Error("a key whose only range is unreadable must not be accepted")
	}
}

// emptyFeed is a feed without documents.
type emptyFeed struct{ store.Feed }

func (emptyFeed) Load(context.Context) ([]store.Document, store.Position, error) {
	return nil, store.Position{Revision: 1, Tag: "a"}, nil
}

// Setting the wall clock back does not reduce the staleness: the last contact keeps its monotonic reading.
func TestStalenessUsesTheMonotonicClock(t *testing.T) {
	t.Parallel()
	f := NewFollower(emptyFeed{}, time.Hour, time.Now, logr.Discard())
	if err := f.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	if last := f.contact.Load(); last == nil || !strings.Contains(last.String(), "m=") {
		t.Errorf("the last contact is %v, without a monotonic reading", last)
	}
	if stale := f.Staleness(); stale < 0 || stale > time.Minute {
		t.Errorf("stale by %v", stale)
	}
}
