package authn

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// maxVerified bounds the memory of verified tokens.
const maxVerified = 10_000

// digest is the SHA-256 of a token: the memory holds no credential.
type digest = [sha256.Size]byte

// memory remembers whose verified tokens are. A token is known
//   - until it ends,
//   - for as long as the snapshot selects the same, unchanged entry of an issuer for it.
type memory struct {
	tokens *lru.Cache[digest, verified]
}

type verified struct {
	token     presented
	issuer    *snapshot.Issuer
	principal *Principal
	until     time.Time
}

func newMemory() *memory {
	tokens, err := lru.New[digest, verified](maxVerified)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return &memory{tokens: tokens}
}

// get returns the principal of a token that was verified.
func (m *memory) get(key digest, s *snapshot.Snapshot, now time.Time) (*Principal, bool) {
	known, found := m.tokens.Get(key)
	if !found {
		return nil, false
	}
	issuer, err := issuerOf(s, known.token, now)
	if err != nil || !same(issuer, known.issuer) || !now.Before(known.until) {
		m.tokens.Remove(key)
		return nil, false
	}
	return known.principal, true
}

func (m *memory) put(key digest, token presented, issuer *snapshot.Issuer, principal *Principal, until time.Time) {
	m.tokens.Add(key, verified{token, issuer, principal, until})
}

// turns let one at a time pass for each name. There are as many names as deployments.
type turns struct{ byName sync.Map }

// take waits for the name's turn. The caller ends it by done.
func (t *turns) take(ctx context.Context, name string) (done func(), err error) {
	value, found := t.byName.Load(name)
	if !found {
		value, _ = t.byName.LoadOrStore(name, make(chan struct{}, 1))
	}
	turn := value.(chan struct{})
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
