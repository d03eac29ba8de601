package users

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const organizationColumns = `o.id, o.name, o.slug, o.description, o.image_url, o.workspace_id, o.created_at, o.required_level, o.enforce_from, o.own_connections`

func organizationFields(o *people.Organization) []any {
	return []any{&o.ID, &o.Name, &o.Slug, &o.Description, &o.ImageURL, &o.Workspace, db.At{To: &o.CreatedAt}, &o.Required.Level, db.At{To: &o.Required.From}, &o.OwnConnections}
}

func readOrganization(row *sql.Rows, o *people.Organization) error {
	return row.Scan(organizationFields(o)...)
}

func (tx txOrganizations) InsertOrganization(o people.Organization) error {
	return tx.Exec(`INSERT INTO organizations (deployment, id, name, slug, description, image_url, workspace_id, created_at) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`,
		o.ID, o.Name, o.Slug, o.Description, o.ImageURL, o.Workspace, db.Micros(o.CreatedAt))
}

func (tx txOrganizations) Organization(id int64) (people.Organization, bool, error) {
	return db.First(tx.Tx, readOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.deployment = :deployment AND o.id = ?`, id)
}

func (tx txOrganizations) OrganizationBySlug(slug string) (people.Organization, bool, error) {
	return db.First(tx.Tx, readOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.deployment = :deployment AND o.slug = ?`, slug)
}

func (tx txOrganizations) LockOrganization(id int64) (people.Organization, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.Organization{}, false, err
	}
	return db.First(tx.Tx, readOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.deployment = :deployment AND o.id = ?`+tx.Lock(), id)
}

func (tx txOrganizations) SlugTaken(slug string) (bool, error) {
	var one int
	return tx.Get([]any{&one}, `SELECT 1 FROM organizations WHERE deployment = :deployment AND slug = ?
		UNION ALL SELECT 1 FROM organization_slugs s WHERE s.deployment = :deployment AND s.slug = ? LIMIT 1`, slug, slug)
}

func (tx txOrganizations) SetDefaultWorkspace(organization, workspace int64) error {
	return tx.Exec(`UPDATE organizations SET workspace_id = ? WHERE id = ? AND deployment = :deployment`, workspace, organization)
}

const workspaceColumns = `w.id, w.organization_id, w.name, w.slug, w.created_at`

func workspaceFields(w *people.Workspace) []any {
	return []any{&w.ID, &w.Organization, &w.Name, &w.Slug, db.At{To: &w.CreatedAt}}
}

func (tx txOrganizations) InsertWorkspace(w people.Workspace) error {
	return tx.Exec(`INSERT INTO workspaces (deployment, id, organization_id, name, slug, created_at) VALUES (:deployment, ?, ?, ?, ?, ?)`,
		w.ID, w.Organization, w.Name, w.Slug, db.Micros(w.CreatedAt))
}

func (tx txOrganizations) Workspace(id int64) (people.Workspace, bool, error) {
	return db.First(tx.Tx, readWorkspace, `SELECT `+workspaceColumns+` FROM workspaces w WHERE w.deployment = :deployment AND w.id = ?`, id)
}

func (tx txOrganizations) WorkspacesOf(organization int64) ([]people.Workspace, error) {
	return db.List(tx.Tx, readWorkspace, `SELECT `+workspaceColumns+` FROM workspaces w WHERE w.deployment = :deployment AND w.organization_id = ? ORDER BY w.created_at, w.id`, organization)
}

const memberQuery = `SELECT m.id, m.user_id, m.role_id, m.owner, m.workspace_id, m.created_at, ` + organizationColumns + `
	FROM organization_memberships m JOIN organizations o ON o.deployment = m.deployment AND o.id = m.organization_id WHERE m.deployment = :deployment`

func readMember(row *sql.Rows, m *people.Member) error {
	return row.Scan(append([]any{&m.ID, &m.User, &m.Role, &m.Owner, &m.Workspace, db.At{To: &m.CreatedAt}}, organizationFields(&m.Organization)...)...)
}

func (tx txOrganizations) InsertMember(m people.Member) error {
	return tx.Exec(`INSERT INTO organization_memberships (deployment, id, organization_id, user_id, role_id, owner, workspace_id, created_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`, m.ID, m.Organization.ID, m.User, m.Role, db.Flag(m.Owner), m.Workspace, db.Micros(m.CreatedAt))
}

// Member locks the row of the membership in a Change: a concurrent removal is either visible or waits.
func (tx txOrganizations) Member(organization, user int64) (people.Member, bool, error) {
	query := memberQuery + ` AND m.organization_id = ? AND m.user_id = ?`
	if tx.Lock() != "" {
		query += tx.Lock() + ` OF m`
	}
	return db.First(tx.Tx, readMember, query, organization, user)
}

func (tx txOrganizations) MembershipsOf(user int64) ([]people.Member, error) {
	return db.List(tx.Tx, readMember, memberQuery+` AND m.user_id = ? ORDER BY m.created_at, m.id`, user)
}

func (tx txOrganizations) SetMemberWorkspace(organization, user, workspace int64) error {
	return tx.Exec(`UPDATE organization_memberships SET workspace_id = ? WHERE organization_id = ? AND user_id = ? AND deployment = :deployment`,
		workspace, organization, user)
}

func (tx txOrganizations) DeleteMember(organization, user int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM organization_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`, organization, user)
	if err != nil || n == 0 {
		return false, err
	}
	if err := tx.Exec(`DELETE FROM workspace_memberships WHERE deployment = :deployment AND organization_id = ? AND user_id = ?`, organization, user); err != nil {
		return false, err
	}
	if err := deleteKeysIn(tx.peopleTx, organization, user); err != nil {
		return false, err
	}
	return true, tx.Sessions().LeaveOrganization(user, organization)
}

const workspaceMemberQuery = `SELECT m.id, m.user_id, m.role_id, m.owner, m.created_at, ` + workspaceColumns + `
	FROM workspace_memberships m JOIN workspaces w ON w.deployment = m.deployment AND w.id = m.workspace_id WHERE m.deployment = :deployment`

func readWorkspaceMember(row *sql.Rows, m *people.WorkspaceMember) error {
	return row.Scan(append([]any{&m.ID, &m.User, &m.Role, &m.Owner, db.At{To: &m.CreatedAt}}, workspaceFields(&m.Workspace)...)...)
}

func (tx txOrganizations) InsertWorkspaceMember(m people.WorkspaceMember) error {
	return tx.Exec(`INSERT INTO workspace_memberships (deployment, id, workspace_id, organization_id, user_id, role_id, owner, created_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`, m.ID, m.Workspace.ID, m.Workspace.Organization, m.User, m.Role, db.Flag(m.Owner), db.Micros(m.CreatedAt))
}

func (tx txOrganizations) WorkspaceMember(workspace, user int64) (people.WorkspaceMember, bool, error) {
	return db.First(tx.Tx, readWorkspaceMember, workspaceMemberQuery+` AND m.workspace_id = ? AND m.user_id = ?`, workspace, user)
}

func (tx txOrganizations) WorkspaceMembershipsOf(user, organization int64) ([]people.WorkspaceMember, error) {
	query, args := workspaceMemberQuery+` AND m.user_id = ?`, []any{user}
	if organization != 0 {
		query, args = query+` AND m.organization_id = ?`, append(args, organization)
	}
	return db.List(tx.Tx, readWorkspaceMember, query+` ORDER BY m.created_at, m.id`, args...)
}

// memberWithWorkspaces has one row per workspace of the member, or one row without a workspace.
const memberWithWorkspaces = `SELECT m.id, m.user_id, m.role_id, m.owner, m.workspace_id, m.created_at, ` + organizationColumns + `,
		COALESCE(i.id, 0), COALESCE(i.user_id, 0), COALESCE(i.role_id, 0), COALESCE(i.owner, 0), COALESCE(i.created_at, 0),
		COALESCE(w.id, 0), COALESCE(w.organization_id, 0), COALESCE(w.name, ''), COALESCE(w.slug, ''), COALESCE(w.created_at, 0)
	FROM organization_memberships m
	JOIN organizations o ON o.deployment = m.deployment AND o.id = m.organization_id
	LEFT JOIN workspace_memberships i ON i.deployment = m.deployment AND i.user_id = m.user_id AND i.organization_id = m.organization_id
	LEFT JOIN workspaces w ON w.deployment = i.deployment AND w.id = i.workspace_id
	WHERE m.deployment = :deployment AND m.organization_id = ? AND m.user_id = ? ORDER BY i.created_at, i.id`

func (tx txOrganizations) MemberWithWorkspaces(organization, user int64) (m people.Member, in []people.WorkspaceMember, found bool, err error) {
	err = tx.Each(func(row *sql.Rows) error {
		found = true
		var w people.WorkspaceMember
		fields := append([]any{&m.ID, &m.User, &m.Role, &m.Owner, &m.Workspace, db.At{To: &m.CreatedAt}}, organizationFields(&m.Organization)...)
		fields = append(fields, &w.ID, &w.User, &w.Role, &w.Owner, db.At{To: &w.CreatedAt})
		err := row.Scan(append(fields, workspaceFields(&w.Workspace)...)...)
		if w.Workspace.ID != 0 {
			in = append(in, w)
		}
		return err
	}, memberWithWorkspaces, organization, user)
	return m, in, found && err == nil, err
}

const invitationColumns = `id, organization_id, email, folded, role_id, hash, invited_by, created_at, expires_at, accepted_at, revoked_at`

func readInvitation(row *sql.Rows, i *people.Invitation) error {
	var folded string
	return row.Scan(&i.ID, &i.Organization, &i.Email, &folded, &i.Role, &i.Hash, &i.InvitedBy, db.At{To: &i.CreatedAt}, db.At{To: &i.ExpiresAt}, db.At{To: &i.AcceptedAt}, db.At{To: &i.RevokedAt})
}

func (tx txOrganizations) InsertInvitation(i people.Invitation) error {
	return tx.Exec(`INSERT INTO invitations (deployment, `+invitationColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		i.ID, i.Organization, i.Email, people.FoldEmail(i.Email), i.Role, i.Hash, i.InvitedBy, db.Micros(i.CreatedAt), db.Micros(i.ExpiresAt), db.Micros(i.AcceptedAt), db.Micros(i.RevokedAt))
}

func (tx txOrganizations) InvitationByToken(hash []byte) (people.Invitation, bool, error) {
	return db.First(tx.Tx, readInvitation, `SELECT `+invitationColumns+` FROM invitations WHERE deployment = :deployment AND hash = ?`, hash)
}

func (tx txOrganizations) Invitation(id int64) (people.Invitation, bool, error) {
	return db.First(tx.Tx, readInvitation, `SELECT `+invitationColumns+` FROM invitations WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txOrganizations) AcceptInvitation(id int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE invitations SET accepted_at = ? WHERE accepted_at = 0 AND revoked_at = 0 AND expires_at > ? AND id = ? AND deployment = :deployment`, db.Micros(now), db.Micros(now), id)
	return n == 1, err
}

func (tx txOrganizations) RevokeInvitation(id int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE invitations SET revoked_at = ?
		WHERE accepted_at = 0 AND revoked_at = 0 AND expires_at > ? AND id = ? AND deployment = :deployment`, db.Micros(now), db.Micros(now), id)
	return n == 1, err
}

func (tx txOrganizations) OpenInvitations(organization int64, now time.Time) ([]people.Invitation, error) {
	return db.List(tx.Tx, readInvitation, `SELECT `+invitationColumns+` FROM invitations WHERE deployment = :deployment AND organization_id = ?
		AND accepted_at = 0 AND revoked_at = 0 AND expires_at > ? ORDER BY created_at, id`, organization, db.Micros(now))
}

func (tx txOrganizations) InvitationsSince(folded string, inviter int64, since time.Time) (toEmail, byInviter int, err error) {
	if _, err = tx.Get([]any{&toEmail}, `SELECT COUNT(*) FROM invitations WHERE deployment = :deployment AND folded = ? AND created_at > ?`,
		folded, db.Micros(since)); err != nil {
		return 0, 0, err
	}
	_, err = tx.Get([]any{&byInviter}, `SELECT COUNT(*) FROM invitations WHERE deployment = :deployment AND invited_by = ? AND created_at > ?`,
		inviter, db.Micros(since))
	return toEmail, byInviter, err
}

func (tx txOrganizations) OwnedOrganizations(user int64) (int, error) {
	var n int
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM organization_memberships WHERE deployment = :deployment AND user_id = ? AND owner = 1`, user)
	return n, err
}
