package password

import (
	"context"
	"errors"
	"fmt"
	"github.com/alexedwards/argon2id"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestHashIsInPHCFormAndVerifies(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	first, err := h.Hash(t.Context(), Client{}, "correct horse battery staple")
	if err != nil {
		t.Fatal(err)
	}
	second, err := h.Hash(t.Context(), Client{}, "correct horse battery staple")
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
		if got, err := verify(t.Context(), h, password, first); err != nil || got != want {
			t.Errorf("%q: %t, %v", password, got, err)
		}
	}
}

// verify is Turn.Verify, including Acquire and Release.
func verify(ctx context.Context, h *Hasher, password, encoded string) (bool, error) {
	turn, err := h.Acquire(ctx, Client{})
	if err != nil {
		return false, err
	}
	defer turn.Release()
	return turn.Verify(password, encoded)
}

func TestVerifyUsesTheCostOfTheHash(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	// Test vectors of the reference implementation of Argon2.
	for _, vector := range []string{
		"$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4",
		"$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc",
	} {
		for password, want := range map[string]bool{"password": true, "passwore": false} {
			if got, err := verify(t.Context(), h, password, vector); err != nil || got != want {
				t.Errorf("%s, %q: %t, %v", vector, password, got, err)
			}
		}
	}
}

func TestVerifyRefusesMalformedHashes(t *testing.T) {
	t.Parallel()
	const salt, hash = "c29tZXNhbHQ", "nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4"
	for name, encoded := range map[string]string{
		"text":                             "password",
		"another variant":                  "$argon2i$v=19$m=256,t=2,p=1$" + salt + "$" + hash,
		"another version":                  "$argon2id$v=16$m=256,t=2,p=1$" + salt + "$" + hash,
		"no version":                       "$argon2id$m=256,t=2,p=1$" + salt + "$" + hash,
		"a prefix":                         "x$argon2id$v=19$m=256,t=2,p=1$" + salt,
		"an additional member":             "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + hash + "$",
		"a parameter missing":              "$argon2id$v=19$m=256,t=2$" + salt + "$" + hash,
		"an additional parameter":          "$argon2id$v=19$m=256,t=2,p=1,keyid=x$" + salt + "$" + hash,
		"parameters out of line":           "$argon2id$v=19$t=2,m=256,p=1$" + salt + "$" + hash,
		"a parameter that is not a number": "$argon2id$v=19$m=256,t=two,p=1$" + salt + "$" + hash,
		"a negative parameter":             "$argon2id$v=19$m=-256,t=2,p=1$" + salt + "$" + hash,
		"a number too large":               "$argon2id$v=19$m=256,t=2,p=256$" + salt + "$" + hash,
		"no passes":                        "$argon2id$v=19$m=256,t=0,p=1$" + salt + "$" + hash,
		"no lanes":                         "$argon2id$v=19$m=256,t=2,p=0$" + salt + "$" + hash,
		"an invalid salt":                  "$argon2id$v=19$m=256,t=2,p=1$c29tZ!$" + hash,
		"bits beyond the hash":             "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$" + hash[:42] + "5",
		"an empty hash":                    "$argon2id$v=19$m=256,t=2,p=1$" + salt + "$",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ok, err := verify(t.Context(), NewHasher(DefaultCost), "password", encoded)
			if ok || err == nil || strings.Contains(err.Error(), hash) {
				t.Errorf("%t, %v", ok, err)
			}
		})
	}
}

// An unknown account costs the same work: the dummy has the cost of every new hash, and needs a turn too.
func TestVerifyUnknownAccountCostsTheSameWork(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	p, salt, key, err := argon2id.DecodeHash(DefaultCost.dummy())
	if err != nil || *p != *DefaultCost.params() || len(salt) != 16 || len(key) != 32 {
		t.Fatalf("%+v, %v", p, err)
	}
	for _, password := range []string{"", "anything"} {
		if ok, err := verify(t.Context(), h, password, ""); ok || err != nil {
			t.Errorf("%q: %t, %v", password, ok, err)
		}
	}
	h.wait = time.Millisecond
	hold(t, h)
	if _, err := verify(t.Context(), h, "anything", ""); !errors.Is(err, ErrBusy) {
		t.Errorf("%v: no turn was requested", err)
	}
}

// hold acquires every turn.
func hold(t *testing.T, h *Hasher) (turns []*Turn) {
	t.Helper()
	for range runtime.GOMAXPROCS(0) {
		turn, err := h.Acquire(t.Context(), Client{Network: "holder", WideNetwork: "holder"})
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, turn)
	}
	return turns
}

func TestAcquireWaitsWithBound(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	if h.wait != 2*time.Second {
		t.Errorf("a hash waits %s", h.wait)
	}
	h.wait = 20 * time.Millisecond
	held := hold(t, h)
	begin := time.Now()
	if _, err := h.Hash(t.Context(), Client{}, "p"); !errors.Is(err, ErrBusy) {
		t.Errorf("Hash: %v", err)
	}
	if took := time.Since(begin); took < h.wait {
		t.Errorf("the wait ended after %s, too early", took)
	}

	h.wait = time.Hour
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := verify(ctx, h, "p", "")
		ended <- err
	}()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Verify: %v", err)
	}

	go func() {
		_, err := verify(context.WithoutCancel(ctx), h, "p", "")
		ended <- err
	}()
	held[0].Release()
	held[0].Release() // a second release does nothing
	if err := <-ended; err != nil {
		t.Errorf("no turn after a release: %v", err)
	}
	for _, turn := range held[1:] {
		turn.Release()
	}
	if h.free != runtime.GOMAXPROCS(0) || len(h.ring) != 0 || len(h.parties) != 0 {
		t.Errorf("%d turns are free, %d deployments wait, %d parties are remembered", h.free, len(h.ring), len(h.parties))
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

func TestValidate(t *testing.T) {
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
		"a repetition":                    {"password1password1", 15, nil, "most used"},
		"a repetition, in any case":       {"Password1pASSWORD1", 15, nil, "most used"},
		"one character":                   {"zzzzzzzzzzzzzzzz", 15, nil, "most used"},
		"one character of several bytes":  {strings.Repeat("é", 16), 15, nil, "most used"},
		"two":                             {"zqzqzqzqzqzqzqzq", 15, nil, "most used"},
		"three":                           {"zqxzqxzqxzqxzqxzqx", 15, nil, "most used"},
		"four":                            {"zqxjzqxjzqxjzqxj", 15, nil, "most used"},
		"five are not a pattern":          {"zqxjvzqxjvzqxjv", 15, nil, ""},
		"a pattern that breaks off":       {"zqxjzqxjzqxjzqxjz", 15, nil, ""},
		"the user's address":              {"somebody@acme.example", 15, []string{"somebody@acme.example", "Some", "Body"}, "your own"},
		"in any case, with blanks around": {" Somebody@ACME.example ", 15, []string{"somebody@acme.example"}, "your own"},
		"the user's name":                 {"Bartholomew-Maximilian", 15, []string{"b@acme.example", "bartholomew-maximilian", ""}, "your own"},
		"more than the user's name":       {"bartholomew-maximilian 7", 15, []string{"b@acme.example", "bartholomew-maximilian"}, ""},
		"nothing is known of the owner":   {"kxq vhb wzn pfm", 15, []string{"", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := Validate(tc.password, tc.min, tc.own...)
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want %q", err, tc.want)
			case err != nil && tc.password != "" && strings.Contains(err.Error(), tc.password):
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

func TestValidateHasNoCompositionRules(t *testing.T) {
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
		if err := Validate(password, minLength, "somebody@acme.example", "Some", "Body"); err != nil {
			t.Fatalf("%q: %v", password, err)
		}
	})
}

func TestEnterBoundsTurnsPerClient(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	greedy := Client{Network: "greedy", WideNetwork: "around"}
	for range maxPerClient {
		if _, err := h.enter(greedy); err != nil {
			t.Fatal("refused below the bound")
		}
	}
	if _, err := h.enter(greedy); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of the greedy client: %v", err)
	}
	if _, err := h.enter(Client{Network: "modest", WideNetwork: "around"}); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// A client that uses many addresses of one wide network only delays itself; other networks get every other turn.
func TestTurnsAreSharedByNetworkThenByClient(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	held := hold(t, h)
	enter := func(network, wide string) *Turn {
		turn, err := h.enter(Client{Network: network, WideNetwork: wide})
		if err != nil {
			t.Fatal(err)
		}
		return turn
	}
	queued := map[string]*Turn{}
	for n := range 20 {
		for try := range 3 {
			queued[fmt.Sprintf("attacker %d.%d", n, try)] = enter(fmt.Sprint("2001:db8:0:", n, "::/64"), "2001:db8::/48")
		}
	}
	queued["honest 1"] = enter("192.0.2.1", "192.0.2.0/24")
	queued["honest 2"] = enter("192.0.2.1", "192.0.2.0/24")
	var served []string
	next := held
	for len(queued) > 0 {
		next[0].Release()
		next = next[1:]
		for name, turn := range queued {
			select {
			case <-turn.granted:
				served, next = append(served, name), append(next, turn)
				delete(queued, name)
			default:
			}
		}
	}
	want := []string{"attacker 0.0", "honest 1", "attacker 1.0", "honest 2", "attacker 2.0"}
	if !slices.Equal(served[:len(want)], want) {
		t.Errorf("served %q, want %q", served[:len(want)], want)
	}
	// Within the wide network, every client gets one turn before any gets a second.
	if at := slices.Index(served, "attacker 0.1"); at != 22 {
		t.Errorf("a second turn of one client as number %d, want after 20 clients and 2 others", at)
	}
}

// Refused clients must not be remembered, or they would fill the memory while the queue is full.
func TestRefusedClientsAreNotRemembered(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	for n := range maxPerNetwork {
		if _, err := h.enter(Client{Network: fmt.Sprint("client ", n/maxPerClient), WideNetwork: "around"}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 100 {
		if _, err := h.enter(Client{Network: fmt.Sprint("refused ", n), WideNetwork: "around"}); !errors.Is(err, ErrBusy) {
			t.Fatalf("one more of the network: %v", err)
		}
	}
	if n := len(h.parties) - 2; n != maxPerNetwork/maxPerClient { // besides their deployment and network
		t.Errorf("%d clients are remembered, want those with hashes under way or waiting", n)
	}
}

// Attempts on one deployment's accounts, from any number of networks, do not delay the users of other deployments.
func TestTurnsAreSharedByDeploymentFirst(t *testing.T) {
	t.Parallel()
	h := NewHasher(DefaultCost)
	held := hold(t, h)
	for n := range maxPerDeployment {
		if _, err := h.enter(Client{Deployment: "flooded", Network: fmt.Sprint(n), WideNetwork: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.enter(Client{Deployment: "flooded", Network: "more", WideNetwork: "more"}); !errors.Is(err, ErrBusy) {
		t.Errorf("above the deployment's bound: %v", err)
	}
	honest, err := h.enter(Client{Deployment: "honest", Network: "a", WideNetwork: "a"})
	if err != nil {
		t.Fatal(err)
	}
	held[0].Release()
	h.mu.Lock()
	h.free++ // one more, on any number of processors
	h.grant()
	h.mu.Unlock()
	select {
	case <-honest.granted:
	default:
		t.Error("the hash of another deployment is not served second")
	}
}
