package limits

import (
	"sync"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store"
)

// bindingsMost bounds the cached keys.
const bindingsMost = 4096

// Bindings caches the bindings of keys under one state of the configuration. It is safe for concurrent use.
type Bindings struct {
	limiter *Limiter

	mu sync.RWMutex
	// under is the position of the state. The state itself is not kept, so that its memory can be freed.
	under store.Position
	known map[boundKey]*Binding
}

// boundKey is what a key's binding depends on besides the configuration: the row of a runtime key names its own scheme.
type boundKey struct{ deployment, id, scheme string }

// NewBindings returns Bindings by a Limiter.
func NewBindings(l *Limiter) *Bindings { return &Bindings{limiter: l, known: map[boundKey]*Binding{}} }

// Of is Limiter.Bind for a principal with a key, computed once per state of the configuration.
func (b *Bindings) Of(s *snapshot.Snapshot, p *credential.Principal) (*Binding, error) {
	key := boundKey{deployment: p.Deployment.Deployment, id: p.KeyID}
	if p.Runtime != nil {
		key.scheme = p.Runtime.Scheme
	}
	under := s.Position()
	b.mu.RLock()
	known := b.known[key]
	if b.under != under {
		known = nil
	}
	b.mu.RUnlock()
	if known != nil {
		return known, nil
	}
	made, err := b.limiter.Bind(s, p)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.under != under || len(b.known) >= bindingsMost {
		b.under = under
		clear(b.known)
	}
	b.known[key] = &made
	return &made, nil
}
