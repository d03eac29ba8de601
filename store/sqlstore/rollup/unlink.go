package rollup

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// Linked implements people.RollUp. It takes one index lookup per table and deployment.
func (s *Days) Linked(ctx context.Context) ([]string, error) {
	var all []string
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var deployment string
		err := row.Scan(&deployment)
		all = append(all, deployment)
		return err
	}, `WITH RECURSIVE linked(deployment) AS (
			SELECT MIN(deployment) FROM recent_events
			UNION ALL SELECT (SELECT MIN(r.deployment) FROM recent_events r WHERE r.deployment > l.deployment) FROM linked l WHERE l.deployment IS NOT NULL
		), waiting(deployment) AS (
			SELECT MIN(deployment) FROM events
			UNION ALL SELECT (SELECT MIN(e.deployment) FROM events e WHERE e.deployment > w.deployment) FROM waiting w WHERE w.deployment IS NOT NULL
		), ended(deployment) AS (
			SELECT MIN(deployment) FROM ended_signins
			UNION ALL SELECT (SELECT MIN(s.deployment) FROM ended_signins s WHERE s.deployment > e.deployment) FROM ended e WHERE e.deployment IS NOT NULL
		) SELECT deployment FROM linked WHERE deployment IS NOT NULL UNION SELECT deployment FROM waiting WHERE deployment IS NOT NULL
			UNION SELECT deployment FROM ended WHERE deployment IS NOT NULL ORDER BY 1`)
	return all, err
}

// Unlink implements people.RollUp.
func (s *Days) Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error) {
	var forgotten int64
	err := s.db.Change(ctx, deployment, nil, func(tx *db.Tx) error {
		forgotten = 0
		for _, kind := range linkedKinds {
			n, err := unlink(tx, kind, before.UnixMicro(), limit)
			if err != nil {
				return err
			}
			forgotten += n
		}
		n, err := tx.Affected(`DELETE FROM ended_signins WHERE deployment = :deployment AND (user_id, id) IN (SELECT e.user_id, e.id FROM ended_signins e
			WHERE e.deployment = :deployment AND e.used_at < ? ORDER BY e.used_at LIMIT ?)`, before.UnixMicro(), limit)
		forgotten += n
		return err
	})
	if err != nil {
		return 0, err
	}
	return forgotten, nil
}

func unlink(tx *db.Tx, kind string, before int64, limit int) (int64, error) {
	var kept int64
	_, err := tx.Get([]any{&kept}, `SELECT at FROM recent_events WHERE deployment = :deployment AND kind = ? ORDER BY at DESC, id DESC LIMIT 1 OFFSET ?`, kind, people.KeepsNewest-1)
	if err != nil {
		return 0, err
	}
	n, err := oldest(tx, "recent_events", kind, 0, min(before, kept), limit, `DELETE FROM recent_events WHERE deployment = :deployment`)
	if err != nil {
		return 0, err
	}
	for _, of := range []struct {
		table string
		from  int64
	}{{"events", 0}, {"recent_events", min(before, kept)}} { // in the order in which DeleteUser uses the tables
		cleared, err := oldest(tx, of.table, kind, of.from, before, limit, `UPDATE `+of.table+` SET address = '', user_agent = '' WHERE (address <> '' OR user_agent <> '') AND deployment = :deployment`)
		if err != nil {
			return 0, err
		}
		n += cleared
	}
	return n, nil
}

// oldest runs a statement over the rows of a kind between two times, and returns how many rows it changed. It selects
// the limit oldest rows that meet the statement's condition, and all others of the last one's microsecond.
func oldest(tx *db.Tx, table, kind string, from, to int64, limit int, statement string) (int64, error) {
	_, about, _ := strings.Cut(statement, "WHERE")
	bound := to
	beyond, err := tx.Get([]any{&bound}, `SELECT at FROM `+table+` WHERE`+about+` AND kind = ? AND at >= ? AND at < ? ORDER BY at LIMIT 1 OFFSET ?`,
		kind, from, to, limit-1)
	if err != nil {
		return 0, err
	}
	if beyond {
		to = bound + 1
	}
	return tx.Affected(statement+` AND kind = ? AND at >= ? AND at < ?`, kind, from, to)
}
