// Package rsapool lends RSA keys to tests. A key takes a tenth of a second to generate, and several times that under
// the race detector.
package rsapool

import (
	"crypto/rand"
	"crypto/rsa"
	"sync"
)

const bits = 2048

var (
	mu   sync.Mutex
	free []*rsa.PrivateKey
)

// Loan has the keys of one borrower. A key has one borrower at a time. The zero Loan has no keys.
type Loan struct{ keys []*rsa.PrivateKey }

// Take returns a key of 2048 bits that the borrower does not have yet.
func (l *Loan) Take() *rsa.PrivateKey {
	key := lent()
	l.keys = append(l.keys, key)
	return key
}

func lent() *rsa.PrivateKey {
	mu.Lock()
	defer mu.Unlock()
	if n := len(free); n > 0 {
		key := free[n-1]
		free = free[:n-1]
		return key
	}
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err) // crypto/rand never fails
	}
	return key
}

// Return gives all keys back. The borrower may not use them afterwards.
func (l *Loan) Return() {
	mu.Lock()
	defer mu.Unlock()
	free = append(free, l.keys...)
	l.keys = nil
}
