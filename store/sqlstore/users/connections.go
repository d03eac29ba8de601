package users

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const connectionColumns = `id, organization_id, slug, settings, secrets, active, enforces, created_at, updated_at`

func readConnection(row *sql.Rows, c *people.Connection) error {
	return row.Scan(&c.ID, &c.Organization, &c.Slug, &c.Settings, &c.Secrets, &c.Active, &c.Enforces, db.At{To: &c.CreatedAt}, db.At{To: &c.UpdatedAt})
}

func (tx txConnections) InsertConnection(c people.Connection) error {
	err := tx.Exec(`INSERT INTO connections (deployment, `+connectionColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.ID, c.Organization, c.Slug, c.Settings, c.Secrets, db.Flag(c.Active), db.Flag(c.Enforces), db.Micros(c.CreatedAt), db.Micros(c.UpdatedAt))
	if err != nil {
		return err
	}
	return tx.recordOwn(c.Organization)
}

// recordOwn writes which connections an organization has; 0: there is no organization. The
// organization is locked by a statement of its own, so that the next one sees what transactions wrote that had the lock
// before.
func (tx txConnections) recordOwn(organization int64) error {
	if organization == 0 {
		return nil
	}
	if _, found, err := tx.Organizations().LockOrganization(organization); err != nil || !found {
		return err
	}
	return tx.Exec(`UPDATE organizations SET own_connections = COALESCE((SELECT MAX(1 + c.enforces) FROM connections c
		WHERE c.deployment = :deployment AND c.organization_id = ? AND c.active = 1), 0) WHERE id = ? AND deployment = :deployment`, organization, organization)
}

// connectionByID has an alias for the lock that LockConnectionShared appends.
const connectionByID = `SELECT ` + connectionColumns + ` FROM connections u WHERE u.deployment = :deployment AND u.id = ?`

func (tx txConnections) Connection(id int64) (people.Connection, bool, error) {
	return db.First(tx.Tx, readConnection, connectionByID, id)
}

func (tx txConnections) ConnectionBySlug(slug string) (people.Connection, bool, error) {
	return db.First(tx.Tx, readConnection, `SELECT `+connectionColumns+` FROM connections WHERE deployment = :deployment AND slug = ?`, slug)
}

func (tx txConnections) LockConnection(id int64) (people.Connection, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.Connection{}, false, err
	}
	return db.First(tx.Tx, readConnection, connectionByID+tx.Lock(), id)
}

func (tx txConnections) LockConnectionShared(id int64) (people.Connection, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.Connection{}, false, err
	}
	return db.First(tx.Tx, readConnection, connectionByID+tx.Dialect.KeyShare, id)
}

func (tx txConnections) UpdateConnection(c people.Connection) error {
	err := tx.Exec(`UPDATE connections SET settings = ?, secrets = ?, active = ?, enforces = ?, updated_at = ? WHERE id = ? AND deployment = :deployment`,
		c.Settings, c.Secrets, db.Flag(c.Active), db.Flag(c.Enforces), db.Micros(c.UpdatedAt), c.ID)
	if err != nil {
		return err
	}
	written, _, err := tx.Connection(c.ID)
	if err != nil {
		return err
	}
	return tx.recordOwn(written.Organization)
}

func (tx txConnections) ResealConnection(id int64, from, to string) (bool, error) {
	n, err := tx.Affected(`UPDATE connections SET secrets = ? WHERE secrets = ? AND id = ? AND deployment = :deployment`, to, from, id)
	return n == 1, err
}

// signInsAtOnce is how many sign-ins one query reads to end them.
const signInsAtOnce = 100

func (tx txConnections) DeleteConnection(id int64) (bool, error) {
	deleted, found, err := tx.LockConnection(id)
	if err != nil || !found {
		return false, err
	}
	if err := tx.Exec(`DELETE FROM connections WHERE deployment = :deployment AND id = ?`, id); err != nil {
		return false, err
	}
	for {
		ended, err := tx.Sessions().EndSignInsBy(people.UpstreamFilter{Connection: id}, signInsAtOnce)
		if err != nil {
			return false, err
		}
		if len(ended) < signInsAtOnce {
			break
		}
	}
	for _, statement := range []string{
		`DELETE FROM identities WHERE deployment = :deployment AND connection_id = ?`,
		`DELETE FROM upstream_documents WHERE deployment = :deployment AND connection_id = ?`,
		`DELETE FROM connection_failures WHERE deployment = :deployment AND connection_id = ?`,
	} {
		if err := tx.Exec(statement, id); err != nil {
			return false, err
		}
	}
	return true, tx.recordOwn(deleted.Organization)
}

// deleteConnectionsOf deletes the connections of an organization.
func deleteConnectionsOf(tx *peopleTx, organization int64) error {
	all, err := db.List(tx.Tx, readID, `SELECT id FROM connections WHERE deployment = :deployment AND organization_id = ? ORDER BY id`, organization)
	if err != nil {
		return err
	}
	for _, id := range all {
		if _, err := tx.Connections().DeleteConnection(id); err != nil {
			return err
		}
	}
	return nil
}

func (tx txConnections) ListConnections(filter people.ConnectionFilter, limit int) ([]people.Connection, error) {
	query, args := `SELECT `+connectionColumns+` FROM connections WHERE deployment = :deployment`, []any{}
	if filter.Organization != 0 {
		query, args = query+` AND organization_id = ?`, append(args, filter.Organization)
	}
	if filter.OfDeployment {
		query += ` AND organization_id = 0`
	}
	if filter.Before != 0 {
		query, args = query+` AND id < ?`, append(args, filter.Before)
	}
	return db.List(tx.Tx, readConnection, query+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
}

func (tx txConnections) CountConnections(organization int64) (int, error) {
	n := 0
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM connections WHERE deployment = :deployment AND organization_id = ?`, organization)
	return n, err
}

const failureColumns = `id, connection_id, at, request_id, step, reason, expected, got, subject, email`

func (tx txConnections) RecordConnectionFailure(f people.ConnectionFailure) error {
	err := tx.Exec(`INSERT INTO connection_failures (deployment, `+failureColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		f.ID, f.Connection, db.Micros(f.At), f.RequestID, f.Step, f.Reason, f.Expected, f.Got, f.Subject, f.Email)
	if err != nil {
		return err
	}
	return tx.Exec(`DELETE FROM connection_failures WHERE deployment = :deployment AND connection_id = ? AND (at, id) < (
		SELECT f.at, f.id FROM connection_failures f WHERE f.deployment = :deployment AND f.connection_id = ? ORDER BY f.at DESC, f.id DESC LIMIT 1 OFFSET ?)`,
		f.Connection, f.Connection, people.MaxConnectionFailures-1)
}

func (tx txConnections) ConnectionFailures(connection int64, limit int) ([]people.ConnectionFailure, error) {
	return db.List(tx.Tx, func(row *sql.Rows, f *people.ConnectionFailure) error {
		return row.Scan(&f.ID, &f.Connection, db.At{To: &f.At}, &f.RequestID, &f.Step, &f.Reason, &f.Expected, &f.Got, &f.Subject, &f.Email)
	}, `SELECT `+failureColumns+` FROM connection_failures WHERE deployment = :deployment AND connection_id = ? ORDER BY at DESC, id DESC LIMIT ?`, connection, limit)
}

// SealedConnections implements people.ConnectionUpkeep.
func (s *Rows) SealedConnections(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
	var secrets []people.SealedSecret
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var one people.SealedSecret
		err := row.Scan(&one.Deployment, &one.ID, &one.Sealed)
		secrets = append(secrets, one)
		return err
	}, `SELECT deployment, id, secrets FROM connections WHERE secrets <> '' AND (deployment, id) > (?, ?) ORDER BY deployment, id LIMIT ?`,
		after.Deployment, after.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("list sealed secrets of connections: %w", err)
	}
	return secrets, nil
}
