// Package password hashes passwords, by Argon2id and never many at once, and validates new ones.
package password

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
)

// Cost is that of a new hash.
type Cost struct {
	// MemoryKiB is in KiB, Passes is how often it is gone over.
	MemoryKiB, Passes uint32
}

// DefaultCost is the OWASP minimum for Argon2id: 19 MiB, 2 passes, 1 lane.
var DefaultCost = Cost{MemoryKiB: 19 * 1024, Passes: 2}

func (c Cost) params() *argon2id.Params {
	return &argon2id.Params{Memory: c.MemoryKiB, Iterations: c.Passes, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// dummy is a hash that no password is right for, at the cost of a new one.
func (c Cost) dummy() string {
	return c.head() + strings.Repeat("A", 22) + "$" + strings.Repeat("A", 43)
}

// head begins the hashes of a cost.
func (c Cost) head() string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$", c.MemoryKiB, c.Passes)
}

// ErrBusy means that the queue of hashes did not move in time, or a client has too many in it.
var ErrBusy = errors.New("too many passwords are being checked at once")

var errForm = errors.New("a stored password hash has not the form this binary reads")

// Hash returns a password's hash in the PHC string format.
func (t *Turn) Hash(password string) (string, error) {
	defer t.hasher.measure(time.Now())
	return argon2id.CreateHash(password, t.hasher.cost.params())
}

// Verify compares a password with its hash; with "", which no password matches, in the same time. A hash of another system takes that
// time or longer: how much longer its own costs say. ErrBusy: too many hashes that take much memory are being compared.
func (t *Turn) Verify(password, encoded string) (bool, error) {
	known := encoded != ""
	if !known {
		encoded = t.hasher.cost.dummy()
	}
	if t.Outdated(encoded) {
		return t.verifyForeign(password, encoded)
	}
	defer t.hasher.measure(time.Now())
	right, err := argon2id.ComparePasswordAndHash(password, encoded)
	if err != nil {
		return false, errForm // the library's may tell parts of the hash
	}
	return right && known, nil
}

// checkForm refuses what the library would read in part, or hash without end.
func checkForm(encoded string) error {
	p, _, key, err := argon2id.DecodeHash(encoded)
	if err != nil || p.Iterations == 0 || p.Parallelism == 0 || len(key) == 0 {
		return errForm
	}
	written := fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=%d$", p.Memory, p.Iterations, p.Parallelism)
	if !strings.HasPrefix(encoded, written) {
		return errForm
	}
	return nil
}

// Hash is Turn.Hash with a turn of its own.
func (h *Hasher) Hash(ctx context.Context, client Client, password string) (string, error) {
	turn, err := h.Acquire(ctx, client)
	if err != nil {
		return "", err
	}
	defer turn.Release()
	return turn.Hash(password)
}
