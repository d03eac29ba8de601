package account

import "time"

// IsRead reports whether a row is the one that a client has read, by the times of the last change that the client read
// and that the row has. The caller holds the row's lock. A client that read the zero time changes the row in any case.
func IsRead(read, updated time.Time) bool {
	return read.IsZero() || read.Equal(updated)
}

// NextUpdate returns the time of a change of a row, from the time of its former change. Each change has its own time,
// also within a microsecond or if a server's clock is behind, so that IsRead notices it.
func NextUpdate(updated, now time.Time) time.Time {
	if now.After(updated) {
		return now
	}
	return updated.Add(time.Microsecond)
}
