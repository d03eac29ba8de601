package config

import (
	"context"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// Bounds of the delay between two reads of a foreign install's beat. Within these bounds, the delay is a tenth of the
// patience.
const (
	minWatch = 5 * time.Millisecond
	maxWatch = time.Second
)

// candidate is an install that wants the store, with what it has read about the install that marked it.
type candidate struct {
	install string
	// watched reports whether the candidate has read a foreign install's mark and beat before. foreignInstall and
	// foreignBeat are the values that it read.
	watched        bool
	foreignInstall string
	foreignBeat    int64
	// patient reports whether the patience has passed.
	patient bool
}

// acquiring is what a candidate does next.
type acquiring int

const (
	acquireStore acquiring = iota
	watchBeat
	refuseStore
)

// decideAcquire returns the candidate's next step, from the store's row and what the candidate read before. A leader
// that ends leaves its mark: another replica of its install follows within seconds, and the mark keeps the store for
// that replica.
func decideAcquire(row db.StoreRow, c candidate) acquiring {
	switch {
	case row.Install == "" || row.Install == c.install:
		return acquireStore
	case c.watched && (row.Install != c.foreignInstall || row.Beat != c.foreignBeat):
		return refuseStore
	case c.patient:
		return acquireStore
	default:
		return watchBeat
	}
}

// Installed returns the install that marked the store last.
func (s *Documents) Installed(ctx context.Context) (string, error) {
	row, err := db.ReadStoreRow(ctx, s.db.Reads(), "")
	if err != nil {
		return "", fmt.Errorf("read the store's mark: %w", err)
	}
	return row.Install, nil
}

// Acquire ends every earlier term and begins one for an install; see store.Terms.
func (s *Documents) Acquire(ctx context.Context, install string, patience time.Duration) (store.Term, error) {
	if install == "" {
		return store.Term{}, fmt.Errorf("acquire the store: %w: the install has no name", store.ErrInvalid)
	}
	if err := checkText(store.Identity{}, install); err != nil {
		return store.Term{}, err
	}
	began := time.Now()
	look := candidate{install: install, patient: patience <= 0}
	for {
		term, seen, next, err := tryAcquire(ctx, s, look)
		if err == nil && next == refuseStore {
			err = fmt.Errorf("%w (the other install is %q)", store.ErrForeignInstall, seen.Install)
		}
		if err == nil && next == watchBeat {
			look.watched, look.foreignInstall, look.foreignBeat = true, seen.Install, seen.Beat
			left := patience - time.Since(began)
			err = db.Unavailable(ctx, pause.For(ctx, min(left, max(minWatch, min(maxWatch, patience/10)))))
			look.patient = time.Since(began) >= patience
		}
		if err != nil {
			return store.Term{}, fmt.Errorf("acquire the store: %w", err)
		}
		if next == acquireStore {
			return term, nil
		}
	}
}

// tryAcquire acquires the store if it may, and returns what it read. An acquisition counts as a heartbeat for watching
// installs.
func tryAcquire(ctx context.Context, s *Documents, c candidate) (term store.Term, seen db.StoreRow, next acquiring, err error) {
	err = s.db.Write(ctx, func(tx db.Session, row db.StoreRow) (bool, error) {
		seen, next = row, decideAcquire(row, c)
		if next != acquireStore {
			return false, nil
		}
		// The epoch is at least the present time in microseconds, which is above every epoch in a restored backup. So no
		// epoch is issued twice, and a leader of the lost history stays fenced.
		term = store.Term{StoreID: row.Term.StoreID, Epoch: max(row.Term.Epoch+1, s.db.Clock().UnixMicro())}
		_, err := tx.Exec(ctx, `UPDATE store SET epoch = ?, install = ?, install_beat = ? WHERE id = 1`,
			term.Epoch, c.install, row.Beat+1)
		return true, err
	})
	if err == nil && next == acquireStore {
		s.history.remember(term, seen.Position)
	}
	return term, seen, next, err
}

// Heartbeat records that the term's install is alive.
func (s *Documents) Heartbeat(ctx context.Context, term store.Term) error {
	err := s.db.Write(ctx, func(tx db.Session, row db.StoreRow) (bool, error) {
		if row.Term != term {
			return false, store.ErrFenced
		}
		if err := sameHistory(ctx, s, tx, row); err != nil {
			return false, err
		}
		_, err := tx.Exec(ctx, `UPDATE store SET install_beat = ? WHERE id = 1`, row.Beat+1)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}
