package users

import (
	"database/sql"
	"hash/fnv"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// Lock implements people.Limits.
func (tx txLimits) Lock(name string) error {
	if err := tx.Writable(); err != nil {
		return err
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(tx.Deployment + "\x00" + name)) // cannot fail
	return tx.LockNamed(int64(h.Sum64()))
}

func (tx txLimits) LockFailure(scope, subject string, now time.Time) (people.Failure, error) {
	// The row is written even if nothing changes: only a locked row makes other transactions wait.
	err := tx.Exec(`INSERT INTO failures (deployment, scope, subject, failed, until, updated_at) VALUES (:deployment, ?, ?, 0, 0, ?)
		ON CONFLICT (deployment, scope, subject) DO UPDATE SET scope = excluded.scope`, scope, subject, db.Micros(now))
	if err != nil {
		return people.Failure{}, err
	}
	return tx.Failure(scope, subject)
}

func (tx txLimits) Failure(scope, subject string) (people.Failure, error) {
	f := people.Failure{Scope: scope, Subject: subject}
	_, err := tx.Get([]any{&f.Count, db.At{To: &f.Until}, db.At{To: &f.UpdatedAt}},
		`SELECT failed, until, updated_at FROM failures WHERE deployment = :deployment AND scope = ? AND subject = ?`, scope, subject)
	return f, err
}

func (tx txLimits) PutFailure(f people.Failure) error {
	return tx.Exec(`UPDATE failures SET failed = ?, until = ?, updated_at = ? WHERE scope = ? AND subject = ? AND deployment = :deployment`,
		f.Count, db.Micros(f.Until), db.Micros(f.UpdatedAt), f.Scope, f.Subject)
}

func (tx txLimits) Count(scope, subject string, now, ends time.Time) (people.Counter, error) {
	if err := tx.Writable(); err != nil {
		return people.Counter{}, err
	}
	var c people.Counter
	_, err := tx.Get([]any{&c.Count, db.At{To: &c.Ends}}, `INSERT INTO counters (deployment, scope, subject, counted, ends_at) VALUES (:deployment, ?, ?, 1, ?)
		ON CONFLICT (deployment, scope, subject) DO UPDATE SET
			counted = CASE WHEN counters.ends_at <= ? THEN 1 ELSE counters.counted + 1 END,
			ends_at = CASE WHEN counters.ends_at <= ? THEN excluded.ends_at ELSE counters.ends_at END
		RETURNING counted, ends_at`, scope, subject, db.Micros(ends), db.Micros(now), db.Micros(now))
	return c, err
}

func (tx txLimits) Uncount(scope, subject string, now time.Time) error {
	return tx.Exec(`UPDATE counters SET counted = counted - 1 WHERE counted > 0 AND ends_at > ? AND scope = ? AND subject = ? AND deployment = :deployment`,
		db.Micros(now), scope, subject)
}

func (tx txLimits) Counted(scope, subject string, now time.Time) (people.Counter, error) {
	var c people.Counter
	_, err := tx.Get([]any{&c.Count, db.At{To: &c.Ends}},
		`SELECT counted, ends_at FROM counters WHERE deployment = :deployment AND scope = ? AND subject = ? AND ends_at > ?`, scope, subject, db.Micros(now))
	return c, err
}

func (tx txLimits) RecordSend(s people.Send) error {
	return tx.Exec(`INSERT INTO sends (deployment, id, purpose, channel, user_id, recipient, client, neighbourhood, region, known, sent, created_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.ID, s.Purpose, s.Channel, s.User, s.Recipient, s.Client, s.WideNetwork, s.Region, db.Flag(s.Known), db.Flag(s.Sent), db.Micros(s.At))
}

func (tx txLimits) Sends(filter people.SendFilter, since time.Time) ([]time.Time, error) {
	query, args := `SELECT created_at FROM sends WHERE deployment = :deployment AND channel = ? AND created_at > ?`, []any{filter.Channel, db.Micros(since)}
	for _, member := range []struct{ column, want string }{
		{"purpose", filter.Purpose}, {"recipient", filter.Recipient}, {"client", filter.Client}, {"neighbourhood", filter.WideNetwork},
	} {
		if member.want != "" {
			query, args = query+` AND `+member.column+` = ?`, append(args, member.want)
		}
	}
	if filter.User != 0 {
		query, args = query+` AND user_id = ?`, append(args, filter.User)
	}
	if filter.Unknown {
		query += ` AND known = 0`
	}
	return db.List(tx.Tx, func(row *sql.Rows, at *time.Time) error { return row.Scan(db.At{To: at}) }, query+` ORDER BY created_at`, args...)
}

func (tx txLimits) SendsOn(channel, region string, since time.Time) (people.SendCounts, error) {
	var c people.SendCounts
	_, err := tx.Get([]any{&c.All, &c.ToRegion, &c.Unknown}, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN region = CAST(? AS TEXT) THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN known = 0 THEN 1 ELSE 0 END), 0)
		FROM sends WHERE deployment = :deployment AND channel = ? AND sent = 1 AND created_at >= ?`, region, channel, db.Micros(since))
	return c, err
}

func (tx txLimits) RememberClient(user int64, client string, now time.Time) error {
	return tx.Exec(`INSERT INTO known_clients (deployment, user_id, client, seen_at) VALUES (:deployment, ?, ?, ?)
		ON CONFLICT (deployment, user_id, client) DO UPDATE SET seen_at = excluded.seen_at`, user, client, db.Micros(now))
}

func (tx txLimits) KnownClient(user int64, client string, since time.Time) (bool, error) {
	var one int
	return tx.Get([]any{&one}, `SELECT 1 FROM known_clients WHERE deployment = :deployment AND user_id = ? AND client = ? AND seen_at > ?`,
		user, client, db.Micros(since))
}
