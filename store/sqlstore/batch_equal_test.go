package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/config"
)

// TestBatchEqualsOneByOne commits random ops in one transaction on one store and each alone on another.
func TestBatchEqualsOneByOne(t *testing.T) {
	t.Parallel()
	shared, single := migrated(t, newSQLite(t), Options{}), migrated(t, newSQLite(t), Options{})
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		ops := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) config.Op { return anyOp(rt, run) }), 1, 40).Draw(rt, "ops")
		one, other := takenFor(rt, shared, ops), takenFor(rt, single, ops)
		together := config.CommitBatch(t.Context(), shared.Documents, one)
		for i := range ops {
			alone := config.CommitBatch(t.Context(), single.Documents, other[i:i+1])[0]
			if alone.Value != together[i].Value || fmt.Sprint(alone.Err) != fmt.Sprint(together[i].Err) {
				rt.Fatalf("op %d of %v: alone %v, together %v", i, ops, alone, together[i])
			}
		}
		a, b := contentOf(t, shared), contentOf(t, single)
		g := gomega.NewWithT(rt)
		g.Expect(a.documents).To(gomega.Equal(b.documents))
		g.Expect(a.position.Revision).To(gomega.Equal(b.position.Revision))
		reservations := []string{fmt.Sprint(run, "x"), fmt.Sprint(run, "y"), fmt.Sprint(run, "z")}
		holders, err := shared.ReservationOwners(t.Context(), reservations)
		others, failed := single.ReservationOwners(t.Context(), reservations)
		g.Expect(errors.Join(err, failed)).NotTo(gomega.HaveOccurred())
		g.Expect(holders).To(gomega.Equal(others))
		deleteAll(t, shared, one[0].Term, a)
		deleteAll(t, single, other[0].Term, b)
	})
}

// takenFor begins a term and gives it to copies of the ops.
func takenFor(rt *rapid.T, s *Store, ops []config.Op) []config.Op {
	term, err := s.Acquire(context.Background(), "install", 0)
	if err != nil {
		rt.Fatal(err)
	}
	copies := make([]config.Op, len(ops))
	for i, o := range ops {
		o.Term = term
		copies[i] = o
	}
	return copies
}

func anyOp(rt *rapid.T, run int) config.Op {
	names, uids := rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"u", "u2"})
	owner := func(label string) store.Owner {
		return store.Owner{
			Identity: store.Identity{Kind: "Role", Namespace: fmt.Sprint("run", run), Name: names.Draw(rt, label)},
			UID:      uids.Draw(rt, label+" uid"),
		}
	}
	put := numbered("", rapid.Int64Range(1, 2).Draw(rt, "generation"))
	put.Owner = owner("owner")
	put.SeenUID = rapid.SampledFrom([]string{"", "u", "u2"}).Draw(rt, "seen")
	put.Reservations = nil
	for _, key := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2, rapid.ID).Draw(rt, "reservations") {
		put.Reservations = append(put.Reservations, fmt.Sprint(run, key))
	}
	for range rapid.IntRange(0, 3).Draw(rt, "displaced") {
		put.Displace = append(put.Displace, owner("displaced"))
	}
	put, err := config.Checked(put)
	if err != nil {
		rt.Fatal(err)
	}
	return config.Op{Verb: rapid.SampledFrom([]config.Verb{config.VerbPut, config.VerbPut, config.VerbPut, config.VerbDelete, config.VerbRetain}).Draw(rt, "verb"), Put: put}
}
