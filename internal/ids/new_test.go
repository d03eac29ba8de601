package ids

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"math"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"
)

func TestNewIDsArePositiveOf63BitsAndAscendWithTime(t *testing.T) {
	from, to := epoch.UnixMilli(), epoch.UnixMilli()+1<<42-1
	random := rapid.SliceOfN(rapid.Byte(), 3, 3)
	rapid.Check(t, func(t *rapid.T) {
		earlier := rapid.Int64Range(from, to-1).Draw(t, "earlier")
		later := rapid.Int64Range(earlier+1, to).Draw(t, "later")
		first, err := New(time.UnixMilli(earlier), bytes.NewReader(random.Draw(t, "first")))
		if err != nil {
			t.Fatal(err)
		}
		second, err := New(time.UnixMilli(later), bytes.NewReader(random.Draw(t, "second")))
		if err != nil {
			t.Fatal(err)
		}
		if first < 1 || second <= first {
			t.Fatalf("%d at %d, %d at %d", first, earlier, second, later)
		}
		if again, err := Parse(Format(second)); err != nil || again != second {
			t.Fatalf("Parse(Format(%d)) = %d, %v", second, again, err)
		}
	})
}

func TestNewIDsOfOneMomentDifferByAll21Bits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := epoch.Add(time.Duration(rapid.Int64Range(1, 1<<60).Draw(t, "since")))
		low := rapid.Uint32Range(0, 1<<21-1)
		a, b := low.Draw(t, "a"), low.Draw(t, "b")
		first, err := New(now, threeBytes(a))
		if err != nil {
			t.Fatal(err)
		}
		second, err := New(now, threeBytes(b))
		if err != nil {
			t.Fatal(err)
		}
		// Only in the first millisecond after the epoch do the random values 0 and 1 give the same id, 1.
		if now.Sub(epoch) >= time.Millisecond && (first == second) != (a == b) {
			t.Fatalf("random %d and %d gave %d and %d", a, b, first, second)
		}
	})
}

func threeBytes(n uint32) io.Reader {
	return bytes.NewReader([]byte{byte(n >> 16), byte(n >> 8), byte(n)})
}

func TestNew(t *testing.T) {
	ones := []byte{0xff, 0xff, 0xff}
	for name, tc := range map[string]struct {
		now    time.Time
		random []byte
		want   int64
	}{
		"the least":               {epoch, []byte{0, 0, 0}, 1},
		"a clock before 2020":     {epoch.Add(-time.Hour), ones, 1<<21 - 1},
		"the first millisecond":   {epoch.Add(time.Millisecond), []byte{0, 0, 0}, 1 << 21},
		"three bits are not used": {epoch, []byte{0xe0, 0, 2}, 2},
		"the greatest":            {epoch.Add((1<<42 - 1) * time.Millisecond), ones, 1<<63 - 1},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := New(tc.now, bytes.NewReader(tc.random)); err != nil || got != tc.want {
				t.Errorf("%d, %v; want %d", got, err, tc.want)
			}
		})
	}
	broken := errors.New("no randomness")
	if id, err := New(epoch, iotest.ErrReader(broken)); !errors.Is(err, broken) || id != 0 {
		t.Errorf("%d, %v", id, err)
	}
}

func TestCreatedAt(t *testing.T) {
	now := time.Date(2026, time.May, 4, 3, 2, 1, 123456789, time.UTC)
	id, err := New(now, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if got := CreatedAt(id); !got.Equal(now.Truncate(time.Millisecond)) {
		t.Errorf("got %v, want %v", got, now)
	}
}

func TestFromIsTheLowestIDOfATime(t *testing.T) {
	at := time.Date(2026, 5, 10, 12, 0, 0, 123_456_789, time.UTC)
	if got := CreatedAt(From(at)); !got.Equal(at.Truncate(time.Millisecond)) {
		t.Errorf("From(%s) is of %s", at, got)
	}
	lowest, err := New(at, bytes.NewReader(make([]byte, 3)))
	if err != nil || lowest != From(at) {
		t.Errorf("From(%s) is %d, the lowest id %d, %v", at, From(at), lowest, err)
	}
	if From(time.Time{}) != 0 || From(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)) != math.MaxInt64 {
		t.Errorf("the bounds are %d and %d", From(time.Time{}), From(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)))
	}
}
