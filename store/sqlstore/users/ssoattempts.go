package users

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const ssoAttemptColumns = `attempt_id, connection_id, state, request_id, host, intent, continue_path, user_id, signin_id, invitation_id, organization_name,
	tries, outcome, claims, completed_at, created_at, expires_at`

func readSSOAttempt(row *sql.Rows, a *people.SSOAttempt) error {
	return row.Scan(&a.Attempt, &a.Connection, &a.State, &a.RequestID, &a.Host, &a.Intent, &a.Continue, &a.User, &a.SignIn, &a.Invitation, &a.OrganizationName,
		&a.Tries, &a.Outcome, &a.Claims, db.At{To: &a.CompletedAt}, db.At{To: &a.CreatedAt}, db.At{To: &a.ExpiresAt})
}

func (tx txConnections) InsertSSOAttempt(a people.SSOAttempt) error {
	return tx.Exec(`INSERT INTO sso_attempts (deployment, `+ssoAttemptColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.Attempt, a.Connection, a.State, a.RequestID, a.Host, a.Intent, a.Continue, a.User, a.SignIn, a.Invitation, a.OrganizationName,
		a.Tries, a.Outcome, a.Claims, db.Micros(a.CompletedAt), db.Micros(a.CreatedAt), db.Micros(a.ExpiresAt))
}

func (tx txConnections) SSOAttempt(attempt int64) (people.SSOAttempt, bool, error) {
	return db.First(tx.Tx, readSSOAttempt, `SELECT `+ssoAttemptColumns+` FROM sso_attempts WHERE deployment = :deployment AND attempt_id = ?`, attempt)
}

func (tx txConnections) SSOAttemptByState(hash []byte) (people.SSOAttempt, bool, error) {
	return db.First(tx.Tx, readSSOAttempt, `SELECT `+ssoAttemptColumns+` FROM sso_attempts WHERE deployment = :deployment AND state = ?`, hash)
}

func (tx txConnections) CountSSOTry(attempt int64, max int, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE sso_attempts SET tries = tries + 1 WHERE tries < ? AND completed_at = 0 AND expires_at > ? AND attempt_id = ? AND deployment = :deployment`,
		max, db.Micros(now), attempt)
	return n == 1, err
}

func (tx txConnections) ReturnSSOTry(attempt int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE sso_attempts SET tries = tries - 1 WHERE tries > 0 AND completed_at = 0 AND expires_at > ? AND attempt_id = ? AND deployment = :deployment`,
		db.Micros(now), attempt)
	return n == 1, err
}

func (tx txConnections) PutSSOOutcome(attempt int64, sealed string, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE sso_attempts SET outcome = ? WHERE completed_at = 0 AND expires_at > ? AND attempt_id = ? AND deployment = :deployment`,
		sealed, db.Micros(now), attempt)
	return n == 1, err
}

func (tx txConnections) CompleteSSOAttempt(attempt int64, claims string, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE sso_attempts SET completed_at = ?, outcome = '', claims = ? WHERE completed_at = 0 AND expires_at > ? AND attempt_id = ?
		AND deployment = :deployment`, db.Micros(now), claims, db.Micros(now), attempt)
	return n == 1, err
}

func (tx txConnections) DeleteSSOAttempt(attempt int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM sso_attempts WHERE deployment = :deployment AND attempt_id = ?`, attempt)
	return n == 1, err
}
