package db

import (
	"errors"
	"time"
)

// Micros returns a time in its stored form, microseconds since 1970: 0 for the zero time.
func Micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// At scans a stored time into To; 0 becomes the zero time.
type At struct{ To *time.Time }

// Scan implements sql.Scanner.
func (a At) Scan(from any) error {
	stored, ok := from.(int64)
	if !ok {
		return errors.New("a stored time is not an integer")
	}
	*a.To = time.Time{}
	if stored != 0 {
		*a.To = time.UnixMicro(stored).UTC()
	}
	return nil
}

// BytesOf returns a blob that is never NULL.
func BytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// Flag returns a boolean in the form in which both engines store it.
func Flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}
