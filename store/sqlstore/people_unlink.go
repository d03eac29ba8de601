package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// Linked implements people.Sealing, by one step along the key for each deployment.
func (s *Store) Linked(ctx context.Context) ([]string, error) {
	var all []string
	err := s.reads().query(ctx, func(row *sql.Rows) error {
		var deployment string
		err := row.Scan(&deployment)
		all = append(all, deployment)
		return err
	}, `WITH RECURSIVE linked(deployment) AS (
			SELECT MIN(deployment) FROM recent_events
			UNION ALL SELECT (SELECT MIN(r.deployment) FROM recent_events r WHERE r.deployment > l.deployment) FROM linked l WHERE l.deployment IS NOT NULL
		) SELECT deployment FROM linked WHERE deployment IS NOT NULL`)
	return all, err
}

// Unlink implements people.Sealing.
func (s *Store) Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error) {
	var forgotten int64
	err := s.Change(ctx, deployment, func(tx people.Tx) error {
		forgotten = 0
		for _, kind := range linkedKinds {
			n, err := tx.(*peopleTx).unlink(kind, before.UnixMicro(), limit)
			if err != nil {
				return err
			}
			forgotten += n
		}
		return nil
	})
	if err != nil {
		return 0, err
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
