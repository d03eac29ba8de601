// Package password hashes passwords with Argon2id, a bounded number at the same time, and validates new ones.
package password

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/alexedwards/argon2id"
)

// Cost is the cost of a new hash.
type Cost struct {
	// MemoryKiB is the memory in KiB, and Passes the number of passes over it.
	MemoryKiB, Passes uint32
}

// DefaultCost is the OWASP minimum for Argon2id: 19 MiB, 2 passes, 1 lane.
var DefaultCost = Cost{MemoryKiB: 19 * 1024, Passes: 2}

func (c Cost) params() *argon2id.Params {
	return &argon2id.Params{Memory: c.MemoryKiB, Iterations: c.Passes, Parallelism: 1, SaltLength: 16, KeyLength: 32}
}

// dummy returns a hash that no password matches, at the cost of a new one.
func (c Cost) dummy() string {
	return c.head() + strings.Repeat("A", 22) + "$" + strings.Repeat("A", 43)
}

// head returns the prefix of hashes with this cost.
func (c Cost) head() string {
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$", c.MemoryKiB, c.Passes)
}

// ErrBusy means that no turn was free within the wait, or that the client has too many hashes in the queue.
var ErrBusy = errors.New("too many passwords are being checked at once")

var errForm = errors.New("a stored password hash has a form that this binary does not support")

// Hash returns a password's hash in the PHC string format.
func (t *Turn) Hash(password string) (string, error) {
	defer t.hasher.measure(time.Now())
	return argon2id.CreateHash(password, t.hasher.cost.params())
}

// Verify compares a password with its hash. An empty hash matches no password and takes the same time. A hash of
// another system takes that time or longer, depending on its own costs. ErrBusy: too many heavy hashes are being
// compared.
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
		return false, errForm // the library's error may contain parts of the hash
	}
	return right && known, nil
}

// checkForm refuses hashes that the library would parse only partially, or for which it would panic.
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

// Hash is Turn.Hash, including Acquire and Release.
func (h *Hasher) Hash(ctx context.Context, client Client, password string) (string, error) {
	turn, err := h.Acquire(ctx, client)
	if err != nil {
		return "", err
	}
	defer turn.Release()
	return turn.Hash(password)
}
