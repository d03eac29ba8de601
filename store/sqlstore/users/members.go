package users

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

func (tx txOrganizations) UpdateOrganization(o people.Organization) error {
	return tx.Exec(`UPDATE organizations SET name = ?, description = ?, image_url = ?, required_level = ?, enforce_from = ?
		WHERE id = ? AND deployment = :deployment`, o.Name, o.Description, o.ImageURL, int64(o.Required.Level), db.Micros(o.Required.From), o.ID)
}

func (tx txOrganizations) DeleteOrganization(id int64) error {
	if err := changeKeys(tx.peopleTx, `DELETE FROM api_keys WHERE deployment = :deployment AND organization_id > 0 AND organization_id = ? RETURNING digest`, id); err != nil {
		return err
	}
	for _, deleteAll := range []func(*peopleTx, int64) error{deleteConnectionsOf, deleteDirectoriesOf} {
		if err := deleteAll(tx.peopleTx, id); err != nil {
			return err
		}
	}
	err := tx.Exec(`UPDATE signins SET organization_id = 0, workspace_id = 0 WHERE organization_id = ? AND deployment = :deployment AND user_id IN (SELECT m.user_id
		FROM organization_memberships m WHERE m.deployment = :deployment AND m.organization_id = ?)`, id, id)
	if err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM domains WHERE deployment = :deployment AND organization_id = ?`,
		`DELETE FROM setup_links WHERE deployment = :deployment AND organization_id = ?`,
		// Revoked invitations stay until they would have expired: they count toward the inviter's limit.
		`UPDATE invitations SET revoked_at = created_at WHERE accepted_at = 0 AND revoked_at = 0 AND deployment = :deployment AND organization_id = ?`,
		`DELETE FROM workspace_memberships WHERE deployment = :deployment AND organization_id = ?`,
		`DELETE FROM workspaces WHERE deployment = :deployment AND organization_id = ?`,
		`DELETE FROM organization_memberships WHERE deployment = :deployment AND organization_id = ?`,
		`DELETE FROM suspended_workspace_memberships WHERE deployment = :deployment AND organization_id = ?`,
		`DELETE FROM suspended_memberships WHERE deployment = :deployment AND organization_id = ?`,
		// The slug stays reserved. Groups in tokens are named after it, and applications may still trust them.
		`INSERT INTO organization_slugs (deployment, slug) SELECT o.deployment, o.slug FROM organizations o WHERE o.deployment = :deployment AND o.id = ?
			ON CONFLICT (deployment, slug) DO NOTHING`,
		`DELETE FROM organizations WHERE deployment = :deployment AND id = ?`,
	} {
		if err := tx.Exec(statement, id); err != nil {
			return err
		}
	}
	return nil
}

func (tx txOrganizations) OwnersOf(organization int64) (int, error) {
	var n int
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM organization_memberships WHERE deployment = :deployment AND organization_id = ? AND owner = 1`, organization)
	return n, err
}

func (tx txOrganizations) RenameWorkspace(id int64, name string) error {
	return tx.Exec(`UPDATE workspaces SET name = ? WHERE id = ? AND deployment = :deployment`, name, id)
}

const accountColumns = `u.id, u.first_name, u.last_name,
	COALESCE((SELECT e.address FROM emails e WHERE e.deployment = u.deployment AND e.user_id = u.id AND e.is_primary = 1), '')`

func accountFields(a *people.Account) []any { return []any{&a.ID, &a.FirstName, &a.LastName, &a.Email} }

func (tx txOrganizations) MembersOf(organization, after int64, limit int) ([]people.MemberAccount, error) {
	return db.List(tx.Tx, func(row *sql.Rows, m *people.MemberAccount) error {
		return row.Scan(append([]any{&m.ID, &m.User, &m.Organization.ID, &m.Role, &m.Owner, &m.Workspace, db.At{To: &m.CreatedAt}}, accountFields(&m.Account)...)...)
	}, `SELECT m.id, m.user_id, m.organization_id, m.role_id, m.owner, m.workspace_id, m.created_at, `+accountColumns+`
		FROM organization_memberships m JOIN users u ON u.deployment = m.deployment AND u.id = m.user_id
		WHERE m.deployment = :deployment AND m.organization_id = ? AND m.id > ? ORDER BY m.id LIMIT ?`, organization, after, limit)
}

func (tx txOrganizations) SetPendingNotices(organization, after int64) error {
	return tx.Exec(`UPDATE organizations SET notices_after = ? WHERE id = ? AND deployment = :deployment`, after, organization)
}

func (tx txOrganizations) NoticesAfter(organization int64) (int64, error) {
	after, _, err := db.First(tx.Tx, func(row *sql.Rows, after *int64) error { return row.Scan(after) },
		`SELECT notices_after FROM organizations WHERE deployment = :deployment AND id = ?`, organization)
	return after, err
}

// PendingNotices implements people.Upkeep.
func (s *Rows) PendingNotices(ctx context.Context, after people.PendingNotice, limit int) ([]people.PendingNotice, error) {
	var pending []people.PendingNotice
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var one people.PendingNotice
		err := row.Scan(&one.Deployment, &one.Organization, &one.After)
		pending = append(pending, one)
		return err
	}, `SELECT deployment, id, notices_after FROM organizations WHERE notices_after > 0 AND (deployment, id) > (?, ?) ORDER BY deployment, id LIMIT ?`,
		after.Deployment, after.Organization, limit)
	if err != nil {
		return nil, fmt.Errorf("list pending notices of organizations: %w", err)
	}
	return pending, nil
}

func (tx txOrganizations) FactorLevelsOf(organization, after int64, limit int, usable people.FactorFilter) (map[int64]assurance.Level, error) {
	usable.Level = assurance.PhishingResistant
	resistant, args := factorCondition(usable)
	usable.Level = assurance.None
	none, more := factorCondition(usable)
	args = append(append(args, more...), organization, after, limit)
	type level struct {
		user  int64
		level assurance.Level
	}
	levels, err := db.List(tx.Tx, func(row *sql.Rows, l *level) error { return row.Scan(&l.user, &l.level) },
		`SELECT u.id, CASE WHEN `+resistant+` THEN 3 WHEN `+none+` THEN 0 ELSE 2 END
		FROM organization_memberships m JOIN users u ON u.deployment = m.deployment AND u.id = m.user_id
		WHERE m.deployment = :deployment AND m.organization_id = ? AND m.id > ? ORDER BY m.id LIMIT ?`, args...)
	out := make(map[int64]assurance.Level, len(levels))
	for _, l := range levels {
		out[l.user] = l.level
	}
	return out, err
}

// MemberByID locks the row of the membership in a Change, as Member does.
func (tx txOrganizations) MemberByID(organization, id int64) (people.Member, bool, error) {
	query := memberQuery + ` AND m.organization_id = ? AND m.id = ?`
	if tx.Lock() != "" {
		query += tx.Lock() + ` OF m`
	}
	return db.First(tx.Tx, readMember, query, organization, id)
}

func (tx txOrganizations) UpdateMember(m people.Member) error {
	if err := markKeysIn(tx.peopleTx, m.Organization.ID, m.User); err != nil {
		return err
	}
	return tx.Exec(`UPDATE organization_memberships SET role_id = ?, owner = ? WHERE id = ? AND deployment = :deployment`, m.Role, db.Flag(m.Owner), m.ID)
}

func (tx txOrganizations) WorkspaceMembersOf(workspace, after int64, limit int) ([]people.WorkspaceMemberAccount, error) {
	return db.List(tx.Tx, func(row *sql.Rows, m *people.WorkspaceMemberAccount) error {
		return row.Scan(append([]any{&m.ID, &m.User, &m.Workspace.ID, &m.Workspace.Organization, &m.Role, &m.Owner, db.At{To: &m.CreatedAt}}, accountFields(&m.Account)...)...)
	}, `SELECT m.id, m.user_id, m.workspace_id, m.organization_id, m.role_id, m.owner, m.created_at, `+accountColumns+`
		FROM workspace_memberships m JOIN users u ON u.deployment = m.deployment AND u.id = m.user_id
		WHERE m.deployment = :deployment AND m.workspace_id = ? AND m.id > ? ORDER BY m.id LIMIT ?`, workspace, after, limit)
}

func (tx txOrganizations) WorkspaceMemberByID(workspace, id int64) (people.WorkspaceMember, bool, error) {
	return db.First(tx.Tx, readWorkspaceMember, workspaceMemberQuery+` AND m.workspace_id = ? AND m.id = ?`, workspace, id)
}

func (tx txOrganizations) SetWorkspaceMemberRole(id, role int64) error {
	err := markKeys(tx.peopleTx, `SELECT k.digest FROM workspace_memberships m JOIN api_keys k ON k.deployment = m.deployment AND k.owner_user_id > 0
			AND k.owner_user_id = m.user_id AND k.workspace_id = m.workspace_id
		WHERE m.deployment = :deployment AND m.id = ?`, id)
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE workspace_memberships SET role_id = ? WHERE id = ? AND deployment = :deployment`, role, id)
}

func (tx txOrganizations) DeleteWorkspaceMember(m people.WorkspaceMember) error {
	if err := tx.Exec(`DELETE FROM workspace_memberships WHERE deployment = :deployment AND id = ?`, m.ID); err != nil {
		return err
	}
	if err := changeKeys(tx.peopleTx, `DELETE FROM api_keys WHERE deployment = :deployment AND owner_user_id > 0 AND owner_user_id = ? AND workspace_id = ? RETURNING digest`, m.User, m.Workspace.ID); err != nil {
		return err
	}
	return tx.Exec(`UPDATE signins SET workspace_id = 0 WHERE user_id = ? AND workspace_id = ? AND deployment = :deployment`, m.User, m.Workspace.ID)
}
