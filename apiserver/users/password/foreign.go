package password

import (
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/password/foreign"
)

const (
	// heavyMemory is the memory, in bytes, above which a comparison is heavy, and maxHeavy how many heavy ones run at
	// the same time: at most 512 MiB in all, on any number of cores.
	heavyMemory = 32 << 20
	maxHeavy    = 4
)

// CheckImported returns an error for a hash that cannot be verified here. The error contains no part of the hash.
func CheckImported(encoded string) error {
	_, err := foreign.Parse(encoded)
	return err
}

// Outdated reports whether a hash differs in form or cost from what Hash returns now. It is replaced at the next
// successful sign-in.
func (t *Turn) Outdated(encoded string) bool {
	return !strings.HasPrefix(encoded, t.hasher.cost.head()) || checkForm(encoded) != nil
}

// verifyForeign compares a password with a hash of another system. It takes at least the time of a comparison with a
// native hash: a shorter time would reveal that the account exists and was imported.
func (t *Turn) verifyForeign(password, encoded string) (bool, error) {
	h, err := foreign.Parse(encoded)
	if err != nil {
		return false, errForm
	}
	if h.Memory > heavyMemory+foreign.ScryptOverhead {
		if !t.hasher.enterHeavy() {
			return false, ErrBusy
		}
		defer func() { <-t.hasher.heavy }()
	}
	began := time.Now()
	right := h.Matches(password)
	return right, t.fill(began)
}

// enterHeavy waits for the start of a heavy comparison, at most as long as for a turn. It reports whether the
// comparison may start.
func (h *Hasher) enterHeavy() bool {
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	select {
	case h.heavy <- struct{}{}:
		return true
	case <-timer.C:
		return false
	}
}

// fill waits until the usual time of a native hash has passed since began. If no native hash was measured yet, it
// computes one instead.
func (t *Turn) fill(began time.Time) error {
	if t.hasher.usual.Load() == 0 {
		_, err := t.Hash("")
		return err
	}
	time.Sleep(time.Duration(t.hasher.usual.Load()) - time.Since(began))
	return nil
}

// measure records how long a native hash took, in a moving average where the newest counts for an eighth.
func (h *Hasher) measure(began time.Time) {
	took := int64(time.Since(began))
	if before := h.usual.Load(); before != 0 {
		took = before + (took-before)/8
	}
	h.usual.Store(max(took, 1))
}
