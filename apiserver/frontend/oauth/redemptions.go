package oauth

import (
	"math"
	"sync"

	lru "github.com/hashicorp/golang-lru/v2"
)

// maxRedemptions is of how many codes it is remembered when they were redeemed: far more than are while one request waits for its turn.
const maxRedemptions = 4096

// redemptions tells those who come at once with one code from those who come later. Who began before the first was committed holds no proof of
// a copy; who began after it does. Servers at one SQLite file take turns at the store, so what they read there does not tell the two apart.
type redemptions struct {
	mu sync.Mutex
	// committed counts; codes are by their hashes the count at which they were, underWay until they are.
	committed uint64
	codes     *lru.Cache[string, uint64]
}

const underWay = math.MaxUint64

func newRedemptions() *redemptions {
	codes, err := lru.New[string, uint64](maxRedemptions)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return &redemptions{codes: codes}
}

// begin is when a request begins.
func (r *redemptions) begin() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}

// redeem notes that a transaction redeems a code, and done how it ended.
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

// racedWith reports whether a code was redeemed here after a request began.
func (r *redemptions) racedWith(hash []byte, began uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, known := r.codes.Get(string(hash))
	return known && at > began
}
