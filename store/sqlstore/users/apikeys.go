package users

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const apiKeyColumns = `k.id, COALESCE(k.public_id, ''), k.digest, k.prefix, k.suffix, k.app, k.name, k.permissions, k.metadata,
	k.owner_user_id, k.organization_id, k.workspace_id, k.scheme, k.expires_at, k.retires_at, k.last_used_at, k.created_at, k.updated_at,
	k.revoked_at, k.revoked_reason, k.rotated_from`

// apiKeyRow is a key in the form of its row.
type apiKeyRow struct {
	key                   people.APIKey
	digest                []byte
	permissions, metadata string
}

func (r *apiKeyRow) fields() []any {
	k := &r.key
	return []any{
		&k.ID, &k.PublicID, &r.digest, &k.Prefix, &k.Suffix, &k.App, &k.Name, &r.permissions, &r.metadata,
		&k.Owner, &k.Organization, &k.Workspace, &k.Scheme, db.At{To: &k.ExpiresAt}, db.At{To: &k.RetiresAt}, db.At{To: &k.LastUsedAt},
		db.At{To: &k.CreatedAt}, db.At{To: &k.UpdatedAt}, db.At{To: &k.RevokedAt}, &k.RevokedReason, &k.RotatedFrom,
	}
}

func (r *apiKeyRow) read() (people.APIKey, error) {
	copy(r.key.Digest[:], r.digest)
	if r.metadata != "" {
		r.key.Metadata = []byte(r.metadata)
	}
	if r.permissions == "" {
		return r.key, nil
	}
	if err := json.Unmarshal([]byte(r.permissions), &r.key.Permissions); err != nil {
		return r.key, fmt.Errorf("permissions of API key %d: %w", r.key.ID, err)
	}
	return r.key, nil
}

func readAPIKey(row *sql.Rows, k *people.APIKey) error {
	var scanned apiKeyRow
	err := row.Scan(scanned.fields()...)
	if err == nil {
		*k, err = scanned.read()
	}
	return err
}

// permissionList returns a list in its stored form, "" for an empty one.
func permissionList(names []string) string {
	if len(names) == 0 {
		return ""
	}
	raw, _ := json.Marshal(names) // strings: cannot fail
	return string(raw)
}

func (tx txAPIKeys) InsertAPIKey(k people.APIKey) error {
	var publicID any
	if k.PublicID != "" {
		publicID = k.PublicID
	}
	err := tx.Exec(`INSERT INTO api_keys (deployment, id, public_id, digest, prefix, suffix, app, name, permissions, metadata, owner_user_id,
		organization_id, workspace_id, scheme, expires_at, retires_at, last_used_at, created_at, updated_at, revoked_at, revoked_reason, rotated_from)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		k.ID, publicID, k.Digest[:], k.Prefix, k.Suffix, k.App, k.Name, permissionList(k.Permissions), string(k.Metadata), k.Owner,
		k.Organization, k.Workspace, k.Scheme, db.Micros(k.ExpiresAt), db.Micros(k.RetiresAt), db.Micros(k.LastUsedAt), db.Micros(k.CreatedAt), db.Micros(k.UpdatedAt),
		db.Micros(k.RevokedAt), k.RevokedReason, k.RotatedFrom)
	if err == nil && k.PublicID == "" {
		tx.keys.imported = true
	}
	return err
}

func (tx txAPIKeys) APIKey(id int64) (people.APIKey, bool, error) {
	return db.First(tx.Tx, readAPIKey, `SELECT `+apiKeyColumns+` FROM api_keys k WHERE k.deployment = :deployment AND k.id = ?`, id)
}

func (tx txAPIKeys) APIKeyByPublicID(publicID string) (people.APIKey, bool, error) {
	return db.First(tx.Tx, readAPIKey, `SELECT `+apiKeyColumns+` FROM api_keys k WHERE k.deployment = :deployment AND k.public_id = ?`, publicID)
}

func (tx txAPIKeys) LockAPIKey(id int64) (people.APIKey, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.APIKey{}, false, err
	}
	return db.First(tx.Tx, readAPIKey, `SELECT `+apiKeyColumns+` FROM api_keys k WHERE k.deployment = :deployment AND k.id = ?`+tx.Lock(), id)
}

func (tx txAPIKeys) ListAPIKeys(filter people.APIKeyFilter, limit int) ([]people.APIKey, error) {
	where, args := ` FROM api_keys k WHERE k.deployment = :deployment`, []any{}
	also := func(condition string, values ...any) {
		where += " AND " + condition
		args = append(args, values...)
	}
	if filter.App != "" {
		also(`k.app = ?`, filter.App)
	}
	if filter.Owner != 0 {
		also(`k.owner_user_id > 0 AND k.owner_user_id = ?`, filter.Owner)
	}
	if filter.Organization != 0 {
		also(`k.organization_id > 0 AND k.organization_id = ?`, filter.Organization)
	}
	if now := db.Micros(filter.ActiveAt); now != 0 {
		also(`k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ?) AND (k.retires_at = 0 OR k.retires_at > ?)`, now, now)
	}
	if filter.Before != 0 {
		also(`k.id < ?`, filter.Before)
	}
	return db.List(tx.Tx, readAPIKey, `SELECT `+apiKeyColumns+where+` ORDER BY k.id DESC LIMIT ?`, append(args, limit)...)
}

func (tx txAPIKeys) UpdateAPIKey(k people.APIKey) error {
	ends := db.Micros(k.ExpiresAt)
	return changeKeys(tx.peopleTx, `UPDATE api_keys SET name = ?, permissions = ?, metadata = ?, scheme = ?, retires_at = ?, updated_at = ?, revoked_at = ?,
		revoked_reason = ?, expiry_seen = CASE WHEN expires_at = ? THEN expiry_seen ELSE 0 END, expires_at = ?
		WHERE id = ? AND deployment = :deployment RETURNING digest`,
		k.Name, permissionList(k.Permissions), string(k.Metadata), k.Scheme, db.Micros(k.RetiresAt), db.Micros(k.UpdatedAt), db.Micros(k.RevokedAt),
		k.RevokedReason, ends, ends, k.ID)
}

func (tx txAPIKeys) DeleteAPIKey(id int64) (bool, error) {
	before := len(tx.keys.changed)
	err := changeKeys(tx.peopleTx, `DELETE FROM api_keys WHERE deployment = :deployment AND id = ? RETURNING digest`, id)
	return len(tx.keys.changed) > before, err
}

// changeKeys runs a statement that returns the digests of the keys it changed, and adds them to the pending feed
// entries.
func changeKeys(tx *peopleTx, statement string, args ...any) error {
	if err := tx.Writable(); err != nil {
		return err
	}
	return markKeys(tx, statement, args...)
}

// markKeys adds the keys whose digests a query returns to the pending feed entries.
func markKeys(tx *peopleTx, query string, args ...any) error {
	changed, err := db.List(tx.Tx, func(row *sql.Rows, digest *[]byte) error { return row.Scan(digest) }, query, args...)
	tx.keys.mark(changed)
	return err
}

// markKeysOf adds a user's keys to the pending feed entries.
func markKeysOf(tx *peopleTx, user int64) error {
	return markKeys(tx, `SELECT digest FROM api_keys WHERE deployment = :deployment AND owner_user_id > 0 AND owner_user_id = ?`, user)
}

// markKeysIn adds the keys bound to a user's membership in an organization to the pending feed entries.
func markKeysIn(tx *peopleTx, organization, user int64) error {
	return markKeys(tx, `SELECT digest FROM api_keys WHERE deployment = :deployment AND owner_user_id > 0 AND owner_user_id = ? AND organization_id = ?`, user, organization)
}

// deleteKeysOf deletes a user's keys.
func deleteKeysOf(tx *peopleTx, user int64) error {
	return changeKeys(tx, `DELETE FROM api_keys WHERE deployment = :deployment AND owner_user_id > 0 AND owner_user_id = ? RETURNING digest`, user)
}

// deleteKeysIn deletes the keys bound to a user's membership in an organization, and those bound to its workspaces.
func deleteKeysIn(tx *peopleTx, organization, user int64) error {
	return changeKeys(tx, `DELETE FROM api_keys WHERE deployment = :deployment AND owner_user_id > 0 AND owner_user_id = ? AND organization_id = ?
		RETURNING digest`, user, organization)
}
