package credential

import (
	"crypto/sha256"
	"slices"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	// verifiedBytes bounds the cache of verified tokens in bytes, and verifiedMost the number of tokens of one deployment.
	verifiedBytes = 16 << 20
	verifiedMost  = 1000
)

// digest is the SHA-256 of a token, so that the cache contains no credential.
type digest = [sha256.Size]byte

// memory caches the principals of verified tokens. A token is cached
//   - until it expires,
//   - as long as the same, unchanged entry of an issuer is among the snapshot's candidates for it,
//   - and as long as it is within its deployment's share of the cache.
type memory struct {
	mu     sync.RWMutex
	tokens *shares.Set[digest, *verified]
}

type verified struct {
	shares.Item[digest]
	token     presented
	issuer    *snapshot.Issuer
	principal *Principal
	until     time.Time
}

func newMemory() *memory {
	return &memory{tokens: shares.New[digest, *verified](shares.Bounds{Bytes: verifiedBytes, DeploymentCount: verifiedMost})}
}

// get returns the principal of a cached token.
func (m *memory) get(key digest, s *snapshot.Snapshot, now time.Time) (*Principal, bool) {
	m.mu.RLock()
	known, found := m.tokens.Get(key)
	m.mu.RUnlock()
	if !found {
		return nil, false
	}
	selected := slices.ContainsFunc(candidatesOf(s, known.token, now), func(issuer *snapshot.Issuer) bool { return same(issuer, known.issuer) })
	if !selected || !now.Before(known.until) {
		m.mu.Lock()
		m.tokens.Delete(key)
		m.mu.Unlock()
		return nil, false
	}
	return known.principal, true
}

func (m *memory) put(key digest, token presented, issuer *snapshot.Issuer, principal *Principal, until time.Time) {
	if issuer.App != nil { // this issuer was made for the token: keep only the fields that the function same compares
		issuer = &snapshot.Issuer{App: issuer.App, Client: issuer.Client, Deployment: issuer.Deployment}
	}
	made := &verified{token: token, issuer: issuer, principal: principal, until: until}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tokens.Put(key, made, issuer.Deployment.Deployment, made.size())
}

// size returns an upper estimate of a token's memory, in bytes.
func (v *verified) size() int64 {
	const ofToken, ofText = 1024, 48
	size := ofToken + len(v.token.issuer) + len(v.token.client) + len(v.principal.Subject)
	for _, audience := range v.token.audiences {
		size += ofText + len(audience)
	}
	for _, name := range v.principal.Permissions() {
		size += ofText + len(name)
	}
	return int64(size)
}

// size returns the number of cached tokens, and their bytes.
func (m *memory) size() (tokens int, bytes int64) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.tokens.Len(), m.tokens.Bytes()
}

// evicted returns how many tokens were evicted.
func (m *memory) evicted() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.tokens.Evicted()
}
