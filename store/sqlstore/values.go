package sqlstore

import (
	"errors"
	"time"
)

// micros is a time as it is stored, in microseconds since 1970: 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment scans a stored time.
type moment struct{ to *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(from any) error {
	at, ok := from.(int64)
	if !ok {
		return errors.New("a stored time is no integer")
	}
	*m.to = time.Time{}
	if at != 0 {
		*m.to = time.UnixMicro(at).UTC()
	}
	return nil
}

// bytesOf is a blob that is never NULL.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// flag is a boolean as both engines keep it.
func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}
