package events

import (
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Filter selects events. The zero Filter selects all.
type Filter struct {
	// Types has the selected types; nil for all that are not opt-in.
	Types map[Type]bool
	// SubjectType and SubjectID select by the subject, "" for any; Organization by the organization, 0 for any.
	SubjectType, SubjectID string
	Organization           int64
}

// Takes reports whether the filter selects an event.
func (f Filter) Takes(e *people.LoggedEvent) bool {
	return (f.Types == nil && !Type(e.Type).OptIn() || f.Types[Type(e.Type)]) &&
		(f.SubjectType == "" || f.SubjectType == e.SubjectType) && (f.SubjectID == "" || f.SubjectID == e.SubjectID) &&
		(f.Organization == 0 || f.Organization == e.Organization)
}

// OptIn is eventtype.OptIn.
func (t Type) OptIn() bool { return eventtype.OptIn(string(t)) }

// ParseTypes returns the types that patterns select (eventtype.Select).
func ParseTypes(patterns []string) (map[Type]bool, error) {
	selected, err := eventtype.Select(patterns)
	if err != nil {
		return nil, err
	}
	types := map[Type]bool{}
	for name := range selected {
		types[Type(name)] = true
	}
	return types, nil
}

// Cursor is a place in the numbered events of a deployment.
type Cursor struct {
	// Sequence is the number of the last event before the place.
	Sequence int64
	// ID is that event's id, which shows whether the store still has the same events; 0: the event was not read.
	ID int64
}

// String returns the cursor in the form that ParseCursor reads.
func (c Cursor) String() string { return strconv.FormatInt(c.Sequence, 10) + "-" + ids.Format(c.ID) }

// ParseCursor reads a cursor, and reports whether the text is one.
func ParseCursor(text string) (Cursor, bool) {
	sequence, id, found := strings.Cut(text, "-")
	if !found {
		return Cursor{}, false
	}
	var c Cursor
	for _, part := range []struct {
		from string
		to   *int64
	}{{sequence, &c.Sequence}, {id, &c.ID}} {
		n, err := strconv.ParseInt(part.from, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != part.from {
			return Cursor{}, false
		}
		*part.to = n
	}
	return c, true
}

// FirstSince returns the number of the first event that happened at a time or later, the number after the last one if
// there is none. Times ascend with the numbers, except for transactions that took longer than others.
func FirstSince(log people.EventLog, bounds people.EventBounds, since time.Time) (int64, error) {
	if bounds.Last == 0 {
		return 1, nil
	}
	var failed error
	first := bounds.First + int64(sort.Search(int(bounds.Last-bounds.First+1), func(n int) bool {
		_, at, _, err := log.EventNumbered(bounds.First + int64(n))
		if failed == nil {
			failed = err
		}
		return !at.Before(since)
	}))
	return first, failed
}
