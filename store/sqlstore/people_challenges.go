package sqlstore

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

const challengeColumns = `id, purpose, channel, subject_id, session_id, user_id, recipient, region, address, sent, salt, mac, key_id, tries, created_at, expires_at`

func readChallenge(row *sql.Rows, c *people.Challenge) error {
	return row.Scan(&c.ID, &c.Purpose, &c.Channel, &c.Subject, &c.Session, &c.User, &c.Recipient, &c.Region, &c.Address, &c.Sent,
		&c.Salt, &c.MAC, &c.KeyID, &c.Tries, moment{&c.CreatedAt}, moment{&c.ExpiresAt})
}

func (tx *peopleTx) InsertChallenge(c people.Challenge) error {
	err := tx.update(`UPDATE challenges SET superseded = 1
		WHERE superseded = 0 AND consumed_at = 0 AND purpose = ? AND recipient = ? AND user_id = ? AND deployment = ?`, c.Purpose, c.Recipient, c.User)
	if err != nil {
		return err
	}
	return tx.put(`INSERT INTO challenges (deployment, `+challengeColumns+`, superseded, consumed_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
		c.ID, c.Purpose, c.Channel, c.Subject, c.Session, c.User, c.Recipient, c.Region, c.Address, flag(c.Sent),
		bytesOf(c.Salt), bytesOf(c.MAC), c.KeyID, c.Tries, micros(c.CreatedAt), micros(c.ExpiresAt))
}

func (tx *peopleTx) LiveChallenge(purpose string, subject int64) (people.Challenge, bool, error) {
	return first(tx, readChallenge, `SELECT `+challengeColumns+` FROM challenges
		WHERE deployment = ? AND purpose = ? AND subject_id = ? AND superseded = 0 AND consumed_at = 0 ORDER BY created_at DESC, id DESC LIMIT 1`, purpose, subject)
}

func (tx *peopleTx) CountTry(id int64, most int, now time.Time) (bool, error) {
	n, err := tx.changed(`UPDATE challenges SET tries = tries + 1
		WHERE tries < ? AND superseded = 0 AND consumed_at = 0 AND expires_at > ? AND id = ? AND deployment = ?`, most, micros(now), id)
	return n == 1, err
}

func (tx *peopleTx) ConsumeChallenge(id int64, now time.Time) (bool, error) {
	n, err := tx.changed(`UPDATE challenges SET consumed_at = ?
		WHERE superseded = 0 AND consumed_at = 0 AND expires_at > ? AND id = ? AND deployment = ?`, micros(now), micros(now), id)
	return n == 1, err
}

func (tx *peopleTx) VoidChallenges(purpose string, subject int64) error {
	return tx.update(`UPDATE challenges SET superseded = 1
		WHERE superseded = 0 AND consumed_at = 0 AND purpose = ? AND subject_id = ? AND deployment = ?`, purpose, subject)
}

func readTime(row *sql.Rows, at *time.Time) error { return row.Scan(moment{at}) }

func (tx *peopleTx) SendsTo(purpose string, user int64, recipient string, since time.Time) ([]time.Time, error) {
	return list(tx, readTime, `SELECT created_at FROM challenges WHERE deployment = ? AND purpose = ? AND user_id = ? AND recipient = ? AND created_at > ?
		ORDER BY created_at`, purpose, user, recipient, micros(since))
}

func (tx *peopleTx) SendsFrom(channel, address string, since time.Time) ([]time.Time, error) {
	return list(tx, readTime, `SELECT created_at FROM challenges WHERE deployment = ? AND channel = ? AND address = ? AND created_at > ?
		ORDER BY created_at`, channel, address, micros(since))
}

func (tx *peopleTx) SendsOn(channel, region string, since time.Time) (all, toRegion int64, err error) {
	_, err = tx.get([]any{&all, &toRegion}, `SELECT COUNT(*), COUNT(CASE WHEN region = q.wanted THEN 1 END)
		FROM challenges JOIN (SELECT CAST(? AS TEXT) AS deployment, CAST(? AS TEXT) AS wanted) q ON challenges.deployment = q.deployment
		WHERE channel = ? AND sent = 1 AND created_at >= ?`, region, channel, micros(since))
	return all, toRegion, err
}

// LockFailure writes the row even where nothing changes: a row that is there and locked is what makes others wait.
func (tx *peopleTx) LockFailure(scope, subject string, now time.Time) (people.Failure, error) {
	f := people.Failure{Scope: scope, Subject: subject}
	err := tx.put(`INSERT INTO failures (deployment, scope, subject, failed, until, updated_at) VALUES (?, ?, ?, 0, 0, ?)
		ON CONFLICT (deployment, scope, subject) DO UPDATE SET scope = excluded.scope`, scope, subject, micros(now))
	if err != nil {
		return f, err
	}
	_, err = tx.get([]any{&f.Count, moment{&f.Until}, moment{&f.UpdatedAt}},
		`SELECT failed, until, updated_at FROM failures WHERE deployment = ? AND scope = ? AND subject = ?`, scope, subject)
	return f, err
}

func (tx *peopleTx) PutFailure(f people.Failure) error {
	return tx.update(`UPDATE failures SET failed = ?, until = ?, updated_at = ? WHERE scope = ? AND subject = ? AND deployment = ?`,
		f.Count, micros(f.Until), micros(f.UpdatedAt), f.Scope, f.Subject)
}

func (tx *peopleTx) InsertMessage(m people.Message) error {
	state := people.MessagePending
	if m.Void {
		state, m.Sealed = people.MessageVoid, ""
	}
	return tx.put(`INSERT INTO outbox (deployment, id, challenge_id, channel, recipient, sealed, state, tries, next_at, lease, provider_id, reason, created_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, '', '', '', ?, ?)`,
		m.ID, m.Challenge, m.Channel, m.Recipient, m.Sealed, state, micros(m.CreatedAt), micros(m.CreatedAt), micros(m.ExpiresAt))
}

func (tx *peopleTx) RecordEvent(e people.Event) error {
	return tx.put(`INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		e.Kind, micros(e.At), e.ID, e.User, e.Method, e.Address, e.UserAgent)
}

func (tx *peopleTx) RecordAudit(a people.Audit) error {
	return tx.put(`INSERT INTO audit (deployment, at, id, actor, action, object, session_id, address) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
		micros(a.At), a.ID, a.Actor, a.Action, a.Object, a.Session, a.Address)
}
