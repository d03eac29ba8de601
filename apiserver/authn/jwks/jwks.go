// Package jwks fetches the key sets of token issuers: cached, one fetch at a time, never from inside the network unless
// allowed.
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

	"github.com/cardea-iam/cardea/apiserver/egress"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// refreshAfter is the least time between two fetches of one URL: an unknown key id asks for one.
	refreshAfter = 30 * time.Second
	// keepGood is how long the last good set is used while fetches fail.
	keepGood = 24 * time.Hour
	// maxBody bounds a key set, in bytes.
	maxBody = 256 << 10
	// fetchWithin bounds one fetch.
	fetchWithin = 5 * time.Second
)

// ErrUnavailable: the keys of an issuer cannot be had now.
var ErrUnavailable = errors.New("the issuer's keys cannot be fetched")

// Cache holds key sets by URL. Keys that are held are found without waiting for a fetch: an issuer that is slow, or a token with an
// unknown key's id, holds up nobody else's tokens.
type Cache struct {
	client  *http.Client
	clock   func() time.Time
	flights singleflight.Group

	// most bounds how many sets are held, 0: not at all.
	most int
	mu   sync.Mutex // held for moments only
	sets map[string]*state
}

// state is what is known of a URL's key set.
type state struct {
	set     *jose.JSONWebKeySet
	good    time.Time // when set was fetched
	tried   time.Time // when a fetch was last begun
	asked   time.Time // when somebody last asked for a key
	lastErr error
}

// New returns a Cache. policy tells where issuers may be.
func New(clock func() time.Time, policy *egress.Policy) *Cache {
	transport := policy.Transport(fetchWithin)
	transport.MaxIdleConnsPerHost = 1
	return &Cache{
		clock: clock, sets: map[string]*state{},
		client: &http.Client{
			Timeout: fetchWithin, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the key set is redirected: declare its final URL")
			},
		},
	}
}

// NewBounded returns a Cache that holds so many sets at most, the last asked for: of issuers that nobody declared, who may be any number.
func NewBounded(clock func() time.Time, policy *egress.Policy, most int) *Cache {
	c := New(clock, policy)
	c.most = most
	return c
}

// Key returns the key with an id from the set at a URL. An unknown id makes the set be fetched again, at most every 30 s, and the
// caller wait for it; a known one in a set that grows old makes it be fetched beside. Key returns nil if the set has no such key,
// ErrUnavailable if no set can be had.
func (c *Cache) Key(ctx context.Context, url, keyID string) (*jose.JSONWebKey, error) {
	held, due := c.look(url)
	key := keyset.Find(held.set, keyID)
	switch {
	case key != nil && due && c.clock().Sub(held.good) >= keepGood/2:
		c.refresh(ctx, url)
		return key, nil
	case key != nil:
		return key, nil
	}
	// Also when no fetch is due: one may be under way that finds the key.
	select {
	case result := <-c.refresh(ctx, url):
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
func (c *Cache) look(url string) (held state, due bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, now := c.stateOf(url), c.clock()
	s.asked = now
	if s.set != nil && now.Sub(s.good) > keepGood {
		s.set = nil
	}
	return *s, s.tried.IsZero() || now.Sub(s.tried) >= refreshAfter
}

// refresh fetches a URL's set if that is due, one fetch at a time, and tells what is held then.
func (c *Cache) refresh(ctx context.Context, url string) <-chan singleflight.Result {
	return c.flights.DoChan(url, func() (any, error) {
		if held, due := c.look(url); !due {
			return held, nil
		}
		begun := c.clock()
		c.change(url, func(s *state) { s.tried = begun })
		// One client's leaving must not make the others' fetch fail.
		set, err := c.fetch(context.WithoutCancel(ctx), url)
		return c.change(url, func(s *state) {
			s.lastErr = err
			if err == nil {
				s.set, s.good = set, begun
			}
		}), nil
	})
}

func (c *Cache) change(url string, do func(*state)) state {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stateOf(url) // it may have given way while it was fetched
	do(s)
	return *s
}

// stateOf returns what is known of a URL's key set, to be changed under the lock.
func (c *Cache) stateOf(url string) *state {
	s, found := c.sets[url]
	if found {
		return s
	}
	if c.most > 0 && len(c.sets) >= c.most {
		longest := ""
		for other, of := range c.sets {
			if longest == "" || of.asked.Before(c.sets[longest].asked) {
				longest = other
			}
		}
		delete(c.sets, longest)
	}
	s = &state{asked: c.clock()}
	c.sets[url] = s
	return s
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
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxBody {
		return nil, fmt.Errorf("is longer than %d bytes", maxBody)
	}
	return keyset.Parse(raw)
}
