package users

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const directoryColumns = `id, organization_id, user_count, group_count, ended_at, provisioned_domains, roles`

func readDirectory(row *sql.Rows, d *people.Directory) error {
	return row.Scan(&d.ID, &d.Organization, &d.Users, &d.Groups, db.At{To: &d.EndedAt}, &d.ProvisionedDomains, &d.Roles)
}

const directoryByID = `SELECT ` + directoryColumns + ` FROM directories WHERE deployment = :deployment AND id = ?`

func (tx txDirectories) LockDirectory(id int64) (people.Directory, error) {
	if err := tx.Writable(); err != nil {
		return people.Directory{}, err
	}
	d, found, err := db.First(tx.Tx, readDirectory, directoryByID+tx.Lock(), id)
	if err != nil || found {
		return d, err
	}
	// The update locks the row that a concurrent transaction inserted meanwhile.
	d, _, err = db.First(tx.Tx, readDirectory, `INSERT INTO directories (deployment, `+directoryColumns+`) VALUES (:deployment, ?, 0, 0, 0, 0, '', '')
		ON CONFLICT (deployment, id) DO UPDATE SET id = excluded.id RETURNING `+directoryColumns, id)
	return d, err
}

func (tx txDirectories) Directory(id int64) (people.Directory, bool, error) {
	return db.First(tx.Tx, readDirectory, directoryByID, id)
}

func (tx txDirectories) UpdateDirectory(d people.Directory) error {
	return tx.Exec(`UPDATE directories SET organization_id = ?, user_count = ?, group_count = ?, ended_at = ?, provisioned_domains = ?, roles = ? WHERE id = ? AND deployment = :deployment`,
		d.Organization, d.Users, d.Groups, db.Micros(d.EndedAt), d.ProvisionedDomains, d.Roles, d.ID)
}

// ClearDirectory deletes memberships of groups before users and groups, so that a directory that is cleared halfway has
// none whose user or group is missing.
func (tx txDirectories) ClearDirectory(id int64, limit int) (int64, error) {
	for _, rows := range []struct{ table, key string }{{"scim_members", "group_id, member_id"}, {"scim_users", "id"}, {"scim_groups", "id"}} {
		n, err := tx.Affected(fmt.Sprintf(`DELETE FROM %[1]s WHERE deployment = :deployment AND directory_id = ? AND (%[2]s) IN (SELECT %[2]s FROM %[1]s
			WHERE deployment = :deployment AND directory_id = ? ORDER BY %[2]s LIMIT ?)`, rows.table, rows.key), id, id, limit)
		if err != nil || n > 0 {
			return n, err
		}
	}
	suspended, err := db.List(tx.Tx, readSuspended, suspendedMembers+`directory_id = ? ORDER BY user_id LIMIT ?`, id, limit)
	for i := range suspended {
		if _, err := tx.DropSuspended(suspended[i].Organization, suspended[i].User); err != nil {
			return int64(i), err
		}
	}
	if err != nil || len(suspended) > 0 {
		return int64(len(suspended)), err
	}
	if err := tx.Exec(`DELETE FROM runtime_directories WHERE deployment = :deployment AND deleted = 1 AND id = ?`, id); err != nil {
		return 0, err
	}
	return tx.Affected(`DELETE FROM directories WHERE id = ? AND deployment = :deployment`, id)
}

const suspendedMembers = `SELECT id, organization_id, user_id, directory_id, role_id, owner, suspended_at FROM suspended_memberships WHERE deployment = :deployment AND `

func readSuspended(row *sql.Rows, m *people.SuspendedMember) error {
	return row.Scan(&m.ID, &m.Organization, &m.User, &m.Directory, &m.Role, &m.Owner, db.At{To: &m.SuspendedAt})
}

func (tx txDirectories) SuspendMember(organization, user, directory int64, now time.Time) (bool, error) {
	if err := markKeysIn(tx.peopleTx, organization, user); err != nil {
		return false, err
	}
	n, err := tx.Affected(`INSERT INTO suspended_memberships (deployment, organization_id, user_id, directory_id, id, role_id, owner, workspace_id, created_at, suspended_at)
		SELECT deployment, organization_id, user_id, CAST(? AS BIGINT), id, role_id, owner, workspace_id, created_at, CAST(? AS BIGINT)
		FROM organization_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?
		ON CONFLICT (deployment, organization_id, user_id) DO UPDATE SET directory_id = excluded.directory_id, id = excluded.id, role_id = excluded.role_id,
			owner = excluded.owner, workspace_id = excluded.workspace_id, created_at = excluded.created_at, suspended_at = excluded.suspended_at`, directory, db.Micros(now), organization, user)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.all(organization, user, forgetWorkspaces,
		`INSERT INTO suspended_workspace_memberships (deployment, organization_id, user_id, id, workspace_id, role_id, owner, created_at)
			SELECT deployment, organization_id, user_id, id, workspace_id, role_id, owner, created_at FROM workspace_memberships
			WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`,
		`DELETE FROM workspace_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`,
		`DELETE FROM organization_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`,
		`UPDATE signins SET organization_id = 0, workspace_id = 0 WHERE organization_id = ? AND user_id = ? AND deployment = :deployment`)
}

// all runs statements about a user in an organization.
func (tx txDirectories) all(organization, user int64, statements ...string) error {
	for _, statement := range statements {
		if err := tx.Exec(statement, organization, user); err != nil {
			return err
		}
	}
	return nil
}

func (tx txDirectories) SuspendedMember(organization, user int64) (people.SuspendedMember, bool, error) {
	return db.First(tx.Tx, readSuspended, suspendedMembers+`organization_id = ? AND user_id = ?`, organization, user)
}

func (tx txDirectories) RestoreMember(organization, user int64) (bool, error) {
	if err := markKeysIn(tx.peopleTx, organization, user); err != nil {
		return false, err
	}
	restored, err := tx.Affected(`INSERT INTO organization_memberships (deployment, id, organization_id, user_id, role_id, owner, workspace_id, created_at)
		SELECT deployment, id, organization_id, user_id, role_id, owner, workspace_id, created_at FROM suspended_memberships
		WHERE deployment = :deployment AND organization_id = ? AND user_id = ? ON CONFLICT DO NOTHING`, organization, user)
	if err == nil && restored > 0 {
		err = tx.Exec(`INSERT INTO workspace_memberships (deployment, id, workspace_id, organization_id, user_id, role_id, owner, created_at)
			SELECT s.deployment, s.id, s.workspace_id, s.organization_id, s.user_id, s.role_id, s.owner, s.created_at FROM suspended_workspace_memberships s
			JOIN workspaces w ON w.deployment = s.deployment AND w.id = s.workspace_id
			WHERE s.deployment = :deployment AND s.organization_id = ? AND s.user_id = ? ON CONFLICT DO NOTHING`, organization, user)
	}
	if err != nil {
		return false, err
	}
	n, err := tx.Affected(forgetSuspended, organization, user)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Exec(forgetWorkspaces, organization, user)
}

const (
	forgetWorkspaces = `DELETE FROM suspended_workspace_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`
	forgetSuspended  = `DELETE FROM suspended_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`
)

func (tx txDirectories) DropSuspended(organization, user int64) (bool, error) {
	n, err := tx.Affected(forgetSuspended, organization, user)
	if err != nil || n == 0 {
		return false, err
	}
	if err := tx.Exec(forgetWorkspaces, organization, user); err != nil {
		return false, err
	}
	return true, deleteKeysIn(tx.peopleTx, organization, user)
}

func (tx txDirectories) CountSuspended(user int64) (int, error) {
	var n int
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM suspended_memberships WHERE deployment = :deployment AND user_id = ?`, user)
	return n, err
}

func (tx txDirectories) AnySuspended(organization int64) (bool, error) {
	var user int64
	return tx.Get([]any{&user}, `SELECT user_id FROM suspended_memberships WHERE deployment = :deployment AND organization_id = ? ORDER BY user_id LIMIT 1`, organization)
}

func (tx txDirectories) DirectoryAccount(user int64) (people.DirectoryAccount, error) {
	a := people.DirectoryAccount{User: user}
	_, err := tx.Get([]any{&a.CreatedBy, &a.DisabledBy}, `SELECT created_by, disabled_by FROM directory_accounts WHERE deployment = :deployment AND user_id = ?`, user)
	return a, err
}

func (tx txDirectories) PutDirectoryAccount(a people.DirectoryAccount) error {
	return tx.Exec(`INSERT INTO directory_accounts (deployment, user_id, created_by, disabled_by) VALUES (:deployment, ?, ?, ?)
		ON CONFLICT (deployment, user_id) DO UPDATE SET created_by = excluded.created_by, disabled_by = excluded.disabled_by`, a.User, a.CreatedBy, a.DisabledBy)
}

// ListDirectories implements people.DirectoryUpkeep.
func (s *Rows) ListDirectories(ctx context.Context, after people.DirectoryRef, limit int) ([]people.DirectoryRef, error) {
	var all []people.DirectoryRef
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var one people.DirectoryRef
		deleted := -1
		err := row.Scan(&one.Deployment, &one.ID, db.At{To: &one.EndedAt}, &deleted, &one.Waiting, &one.Roles)
		one.Runtime, one.Deleted = deleted == 0, deleted == 1
		all = append(all, one)
		return err
	}, `SELECT d.deployment, d.id, d.ended_at, COALESCE((SELECT r.deleted FROM runtime_directories r WHERE r.deployment = d.deployment AND r.id = d.id), -1),
		CASE WHEN EXISTS (SELECT 1 FROM scim_users u WHERE u.deployment = d.deployment AND u.directory_id = d.id AND u.user_id = 0 AND u.email <> '') THEN 1 ELSE 0 END, d.roles
		FROM directories d WHERE (d.deployment, d.id) > (?, ?) ORDER BY d.deployment, d.id LIMIT ?`, after.Deployment, after.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("list directories: %w", err)
	}
	return all, nil
}
