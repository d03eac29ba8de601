package config

import (
	"context"
	"sync"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// history is the position of the feed after the last write of this process under its term. Only one process writes
// under a term. A store that does not know the position is therefore an older copy: a standby promoted before it
// received every acknowledged write, or a backup or snapshot restored under a running operator.
type history struct {
	mu       sync.Mutex
	term     store.Term
	position store.Position
}

// remember stores the position after a write that was committed under a term.
func (h *history) remember(term store.Term, position store.Position) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.term, h.position = term, position
}

// last returns the position after the last write under a term, false if there was none.
func (h *history) last(term store.Term) (store.Position, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.position, h.term == term && term != store.Term{}
}

// sameHistory returns ErrFenced if the store lacks a write of this process under the present term. If a commit's
// outcome was unknown, the store may be ahead of the remembered position, which its feed still contains.
func sameHistory(ctx context.Context, s *Documents, tx db.Session, row db.StoreRow) error {
	position, written := s.history.last(row.Term)
	if !written || position == row.Position {
		return nil
	}
	var one int64
	known, err := tx.Row(ctx, []any{&one}, `SELECT 1 FROM feed WHERE revision = ? AND tag = ?`, position.Revision, position.Tag)
	if err == nil && !known {
		err = store.ErrFenced
	}
	return err
}
