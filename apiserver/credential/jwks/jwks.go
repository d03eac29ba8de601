// Package jwks fetches the key sets of token issuers, and of clients that authenticate with signed assertions. It
// caches the sets, runs one fetch of a set at a time, and fetches no internal address unless allowed. Each deployment
// has a share of the memory and of the fetches.
package jwks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// refreshAfter is the shortest time between two fetches of one URL, because any unknown key id triggers one.
	refreshAfter = 30 * time.Second
	// keepGood is how long the last good set is used while fetches fail.
	keepGood = 24 * time.Hour
	// keepUnused is how long an unused set is cached, and sweepEvery the interval of the search for unused sets.
	keepUnused, sweepEvery = time.Hour, time.Minute
	// fetchWithin bounds one fetch.
	fetchWithin = 5 * time.Second
	// maxIdle is how many connections are kept open between fetches.
	maxIdle = 64
	// stateBytes is an estimate of the memory of a URL besides its text and its keys.
	stateBytes = 512
)

// ErrUnavailable means that an issuer's keys cannot be fetched now.
var ErrUnavailable = errors.New("the issuer's keys cannot be fetched")

// Limits are the bounds of a Cache.
type Limits struct {
	// MaxBody is the longest key set, in bytes of JSON.
	MaxBody int
	// TotalBytes and DeploymentBytes bound the memory of the cached sets, in all and per deployment.
	TotalBytes, DeploymentBytes int64
	// Fetches bounds the fetches.
	Fetches egress.Bounds
}

// Declared returns the limits for the key sets of declared issuers and clients, which only the deployment's own
// configuration names.
func Declared() Limits {
	return Limits{
		MaxBody: keyset.MaxBytes, TotalBytes: 16 << 20, DeploymentBytes: 2 << 20,
		Fetches: egress.Bounds{AtOnce: 16, DeploymentAtOnce: 4, DeploymentPerMinute: 120},
	}
}

// Registered returns the limits for the key sets of clients that registered themselves, where any client can name a
// URL.
func Registered() Limits {
	return Limits{
		MaxBody: keyset.MaxRegisteredBytes, TotalBytes: 8 << 20, DeploymentBytes: 1 << 20,
		Fetches: egress.Bounds{AtOnce: 8, DeploymentAtOnce: 4, SourceAtOnce: 1, DeploymentPerMinute: 300, SourcePerMinute: 20},
	}
}

// Cache caches key sets by deployment and URL. It returns cached keys without waiting for a fetch, so that a slow
// issuer or a token with an unknown key id delays no other tokens.
type Cache struct {
	limits  Limits
	client  *http.Client
	clock   func() time.Time
	slots   *egress.Slots
	waits   singleflight.Group // by deployment, URL and network: for a slot
	flights singleflight.Group // by deployment and URL: for the fetch

	mu    sync.Mutex // never held during a fetch
	sets  *shares.Cache[setKey, *state]
	swept time.Time
	// fetched, failed and refused count fetches by their result.
	fetched, failed, refused uint64
}

type setKey struct{ deployment, url string }

// state is the state of a URL's key set.
type state struct {
	set     *jose.JSONWebKeySet
	good    time.Time // when set was fetched
	tried   time.Time // when the last fetch began
	lastErr error
}

// New returns a Cache. policy decides which addresses issuers may have.
func New(clock func() time.Time, policy *egress.Policy, limits Limits) *Cache {
	transport := policy.Transport(fetchWithin)
	transport.MaxIdleConnsPerHost, transport.MaxIdleConns = 1, maxIdle
	return &Cache{
		limits: limits, clock: clock, slots: egress.NewSlots(limits.Fetches, clock), sets: shares.NewCache[setKey, *state](shares.Bounds{Bytes: limits.TotalBytes, DeploymentBytes: limits.DeploymentBytes}),
		client: &http.Client{
			Timeout: fetchWithin, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the key set is redirected: declare its final URL")
			},
		},
	}
}

// Key returns the key with an id from the set at a URL, for a deployment. For an unknown id, it waits for another fetch
// of the set, at most every 30 s. For a known id in an old set, it starts a fetch in the background. It returns nil if
// the set has no such key, and ErrUnavailable if no set is available.
func (c *Cache) Key(ctx context.Context, asker egress.Asker, url, keyID string) (*jose.JSONWebKey, error) {
	cached, due := c.lookUp(asker, url)
	key := keyset.Find(cached.set, keyID)
	switch {
	case key != nil && due && c.clock().Sub(cached.good) >= keepGood/2:
		c.refresh(ctx, asker, url)
		return key, nil
	case key != nil:
		return key, nil
	}
	// Wait even if no fetch is due: a fetch in progress may find the key.
	select {
	case result := <-c.refresh(ctx, asker, url):
		if result.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, result.Err)
		}
		cached = result.Val.(state)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if cached.set == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, cached.lastErr)
	}
	return keyset.Find(cached.set, keyID), nil
}

// lookUp returns the cached state of a URL, and whether a fetch is due.
func (c *Cache) lookUp(asker egress.Asker, url string) (cached state, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	c.sweep(now)
	s, found := c.sets.Get(setKey{asker.Deployment, url}, now)
	if !found {
		return state{lastErr: errNotFetched}, true
	}
	if s.set != nil && now.Sub(s.good) > keepGood {
		c.put(asker, url, &state{good: s.good, tried: s.tried, lastErr: s.lastErr})
		s, _ = c.sets.Get(setKey{asker.Deployment, url}, now)
	}
	return *s, s.tried.IsZero() || now.Sub(s.tried) >= refreshAfter
}

// errNotFetched is the error of a set before its first fetch.
var errNotFetched = errors.New("they were not fetched yet")

// sweep drops the sets that were not used for keepUnused, at most once per sweepEvery.
func (c *Cache) sweep(now time.Time) {
	if now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		c.sets.DropUnused(now.Add(-keepUnused))
	}
}

// refresh fetches a URL's set if that is due, one fetch at a time, and returns the cached set. The caller's network and
// deployment first need a slot, even if another caller waits for the same set, so that a network that used up its
// fetches cannot block others.
func (c *Cache) refresh(ctx context.Context, asker egress.Asker, url string) <-chan singleflight.Result {
	ctx = context.WithoutCancel(ctx) // the disconnection of one client must not end the shared fetch
	return c.waits.DoChan(asker.Deployment+" "+asker.Source+" "+url, func() (any, error) {
		if _, due := c.lookUp(asker, url); due {
			waiting, cancel := context.WithTimeout(ctx, fetchWithin)
			defer cancel()
			done, err := c.slots.Begin(waiting, asker)
			if err != nil {
				c.count(&c.refused)
				return nil, err
			}
			defer done()
		}
		cached, err, _ := c.flights.Do(asker.Deployment+" "+url, func() (any, error) { return c.fetchDue(ctx, asker, url), nil })
		return cached, err
	})
}

// fetchDue fetches a URL's set unless another fetch ended meanwhile, and returns the cached state.
func (c *Cache) fetchDue(ctx context.Context, asker egress.Asker, url string) state {
	before, due := c.lookUp(asker, url)
	if !due {
		return before
	}
	begun := c.clock()
	before.tried = begun
	c.mu.Lock()
	c.put(asker, url, &before)
	c.mu.Unlock()
	set, err := c.fetch(ctx, url)
	after := state{set: set, good: begun, tried: begun}
	if err != nil {
		after = before
		after.lastErr = err
		c.count(&c.failed)
	} else {
		c.count(&c.fetched)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.put(asker, url, &after)
	return after
}

func (c *Cache) count(outcome *uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*outcome++
}

// put caches a URL's state. The caller holds the lock. A cached state is never changed.
func (c *Cache) put(asker egress.Asker, url string, s *state) {
	c.sets.Put(asker.Deployment, setKey{asker.Deployment, url}, s, int64(stateBytes+2*len(url))+keyset.Bytes(s.set), c.clock())
}

func (c *Cache) fetch(ctx context.Context, url string) (*jose.JSONWebKeySet, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if req.URL.Scheme != "https" {
		return nil, errors.New("keys are fetched over https only")
	}
	tracing.Outgoing(req)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the issuer responded with %s", resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.limits.MaxBody)+1))
	if err != nil {
		return nil, err
	}
	return keyset.Parse(raw, c.limits.MaxBody)
}
