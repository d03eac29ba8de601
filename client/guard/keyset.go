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

// keySet holds an issuer's keys. Keys that are held are found without waiting: neither a slow issuer nor a token with
// an unknown key's id holds up other tokens.
type keySet struct {
	url  string
	http *http.Client
	// refreshEvery is how old keys get before they are fetched again beside; between is the least time between two
	// fetches, and keepFor how long the last keys are good while fetches fail.
	refreshEvery, between, keepFor, fetchWithin time.Duration
	clock                                       func() time.Time
	// onFetch is called with the result of each fetch.
	onFetch func(error)

	mu    sync.Mutex // held for moments only
	keys  *jose.JSONWebKeySet
	good  time.Time // when the keys were fetched
	tried time.Time // when a fetch was last begun
	last  error     // how it ended
	// flight is closed when the fetch under way has ended; nil: none is.
	flight chan struct{}
}

// key returns the key with an id, nil if the issuer has none such; ErrNoKeys while no keys are held.
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

// look finds a key, begins a fetch where one is due, and returns it where it is worth waiting for.
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
	// Keys that grew old without a request may have been withdrawn since. While the issuer is unavailable, no request
	// waits for it.
	if key != nil && (age < 2*s.refreshEvery || s.last != nil) {
		return key, nil, nil
	}
	return key, s.flight, err
}

// held finds a key among those that are held.
func (s *keySet) held(id string) (*jose.JSONWebKey, error) {
	if s.keys == nil {
		return nil, ErrNoKeys
	}
	return keyset.Find(s.keys, id), nil
}

// fetch gets the keys; no request's end makes the others' fetch fail.
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
