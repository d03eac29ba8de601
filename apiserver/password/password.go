// Package password hashes passwords, by Argon2id and never many at once, and judges new ones.
package password

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/ccojocar/zxcvbn-go/data"
	"golang.org/x/crypto/argon2"
)

const (
	// The cost of a hash: 19 MiB, 2 passes, 1 lane (the OWASP minimum for Argon2id).
	memoryKiB = 19 * 1024
	passes    = 2
	lanes     = 1
	saltBytes = 16
	hashBytes = 32
	// MaxLength bounds a password, in characters.
	MaxLength = 128
	// maxPerClient is how many hashes one client may have under way or waiting: it must not take everybody's turns.
	maxPerClient = 8
	// maxWait is how long a Hasher lets a hash wait for its turn.
	maxWait = 2 * time.Second
)

// ErrBusy: the queue of hashes did not move in time.
var ErrBusy = errors.New("too many passwords are being checked at once")

// Hasher hashes at most GOMAXPROCS passwords at once: more would only make all of them slower, and memory is theirs to fill.
type Hasher struct {
	turns chan struct{}
	// wait is how long a hash waits for its turn.
	wait  time.Duration
	dummy string

	mu      sync.Mutex
	clients map[string]int
}

// NewHasher returns a Hasher.
func NewHasher() *Hasher {
	h := &Hasher{turns: make(chan struct{}, runtime.GOMAXPROCS(0)), wait: maxWait, clients: map[string]int{}}
	h.dummy = encode(make([]byte, saltBytes), make([]byte, hashBytes))
	return h
}

// Hash returns a password's hash in the PHC string format, for a client, by which turns are shared. It fails with ErrBusy, or when
// ctx ends.
func (h *Hasher) Hash(ctx context.Context, client, password string, random io.Reader) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(random, salt); err != nil {
		return "", fmt.Errorf("random salt: %w", err)
	}
	if err := h.take(ctx, client); err != nil {
		return "", err
	}
	defer h.leave(client)
	return encode(salt, argon2.IDKey([]byte(password), salt, passes, memoryKiB, lanes, hashBytes)), nil
}

// Verify compares a password with its hash; with "", which no password matches, in the same time.
func (h *Hasher) Verify(ctx context.Context, client, password, encoded string) (bool, error) {
	known := encoded != ""
	if !known {
		encoded = h.dummy
	}
	p, err := decode(encoded)
	if err != nil {
		return false, err
	}
	if err := h.take(ctx, client); err != nil {
		return false, err
	}
	defer h.leave(client)
	got := argon2.IDKey([]byte(password), p.salt, p.passes, p.memory, p.lanes, uint32(len(p.hash)))
	return subtle.ConstantTimeCompare(got, p.hash) == 1 && known, nil
}

func (h *Hasher) take(ctx context.Context, client string) error {
	if !h.enter(client) {
		return ErrBusy
	}
	err := h.turn(ctx)
	if err != nil {
		h.exit(client)
	}
	return err
}

// enter counts a hash of a client, if it may have one more.
func (h *Hasher) enter(client string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients[client] >= maxPerClient {
		return false
	}
	h.clients[client]++
	return true
}

func (h *Hasher) exit(client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.clients[client]--; h.clients[client] == 0 {
		delete(h.clients, client)
	}
}

func (h *Hasher) turn(ctx context.Context) error {
	select {
	case h.turns <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(h.wait)
	defer timer.Stop()
	select {
	case h.turns <- struct{}{}:
		return nil
	case <-timer.C:
		return ErrBusy
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *Hasher) leave(client string) {
	<-h.turns
	h.exit(client)
}

type parameters struct {
	memory, passes uint32
	lanes          uint8
	salt, hash     []byte
}

func encode(salt, hash []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, memoryKiB, passes, lanes,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(hash))
}

var errForm = errors.New("a stored password hash has not the form this binary reads")

func decode(encoded string) (p parameters, err error) {
	parts := strings.Split(encoded, "$")
	if len(parts) != 6 || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, errForm
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.memory, &p.passes, &p.lanes); err != nil {
		return p, errForm
	}
	// Sscanf leaves what follows unread.
	if fmt.Sprintf("m=%d,t=%d,p=%d", p.memory, p.passes, p.lanes) != parts[3] {
		return p, errForm
	}
	if p.salt, err = base64.RawStdEncoding.Strict().DecodeString(parts[4]); err != nil {
		return p, errForm
	}
	if p.hash, err = base64.RawStdEncoding.Strict().DecodeString(parts[5]); err != nil || len(p.hash) == 0 || p.lanes == 0 || p.passes == 0 {
		return p, errForm
	}
	return p, nil
}

// common returns the most used passwords, lower-cased: the 7,000 and more of the list zxcvbn ships.
var common = sync.OnceValue(func() map[string]bool {
	var ranked struct{ List []string }
	raw, err := data.Asset("data/Passwords.json")
	if err == nil {
		err = json.Unmarshal(raw, &ranked)
	}
	if err != nil || len(ranked.List) == 0 {
		panic(fmt.Sprintf("the list of most used passwords cannot be read: %v", err)) // it is compiled in
	}
	set := make(map[string]bool, len(ranked.List))
	for _, password := range ranked.List {
		set[strings.ToLower(password)] = true
	}
	return set
})

// Judge returns what is wrong with a new password, nil if nothing is. There are no composition rules (NIST SP 800-63B).
func Judge(password string, minLength int, own ...string) error {
	switch n := utf8.RuneCountInString(password); {
	case !utf8.ValidString(password):
		return errors.New("the password is not valid UTF-8: send UTF-8 text")
	case n < minLength:
		return fmt.Errorf("the password has %d characters: use at least %d", n, minLength)
	case n > MaxLength:
		return fmt.Errorf("the password has %d characters: use at most %d", n, MaxLength)
	}
	folded := strings.ToLower(password)
	if common()[folded] || repeats(folded) {
		return errors.New("the password is one of the most used ones: choose another")
	}
	for _, text := range own {
		if text != "" && strings.EqualFold(strings.TrimSpace(password), text) {
			return errors.New("the password is your own address or name: choose another")
		}
	}
	return nil
}

// repeats tells whether a password is a common one written again and again, or one short piece of up to four characters.
func repeats(password string) bool {
	for size := 1; size <= len(password)/2; size++ {
		if len(password)%size != 0 || strings.Repeat(password[:size], len(password)/size) != password {
			continue
		}
		return size <= 4 || common()[password[:size]]
	}
	return false
}

const (
	// FreeFailures is how many wrong passwords in a row for an (email, address) are answered without a wait.
	FreeFailures = 10
	maxDelay     = 900 * time.Second
)

// Delay returns the wait that a number of failures in a row brings: 1, 2, 4 ... 900 seconds from the eleventh on.
func Delay(failures int) time.Duration {
	if failures <= FreeFailures {
		return 0
	}
	return min(time.Second<<min(failures-FreeFailures-1, 20), maxDelay)
}
