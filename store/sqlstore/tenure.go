package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/store"
)

// Bounds of the delay between two looks at the beat of a foreign install; within them a tenth of the patience.
const (
	minWatch = 5 * time.Millisecond
	maxWatch = time.Second
)

// claimant is an install that wants the store, and what it saw of the one that has it.
type claimant struct {
	install string
	// watched tells that the foreign install was seen before, with this beat.
	watched        bool
	foreignInstall string
	foreignBeat    int64
	// patient tells that the patience is over.
	patient bool
}

// taking is what a claimant does next.
type taking int

const (
	takeStore taking = iota
	watchBeat
	refuseStore
)

// decideTake judges whether a store may be taken, from its row now and what the claimant saw before.
func decideTake(row storeRow, c claimant) taking {
	switch {
	case row.install == "" || row.install == c.install || row.released:
		return takeStore
	case c.watched && (row.install != c.foreignInstall || row.beat != c.foreignBeat):
		return refuseStore
	case c.patient:
		return takeStore
	default:
		return watchBeat
	}
}

// Installed returns the install that marked the store last.
func (s *Store) Installed(ctx context.Context) (string, error) {
	row, err := readStoreRow(ctx, s.reads(), "")
	if err != nil {
		return "", fmt.Errorf("read the store's mark: %w", err)
	}
	return row.install, nil
}

// Take ends every earlier tenure and begins one for an install; see store.Tenures.
func (s *Store) Take(ctx context.Context, install string, patience time.Duration) (store.Tenure, error) {
	if install == "" {
		return store.Tenure{}, fmt.Errorf("take the store: %w: the install has no name", store.ErrInvalid)
	}
	if err := checkText(store.Identity{}, install); err != nil {
		return store.Tenure{}, err
	}
	began := time.Now()
	look := claimant{install: install, patient: patience <= 0}
	for {
		tenure, seen, next, err := s.tryTake(ctx, look)
		if err == nil && next == refuseStore {
			err = fmt.Errorf("%w (it is marked by %q)", store.ErrForeignInstall, seen.install)
		}
		if err == nil && next == watchBeat {
			look.watched, look.foreignInstall, look.foreignBeat = true, seen.install, seen.beat
			left := patience - time.Since(began)
			err = unavailable(ctx, pause(ctx, min(left, max(minWatch, min(maxWatch, patience/10)))))
			look.patient = time.Since(began) >= patience
		}
		if err != nil {
			return store.Tenure{}, fmt.Errorf("take the store: %w", err)
		}
		if next == takeStore {
			return tenure, nil
		}
	}
}

// tryTake takes the store if it may, and returns what it saw. A take counts as a beat, for whoever watches.
func (s *Store) tryTake(ctx context.Context, c claimant) (tenure store.Tenure, seen storeRow, next taking, err error) {
	err = s.write(ctx, func(tx session, row storeRow) (bool, error) {
		seen, next = row, decideTake(row, c)
		if next != takeStore {
			return false, nil
		}
		// Microseconds of today are above every epoch before a backup that was restored since: an epoch is never
		// handed out twice, and a leader from the lost history stays fenced.
		tenure = store.Tenure{StoreID: row.tenure.StoreID, Epoch: max(row.tenure.Epoch+1, s.clock().UnixMicro())}
		_, err := tx.exec(ctx, `UPDATE store SET epoch = ?, install = ?, install_beat = ?, install_released = 0 WHERE id = 1`,
			tenure.Epoch, c.install, row.beat+1)
		return true, err
	})
	return tenure, seen, next, err
}

// Beat shows that the tenure's install lives.
func (s *Store) Beat(ctx context.Context, tenure store.Tenure) error {
	err := s.write(ctx, func(tx session, row storeRow) (bool, error) {
		if row.tenure != tenure {
			return false, store.ErrFenced
		}
		_, err := tx.exec(ctx, `UPDATE store SET install_beat = ? WHERE id = 1`, row.beat+1)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}

// Release marks the install as gone; under a fenced tenure it does nothing.
func (s *Store) Release(ctx context.Context, tenure store.Tenure) error {
	err := s.write(ctx, func(tx session, row storeRow) (bool, error) {
		if row.tenure != tenure || row.released {
			return false, nil
		}
		_, err := tx.exec(ctx, `UPDATE store SET install_released = 1 WHERE id = 1`)
		return true, err
	})
	if err != nil {
		return fmt.Errorf("release the store: %w", err)
	}
	return nil
}
