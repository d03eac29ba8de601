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

func (tx txBulk) SubjectsTaken(connection int64, issuer string, subjects []string) (map[string]bool, error) {
	wanted, err := tx.Dialect.ListOf(subjects)
	if err != nil || len(subjects) == 0 {
		return nil, err
	}
	// Until the table has statistics, PostgreSQL takes identities_connection to be as good as identities_subject. With
	// db.Among, it would then read all identities of the connection for each subject. For a known list, it makes a hash
	// table of the list and reads them once.
	rows, err := db.List(tx.Tx, func(row *sql.Rows, subject *string) error { return row.Scan(subject) }, `SELECT subject FROM identities
		WHERE deployment = :deployment AND connection_id = ? AND issuer = ? AND subject`+tx.Dialect.OneOf, tx.Dialect.Planned(connection, issuer, wanted)...)
	taken := make(map[string]bool, len(rows))
	for _, subject := range rows {
		taken[subject] = true
	}
	return taken, err
}

func (tx txBulk) IdentityCounts(users []int64) (map[int64]int, error) {
	rows, err := db.Among(tx.Tx, func(row *sql.Rows, user *int64) error { return row.Scan(user) }, `SELECT user_id FROM identities
		WHERE deployment = :deployment AND user_id`, users)
	counts := make(map[int64]int, len(rows))
	for _, user := range rows {
		counts[user]++
	}
	return counts, err
}

func (tx txBulk) InsertIdentities(rows []people.Identity) error {
	return db.InsertMany(tx.Tx, "identities", rows,
		db.Numbers("id", func(i *people.Identity) int64 { return i.ID }),
		db.Numbers("connection_id", func(i *people.Identity) int64 { return i.Connection }),
		db.Texts("issuer", func(i *people.Identity) string { return i.Issuer }),
		db.Texts("subject", func(i *people.Identity) string { return i.Subject }),
		db.Numbers("user_id", func(i *people.Identity) int64 { return i.User }),
		db.Texts("email", func(i *people.Identity) string { return i.Email }),
		db.Numbers("created_at", func(i *people.Identity) int64 { return db.Micros(i.CreatedAt) }),
		db.Numbers("used_at", func(i *people.Identity) int64 { return db.Micros(i.UsedAt) }))
}
