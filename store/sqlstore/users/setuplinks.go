package users

import (
	"database/sql"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const setupLinkColumns = `id, organization_id, hash, email, intents, created_by, created_at, expires_at, session_id, proved_at`

func readSetupLink(row *sql.Rows, l *people.SetupLink) error {
	intents := ""
	err := row.Scan(&l.ID, &l.Organization, &l.Hash, &l.Email, &intents, &l.CreatedBy, db.At{To: &l.CreatedAt}, db.At{To: &l.ExpiresAt}, &l.Session, db.At{To: &l.ProvedAt})
	l.Intents = strings.Fields(intents)
	return err
}

func (tx txSetupLinks) InsertSetupLink(l people.SetupLink) error {
	return tx.Exec(`INSERT INTO setup_links (deployment, `+setupLinkColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		l.ID, l.Organization, l.Hash, l.Email, strings.Join(l.Intents, " "), l.CreatedBy, db.Micros(l.CreatedAt), db.Micros(l.ExpiresAt), l.Session, db.Micros(l.ProvedAt))
}

func (tx txSetupLinks) SetupLinkByHash(hash []byte) (people.SetupLink, bool, error) {
	return db.First(tx.Tx, readSetupLink, `SELECT `+setupLinkColumns+` FROM setup_links WHERE deployment = :deployment AND hash = ?`, hash)
}

func (tx txSetupLinks) SetupLinkOfSession(session int64) (people.SetupLink, bool, error) {
	return db.First(tx.Tx, readSetupLink, `SELECT `+setupLinkColumns+` FROM setup_links WHERE deployment = :deployment AND session_id = ? AND session_id <> 0`, session)
}

func (tx txSetupLinks) SetupLinksOf(organization int64, now time.Time, limit int) ([]people.SetupLink, error) {
	return db.List(tx.Tx, readSetupLink, `SELECT `+setupLinkColumns+` FROM setup_links WHERE deployment = :deployment AND organization_id = ? AND expires_at > ?
		ORDER BY id DESC LIMIT ?`, organization, db.Micros(now), limit)
}

func (tx txSetupLinks) ProveSetupLink(id, session int64, now time.Time) (bool, error) {
	if err := tx.Exec(`UPDATE setup_links SET session_id = 0 WHERE deployment = :deployment AND session_id = ? AND session_id <> 0`, session); err != nil {
		return false, err
	}
	n, err := tx.Affected(`UPDATE setup_links SET session_id = ?, proved_at = ? WHERE id = ? AND deployment = :deployment`, session, db.Micros(now), id)
	return n == 1, err
}

func (tx txSetupLinks) DeleteSetupLink(organization, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM setup_links WHERE deployment = :deployment AND organization_id = ? AND id = ?`, organization, id)
	return n == 1, err
}
