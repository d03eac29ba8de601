package callrecord

import (
	"io"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
)

const (
	// rememberedMost bounds the ids of each of the two generations that a server remembers. Ids can only be equal if the
	// calls arrived in the same millisecond, in which a server receives far fewer calls.
	rememberedMost = 4096
	// drawsMost bounds how many ids are drawn for a call.
	drawsMost = 8
)

// distinct makes the ids of the calls of one server. Two calls of a millisecond draw the same id once in two million
// pairs, and the record of the second would be lost, so an id that was made recently is drawn again. It is safe for
// concurrent use.
type distinct struct {
	random io.Reader
	mu     sync.Mutex
	// recent and earlier are the generations. When recent is full, it replaces earlier.
	recent, earlier map[int64]struct{}
}

func newDistinct(random io.Reader) *distinct {
	return &distinct{random: random, recent: map[int64]struct{}{}}
}

// next returns the id of a call that arrived at a time. Errors: those of the source of random numbers.
func (d *distinct) next(at time.Time) (id int64, err error) {
	for range drawsMost {
		if id, err = ids.New(at, d.random); err != nil {
			return 0, err
		}
		if d.remember(id) {
			break
		}
	}
	return id, nil
}

// remember remembers an id, and reports whether it is new.
func (d *distinct) remember(id int64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, recent := d.recent[id]
	_, earlier := d.earlier[id]
	if recent || earlier {
		return false
	}
	if len(d.recent) >= rememberedMost {
		d.earlier, d.recent = d.recent, make(map[int64]struct{}, rememberedMost)
	}
	d.recent[id] = struct{}{}
	return true
}
