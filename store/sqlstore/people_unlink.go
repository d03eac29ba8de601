package sqlstore

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// Unlink implements people.Sealing.
func (s *Store) Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error) {
	forgotten := int64(0)
	for _, kind := range linkedKinds {
		err := s.Change(ctx, deployment, func(tx people.Tx) error {
			n, err := tx.(*peopleTx).unlink(kind, before.UnixMicro(), limit)
			forgotten = max(forgotten, n)
			return err
		})
		if err != nil {
			return forgotten, err
		}
	}
	return forgotten, nil
}

func (tx *peopleTx) unlink(kind string, before int64, limit int) (int64, error) {
	var kept int64
	_, err := tx.get([]any{&kept}, `SELECT at FROM recent_events WHERE deployment = :deployment AND kind = ? ORDER BY at DESC, id DESC LIMIT 1 OFFSET ?`, kind, people.KeepsNewest-1)
	if err != nil {
		return 0, err
	}
	n, err := tx.affected(`DELETE FROM recent_events WHERE deployment = :deployment AND kind = ? AND (at, id) IN (
		SELECT r.at, r.id FROM recent_events r WHERE r.deployment = recent_events.deployment AND r.kind = ? AND r.at < ? AND r.at < ? LIMIT ?)`, kind, kind, before, kept, limit)
	if err != nil {
		return 0, err
	}
	for _, table := range []string{"events", "recent_events"} {
		cleared, err := tx.affected(`UPDATE `+table+` SET address = '', user_agent = '' WHERE deployment = :deployment AND kind = ? AND at >= ? AND at < ?
			AND (address <> '' OR user_agent <> '')`, kind, kept*flag(table == "recent_events"), before)
		if err != nil {
			return 0, err
		}
		n += cleared
	}
	return n, nil
}
