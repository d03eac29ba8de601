package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/internal/keyset"
)

const (
	// maxKeySet bounds a key set, in bytes.
	maxKeySet = keyset.MaxBytes
	// retryWithout is the shortest time between two fetches while no key is cached: no token can be verified then.
	retryWithout = time.Second
)

// keySet caches an issuer's keys. Cached keys are usually found without waiting, so that neither a slow issuer nor a
// token with an unknown key id delays other tokens.
type keySet struct {
	url  string
	http *http.Client
	// refreshEvery is the age at which keys are fetched again in the background. between is the shortest time between
	// two fetches, and keepFor how long the last keys are used while fetches fail.
	refreshEvery, between, keepFor, fetchWithin time.Duration
	clock                                       func() time.Time
	// onFetch is called with the result of each fetch.
	onFetch func(error)

	mu    sync.Mutex // not held during a fetch
	keys  *jose.JSONWebKeySet
	good  time.Time // when the keys were fetched
	tried time.Time // when the last fetch began
	last  error     // the error of the last fetch that ended, nil if it succeeded
	// flight is closed when the running fetch ends. It is nil if no fetch is running.
	flight chan struct{}
}

// key returns the key with an id, nil if the issuer has no such key. ErrNoKeys: no keys are cached, or ctx ends during
// a fetch.
func (s *keySet) key(ctx context.Context, id string) (*jose.JSONWebKey, error) {
	key, flight, err := s.look(id)
	if flight == nil {
		return key, err
	}
	select {
	case <-flight:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrNoKeys, ctx.Err())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held(id)
}

// look returns a cached key, and starts a fetch if one is due. If the caller must wait for the running fetch, look also
// returns the channel that is closed at its end.
func (s *keySet) look(id string) (*jose.JSONWebKey, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	if s.keys != nil && now.Sub(s.good) > s.keepFor {
		s.keys = nil
	}
	key, err := s.held(id)
	age := now.Sub(s.good)
	if key != nil && age < s.refreshEvery {
		return key, nil, nil
	}
	between := s.between
	if s.keys == nil {
		between = min(between, retryWithout)
	}
	if s.flight == nil && (s.tried.IsZero() || now.Sub(s.tried) >= between) {
		s.tried, s.flight = now, make(chan struct{})
		go s.fetch(now, s.flight)
	}
	// If the keys are older than two intervals because no request came, the key may have been withdrawn, so the request
	// waits for the fetch. While the issuer is unavailable, requests with a cached key do not wait.
	if key != nil && (age < 2*s.refreshEvery || s.last != nil) {
		return key, nil, nil
	}
	return key, s.flight, err
}

// held returns a cached key, nil if the cached keys do not contain it. ErrNoKeys: no keys are cached.
func (s *keySet) held(id string) (*jose.JSONWebKey, error) {
	if s.keys == nil {
		return nil, ErrNoKeys
	}
	return keyset.Find(s.keys, id), nil
}

// fetch fetches the keys. It does not use a request's context, because other requests wait for the same fetch.
func (s *keySet) fetch(begun time.Time, done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), s.fetchWithin)
	defer cancel()
	keys, err := s.get(ctx)
	if err != nil {
		err = fmt.Errorf("guard: keys of %s: %w", s.url, err)
	}
	s.mu.Lock()
	s.last, s.flight = err, nil
	if err == nil {
		s.keys, s.good = keys, begun
	}
	s.mu.Unlock()
	close(done)
	s.onFetch(err)
}

func (s *keySet) get(ctx context.Context) (*jose.JSONWebKeySet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %d", response.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxKeySet+1))
	if err != nil {
		return nil, err
	}
	if len(raw) > maxKeySet {
		return nil, fmt.Errorf("is longer than %d bytes", maxKeySet)
	}
	return keyset.Parse(raw, maxKeySet)
}

// errRedirected reports a redirect: keys are fetched only from the issuer's own address.
var errRedirected = errors.New("is redirected: give the final address")
