package apikey

import (
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var published = regexp.MustCompile(`^[a-z0-9]+(_[a-z0-9]+)*_[0-9A-Za-z]{50}$`)

func TestMintedKeysParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.StringMatching(`[a-z0-9]{1,5}(_[a-z0-9]{1,4}){0,2}`).Draw(t, "prefix")
		key, err := Mint(rand.Reader, prefix)
		if err != nil {
			t.Fatal(err)
		}
		if !published.MatchString(key.Plain()) {
			t.Fatalf("%s does not match the published form", key)
		}
		parsed, err := Parse(key.Plain())
		if err != nil || parsed != key || parsed.Prefix() != prefix || len(parsed.ID()) != 12 {
			t.Fatalf("Parse: %v, %v", parsed, err)
		}
		if !strings.HasSuffix(key.Plain(), key.Last4()) || !key.Digest().Equal(parsed.Digest()) {
			t.Fatal("last 4 or digest differ")
		}
	})
}

func TestAnyChangedCharacterIsRefused(t *testing.T) {
	key, err := Mint(rand.Reader, "acme_live")
	if err != nil {
		t.Fatal(err)
	}
	plain := key.Plain()
	for i := range plain {
		for _, c := range []byte{'0', 'z', 'A', '_', '-', ' ', 0} {
			if plain[i] == c {
				continue
			}
			if _, err := Parse(plain[:i] + string(c) + plain[i+1:]); err == nil {
				t.Errorf("accepted with character %d changed to %q", i, c)
			}
		}
	}
	for _, bad := range []string{"", "ck", "ck_", "_" + plain, plain + "0", plain[:len(plain)-1], strings.ToUpper(plain), " " + plain, plain + "\n"} {
		if _, err := Parse(bad); err != ErrForm {
			t.Errorf("Parse(%q): %v, want ErrForm", bad, err)
		}
	}
}

func TestOnlyPublicIDsHaveTheirForm(t *testing.T) {
	key, err := Mint(rand.Reader, DefaultPrefix)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		key.ID(): true, "Zk3Qh8sVbN2p": true, "": false, "Zk3Qh8sVbN2": false, "Zk3Qh8sVbN2pp": false, "Zk3Qh8sVbN2\x00": false, "Zk3Qh8sVbN2-": false, "Zk3Qh8sVbNä": false,
	} {
		if got := IsID(text); got != want {
			t.Errorf("IsID(%q) = %t", text, got)
		}
	}
}

func TestMintRefusesBadPrefixes(t *testing.T) {
	for _, bad := range []string{"", "_", "a_", "_a", "a__b", "A", "a-b", "ä", strings.Repeat("a", 21)} {
		if _, err := Mint(rand.Reader, bad); err == nil {
			t.Errorf("Mint accepted prefix %q", bad)
		}
	}
}

func TestKeysNeverPrintThemselves(t *testing.T) {
	key, err := Mint(rand.Reader, "ck")
	if err != nil {
		t.Fatal(err)
	}
	secret := key.Plain()[3+idLength:]
	for _, verb := range []string{"%v", "%s", "%+v", "%#v", "%q"} {
		if out := fmt.Sprintf(verb, key); strings.Contains(out, secret) {
			t.Errorf("%s prints the secret: %s", verb, out)
		}
	}
}

func TestDigestText(t *testing.T) {
	key, _ := Mint(rand.Reader, "ck")
	text, _ := key.Digest().MarshalText()
	var back Digest
	if err := back.UnmarshalText(text); err != nil || !back.Equal(key.Digest()) {
		t.Fatalf("round trip: %v", err)
	}
	for _, bad := range []string{"", "zz", strings.Repeat("z", 64), string(text) + "00"} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("accepted %q", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	key, _ := Mint(rand.Reader, "ck")
	f.Add(key.Plain())
	f.Add("ck_0")
	f.Fuzz(func(t *testing.T, s string) {
		if key, err := Parse(s); err == nil && (key.Plain() != s || !published.MatchString(s)) {
			t.Fatalf("accepted %q", s)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	key, _ := Mint(rand.Reader, "ck")
	for b.Loop() {
		if _, err := Parse(key.Plain()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestForeignKeysHaveBoundsAndShowNothing(t *testing.T) {
	for _, good := range []string{"x", "sk_live_51H.abc/def+ghi==", strings.Repeat("k", 512)} {
		key, err := Foreign(good)
		if err != nil || key.Plain() != good || !key.IsForeign() || key.ID() != "" || key.Prefix() != "" {
			t.Errorf("%d characters: %v, %v", len(good), key, err)
		}
		if shown := fmt.Sprintf("%s %v %#v", key, key, key); strings.Contains(shown, good) && good != "x" {
			t.Errorf("the text of a foreign key is printed: %s", shown)
		}
	}
	for _, bad := range []string{"", "two words", "line\nbreak", "käse", strings.Repeat("k", 513), "nul\x00"} {
		if _, err := Foreign(bad); !errors.Is(err, ErrForm) {
			t.Errorf("%q is a key: %v", bad, err)
		}
	}
	own, err := Mint(rand.Reader, "ck")
	if err != nil {
		t.Fatal(err)
	}
	if read, err := Read(own.Plain()); err != nil || read.IsForeign() || read.ID() != own.ID() {
		t.Errorf("a key of our form is read as %v, %v", read, err)
	}
}
