package daylog

import (
	"math/rand/v2"
	"testing"
)

func TestAGatheringIsTheSetOfWhoWasPutIn(t *testing.T) {
	t.Parallel()
	for _, highest := range []uint32{1, 64, 65, 70_000, 10_000_000, maxGathered - 1, maxGathered, 1<<32 - 1} {
		var g Gathering
		want := NewUsers()
		for range 500 {
			user := rand.Uint32N(highest)
			g.Add(user)
			want.Add(user)
		}
		g.Add(highest)
		want.Add(highest)
		got := g.Users()
		if !got.Equals(want) {
			t.Errorf("up to %d: %d users, want %d", highest, got.GetCardinality(), want.GetCardinality())
		}
		a, err := EncodeUsers(got)
		if err != nil {
			t.Fatal(err)
		}
		b, err := EncodeUsers(want)
		if err != nil || string(a) != string(b) {
			t.Errorf("up to %d: equal sets have different bytes, %v", highest, err)
		}
		if !g.Users().IsEmpty() {
			t.Error("the Gathering is not empty after Users")
		}
	}
}

func TestAUnitingIsTheUnionAndChangesNoSet(t *testing.T) {
	t.Parallel()
	for _, sets := range []int{0, 1, unitedAtOnce, unitedAtOnce + 1, 5 * unitedAtOnce} {
		var u Uniting
		want := NewUsers()
		var all, before []*Users
		for range sets {
			set := NewUsers()
			for range 100 {
				set.Add(rand.Uint32N(200_000))
			}
			all, before = append(all, set), append(before, set.Clone())
			want.Or(set)
			u.Add(set)
			if len(u.sets) > unitedAtOnce {
				t.Fatalf("%d sets are held", len(u.sets))
			}
		}
		if !u.Users().Equals(want) {
			t.Errorf("of %d sets: %d users, want %d", sets, u.Users().GetCardinality(), want.GetCardinality())
		}
		for i := range all {
			if !all[i].Equals(before[i]) {
				t.Errorf("set %d of %d was changed", i, sets)
			}
		}
	}
}

func BenchmarkGather(b *testing.B) {
	users := make([]uint32, 274_000)
	for i := range users {
		users[i] = rand.Uint32N(10_000_000)
	}
	b.Run("one by one into a roaring bitmap", func(b *testing.B) {
		for b.Loop() {
			set := NewUsers()
			for _, user := range users {
				set.Add(user)
			}
		}
	})
	b.Run("gathered", func(b *testing.B) {
		for b.Loop() {
			var g Gathering
			for _, user := range users {
				g.Add(user)
			}
			_ = g.Users()
		}
	})
}
