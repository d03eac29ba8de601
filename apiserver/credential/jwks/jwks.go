// Package jwks fetches the key sets of token issuers and of clients that sign: cached, one fetch of a set at a time, never from inside the network
// unless allowed. Memory and fetches are divided into shares of the deployments that the sets are for.
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
	// refreshAfter is the least time between two fetches of one URL: an unknown key id asks for one.
	refreshAfter = 30 * time.Second
	// keepGood is how long the last good set is used while fetches fail.
	keepGood = 24 * time.Hour
	// keepUnused is how long a set is held that no token or client needs, and sweepEvery how often such sets are looked for.
	keepUnused, sweepEvery = time.Hour, time.Minute
	// fetchWithin bounds one fetch.
	fetchWithin = 5 * time.Second
	// maxIdle is how many connections are kept open between fetches.
	maxIdle = 64
	// stateBytes is an estimate of the memory that a URL takes beside its text and its keys.
	stateBytes = 512
)

// ErrUnavailable means that the keys of an issuer cannot be had now.
var ErrUnavailable = errors.New("the issuer's keys cannot be fetched")

// Limits are the bounds of a Cache.
type Limits struct {
	// MaxBody is the longest key set, in bytes of JSON.
	MaxBody int
	// TotalBytes and DeploymentBytes bound the memory of the sets that are held, in all and of one deployment.
	TotalBytes, DeploymentBytes int64
	// Fetches bounds what is fetched.
	Fetches egress.Bounds
}

// Declared returns the limits for the key sets of declared issuers and clients: only the deployment's own configuration names them.
func Declared() Limits {
	return Limits{
		MaxBody: keyset.MaxBytes, TotalBytes: 16 << 20, DeploymentBytes: 2 << 20,
		Fetches: egress.Bounds{AtOnce: 16, DeploymentAtOnce: 4, DeploymentPerMinute: 120},
	}
}

// Registered returns the limits for the key sets of clients that registered themselves: every client can name one.
func Registered() Limits {
	return Limits{
		MaxBody: keyset.MaxRegisteredBytes, TotalBytes: 8 << 20, DeploymentBytes: 1 << 20,
		Fetches: egress.Bounds{AtOnce: 8, DeploymentAtOnce: 4, NetworkAtOnce: 1, DeploymentPerMinute: 300, NetworkPerMinute: 20},
	}
}

// Cache holds key sets by deployment and URL. It finds cached keys without waiting for a fetch: a slow issuer, or a
// token with an unknown key id, delays no other tokens.
type Cache struct {
	limits  Limits
	client  *http.Client
	clock   func() time.Time
	slots   *egress.Slots
	waits   singleflight.Group // by deployment, URL and network: for a slot
	flights singleflight.Group // by deployment and URL: for the fetch

	mu    sync.Mutex // held for moments only
	sets  *shares.Cache[setKey, *state]
	swept time.Time
	// fetched, failed and refused count fetches by their outcome.
	fetched, failed, refused uint64
}

type setKey struct{ deployment, url string }

// state is what is known of a URL's key set.
type state struct {
	set     *jose.JSONWebKeySet
	good    time.Time // when set was fetched
	tried   time.Time // when a fetch was last begun
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

// Key returns the key with an id from the set at a URL, for a deployment. An unknown id makes the set be fetched again, at most every 30 s, and the
// caller wait for it; a known one in a set that grows old makes it be fetched in the background. Key returns nil if the set has no such key,
// ErrUnavailable if no set can be had.
func (c *Cache) Key(ctx context.Context, asker egress.Asker, url, keyID string) (*jose.JSONWebKey, error) {
	held, due := c.look(asker, url)
	key := keyset.Find(held.set, keyID)
	switch {
	case key != nil && due && c.clock().Sub(held.good) >= keepGood/2:
		c.refresh(ctx, asker, url)
		return key, nil
	case key != nil:
		return key, nil
	}
	// Also when no fetch is due: one may be under way that finds the key.
	select {
	case result := <-c.refresh(ctx, asker, url):
		if result.Err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnavailable, result.Err)
		}
		held = result.Val.(state)
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	if held.set == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, held.lastErr)
	}
	return keyset.Find(held.set, keyID), nil
}

// look returns what is held of a URL, and whether a fetch is due.
func (c *Cache) look(asker egress.Asker, url string) (held state, due bool) {
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

// errNotFetched is the error of a set that was not fetched yet.
var errNotFetched = errors.New("they were not fetched yet")

// sweep drops the sets that were not used for keepUnused, once in sweepEvery.
func (c *Cache) sweep(now time.Time) {
	if now.Sub(c.swept) >= sweepEvery {
		c.swept = now
		c.sets.DropUnused(now.Add(-keepUnused))
	}
}

// refresh fetches a URL's set if that is due, one fetch at a time, and returns the set that is cached then. The
// caller's network and deployment need a slot first, even if another caller waits for the same set: a network that
// used up its fetches blocks no other.
func (c *Cache) refresh(ctx context.Context, asker egress.Asker, url string) <-chan singleflight.Result {
	ctx = context.WithoutCancel(ctx) // one client's leaving must not make the others' fetch fail
	return c.waits.DoChan(asker.Deployment+" "+asker.Network+" "+url, func() (any, error) {
		if _, due := c.look(asker, url); due {
			waiting, cancel := context.WithTimeout(ctx, fetchWithin)
			defer cancel()
			done, err := c.slots.Begin(waiting, asker)
			if err != nil {
				c.count(&c.refused)
				return nil, err
			}
			defer done()
		}
		held, err, _ := c.flights.Do(asker.Deployment+" "+url, func() (any, error) { return c.fetchDue(ctx, asker, url), nil })
		return held, err
	})
}

// fetchDue fetches a URL's set unless another fetch ended meanwhile, and returns what is held then.
func (c *Cache) fetchDue(ctx context.Context, asker egress.Asker, url string) state {
	before, due := c.look(asker, url)
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

// put holds what is known of a URL, under the lock. A state that is held is never changed.
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
		return nil, fmt.Errorf("answered %s", resp.Status)
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, int64(c.limits.MaxBody)+1))
	if err != nil {
		return nil, err
	}
	return keyset.Parse(raw, c.limits.MaxBody)
}
