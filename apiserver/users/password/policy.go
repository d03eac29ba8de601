package password

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// MaxLength bounds a password, in characters.
const MaxLength = 128

// commonText has one password per line; lines that begin with # name the list's source.
//
//go:embed common.txt
var commonText string

// common returns the most used passwords in lower case.
var common = sync.OnceValue(func() map[string]bool {
	set := map[string]bool{}
	for lines := bufio.NewScanner(strings.NewReader(commonText)); lines.Scan(); {
		if line := lines.Text(); !strings.HasPrefix(line, "# ") {
			set[strings.ToLower(line)] = true
		}
	}
	return set
})

// Validate returns an error that describes what is wrong with a new password, or nil. own are the user's own addresses
// and names, which it refuses. There are no composition rules (NIST SP 800-63B).
func Validate(password string, minLength int, own ...string) error {
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
		return errors.New("the password is one of the most used ones, or repeats one or a short piece: choose another")
	}
	for _, text := range own {
		if text != "" && strings.EqualFold(strings.TrimSpace(password), text) {
			return errors.New("the password is your own address or name: choose another")
		}
	}
	return nil
}

// repeats reports whether a password consists of repetitions of a common password, or of a piece of up to four bytes.
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
	// FreeFailures is how many consecutive wrong passwords have no wait. Failures count per email and client address.
	FreeFailures = 10
	maxDelay     = 900 * time.Second
)

// Delay returns the wait after a number of consecutive failures: 1, 2, 4 ... 900 seconds from the eleventh.
func Delay(failures int) time.Duration {
	if failures <= FreeFailures {
		return 0
	}
	return min(time.Second<<min(failures-FreeFailures-1, 20), maxDelay)
}
