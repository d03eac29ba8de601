package users

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const identityColumns = `id, connection_id, issuer, subject, user_id, email, created_at, used_at`

func readIdentity(row *sql.Rows, i *people.Identity) error {
	return row.Scan(&i.ID, &i.Connection, &i.Issuer, &i.Subject, &i.User, &i.Email, db.At{To: &i.CreatedAt}, db.At{To: &i.UsedAt})
}

const identities = `SELECT ` + identityColumns + ` FROM identities WHERE deployment = :deployment AND `

func (tx txIdentities) IdentityOf(connection int64, issuer, subject string) (people.Identity, bool, error) {
	return db.First(tx.Tx, readIdentity, identities+`connection_id = ? AND issuer = ? AND subject = ?`, connection, issuer, subject)
}

func (tx txIdentities) Identity(id int64) (people.Identity, bool, error) {
	return db.First(tx.Tx, readIdentity, identities+`id = ?`, id)
}

func (tx txIdentities) InsertIdentity(i people.Identity) error {
	return tx.Exec(`INSERT INTO identities (deployment, `+identityColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?)`,
		i.ID, i.Connection, i.Issuer, i.Subject, i.User, i.Email, db.Micros(i.CreatedAt), db.Micros(i.UsedAt))
}

func (tx txIdentities) UseIdentity(id int64, email string, now time.Time) error {
	return tx.Exec(`UPDATE identities SET email = ?, used_at = ? WHERE id = ? AND deployment = :deployment`, email, db.Micros(now), id)
}

func (tx txIdentities) IdentitiesOf(user int64) ([]people.Identity, error) {
	return db.List(tx.Tx, readIdentity, identities+`user_id = ? ORDER BY id`, user)
}

func (tx txIdentities) ListIdentities(connection, after int64, limit int) ([]people.Identity, error) {
	return db.List(tx.Tx, readIdentity, identities+`connection_id = ? AND id > ? ORDER BY id LIMIT ?`, connection, after, limit)
}

func (tx txIdentities) CountIdentities(connection int64) (int64, error) {
	var n int64
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM identities WHERE deployment = :deployment AND connection_id = ?`, connection)
	return n, err
}

func (tx txIdentities) DeleteIdentity(user, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM identities WHERE deployment = :deployment AND user_id = ? AND id = ?`, user, id)
	return n == 1, err
}

func (tx txIdentities) DeleteIdentitiesOf(connection int64, limit int) (int64, error) {
	return tx.Affected(`DELETE FROM identities WHERE deployment = :deployment AND id IN (SELECT i.id FROM identities i
		WHERE i.deployment = :deployment AND i.connection_id = ? ORDER BY i.id LIMIT ?)`, connection, limit)
}
