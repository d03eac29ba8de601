// Package jwks fetches the key sets of token issuers: cached, one fetch at a time, never from inside the network unless
// allowed.
package jwks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/egress"
	"github.com/cardea-iam/cardea/internal/keyset"
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

// Cache holds key sets by URL.
type Cache struct {
	client *http.Client
	clock  func() time.Time

	mu   sync.Mutex
	sets map[string]*entry
}

type entry struct {
	mu      sync.Mutex // held during a fetch: the others wait for its result
	set     *jose.JSONWebKeySet
	good    time.Time // when set was fetched
	tried   time.Time // when a fetch was last begun
	lastErr error
}

// New returns a Cache. allowed are address ranges that may be fetched from although they are private.
func New(clock func() time.Time, allowed []netip.Prefix) *Cache {
	transport := egress.Transport(allowed, fetchWithin)
	transport.MaxIdleConnsPerHost = 1
	return &Cache{
		clock: clock, sets: map[string]*entry{},
		client: &http.Client{
			Timeout: fetchWithin, Transport: transport,
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("the key set is redirected: declare its final URL")
			},
		},
	}
}

// Key returns the key with an id from the set at a URL. An unknown id makes the set be fetched again, at most every 30 s. It
// returns nil if the set has no such key, ErrUnavailable if no set can be had.
func (c *Cache) Key(ctx context.Context, url, keyID string) (*jose.JSONWebKey, error) {
	c.mu.Lock()
	e, found := c.sets[url]
	if !found {
		e = &entry{}
		c.sets[url] = e
	}
	c.mu.Unlock()

	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.clock()
	if e.set != nil && now.Sub(e.good) > keepGood {
		e.set = nil
	}
	if key := keyset.Find(e.set, keyID); key != nil && now.Sub(e.good) < keepGood/2 {
		return key, nil
	}
	if e.tried.IsZero() || now.Sub(e.tried) >= refreshAfter {
		e.tried = now
		// One client's leaving must not make the others' fetch fail.
		set, err := c.fetch(context.WithoutCancel(ctx), url)
		e.lastErr = err
		if err == nil {
			e.set, e.good = set, now
		}
	}
	if e.set == nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, e.lastErr)
	}
	return keyset.Find(e.set, keyID), nil
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
