package credential

import (
	"context"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"

	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/internal/keyset"
)

const (
	// clusterKeysWithin bounds one read of the cluster's keys.
	clusterKeysWithin = 2 * time.Second
	// clusterKeysEvery is the shortest time between two reads, because any token with an unknown key id triggers one.
	clusterKeysEvery = 10 * time.Second
	// clusterKeysFor is how long fetched keys are used. After that, tokens are reviewed without a check of their
	// signatures.
	clusterKeysFor = time.Hour
)

// clusterKeys caches the keys with which the cluster signs tokens of ServiceAccounts. A token with a wrong signature is
// refused without a request to the Kubernetes API. A correct signature does not suffice, because the token may have
// been revoked.
type clusterKeys struct {
	// fetch reads the cluster's JSON web key set; nil means that it cannot be read.
	fetch   func(context.Context) ([]byte, error)
	clock   func() time.Time
	flights singleflight.Group

	mu          sync.Mutex
	set         *jose.JSONWebKeySet
	read, tried time.Time
}

// forged reports whether no key of the cluster made a token's signature. It returns false while the keys are unknown,
// and for an unknown key id after a failed read: the cluster may have a new key.
func (k *clusterKeys) forged(ctx context.Context, token *bearer.Token) bool {
	if k.fetch == nil {
		return false
	}
	set, due, failed := k.cached()
	key := keyset.Find(set, token.KeyID)
	if key == nil && due {
		select {
		case <-k.flights.DoChan("", func() (any, error) { return nil, k.refresh(context.WithoutCancel(ctx)) }):
		case <-ctx.Done():
			return false
		}
		set, _, failed = k.cached()
		key = keyset.Find(set, token.KeyID)
	}
	if set == nil || key == nil && failed {
		return false
	}
	if key == nil || key.Algorithm != "" && key.Algorithm != token.Algorithm {
		return true
	}
	_, err := token.Signature.Verify(key.Key)
	return err != nil
}

// cached returns the usable keys, nil for none, whether they may be fetched again, and whether the last fetch failed.
func (k *clusterKeys) cached() (set *jose.JSONWebKeySet, due, failed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	if now.Sub(k.read) < clusterKeysFor {
		set = k.set
	}
	return set, k.tried.IsZero() || now.Sub(k.tried) >= clusterKeysEvery, k.tried.After(k.read)
}

func (k *clusterKeys) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, clusterKeysWithin)
	defer cancel()
	raw, err := k.fetch(ctx)
	var set *jose.JSONWebKeySet
	if err == nil {
		set, err = keyset.Parse(raw, keyset.MaxBytes)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.tried = k.clock()
	if err == nil {
		k.set, k.read = set, k.tried
	}
	return err
}
