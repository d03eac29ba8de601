package users

import (
	"cmp"
	"database/sql"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const runtimeDirectoryColumns = `id, organization_id, slug, connection_id, settings, active, created_at, updated_at`

func readRuntimeDirectory(row *sql.Rows, d *people.RuntimeDirectory) error {
	return row.Scan(&d.ID, &d.Organization, &d.Slug, &d.Connection, &d.Settings, &d.Active, db.At{To: &d.CreatedAt}, db.At{To: &d.UpdatedAt})
}

const (
	runtimeDirectories   = `SELECT ` + runtimeDirectoryColumns + ` FROM runtime_directories WHERE deployment = :deployment AND deleted = 0`
	runtimeDirectoryByID = runtimeDirectories + ` AND id = ?`
)

func (tx txDirectories) InsertRuntimeDirectory(d people.RuntimeDirectory) error {
	err := tx.Exec(`INSERT INTO runtime_directories (deployment, `+runtimeDirectoryColumns+`, deleted) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
		d.ID, d.Organization, d.Slug, d.Connection, d.Settings, db.Flag(d.Active), db.Micros(d.CreatedAt), db.Micros(d.UpdatedAt))
	if err != nil {
		return err
	}
	_, err = tx.LockDirectory(d.ID)
	return err
}

func (tx txDirectories) RuntimeDirectory(id int64) (people.RuntimeDirectory, bool, error) {
	return db.First(tx.Tx, readRuntimeDirectory, runtimeDirectoryByID, id)
}

func (tx txDirectories) LockRuntimeDirectory(id int64) (people.RuntimeDirectory, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.RuntimeDirectory{}, false, err
	}
	return db.First(tx.Tx, readRuntimeDirectory, runtimeDirectoryByID+tx.Lock(), id)
}

func (tx txDirectories) UpdateRuntimeDirectory(d people.RuntimeDirectory) error {
	return tx.Exec(`UPDATE runtime_directories SET connection_id = ?, settings = ?, active = ?, updated_at = ? WHERE id = ? AND deployment = :deployment`,
		d.Connection, d.Settings, db.Flag(d.Active), db.Micros(d.UpdatedAt), d.ID)
}

func (tx txDirectories) DeleteRuntimeDirectory(id int64) (bool, error) {
	n, err := tx.Affected(`UPDATE runtime_directories SET deleted = 1 WHERE deployment = :deployment AND deleted = 0 AND id = ?`, id)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Exec(`DELETE FROM directory_tokens WHERE deployment = :deployment AND directory_id = ?`, id)
}

// deleteDirectoriesOf deletes the directories that an organization or a backend set up for an organization.
func deleteDirectoriesOf(tx *peopleTx, organization int64) error {
	all, err := db.List(tx.Tx, readID, `SELECT id FROM runtime_directories WHERE deployment = :deployment AND deleted = 0 AND organization_id = ? ORDER BY id`, organization)
	if err != nil {
		return err
	}
	for _, id := range all {
		if _, err := tx.Directories().DeleteRuntimeDirectory(id); err != nil {
			return err
		}
	}
	return nil
}

func (tx txDirectories) ListRuntimeDirectories(filter people.RuntimeDirectoryFilter, limit int) ([]people.RuntimeDirectory, error) {
	query, args := runtimeDirectories, []any{}
	if filter.Organization != 0 {
		query, args = query+` AND organization_id = ?`, append(args, filter.Organization)
	}
	if filter.Before != 0 {
		query, args = query+` AND id < ?`, append(args, filter.Before)
	}
	return db.List(tx.Tx, readRuntimeDirectory, query+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
}

func (tx txDirectories) RuntimeDirectoriesOf(organizations []int64) ([]int64, error) {
	ids, err := db.Among(tx.Tx, readID, `SELECT id FROM runtime_directories WHERE deployment = :deployment AND deleted = 0 AND organization_id`, organizations)
	slices.Sort(ids)
	return ids, err
}

const directoryTokenColumns = `id, directory_id, public_id, digest, last4, created_at, expires_at, used_at`

func readDirectoryToken(row *sql.Rows, t *people.DirectoryToken) error {
	var digest []byte
	err := row.Scan(&t.ID, &t.Directory, &t.Public, &digest, &t.Last4, db.At{To: &t.CreatedAt}, db.At{To: &t.ExpiresAt}, db.At{To: &t.UsedAt})
	copy(t.Digest[:], digest)
	return err
}

func (tx txDirectories) InsertDirectoryToken(t people.DirectoryToken) error {
	return tx.Exec(`INSERT INTO directory_tokens (deployment, `+directoryTokenColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.ID, t.Directory, t.Public, t.Digest[:], t.Last4, db.Micros(t.CreatedAt), db.Micros(t.ExpiresAt), db.Micros(t.UsedAt))
}

func (tx txDirectories) DirectoryTokens(directories []int64) ([]people.DirectoryToken, error) {
	all, err := db.Among(tx.Tx, readDirectoryToken, `SELECT `+directoryTokenColumns+` FROM directory_tokens WHERE deployment = :deployment AND directory_id`, directories)
	slices.SortFunc(all, func(a, b people.DirectoryToken) int { return cmp.Compare(a.ID, b.ID) })
	return all, err
}

func (tx txDirectories) DirectoryToken(directory int64, public string) (people.DirectoryToken, bool, error) {
	return db.First(tx.Tx, readDirectoryToken, `SELECT `+directoryTokenColumns+` FROM directory_tokens WHERE deployment = :deployment AND public_id = ? AND directory_id = ?`,
		public, directory)
}

func (tx txDirectories) UseDirectoryToken(directory, id int64, now, after time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE directory_tokens SET used_at = ? WHERE used_at <= ? AND directory_id = ? AND id = ? AND deployment = :deployment`,
		db.Micros(now), db.Micros(after), directory, id)
	return n == 1, err
}

func (tx txDirectories) DeleteDirectoryToken(directory, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM directory_tokens WHERE deployment = :deployment AND directory_id = ? AND id = ?`, directory, id)
	return n == 1, err
}
