package users

import (
	"context"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

func (tx txSessions) UpstreamOf(signIn int64) (people.Upstream, bool, error) {
	return db.First(tx.Tx, func(row *sql.Rows, u *people.Upstream) error {
		return row.Scan(&u.Connection, &u.Identity, &u.SessionID, &u.ConfinedTo, db.At{To: &u.EndsAt}, &u.IDToken)
	}, `SELECT connection_id, identity_id, upstream_sid, confined_organization, ends_at, id_token FROM signins WHERE deployment = :deployment AND id = ?`, signIn)
}

func (tx txSessions) SetUpstream(signIn int64, u people.Upstream) error {
	return tx.Exec(`UPDATE signins SET connection_id = ?, identity_id = ?, upstream_sid = ?, confined_organization = ?, ends_at = ?, id_token = ?
		WHERE id = ? AND deployment = :deployment`, u.Connection, u.Identity, u.SessionID, u.ConfinedTo, db.Micros(u.EndsAt), u.IDToken, signIn)
}

func (tx txSessions) EndSignInsBy(filter people.UpstreamFilter, limit int) ([]people.SignIn, error) {
	query, args := `SELECT `+signInColumns+` FROM signins WHERE deployment = :deployment`, []any{}
	if filter.Identity != 0 { // an identity belongs to one connection
		query, args = query+` AND identity_id <> 0 AND identity_id = ?`, append(args, filter.Identity)
	} else {
		query, args = query+` AND connection_id <> 0 AND connection_id = ?`, append(args, filter.Connection)
	}
	order := ` ORDER BY id LIMIT ?`
	if filter.SessionID != "" {
		// SQLite would read all sign-ins of the connection in the order of their ids rather than sort a few.
		order = ` ORDER BY created_at, id LIMIT ?`
		query, args = query+` AND upstream_sid <> '' AND upstream_sid = ?`, append(args, filter.SessionID)
	}
	if filter.Issuer != "" {
		query += ` AND EXISTS (SELECT 1 FROM identities i WHERE i.deployment = signins.deployment AND i.id = signins.identity_id AND i.issuer = ?)`
		args = append(args, filter.Issuer)
	}
	found, err := db.List(tx.Tx, readSignIn, query+order, append(args, limit)...)
	if err != nil {
		return nil, err
	}
	for _, g := range found {
		if err := tx.LeaveSession(g); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// purgeEndedSignIns ends sign-ins that end before their sessions.
func purgeEndedSignIns(ctx context.Context, s *Rows, log people.ExpiryEvents, now time.Time, limit int) (int64, error) {
	type ended struct {
		deployment  string
		id, session int64
	}
	var over []ended
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var e ended
		err := row.Scan(&e.deployment, &e.id, &e.session)
		over = append(over, e)
		return err
	}, `SELECT deployment, id, session_id FROM signins WHERE ends_at > 0 AND ends_at <= ? ORDER BY ends_at LIMIT ?`, db.Micros(now), limit)
	if err != nil {
		return 0, err
	}
	return forEach(ctx, over, func(e ended) (int64, error) {
		return 1, change(ctx, s, e.deployment, func(tx *peopleTx) error { return tx.endOver(e.session, e.id, log, now) })
	})
}

// endOver ends a sign-in unless it was prolonged after it was found to have ended. A transaction that prolongs it locks
// its session first.
func (tx *peopleTx) endOver(session, signIn int64, log people.ExpiryEvents, now time.Time) error {
	var locked int64
	if _, err := tx.Get([]any{&locked}, `SELECT id FROM sessions WHERE deployment = :deployment AND id = ?`+tx.Lock(), session); err != nil {
		return err
	}
	over, err := tx.Get([]any{&locked}, `SELECT id FROM signins WHERE deployment = :deployment AND id = ? AND ends_at > 0 AND ends_at <= ?`, signIn, db.Micros(now))
	if err != nil || !over {
		return err
	}
	if err := logExpired(tx, log, `id = ?`, signIn); err != nil {
		return err
	}
	return tx.Sessions().LeaveSession(people.SignIn{ID: signIn, Session: session})
}

func (tx txConnections) UpstreamDocument(connection int64, kind string) (people.UpstreamDocument, bool, error) {
	return db.First(tx.Tx, func(row *sql.Rows, d *people.UpstreamDocument) error {
		return row.Scan(&d.Connection, &d.Kind, &d.Body, &d.SHA256, db.At{To: &d.FetchedAt}, db.At{To: &d.ChangedAt}, db.At{To: &d.ValidUntil}, &d.Error, &d.Failures,
			db.At{To: &d.TriedAt}, db.At{To: &d.LeasedUntil})
	}, `SELECT connection_id, kind, body, sha256, fetched_at, changed_at, valid_until, error, failures, tried_at, leased_until
		FROM upstream_documents WHERE deployment = :deployment AND connection_id = ? AND kind = ?`, connection, kind)
}

func (tx txConnections) LeaseUpstreamDocument(connection int64, kind, lease string, tried, now, until time.Time) (bool, error) {
	n, err := tx.Affected(`INSERT INTO upstream_documents (deployment, connection_id, kind, body, sha256, fetched_at, changed_at, valid_until, error, failures,
			tried_at, lease, leased_until) VALUES (:deployment, ?, ?, '', '', 0, 0, 0, '', 0, ?, ?, ?)
		ON CONFLICT (deployment, connection_id, kind) DO UPDATE SET tried_at = excluded.tried_at, lease = excluded.lease, leased_until = excluded.leased_until
			WHERE upstream_documents.leased_until <= excluded.tried_at AND upstream_documents.tried_at = ?`,
		connection, kind, db.Micros(now), lease, db.Micros(until), db.Micros(tried))
	return n == 1, err
}

func (tx txConnections) StoreUpstreamDocument(d people.UpstreamDocument, lease string) (bool, error) {
	n, err := tx.Affected(`UPDATE upstream_documents SET body = ?, sha256 = ?, changed_at = CASE WHEN sha256 <> '' AND sha256 <> ? THEN ? ELSE changed_at END,
			fetched_at = ?, valid_until = ?, error = '', failures = 0, lease = '', leased_until = 0
		WHERE lease <> '' AND lease = ? AND connection_id = ? AND kind = ? AND deployment = :deployment`,
		d.Body, d.SHA256, d.SHA256, db.Micros(d.FetchedAt), db.Micros(d.FetchedAt), db.Micros(d.ValidUntil), lease, d.Connection, d.Kind)
	return n == 1, err
}

func (tx txConnections) FailUpstreamDocument(connection int64, kind, lease, reason string) (bool, error) {
	n, err := tx.Affected(`UPDATE upstream_documents SET error = ?, failures = failures + 1, lease = '', leased_until = 0
		WHERE lease <> '' AND lease = ? AND connection_id = ? AND kind = ? AND deployment = :deployment`, reason, lease, connection, kind)
	return n == 1, err
}
