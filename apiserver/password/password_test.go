package password

import (
	"context"
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestAHashIsInPHCFormAndVerifies(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	first, err := h.Hash(t.Context(), "", "correct horse battery staple", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Hash(t.Context(), "", "correct horse battery staple", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(first, "$")
	if len(parts) != 6 || strings.Join(parts[:4], "$") != "$argon2id$v=19$m=19456,t=2,p=1" || len(parts[4]) != 22 || len(parts[5]) != 43 {
		t.Errorf("%q", first)
	}
	if first == second {
		t.Error("two hashes share a salt")
	}
	for password, want := range map[string]bool{"correct horse battery staple": true, "correct horse battery stapl": false, "": false, "Correct horse battery staple": false} {
		if got, err := h.Verify(t.Context(), "", password, first); err != nil || got != want {
			t.Errorf("%q: %t, %v", password, got, err)
		}
	}
	broken := errors.New("no randomness")
	if hash, err := h.Hash(t.Context(), "", "p", iotest.ErrReader(broken)); !errors.Is(err, broken) || hash != "" {
		t.Errorf("%q, %v", hash, err)
	}
}

func TestHashesOfOthersAreVerifiedByTheirOwnCost(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	// Test vectors of the reference implementation of Argon2.
	for _, vector := range []string{
		"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
	} {
		for password, want := range map[string]bool{"password": true, "passwore": false} {
			if got, err := h.Verify(t.Context(), "", password, vector); err != nil || got != want {
				t.Errorf("%s, %q: %t, %v", vector, password, got, err)
			}
		}
	}
}

func TestWrongFormsAreErrors(t *testing.T) {
	t.Parallel()
	const salt, hash = "c29tZXNhbHQ", "nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	for name, encoded := range map[string]string{
		"text":                          "password",
		"bcrypt":                        "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy",
		"another variant":               "$argon2i$v=19$m=256,t=2,p=1$" + salt + "$" + hash,
		"another version":               "$argon2id$v=16$m=256,t=2,p=1$" + salt + "$" + hash,
		"no version":                    "$argon2id$m=256,t=2,p=1$" + salt + "$" + hash,
		"a prefix":                      "x$argon2id$v=19$m=256,t=2,p=1$" + salt,
		"a member more":                 "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + hash + "$",
		"a parameter missing":           "$argon2id$v=19$m=256,t=2$" + salt + "$" + hash,
		"a parameter more":              "$argon2id$v=19$m=256,t=2,p=1,keyid=x$" + salt + "$" + hash,
		"parameters out of line":        "$argon2id$v=19$t=2,m=256,p=1$" + salt + "$" + hash,
		"a parameter that is no number": "$argon2id$v=19$m=256,t=two,p=1$" + salt + "$" + hash,
		"a negative parameter":          "$argon2id$v=19$m=-256,t=2,p=1$" + salt + "$" + hash,
		"a number too large":            "$argon2id$v=19$m=256,t=2,p=256$" + salt + "$" + hash,
		"no passes":                     "$argon2id$v=19$m=256,t=0,p=1$" + salt + "$" + hash,
		"no lanes":                      "$argon2id$v=19$m=256,t=2,p=0$" + salt + "$" + hash,
		"a salt that is none":           "$argon2id$v=19$m=256,t=2,p=1$c29tZ!$" + hash,
		"a padded hash":                 "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + hash + "=",
		"bits beyond the hash":          "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + hash[:42] + "5",
		"an empty hash":                 "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ok, err := NewHasher().Verify(t.Context(), "", "password", encoded)
			if ok || err == nil || strings.Contains(err.Error(), hash) {
				t.Errorf("%t, %v", ok, err)
			}
		})
	}
}

// What takes no account takes the same work: the dummy has the cost of every new hash, and waits for its turn like one.
func TestAnUnknownAccountIsAsMuchWorkAsAKnownOne(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	p, err := decode(h.dummy)
	if err != nil || p.memory != memoryKiB || p.passes != passes || p.lanes != lanes || len(p.salt) != saltBytes || len(p.hash) != hashBytes {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, password := range []string{"", "anything"} {
		if ok, err := h.Verify(t.Context(), "", password, ""); ok || err != nil {
			t.Errorf("%q: %t, %v", password, ok, err)
		}
	}
	h.wait = time.Millisecond
	hold(t, h)
	if _, err := h.Verify(t.Context(), "", "anything", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("%v: no turn was asked for", err)
	}
}

// hold takes every turn.
func hold(t *testing.T, h *Hasher) {
	t.Helper()
	for range runtime.GOMAXPROCS(0) {
		if err := h.take(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAHashWaitsForItsTurnAndNotForever(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	if h.wait != 2*time.Second {
		t.Errorf("a hash waits %s", h.wait)
	}
	h.wait = 20 * time.Millisecond
	hold(t, h)
	begin := time.Now()
	if _, err := h.Hash(t.Context(), "", "p", rand.Reader); !errors.Is(err, ErrBusy) {
		t.Errorf("Hash: %v", err)
	}
	if took := time.Since(begin); took < h.wait {
		t.Errorf("gave up after %s", took)
	}

	h.wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := h.Verify(ctx, "", "p", "")
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Verify: %v", err)
	}

	go func() {
		_, err := h.Verify(context.WithoutCancel(ctx), "", "p", "")
		ended <- err
	}()
	h.leave("")
	if err := <-ended; err != nil {
		t.Errorf("it got a turn: %v", err)
	}
	// The turn was given back.
	if err := h.take(t.Context(), ""); err != nil {
		t.Error(err)
	}
}

func TestDelay(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]time.Duration{
		-1: 0, 0: 0, 1: 0, 10: 0, 11: time.Second, 12: 2 * time.Second, 13: 4 * time.Second, 14: 8 * time.Second, 15: 16 * time.Second, 19: 256 * time.Second,
		20: 512 * time.Second, 21: 900 * time.Second, 22: 900 * time.Second, 31: 900 * time.Second, 100: 900 * time.Second, 1 << 40: 900 * time.Second,
	} {
		if got := Delay(failures); got != want {
			t.Errorf("Delay(%d) = %s, want %s", failures, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		password string
		min      int
		own      []string
		want     string
	}{
		"a passphrase":                    {"correct horse battery staple", 15, nil, ""},
		"as long as it must be":           {"kxq vhb wzn pfm", 15, nil, ""},
		"a character less":                {"kxq vhb wzn pf", 15, nil, "14 characters"},
		"empty":                           {"", 15, nil, "0 characters"},
		"characters, not bytes":           {"äöüéàèñçßøåæœþ", 15, nil, "14 characters"},
		"as long as it may be":            {strings.Repeat("ab cd-ef", 15) + "12345678", 15, nil, ""},
		"a character more":                {strings.Repeat("ab cd-ef", 15) + "123456789", 15, nil, "129 characters"},
		"the longest, of several bytes":   {strings.Repeat("äöüéà日", 21) + "ab", 15, nil, ""},
		"not UTF-8":                       {"kxq vhb wzn pfm\xff", 15, nil, "not valid UTF-8"},
		"one of the most used":            {"password1", 8, nil, "most used"},
		"in any case":                     {"PassWord1", 8, nil, "most used"},
		"again and again":                 {"password1password1", 15, nil, "most used"},
		"again and again, in any case":    {"Password1pASSWORD1", 15, nil, "most used"},
		"one character":                   {"zzzzzzzzzzzzzzzz", 15, nil, "most used"},
		"one that is of several bytes":    {strings.Repeat("é", 16), 15, nil, "most used"},
		"two":                             {"zqzqzqzqzqzqzqzq", 15, nil, "most used"},
		"three":                           {"zqxzqxzqxzqxzqxzqx", 15, nil, "most used"},
		"four":                            {"zqxjzqxjzqxjzqxj", 15, nil, "most used"},
		"five are no pattern":             {"zqxjvzqxjvzqxjv", 15, nil, ""},
		"a pattern that breaks off":       {"zqxjzqxjzqxjzqxjz", 15, nil, ""},
		"the own address":                 {"somebody@acme.example", 15, []string{"somebody@acme.example", "Some", "Body"}, "your own"},
		"in any case, with blanks around": {" Somebody@ACME.example ", 15, []string{"somebody@acme.example"}, "your own"},
		"the own name":                    {"Bartholomew-Maximilian", 15, []string{"b@acme.example", "bartholomew-maximilian", ""}, "your own"},
		"more than the own name":          {"bartholomew-maximilian 7", 15, []string{"b@acme.example", "bartholomew-maximilian"}, ""},
		"nothing is known of the owner":   {"kxq vhb wzn pfm", 15, []string{"", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Judge(tc.password, tc.min, tc.own...)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			case err != nil && tc.password != "" && strings.Contains(err.Error(), tc.password):
				t.Errorf("the password is told: %v", err)
			}
		})
	}
}

func TestNoPasswordIsRefusedForItsComposition(t *testing.T) {
	t.Parallel()
	const minLength = 15
	kinds := []*rapid.Generator[string]{
		rapid.StringMatching(`[a-z]{15,128}`), rapid.StringMatching(`[A-Z]{15,128}`), rapid.StringMatching(`[0-9]{15,128}`), rapid.StringMatching(`[ !-/]{15,128}`),
		rapid.StringN(minLength, MaxLength, -1), rapid.StringMatching(`[äöüß日本語]{15,128}`),
	}
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.OneOf(kinds...).Filter(func(p string) bool {
			folded := strings.ToLower(p)
			return utf8.ValidString(p) && !common()[folded] && !repeats(folded)
		}).Draw(t, "password")
		if err := Judge(password, minLength, "somebody@acme.example", "Some", "Body"); err != nil {
			t.Fatalf("%q: %v", password, err)
		}
	})
}

func TestOneClientDoesNotTakeEverybodysTurns(t *testing.T) {
	t.Parallel()
	h := NewHasher()
	for range maxPerClient {
		if !h.enter("greedy") {
			t.Fatal("refused below the bound")
		}
	}
	if _, err := h.Hash(t.Context(), "greedy", "p", rand.Reader); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of the greedy client: %v", err)
	}
	if _, err := h.Hash(t.Context(), "modest", "p", rand.Reader); err != nil {
		t.Errorf("another client: %v", err)
	}
	for range maxPerClient {
		h.exit("greedy")
	}
	if _, err := h.Hash(t.Context(), "greedy", "p", rand.Reader); err != nil || len(h.clients) != 0 {
		t.Errorf("afterwards: %v, %d clients are remembered", err, len(h.clients))
	}
}
