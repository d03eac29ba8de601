// Package ids holds the ids resources are served under: positive 63-bit integers, written as decimal strings.
package ids

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Derive returns the id of a resource that declares none: the first 8 bytes of SHA-256(kind NUL namespace NUL name),
// top bit cleared, 0 becoming 1. The rule is frozen: clusters rebuilt from Git rely on it.
func Derive(kind, namespace, name string) int64 {
	sum := sha256.Sum256([]byte(kind + "\x00" + namespace + "\x00" + name))
	id := int64(binary.BigEndian.Uint64(sum[:8]) & math.MaxInt64)
	if id == 0 {
		return 1
	}
	return id
}

// Parse reads an id: a decimal string of 1 to 9223372036854775807 without sign, blank or leading zero.
func Parse(s string) (int64, error) {
	if s == "" || s[0] < '1' || s[0] > '9' {
		return 0, fmt.Errorf("%q is not an id: write a decimal integer from 1 to %d", s, int64(math.MaxInt64))
	}
	id, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not an id: write a decimal integer from 1 to %d", s, int64(math.MaxInt64))
	}
	return id, nil
}

// Format writes an id as it is served.
func Format(id int64) string { return strconv.FormatInt(id, 10) }

// epoch is where runtime ids begin to count: 2020-01-01 UTC.
var epoch = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// New returns the id of a runtime row: 42 bits of milliseconds since 2020 and 21 random bits, so that ids ascend with
// time. Two of one millisecond collide once in two million; the store refuses the second, and the caller tries again.
func New(now time.Time, random io.Reader) (int64, error) {
	var bits [3]byte
	if _, err := io.ReadFull(random, bits[:]); err != nil {
		return 0, fmt.Errorf("random id: %w", err)
	}
	low := int64(bits[0])<<16 | int64(bits[1])<<8 | int64(bits[2])
	millis := max(now.Sub(epoch).Milliseconds(), 0) & (1<<42 - 1)
	return max(millis<<21|low&(1<<21-1), 1), nil
}

// CreatedAt returns when the id of a runtime row was made, to the millisecond.
func CreatedAt(id int64) time.Time { return epoch.Add(time.Duration(id>>21) * time.Millisecond) }

// From returns the lowest id of a runtime row made at a time or later, to the millisecond.
func From(at time.Time) int64 {
	millis := max(at.Sub(epoch).Milliseconds(), 0)
	if millis >= 1<<42 {
		return math.MaxInt64
	}
	return millis << 21
}
