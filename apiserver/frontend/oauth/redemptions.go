package oauth

import (
	"math"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxRedemptions is how many redeemed codes are remembered, far more than are redeemed while a request waits for its
// transaction.
const maxRedemptions = 4096

// redemptions distinguishes concurrent redemptions of a code from later ones. A request that began before the first
// redemption was committed does not prove a copy of the code; a later one does. The rows alone do not show the
// difference, because servers that share an SQLite file run their transactions one after the other.
type redemptions struct {
	mu sync.Mutex
	// committed counts commits. codes maps each code's hash to the count at its commit, or to underWay before that.
	committed uint64
	codes     *lru.Cache[string, uint64]
}

const underWay = math.MaxUint64

func newRedemptions() *redemptions {
	codes, err := lru.New[string, uint64](maxRedemptions)
	if err != nil {
		panic(err) // unreachable: the size is a constant above 0
	}
	return &redemptions{codes: codes}
}

// begin returns the current count, for a request that begins.
func (r *redemptions) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}

// redeem records that a transaction redeems a code; done records how the transaction ended.
func (r *redemptions) redeem(hash []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.codes.Add(string(hash), underWay)
}

func (r *redemptions) done(hash []byte, committed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !committed {
		if at, _ := r.codes.Get(string(hash)); at == underWay {
			r.codes.Remove(string(hash))
		}
		return
	}
	r.committed++
	r.codes.Add(string(hash), r.committed)
}

// racedWith reports whether this server redeemed a code after a request began, or is redeeming it now.
func (r *redemptions) racedWith(hash []byte, began uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, known := r.codes.Get(string(hash))
	return known && at > began
}
