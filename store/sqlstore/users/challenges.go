package users

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// ChallengeColumns are the columns that readChallenge reads, in its order.
const ChallengeColumns = `id, purpose, channel, subject_id, session_id, user_id, recipient, region, address, sent, salt, mac, key_id, tries, created_at, expires_at`

func readChallenge(row *sql.Rows, c *people.Challenge) error {
	return row.Scan(&c.ID, &c.Purpose, &c.Channel, &c.Subject, &c.Session, &c.User, &c.Recipient, &c.Region, &c.Address, &c.Sent,
		&c.Salt, &c.MAC, &c.KeyID, &c.Tries, db.At{To: &c.CreatedAt}, db.At{To: &c.ExpiresAt})
}

func (tx txChallenges) InsertChallenge(c people.Challenge) error {
	err := tx.Exec(`UPDATE challenges SET superseded = 1
		WHERE superseded = 0 AND consumed_at = 0 AND purpose = ? AND subject_id = ? AND deployment = :deployment`, c.Purpose, c.Subject)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO challenges (deployment, `+ChallengeColumns+`, superseded, consumed_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
		c.ID, c.Purpose, c.Channel, c.Subject, c.Session, c.User, c.Recipient, c.Region, c.Address, db.Flag(c.Sent),
		db.BytesOf(c.Salt), db.BytesOf(c.MAC), c.KeyID, c.Tries, db.Micros(c.CreatedAt), db.Micros(c.ExpiresAt))
}

func (tx txChallenges) LiveChallenge(purpose string, subject int64) (people.Challenge, bool, error) {
	return db.First(tx.Tx, readChallenge, `SELECT `+ChallengeColumns+` FROM challenges
		WHERE deployment = :deployment AND purpose = ? AND subject_id = ? AND superseded = 0 AND consumed_at = 0 ORDER BY created_at DESC, id DESC LIMIT 1`, purpose, subject)
}

func (tx txChallenges) CountTry(id int64, most int, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE challenges SET tries = tries + 1
		WHERE tries < ? AND superseded = 0 AND consumed_at = 0 AND expires_at > ? AND id = ? AND deployment = :deployment`, most, db.Micros(now), id)
	return n == 1, err
}

func (tx txChallenges) ConsumeChallenge(id int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE challenges SET consumed_at = ?
		WHERE superseded = 0 AND consumed_at = 0 AND expires_at > ? AND id = ? AND deployment = :deployment`, db.Micros(now), db.Micros(now), id)
	return n == 1, err
}

func (tx txChallenges) VoidChallenges(purpose string, subject int64) error {
	return tx.Exec(`UPDATE challenges SET superseded = 1
		WHERE superseded = 0 AND consumed_at = 0 AND purpose = ? AND subject_id = ? AND deployment = :deployment`, purpose, subject)
}

func (tx txChallenges) InsertMessage(m people.Message) error {
	state := people.MessagePending
	if m.Void {
		state, m.Sealed = people.MessageVoid, ""
	}
	return tx.Exec(`INSERT INTO outbox (deployment, id, challenge_id, channel, recipient, sealed, state, tries, next_at, lease, provider_id, reason, created_at, expires_at, trace)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, 0, ?, '', '', '', ?, ?, ?)`,
		m.ID, m.Challenge, m.Channel, m.Recipient, m.Sealed, state, db.Micros(m.CreatedAt), db.Micros(m.CreatedAt), db.Micros(m.ExpiresAt), tracing.Parent(tx.Context()))
}

func (tx txRecords) RecordEvent(e people.Event) error {
	return tx.Exec(`INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`,
		e.Kind, db.Micros(e.At), e.ID, e.User, e.Method, e.Address, e.UserAgent)
}

func (tx txRecords) RecordEvents(events []people.Event) error {
	return db.InsertMany(tx.Tx, "events", events,
		db.Numbers("at", func(e *people.Event) int64 { return db.Micros(e.At) }),
		db.Texts("kind", func(e *people.Event) string { return e.Kind }),
		db.Numbers("id", func(e *people.Event) int64 { return e.ID }),
		db.Numbers("user_id", func(e *people.Event) int64 { return e.User }),
		db.Texts("method", func(e *people.Event) string { return e.Method }),
		db.Texts("address", func(e *people.Event) string { return e.Address }),
		db.Texts("user_agent", func(e *people.Event) string { return e.UserAgent }))
}

func (tx txRecords) RecordAudit(a people.Audit) error {
	return tx.Exec(`INSERT INTO audit (deployment, at, id, actor, action, object, session_id, address, detail) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?)`,
		db.Micros(a.At), a.ID, a.Actor, a.Action, a.Object, a.Session, a.Address, a.Detail)
}
