package daylog

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func drawDay(t *rapid.T, label string) *Day {
	at := rapid.OneOf(rapid.Int64Range(0, 3), rapid.Int64Range(0, Microseconds-1), rapid.Just(int64(Microseconds-1)))
	times := rapid.SliceOfN(at, 0, 8)
	d := &Day{SignUps: times.Draw(t, label+" sign-ups"), Organizations: times.Draw(t, label+" organizations"), Workspaces: times.Draw(t, label+" workspaces")}
	for range rapid.IntRange(0, 20).Draw(t, label+" sign-ins") {
		d.SignIns = append(d.SignIns, SignIn{at.Draw(t, "at"), rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32()).Draw(t, "user")})
	}
	return d
}

// TestADayIsWhatWasAddedToIt: the encoding does not depend on the order or the parts in which events were added, and
// decodes to the same events.
func TestADayIsWhatWasAddedToIt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawDay(t, "a"), drawDay(t, "b")
		whole := &Day{}
		whole.Add(a)
		whole.Add(b)
		decoded, err := Decode(a.Encode())
		if err != nil {
			t.Fatal(err)
		}
		shuffled := rand.New(rand.NewPCG(1, rapid.Uint64().Draw(t, "seed")))
		shuffled.Shuffle(len(b.SignIns), func(i, j int) { b.SignIns[i], b.SignIns[j] = b.SignIns[j], b.SignIns[i] })
		b.Add(decoded)
		encoded := whole.Encode()
		if !bytes.Equal(b.Encode(), encoded) {
			t.Fatal("the encoding depends on the order in which events were added")
		}
		again, err := Decode(encoded)
		if err != nil {
			t.Fatal(err)
		}
		if again.Len() != whole.Len() || !slices.Equal(again.SignIns, whole.SignIns) || !slices.Equal(again.SignUps, whole.SignUps) ||
			!slices.Equal(again.Organizations, whole.Organizations) || !slices.Equal(again.Workspaces, whole.Workspaces) {
			t.Fatalf("%+v became %+v", whole, again)
		}
		from, to := rapid.Int64Range(0, Microseconds).Draw(t, "from"), rapid.Int64Range(0, Microseconds).Draw(t, "to")
		within := func(times []int64) (n int64) {
			for _, at := range times {
				if at >= from && at < to {
					n++
				}
			}
			return n
		}
		var users, want []uint32
		counts, err := Between(encoded, from, to, func(user uint32) { users = append(users, user) })
		for _, s := range whole.SignIns {
			if s.At >= from && s.At < to {
				want = append(want, s.User)
			}
		}
		if err != nil || !slices.Equal(users, want) || counts != (Counts{within(whole.SignUps), within(whole.Organizations), within(whole.Workspaces)}) {
			t.Fatalf("from %d to %d: %v %+v %v, want %v", from, to, users, counts, err, want)
		}
	})
}

func TestNothingIsADayWithoutEvents(t *testing.T) {
	t.Parallel()
	for _, encoded := range [][]byte{nil, (&Day{}).Encode()} {
		if d, err := Decode(encoded); err != nil || !reflect.DeepEqual(d, &Day{}) {
			t.Errorf("%v: %+v, %v", encoded, d, err)
		}
	}
	if users, err := DecodeUsers(nil); err != nil || !users.IsEmpty() {
		t.Errorf("%v, %v", users, err)
	}
}

func TestWhatIsNoEncodingIsRefused(t *testing.T) {
	t.Parallel()
	day := Day{SignIns: []SignIn{{1, 2}, {1, 3}, {Microseconds - 1, 0}}, SignUps: []int64{5, Microseconds - 1}}
	good := day.Encode()
	for at := range good {
		if _, err := Decode(good[:at]); at > 0 && !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
	for name, bad := range map[string][]byte{
		"another version":                           append([]byte{2}, good[1:]...),
		"something behind it":                       append(slices.Clone(good), 0),
		"more events than bytes":                    {1, 200, 1, 1, 0, 0, 0, 0, 0, 0, 0},
		"fewer events than bytes":                   {1, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0},
		"a time beyond the day":                     {1, 0, 0, 1, 6, 0x80, 0x80, 0xd0, 0xf0, 0xc1, 0x02, 0, 0, 0, 0},
		"a number that is longer than it has to be": {1, 1, 3, 0x81, 0, 5, 0, 0, 0, 0, 0, 0},
		"users out of order":                        {1, 2, 4, 1, 5, 0, 4, 0, 0, 0, 0, 0, 0},
		"a user's number that is too large":         {1, 1, 7, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 0, 0, 0, 0, 0, 0},
	} {
		if _, err := Decode(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := DecodeUsers([]byte("no set")); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a set: %v", err)
	}
}

// TestEqualSetsAreEqualBytes: a set's bytes do not depend on how it was built.
func TestEqualSetsAreEqualBytes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		dense := rapid.Uint32Range(0, 20_000).Draw(t, "dense")
		members := rapid.SliceOfN(rapid.Uint32(), 0, 50).Draw(t, "members")
		one, two, half := NewUsers(), NewUsers(), NewUsers()
		one.AddRange(0, uint64(dense))
		for user := range dense {
			if user%2 == 0 {
				two.Add(user)
			} else {
				half.Add(user)
			}
		}
		for i, user := range members {
			one.Add(user)
			if i%2 == 0 {
				two.Add(user)
			} else {
				half.Add(user)
			}
		}
		stored, err := EncodeUsers(half)
		if err != nil {
			t.Fatal(err)
		}
		read, err := DecodeUsers(stored)
		if err != nil {
			t.Fatal(err)
		}
		two.Or(read)
		a, err := EncodeUsers(one)
		if err != nil {
			t.Fatal(err)
		}
		b, err := EncodeUsers(two)
		if err != nil || !bytes.Equal(a, b) || !one.Equals(two) {
			t.Fatalf("%d and %d bytes of %d and %d users: %v", len(a), len(b), one.GetCardinality(), two.GetCardinality(), err)
		}
	})
}

// FuzzDecode: a decoded day stays the same when it is encoded and decoded again, and Between accepts the same bytes as
// Decode.
func FuzzDecode(f *testing.F) {
	day := Day{SignIns: []SignIn{{1, 2}, {1, 3}, {Microseconds - 1, 0}}, SignUps: []int64{5, Microseconds - 1}, Workspaces: []int64{0}}
	f.Add(day.Encode())
	f.Fuzz(func(t *testing.T, encoded []byte) {
		d, err := Decode(encoded)
		users := 0
		if _, between := Between(encoded, 0, Microseconds, func(uint32) { users++ }); (between == nil) != (err == nil) {
			t.Fatalf("read whole: %v; in part: %v", err, between)
		}
		if err != nil {
			return
		}
		if users != len(d.SignIns) {
			t.Fatalf("%d of %d sign-ins", users, len(d.SignIns))
		}
		if again, err := Decode(d.Encode()); err != nil || !reflect.DeepEqual(again, d) {
			t.Fatalf("%+v became %+v, %v", d, again, err)
		}
	})
}

func BenchmarkBetween(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	d := &Day{}
	for range 274_000 {
		d.SignIns = append(d.SignIns, SignIn{random.Int64N(Microseconds), random.Uint32N(10_000_000)})
	}
	encoded := d.Encode()
	b.ReportMetric(float64(len(encoded))/float64(len(d.SignIns)), "B/event")
	for b.Loop() {
		users := 0
		if _, err := Between(encoded, 0, Microseconds/2, func(uint32) { users++ }); err != nil || users == 0 {
			b.Fatal(users, err)
		}
	}
}
