package pages

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/cardea-iam/cardea/internal/seal"
)

// ring returns a keyring of root keys, the current one first.
func ring(t *testing.T, roots ...byte) *seal.Keyring {
	t.Helper()
	var files []string
	for _, root := range roots {
		file := filepath.Join(t.TempDir(), "root.key")
		if err := os.WriteFile(file, bytes.Repeat([]byte{root}, 32), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	keyring, err := seal.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return keyring
}

func newTestKeys(t *testing.T, roots ...byte) *keys {
	t.Helper()
	keyring := &seal.Keyring{}
	if len(roots) > 0 {
		keyring = ring(t, roots...)
	}
	k, err := newKeys(keyring, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Servers with the same root key accept each other's tokens and cookies, also while the root key is rotated. Without a
// root key, tokens and cookies become invalid when the process ends.
func TestKeys(t *testing.T) {
	before, rotated, after, elsewhere, without := newTestKeys(t, 1), newTestKeys(t, 2, 1), newTestKeys(t, 2), newTestKeys(t, 3), newTestKeys(t)
	token, sealed := before.token("acme/prod", "n", "7"), before.seal("acme/prod", []byte("text"))
	for name, tc := range map[string]struct {
		keys *keys
		want bool
	}{"its own": {before, true}, "a rotated ring": {rotated, true}, "a ring without the key": {after, false}, "another ring": {elsewhere, false}, "none": {without, false}} {
		if got := tc.keys.accepts(token, "acme/prod", "n", "7"); got != tc.want {
			t.Errorf("%s: a token is accepted: %v", name, got)
		}
		if text, err := tc.keys.open("acme/prod", sealed); (err == nil) != tc.want || tc.want && string(text) != "text" {
			t.Errorf("%s: a cookie is opened: %s, %v", name, text, err)
		}
	}
	if other := newTestKeys(t); other.accepts(without.token("d", "n", ""), "d", "n", "") || !without.accepts(without.token("d", "n", ""), "d", "n", "") {
		t.Error("each process without a root key must have its own random keys")
	}
}

func TestFormTokensAreBoundToTheirPurpose(t *testing.T) {
	k := newTestKeys(t, 1)
	token := k.token("acme/prod", "nonce", "7")
	for name, accepted := range map[string]bool{
		"another deployment": k.accepts(token, "acme/test", "nonce", "7"),
		"another browser":    k.accepts(token, "acme/prod", "other", "7"),
		"another user":       k.accepts(token, "acme/prod", "nonce", "8"),
		"no user":            k.accepts(token, "acme/prod", "nonce", ""),
		"no browser":         k.accepts(k.token("acme/prod", "", "7"), "acme/prod", "", "7"),
		"a cut token":        k.accepts(token[:20], "acme/prod", "nonce", "7"),
		"no token":           k.accepts("", "acme/prod", "nonce", "7"),
	} {
		if accepted {
			t.Errorf("%s is accepted", name)
		}
	}
	sealed := k.seal("acme/prod", []byte("text"))
	if _, err := k.open("acme/test", sealed); err == nil {
		t.Error("a cookie of another deployment is opened")
	}
	if _, err := k.open("acme/prod", sealed[:len(sealed)-4]+"AAAA"); err == nil {
		t.Error("a changed cookie is opened")
	}
}

func TestCooldownsAreShown(t *testing.T) {
	for _, tc := range []struct {
		sends int
		since int64
		want  int
	}{{0, 0, 0}, {1, 0, 30}, {1, 29, 1}, {1, 30, 0}, {2, 0, 60}, {3, 0, 120}, {9, 100, 20}, {9, 500, 0}} {
		if got := waitFor(tc.sends, tc.since); got != tc.want {
			t.Errorf("%d sends, the last %d s ago: %d s, want %d", tc.sends, tc.since, got, tc.want)
		}
	}
}
