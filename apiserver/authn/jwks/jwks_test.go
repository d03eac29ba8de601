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
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/egress"
)

// issuer serves a key set over TLS, and counts.
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

// newCache returns a cache that trusts the issuer's certificate, and a clock to turn.
func newCache(i *issuer, allowed ...netip.Prefix) (*Cache, *atomic.Int64) {
	now := &atomic.Int64{}
	now.Store(1_700_000_000)
	c := New(func() time.Time { return time.Unix(now.Load(), 0) }, egress.NewPolicy(allowed, nil))
	c.client.Transport.(*http.Transport).TLSClientConfig = i.Client().Transport.(*http.Transport).TLSClientConfig
	return c, now
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

func TestUnknownKeysAreFetchedAtMostEvery30Seconds(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	c, now := newCache(i, loopback)
	get := func(id string) bool {
		t.Helper()
		key, err := c.Key(context.Background(), i.URL, id)
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
		group.Go(func() { _, _ = c.Key(context.Background(), i.URL, "nobody") })
	}
	group.Wait()
	if i.fetches.Load() != 3 {
		t.Errorf("50 at once made %d fetches", i.fetches.Load()-2)
	}
}

func TestTheLastGoodSetIsKeptForADay(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	c, now := newCache(i, loopback)
	if _, err := c.Key(context.Background(), i.URL, "a"); err != nil {
		t.Fatal(err)
	}
	i.say(func(w http.ResponseWriter) { w.WriteHeader(500) })
	now.Add(23 * 3600)
	if key, err := c.Key(context.Background(), i.URL, "a"); err != nil || key == nil {
		t.Errorf("after 23 h: %v, %v", key, err)
	}
	now.Add(2 * 3600)
	if _, err := c.Key(context.Background(), i.URL, "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after 25 h: %v", err)
	}
}

func TestWhatIsNotFetched(t *testing.T) {
	i := newIssuer(t)
	good := keySet(t, "a")
	for name, answer := range map[string]func(http.ResponseWriter){
		"too long":        func(w http.ResponseWriter) { _, _ = w.Write([]byte(strings.Repeat(" ", maxBody+1))) },
		"no JSON":         func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
		"no keys":         func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		"a symmetric key": func(w http.ResponseWriter) { _, _ = w.Write([]byte(`{"keys":[{"kty":"oct","kid":"a","k":"AAAA"}]}`)) },
		"a redirect":      func(w http.ResponseWriter) { w.Header().Set("Location", i.URL+"/other"); w.WriteHeader(302) },
		"an error":        func(w http.ResponseWriter) { w.WriteHeader(404) },
	} {
		t.Run(name, func(t *testing.T) {
			i.say(answer)
			c, _ := newCache(i, loopback)
			if key, err := c.Key(context.Background(), i.URL, "a"); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v, %v", key, err)
			}
		})
	}
	i.say(good)
	c, _ := newCache(i) // loopback is not allowed
	before := i.fetches.Load()
	if _, err := c.Key(context.Background(), i.URL, "a"); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "--egress-allowed-cidrs") {
		t.Errorf("a private address: %v", err)
	}
	if _, err := c.Key(context.Background(), strings.Replace(i.URL, "https", "http", 1), "a"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without TLS: %v", err)
	}
	if i.fetches.Load() != before {
		t.Error("the issuer was called")
	}
}

// TestL8 holds that a slow fetch, which anybody causes with an unknown key's id, delays no token whose key is held.
func TestL8ASlowFetchHoldsUpNoKnownKey(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	c, now := newCache(i, loopback)
	if _, err := c.Key(context.Background(), i.URL, "a"); err != nil {
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
		_, err := c.Key(context.Background(), i.URL, "nobody")
		unknown <- err
	}()
	<-fetching
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	known := make(chan error, 1)
	go func() {
		_, err := c.Key(ctx, i.URL, "a")
		known <- err
	}()
	select {
	case err := <-known:
		if err != nil {
			t.Error(err)
		}
	case <-ctx.Done():
		t.Error("a held key waits for a fetch")
	}
	close(release)
	if err := <-unknown; err != nil {
		t.Error(err)
	}
}

// TestABoundedCacheHoldsThoseThatWereAskedForLast: however many issuers strangers name, memory is bounded.
func TestABoundedCacheHoldsThoseThatWereAskedForLast(t *testing.T) {
	i := newIssuer(t)
	i.say(keySet(t, "a"))
	unbounded, now := newCache(i, loopback)
	c := NewBounded(unbounded.clock, egress.NewPolicy([]netip.Prefix{loopback}, nil), 2)
	c.client = unbounded.client
	ask := func(path string, fetches int64) {
		t.Helper()
		now.Add(1)
		if key, err := c.Key(context.Background(), i.URL+path, "a"); err != nil || key == nil || i.fetches.Load() != fetches || len(c.sets) > 2 {
			t.Errorf("%s: %v, %v, %d fetches, %d sets", path, key, err, i.fetches.Load(), len(c.sets))
		}
	}
	ask("/1", 1)
	ask("/2", 2)
	ask("/1", 2)
	ask("/3", 3) // in place of /2
	ask("/1", 3)
	ask("/2", 4)
	var group sync.WaitGroup
	for n := range 50 {
		group.Go(func() { _, _ = c.Key(context.Background(), fmt.Sprint(i.URL, "/many/", n), "a") })
	}
	group.Wait()
	if len(c.sets) > 2 {
		t.Errorf("%d sets", len(c.sets))
	}
}
