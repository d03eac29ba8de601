package sqlstore

import (
	"fmt"
	"github.com/cardea-iam/cardea/store/sqlstore/config"
	"testing"
)

// TestBatchWiderThanAStatement reserves more than fits into one statement's parameters, and releases it again.
func TestBatchWiderThanAStatement(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, newURL(t), Options{})
			s.db.Dialect.MaxParameters = 100
			term, err := s.Acquire(t.Context(), "install", 0)
			if err != nil {
				t.Fatal(err)
			}
			ops := make([]config.Op, 40)
			var reservations []string
			for i := range ops {
				put := numbered(fmt.Sprint("d", i), 1)
				put.Reservations = nil
				for j := range 30 {
					put.Reservations = append(put.Reservations, fmt.Sprintf("slug/%d/%d", i, j))
				}
				reservations = append(reservations, put.Reservations...)
				ops[i] = config.Op{Verb: config.VerbPut, Term: term, Put: put}
			}
			expectHolders(t, s, ops, reservations, len(reservations))
			for i := range ops {
				ops[i].Put.SeenUID, ops[i].Put.Reservations = "u", ops[i].Put.Reservations[:1]
			}
			expectHolders(t, s, ops, reservations, len(ops))
			for i := range ops {
				ops[i].Verb = config.VerbDelete
			}
			expectHolders(t, s, ops, reservations, 0)
			if got := contentOf(t, s); len(got.documents) != 0 || got.position.Revision != int64(3*len(ops)) {
				t.Errorf("left %d documents at %v", len(got.documents), got.position)
			}
		})
	}
}

// expectHolders commits ops and expects that want of the reservations are held afterwards.
func expectHolders(t *testing.T, s *Store, ops []config.Op, reservations []string, want int) {
	t.Helper()
	for _, r := range config.CommitBatch(t.Context(), s.Documents, ops) {
		if r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	holders, err := s.ReservationOwners(t.Context(), reservations)
	if err != nil || len(holders) != want {
		t.Errorf("%d reservations are held, want %d (%v)", len(holders), want, err)
	}
}
