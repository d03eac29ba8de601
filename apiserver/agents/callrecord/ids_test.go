package callrecord

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store/people"
)

// repeating is a source of random numbers that returns each of its numbers twice.
type repeating struct{ drawn atomic.Uint32 }

func (r *repeating) Read(p []byte) (int, error) {
	var number [4]byte
	binary.BigEndian.PutUint32(number[:], r.drawn.Add(1)/2)
	return copy(p, number[1:]), nil
}

// Calls of one millisecond whose random numbers are equal have ids and records of their own, whether they change
// something, and are refused or run.
func TestCallsOfOneMillisecondHaveDifferentIDs(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url, withKeyring)
		w.ids = newDistinct(&repeating{})
		changing := findOrder("acme/shop")
		changing.ReadOnly = false
		const rounds = 50
		made := map[int64]string{}
		begin := func(kind string, of Tool) *Call {
			c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{Kind: people.CallerKey, ID: "key"}, "")
			w.Must(err)
			if made[c.ID()] != "" {
				t.Fatalf("the call that %s has the id of one that %s", kind, made[c.ID()])
			}
			made[c.ID()] = kind
			return c
		}
		for range rounds {
			for kind, of := range map[string]Tool{"reads": findOrder("acme/shop"), "changes": changing} {
				if _, err := begin(kind, of).Run(t.Context(), succeeded); err != nil {
					t.Fatal(err)
				}
			}
			begin("is refused", changing).Refuse(people.CallRateLimited, "rate_limited")
		}
		w.Must(w.Flush(t.Context()))
		for _, one := range w.stored("acme/shop") {
			delete(made, one.ID)
		}
		if len(made) > 0 {
			t.Errorf("calls without a record: %v", made)
		}
		w.expectDropped(0, 0, 0)
	})
}

func TestRememberedIDsAreBounded(t *testing.T) {
	t.Parallel()
	d := newDistinct(rand.Reader)
	for id := range int64(10 * rememberedMost) {
		if !d.remember(id) || d.remember(id) || d.remember(max(id-rememberedMost, 0)) {
			t.Fatalf("id %d is not remembered", id)
		}
		if n := len(d.recent) + len(d.earlier); n > 2*rememberedMost {
			t.Fatalf("%d ids are remembered, want at most %d", n, 2*rememberedMost)
		}
	}
}

// A source of random numbers that repeats one number ends the search for an id. A source that fails begins no call.
func TestIDsOfABrokenSourceOfRandomNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	broken := errors.New("no random numbers")
	for name, source := range map[string]io.Reader{"repeats": zeros{}, "fails": iotest.ErrReader(broken)} {
		d := newDistinct(source)
		_, _ = d.next(w.Clock.Now())
		if _, err := d.next(w.Clock.Now()); name == "fails" != errors.Is(err, broken) {
			t.Error(fmt.Errorf("a source that %s: %w", name, err))
		}
	}
}

// zeros is a source of zeros.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
