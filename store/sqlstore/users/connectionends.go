package users

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

func (tx txConnections) RecordConnectionEnd(connection int64, at time.Time) error {
	return tx.Exec(`INSERT INTO ended_connections (deployment, connection_id, ended_at) VALUES (:deployment, ?, ?)
		ON CONFLICT (deployment, connection_id) DO UPDATE SET ended_at = excluded.ended_at`, connection, db.Micros(at))
}

func (tx txConnections) LockConnectionEnd(connection int64) (at time.Time, found bool, err error) {
	if err := tx.Writable(); err != nil {
		return time.Time{}, false, err
	}
	found, err = tx.Get([]any{db.At{To: &at}}, `SELECT ended_at FROM ended_connections WHERE deployment = :deployment AND connection_id = ?`+tx.Lock(), connection)
	return at, found, err
}

func (tx txConnections) ForgetConnectionEnd(connection int64) error {
	return tx.Exec(`DELETE FROM ended_connections WHERE deployment = :deployment AND connection_id = ?`, connection)
}

// NextUpstreamConnection implements people.ConnectionUpkeep.
func (s *Rows) NextUpstreamConnection(ctx context.Context, after people.UpstreamConnection) (next people.UpstreamConnection, found bool, err error) {
	err = s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		found = true
		return row.Scan(&next.Deployment, &next.ID, db.At{To: &next.EndedAt}, &next.Runtime)
	}, `SELECT n.deployment, n.connection_id,
			COALESCE((SELECT x.ended_at FROM ended_connections x WHERE x.deployment = n.deployment AND x.connection_id = n.connection_id), 0),
			EXISTS (SELECT 1 FROM connections c WHERE c.deployment = n.deployment AND c.id = n.connection_id)
		FROM (
			SELECT * FROM (SELECT deployment, connection_id FROM signins WHERE connection_id <> 0 AND (deployment, connection_id) > (?, ?)
				ORDER BY deployment, connection_id LIMIT 1) s
			UNION ALL SELECT * FROM (SELECT deployment, connection_id FROM identities WHERE (deployment, connection_id) > (?, ?)
				ORDER BY deployment, connection_id LIMIT 1) i
			UNION ALL SELECT * FROM (SELECT deployment, connection_id FROM ended_connections WHERE (deployment, connection_id) > (?, ?)
				ORDER BY deployment, connection_id LIMIT 1) e
		) n ORDER BY n.deployment, n.connection_id LIMIT 1`,
		after.Deployment, after.ID, after.Deployment, after.ID, after.Deployment, after.ID)
	if err != nil {
		return people.UpstreamConnection{}, false, fmt.Errorf("find the next connection with sign-ins or identities: %w", err)
	}
	return next, found, nil
}
