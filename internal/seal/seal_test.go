package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ring(t *testing.T, fills ...byte) *Keyring {
	t.Helper()
	var files []string
	for i, fill := range fills {
		file := filepath.Join(t.TempDir(), "key")
		raw := bytes.Repeat([]byte{fill}, keySize)
		if i%2 == 1 {
			raw = []byte(base64.StdEncoding.EncodeToString(raw) + "\n")
		}
		if err := os.WriteFile(file, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	r, err := Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestOnlyTheSameObjectAndKeyOpen(t *testing.T) {
	old, rotated, other := ring(t, 1), ring(t, 2, 1), ring(t, 3)
	rapid.Check(t, func(t *rapid.T) {
		kind, id, text := rapid.String().Draw(t, "kind"), rapid.String().Draw(t, "id"), rapid.SliceOf(rapid.Byte()).Draw(t, "text")
		sealed := old.Seal(kind, id, text)
		if sealed != old.Seal(kind, id, text) {
			t.Fatal("sealing again differs")
		}
		for _, r := range []*Keyring{old, rotated} {
			if got, err := r.Open(kind, id, sealed); err != nil || !bytes.Equal(got, text) {
				t.Fatalf("open: %v", err)
			}
		}
		if _, err := other.Open(kind, id, sealed); !errors.Is(err, ErrOpen) {
			t.Fatal("another root key opens")
		}
		if _, err := old.Open(kind+"x", id, sealed); !errors.Is(err, ErrOpen) {
			t.Fatal("opens for another object")
		}
		if _, err := old.Open(kind, "x"+id, sealed); !errors.Is(err, ErrOpen) {
			t.Fatal("opens for another id")
		}
		if rotated.Seal(kind, id, text) == sealed {
			t.Fatal("the new key does not seal")
		}
		changed := []byte(sealed)
		at := rapid.IntRange(len(sealed)-10, len(sealed)-2).Draw(t, "at")
		changed[at] ^= 1
		if _, err := old.Open(kind, id, string(changed)); err == nil {
			t.Fatal("a changed text opens")
		}
	})
}

func TestBadKeysAndTexts(t *testing.T) {
	file := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(file, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][]string{{file}, {file + "-missing"}} {
		if _, err := Load(files); err == nil {
			t.Errorf("loaded %v", files)
		}
	}
	var none *Keyring
	for _, text := range []string{"", "v1", "v1.00000000.", "v2.00000000.AAAA", "v1.00000000.%%"} {
		if _, err := ring(t, 1).Open("k", "i", text); !errors.Is(err, ErrOpen) {
			t.Errorf("opened %q", text)
		}
		if _, err := none.Open("k", "i", text); !errors.Is(err, ErrOpen) || !none.Empty() {
			t.Errorf("an empty ring opened %q", text)
		}
	}
}

func TestSubkeys(t *testing.T) {
	old, rotated := ring(t, 1), ring(t, 2, 1)
	first, both := old.Subkeys("codes"), rotated.Subkeys("codes")
	if len(first) != 1 || len(both) != 2 || !reflect.DeepEqual(both[1], first[0]) || !reflect.DeepEqual(both, rotated.Subkeys("codes")) {
		t.Fatalf("%v, %v", first, both)
	}
	if !strings.Contains(old.Seal("k", "i", nil), "."+first[0].ID+".") {
		t.Error("a subkey does not name its root key as a sealed text does")
	}
	seen := map[string]bool{}
	for _, key := range slices.Concat(both, rotated.Subkeys("messages"), rotated.Subkeys("")) {
		if len(key.Key) != 32 || len(key.ID) != 8 || seen[string(key.Key)] || bytes.Equal(key.Key, bytes.Repeat([]byte{1}, keySize)) {
			t.Errorf("id %q, %d bytes, seen %v", key.ID, len(key.Key), seen[string(key.Key)])
		}
		seen[string(key.Key)] = true
	}
	// Frozen: stores hold values that were made with the derived keys.
	if got := hex.EncodeToString(first[0].Key); got != "c63ddb9012a0f9e0349ad2caa8787fd82ad02370b478187b4192239b71fea6f2" {
		t.Errorf("the key has changed: %s", got)
	}
	var none *Keyring
	if none.Subkeys("codes") != nil {
		t.Error("an empty ring has subkeys")
	}
}

func TestTheOlderFormIsSealedForServersOfThePreviousRelease(t *testing.T) {
	old, rotated := ring(t, 1), ring(t, 2, 1)
	one, other := old.SealOlder("kind", "id", []byte("text")), old.SealOlder("kind", "id", []byte("text"))
	if one == other || !strings.HasPrefix(one, "v1."+old.IDs()[0]+".") {
		t.Errorf("%s and %s", one, other)
	}
	for _, r := range []*Keyring{old, rotated} {
		if text, err := r.Open("kind", "id", one); err != nil || string(text) != "text" {
			t.Errorf("opened %q: %v", text, err)
		}
	}
	if _, err := old.Open("kind", "other", one); !errors.Is(err, ErrOpen) {
		t.Errorf("opened for another object: %v", err)
	}
}

// Values that an earlier release sealed can be opened. Sealing them again gives a different text, so their owner writes
// them again.
func TestTheOlderFormIsOpenedAndSealedAnew(t *testing.T) {
	const older = "v1.ed2e2892.GZUiLkoOZCQxUjov5LGzezkNOfqSUXAOjWrSQ6oem1PgI8w6Z0zijqlDQMnlytk3Xgc"
	r := ring(t, 1)
	text, err := r.Open("kind", "id", older)
	if err != nil || string(text) != "what was sealed before" {
		t.Fatalf("opened %q, %v", text, err)
	}
	if _, err := r.Open("kind", "other", older); !errors.Is(err, ErrOpen) {
		t.Errorf("opened for another object: %v", err)
	}
	anew := r.Seal("kind", "id", text)
	if anew == older || !strings.HasPrefix(anew, "v2.ed2e2892.") {
		t.Errorf("sealed anew as %s", anew)
	}
	if again, err := r.Open("kind", "id", anew); err != nil || !bytes.Equal(again, text) {
		t.Errorf("opened %q, %v", again, err)
	}
}

func TestSealedTextNamesItsKey(t *testing.T) {
	old, rotated := ring(t, 1), ring(t, 2, 1)
	before, after := old.Seal("kind", "id", []byte("text")), rotated.Seal("kind", "id", []byte("text"))
	if ids := rotated.IDs(); len(ids) != 2 || ids[1] != old.IDs()[0] || (*Keyring)(nil).IDs() != nil {
		t.Fatalf("ids %v", ids)
	}
	for sealed, want := range map[string]string{
		before: old.IDs()[0], after: rotated.IDs()[0], "v1.ed2e2892.GZUi": "ed2e2892",
		"": "", "v2.ed2e2892": "", "v2.ED2E2892.GZUi": "", "v2.ed2e28921.GZUi": "", "v2.ed2e289.GZUi": "", "v2.{password.GZUi": "", "a.b.c.d": "",
	} {
		if key, valid := KeyOf(sealed); key != want || valid != (want != "") {
			t.Errorf("%q: key %q, valid %v", sealed, key, valid)
		}
	}
	older := "v1" + strings.TrimPrefix(after, versionSIV)
	if !rotated.Current(after) || rotated.Current(before) || rotated.Current(older) || !old.Current(before) || (&Keyring{}).Current(before) {
		t.Error("Current does not report whether Seal would seal in this form")
	}
}

// Another spelling of the same bytes is another text. The decoder of base64 ignores line breaks and spare bits.
func TestOnlyTheTextThatWasSealedOpens(t *testing.T) {
	r := ring(t, 1)
	for size := range 3 {
		sealed := r.Seal("kind", "id", bytes.Repeat([]byte{1}, size))
		for at := range sealed {
			for _, char := range "AQgw_-\n\r=. " {
				if altered := sealed[:at] + string(char) + sealed[at+1:]; altered != sealed {
					if _, err := r.Open("kind", "id", altered); !errors.Is(err, ErrOpen) {
						t.Errorf("%q opens, sealed %q", altered, sealed)
					}
				}
				if _, err := r.Open("kind", "id", sealed[:at]+string(char)+sealed[at:]); !errors.Is(err, ErrOpen) {
					t.Errorf("%q with %q before character %d opens", sealed, char, at)
				}
			}
		}
	}
}
