package password

import (
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/password/foreign"
)

const (
	// heavyMemory is from how many bytes on a comparison takes much memory, and maxHeavy how many of these there are at once: at most
	// 512 MiB, on however many cores.
	heavyMemory = 32 << 20
	maxHeavy    = 4
)

// CheckImported returns an error for what is no hash that can be verified here. It does not tell parts of it.
func CheckImported(encoded string) error {
	_, err := foreign.Parse(encoded)
	return err
}

// Outdated reports whether a hash is not what Hash makes now: it is to be replaced at the first success.
func (t *Turn) Outdated(encoded string) bool {
	return !strings.HasPrefix(encoded, t.hasher.cost.head()) || checkForm(encoded) != nil
}

// verifyForeign compares a password with a hash of another system. A cheap one is not answered sooner than one of ours: the time would
// tell that there is an account, and that it was imported.
func (t *Turn) verifyForeign(password, encoded string) (bool, error) {
	h, err := foreign.Parse(encoded)
	if err != nil {
		return false, errForm
	}
	if h.Memory > heavyMemory+foreign.Beside {
		if !t.hasher.enterHeavy() {
			return false, ErrBusy
		}
		defer func() { <-t.hasher.heavy }()
	}
	began := time.Now()
	right := h.Matches(password)
	return right, t.fill(began)
}

// enterHeavy waits for room for a comparison that takes much memory, as long as for a turn, and reports whether there was some.
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

// fill waits until as much time went by as one of ours takes. Before there was any, it makes one.
func (t *Turn) fill(began time.Time) error {
	if t.hasher.usual.Load() == 0 {
		_, err := t.Hash("")
		return err
	}
	time.Sleep(time.Duration(t.hasher.usual.Load()) - time.Since(began))
	return nil
}

// measure notes how long one of ours took: the newest counts for an eighth.
func (h *Hasher) measure(began time.Time) {
	took := int64(time.Since(began))
	if before := h.usual.Load(); before != 0 {
		took = before + (took-before)/8
	}
	h.usual.Store(max(took, 1))
}
