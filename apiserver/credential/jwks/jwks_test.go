package jwks

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// issuer serves a key set over TLS, and counts the requests.
type issuer struct {
	*httptest.Server
	fetches atomic.Int64
	answer  atomic.Pointer[func(http.ResponseWriter)]
}

func (i *issuer) say(answer func(http.ResponseWriter)) { i.answer.Store(&answer) }

func keySet(t *testing.T, ids ...string) func(http.ResponseWriter) {
	t.Helper()
	var set jose.JSONWebKeySet
	for _, id := range ids {
		public, _, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: public, KeyID: id})
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return func(w http.ResponseWriter) { _, _ = w.Write(raw) }
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i.fetches.Add(1)
		(*i.answer.Load())(w)
	}))
	t.Cleanup(i.Close)
	return i
}

// newCache returns a cache that trusts the issuer's certificate, and an adjustable clock.
func newCache(i *issuer, allowed ...netip.Prefix) (*Cache, *atomic.Int64) {
	now := &atomic.Int64{}
	now.Store(1_700_000_000)
	c := New(func() time.Time { return time.Unix(now.Load(), 0) }, egress.NewPolicy(allowed, nil), Declared())
	c.client.Transport.(*http.Transport).TLSClientConfig = i.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	return c, now
}

var asker = egress.Asker{Deployment: "ns/a"}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

func TestUnknownKeysAreFetchedAtMostEvery30Seconds(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	c, now := newCache(i, loopback)
	get := func(id string) bool {
		t.Helper()
		key, err := c.Key(context.Background(), asker, i.URL, id)
		if err != nil {
			t.Fatal(err)
		}
		return key != nil
	}
	for range 2 {
		if !get("a") || i.fetches.Load() != 1 {
			t.Fatalf("%d fetches", i.fetches.Load())
		}
	}
	i.say(keySet(t, "a", "b"))
	if get("b") || i.fetches.Load() != 1 {
		t.Errorf("fetched again within 30 s: %d", i.fetches.Load())
	}
	now.Add(31)
	if !get("b") || i.fetches.Load() != 2 {
		t.Errorf("a new key is not found after 30 s: %d fetches", i.fetches.Load())
	}
	now.Add(31)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() { _, _ = c.Key(context.Background(), asker, i.URL, "nobody") })
	}
	group.Wait()
	if i.fetches.Load() != 3 {
		t.Errorf("50 at once made %d fetches", i.fetches.Load()-2)
	}
}

func TestLastGoodKeySetIsUsedForADay(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	c, now := newCache(i, loopback)
	if _, err := c.Key(context.Background(), asker, i.URL, "a"); err != nil {
		t.Fatal(err)
	}
	i.say(func(w http.ResponseWriter) { w.WriteHeader(500) })
	for n := range 46 { // in use, every half hour
		now.Add(1800)
		if key, err := c.Key(context.Background(), asker, i.URL, "a"); err != nil || key == nil {
			t.Fatalf("after %d half hours: %v, %v", n+1, key, err)
		}
	}
	now.Add(2 * 3600)
	for { // a fetch in the background may still end with the state that was cached when it began
		_, err := c.Key(context.Background(), asker, i.URL, "a")
		if errors.Is(err, ErrUnavailable) {
			break
		}
		runtime.Gosched()
	}
}

func TestRefusedFetches(t *testing.T) {
	i := newIssuer(t)
	good := keySet(t, "a")
	for name, answer := range map[string]func(http.ResponseWriter){
		"too long":        func(w http.ResponseWriter) { _, _ = w.Write([]byte(strings.Repeat(" ", Declared().MaxBody+1))) },
		"no JSON":         func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"no keys":         func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"a symmetric key": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}`)) },
		"a redirect":      func(w http.ResponseWriter) { w.Header().Set("Location", i.URL+"/other"); w.WriteHeader(302) },
		"an error":        func(w http.ResponseWriter) { w.WriteHeader(404) },
	} {
		t.Run(name, func(t *testing.T) {
			i.say(answer)
			c, _ := newCache(i, loopback)
			if key, err := c.Key(context.Background(), asker, i.URL, "a"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v, %v", key, err)
			}
		})
	}
	i.say(good)
	c, _ := newCache(i) // loopback is not allowed
	before := i.fetches.Load()
	if _, err := c.Key(context.Background(), asker, i.URL, "a"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "--egress-allowed-cidrs") {
		t.Errorf("a private address: %v", err)
	}
	if _, err := c.Key(context.Background(), asker, strings.Replace(i.URL, "https", "http", 1), "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without TLS: %v", err)
	}
	if i.fetches.Load() != before {
		t.Error("the issuer was called")
	}
}

// A slow fetch, which any client can cause with an unknown key id, does not delay tokens whose keys are cached.
func TestSlowFetchDelaysNoCachedKey(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	c, now := newCache(i, loopback)
	if _, err := c.Key(context.Background(), asker, i.URL, "a"); err != nil {
		t.Fatal(err)
	}
	fetching, release := make(chan struct{}), make(chan struct{})
	i.say(func(w http.ResponseWriter) {
		close(fetching)
		<-release
		w.WriteHeader(500)
	})
	now.Add(31)
	unknown := make(chan error, 1)
	go func() {
		_, err := c.Key(context.Background(), asker, i.URL, "nobody")
		unknown <- err
	}()
	<-fetching
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	known := make(chan error, 1)
	go func() {
		_, err := c.Key(ctx, asker, i.URL, "a")
		known <- err
	}()
	select {
	case err := <-known:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("a cached key waits for a fetch")
	}
	close(release)
	if err := <-unknown; err != nil {
		t.Error(err)
	}
}

// manyKeys serves a key set with many keys, as an attacker's client may name it.
func manyKeys(t *testing.T) func(http.ResponseWriter) {
	t.Helper()
	var ids []string
	for n := range 32 {
		ids = append(ids, fmt.Sprint("k", n))
	}
	return keySet(t, ids...)
}

func TestKeySetCacheIsSharedByDeployments(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.say(manyKeys(t))
	of, now := newCache(i, loopback)
	limits := Limits{MaxBody: 64 << 10, TotalBytes: 1 << 20, DeploymentBytes: 300 << 10, Fetches: egress.Bounds{AtOnce: 4}}
	c := New(of.clock, egress.NewPolicy([]netip.Prefix{loopback}, nil), limits)
	c.client = of.client
	ask := func(deployment, path string) {
		t.Helper()
		if key, err := c.Key(context.Background(), egress.Asker{Deployment: deployment}, i.URL+path, "k1"); err != nil || key == nil {
			t.Fatalf("%s: %v, %v", path, key, err)
		}
	}
	ask("ns/quiet", "/own")
	for n := range 100 {
		ask("ns/noisy", fmt.Sprint("/", n))
	}
	if _, bytes := c.sets.Size(); bytes > 400<<10 || bytes < 200<<10 {
		t.Errorf("%d bytes are cached", bytes)
	}
	before := i.fetches.Load()
	ask("ns/quiet", "/own")
	ask("ns/noisy", "/99")
	if i.fetches.Load() != before {
		t.Error("another deployment's set, or the newest, was evicted")
	}
	now.Add(3601)
	c.lookUp(asker, "https://other.example")
	if entries, _ := c.sets.Size(); entries != 0 {
		t.Errorf("%d sets are cached that were not used for an hour", entries)
	}
}

// Registered clients may name a host that is not theirs, or a slow one.
func TestFetchesAreBoundedPerNetwork(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	of, now := newCache(i, loopback)
	c := New(of.clock, egress.NewPolicy([]netip.Prefix{loopback}, nil), Registered())
	c.client = of.client
	from := func(network string, n int) error {
		_, err := c.Key(context.Background(), egress.Asker{Deployment: "ns/a", Source: network}, fmt.Sprint(i.URL, "/", n), "a")
		return err
	}
	now.Store(1_700_000_040) // a minute begins
	refused := 0
	for n := range 100 {
		if err := from("192.0.2.0/24", n); errors.Is(err, egress.ErrTooManyFetches) && errors.Is(err, ErrUnavailable) {
			refused++
		}
	}
	if refused != 80 || i.fetches.Load() != 20 {
		t.Errorf("%d refused, %d fetches", refused, i.fetches.Load())
	}
	if err := from("198.51.100.0/24", 99); err != nil {
		t.Errorf("another network: %v", err)
	}
	if err := from("192.0.2.0/24", 99); err != nil {
		t.Errorf("a key set that another network fetched: %v", err)
	}
}

// A site that sends all responses at the same time cannot exceed the memory of the concurrent fetches.
func TestConcurrentFetchesAreBounded(t *testing.T) {
	t.Parallel()
	i := newIssuer(t)
	var running, most atomic.Int64
	release := make(chan struct{})
	raw := keySet(t, "a")
	i.say(func(w http.ResponseWriter) {
		now := running.Add(1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		<-release
		running.Add(-1)
		raw(w)
	})
	of, _ := newCache(i, loopback)
	c := New(of.clock, egress.NewPolicy([]netip.Prefix{loopback}, nil), Registered())
	c.client = of.client
	var group sync.WaitGroup
	for n := range 200 {
		group.Go(func() {
			asker := egress.Asker{Deployment: fmt.Sprint("ns/", n%4), Source: fmt.Sprint("network ", n)}
			_, _ = c.Key(context.Background(), asker, fmt.Sprint(i.URL, "/", n), "a")
		})
	}
	for running.Load() < int64(Registered().Fetches.AtOnce) {
		runtime.Gosched()
	}
	close(release)
	group.Wait()
	if got := most.Load(); got != int64(Registered().Fetches.AtOnce) {
		t.Errorf("%d fetches ran at once", got)
	}
}
