package users

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const importColumns = `file, done, imported, present, rejected, created_at, completed_at`

func readImport(row *sql.Rows, i *people.Import) error {
	return row.Scan(&i.File, &i.Done, &i.Imported, &i.Present, &i.Rejected, db.At{To: &i.CreatedAt}, db.At{To: &i.CompletedAt})
}

func (tx txImports) Import(file string) (people.Import, bool, error) {
	return db.First(tx.Tx, readImport, `SELECT `+importColumns+` FROM imports WHERE deployment = :deployment AND file = ?`, file)
}

// LockImport inserts first, so that of two concurrent starts one waits for the other.
func (tx txImports) LockImport(file string, now time.Time) (people.Import, error) {
	err := tx.Exec(`INSERT INTO imports (deployment, file, done, imported, present, rejected, created_at, completed_at)
		VALUES (:deployment, ?, 0, 0, 0, 0, ?, 0) ON CONFLICT (deployment, file) DO NOTHING`, file, db.Micros(now))
	if err != nil {
		return people.Import{}, err
	}
	i, _, err := db.First(tx.Tx, readImport, `SELECT `+importColumns+` FROM imports WHERE deployment = :deployment AND file = ?`+tx.Lock(), file)
	return i, err
}

func (tx txImports) PutImport(i people.Import) error {
	return tx.Exec(`UPDATE imports SET done = ?, imported = ?, present = ?, rejected = ?, completed_at = ? WHERE file = ? AND deployment = :deployment`,
		i.Done, i.Imported, i.Present, i.Rejected, db.Micros(i.CompletedAt), i.File)
}

func (tx txImports) UnfinishedImports() (count int64, err error) {
	_, err = tx.Get([]any{&count}, `SELECT COUNT(*) FROM imports WHERE deployment = :deployment AND completed_at = 0`)
	return count, err
}

func (tx txImports) ImportedAs(kind string, externalIDs []string) (map[string]int64, error) {
	return db.MapOf[string, int64](tx.Tx, `SELECT external_id, id FROM imported_rows WHERE deployment = :deployment AND kind = ? AND external_id`, externalIDs, kind)
}

func (tx txImports) RecordImported(rows []people.ImportedRow) error {
	return db.InsertMany(tx.Tx, "imported_rows", rows,
		db.Texts("external_id", func(r *people.ImportedRow) string { return r.ExternalID }),
		db.Texts("kind", func(r *people.ImportedRow) string { return r.Kind }),
		db.Numbers("id", func(r *people.ImportedRow) int64 { return r.ID }))
}

func (tx txImports) DigestTaken(digest apikey.Digest) (bool, error) {
	var own int64
	return tx.Get([]any{&own}, `SELECT CASE WHEN deployment = :deployment THEN 1 ELSE 0 END FROM api_keys WHERE digest = ?`, digest[:])
}
