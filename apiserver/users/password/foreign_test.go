package password

import (
	"errors"
	"strings"
	"testing"
	"time"
)

const (
	light     = "$pbkdf2-sha256$i=1$c2FsdA$EgtjRcn4EG9OPXTNfgBsI1Y0FpMVLkM8ukE2rIFBxvk"
	oldScrypt = "$scrypt$ln=15,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	heavyHash = "$scrypt$ln=16,r=8,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

func TestForeignHashVerifiesAndIsOutdated(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	turn, err := h.Acquire(t.Context(), Client{})
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Release()
	const bcrypt = "$2b$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"
	for password, want := range map[string]bool{"U*U": true, "U*V": false} {
		if right, err := turn.Verify(password, bcrypt); err != nil || right != want {
			t.Errorf("%s: %t, %v", password, right, err)
		}
	}
	ours, err := turn.Hash("U*U")
	if err != nil {
		t.Fatal(err)
	}
	for encoded, want := range map[string]bool{bcrypt: true, ours: false, strings.Replace(ours, "t=2", "t=3", 1): true, oldScrypt: true} {
		if turn.Outdated(encoded) != want {
			t.Errorf("%.20s: outdated %t, want %t", encoded, !want, want)
		}
	}
	// Other systems pad the base64 of a hash that otherwise has the native form.
	parts := strings.Split(ours, "$")
	padded := strings.Join(parts[:4], "$") + "$" + parts[4] + "==$" + parts[5] + "="
	if right, err := turn.Verify("U*U", padded); CheckImported(padded) != nil || !right || err != nil || !turn.Outdated(padded) {
		t.Errorf("a padded hash at our own cost: %t, %v, outdated %t", right, err, turn.Outdated(padded))
	}
	if CheckImported(bcrypt) != nil || CheckImported("$1$a$b") == nil {
		t.Error("CheckImported and Verify accept different hashes")
	}
}

// The time of a response must not distinguish a cheap foreign hash from a native one: the cheap hash takes at least as
// long as an unknown account, for which a native hash is compared.
func TestVerifyCheapForeignHashTakesAsLongAsUnknownAccount(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	turn, err := h.Acquire(t.Context(), Client{})
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Release()
	quickest := func(encoded string) time.Duration {
		least := time.Hour
		for range 5 {
			began := time.Now()
			if _, err := turn.Verify("wrong", encoded); err != nil {
				t.Fatal(err)
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	unknown := quickest("")
	h.usual.Store(int64(unknown)) // otherwise the load of the machine could change the usual time
	if cheap := quickest(light); cheap < unknown {
		t.Errorf("a cheap hash took %s, an unknown account %s", cheap, unknown)
	}
}

func TestMemoryOfForeignHashesIsBounded(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	h.wait = 10 * time.Millisecond
	for range maxHeavy {
		if !h.enterHeavy() {
			t.Fatal("a heavy comparison was refused below the bound")
		}
	}
	turn, err := h.Acquire(t.Context(), Client{})
	if err != nil {
		t.Fatal(err)
	}
	defer turn.Release()
	if _, err := turn.Verify("x", heavyHash); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	if _, err := turn.Verify("x", oldScrypt); err != nil {
		t.Errorf("a light comparison waits: %v", err)
	}
	<-h.heavy
	if _, err := turn.Verify("x", heavyHash); err != nil {
		t.Errorf("below the bound again: %v", err)
	}
	if len(h.heavy) != maxHeavy-1 {
		t.Errorf("%d places are taken, want %d", len(h.heavy), maxHeavy-1)
	}
}
