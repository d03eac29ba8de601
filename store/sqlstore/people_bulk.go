package sqlstore

import (
	"database/sql"
	"maps"
	"slices"

	"github.com/cardea-iam/cardea/store/people"
)

func (tx txBulk) UsersAmong(ids []int64) (map[int64]bool, error) {
	return setOf(tx.deploymentTx, `SELECT id FROM users WHERE deployment = :deployment AND id`, ids)
}

func (tx txBulk) LockUsers(ids []int64) (map[int64]bool, error) {
	if err := tx.writable(); err != nil {
		return nil, err
	}
	// They are looked for, and locked, in the order of the list.
	slices.Sort(ids)
	rows, err := amongLocked(tx.deploymentTx, tx.lock(), func(row *sql.Rows, id *int64) error { return row.Scan(id) }, `SELECT id FROM users WHERE deployment = :deployment AND id`, ids)
	found := make(map[int64]bool, len(rows))
	for _, id := range rows {
		found[id] = true
	}
	return found, err
}

func (tx txBulk) InsertUsers(users []people.User) error {
	return insertMany(tx.deploymentTx, "users", users,
		numbers("id", func(u *people.User) int64 { return u.ID }),
		texts("first_name", func(u *people.User) string { return u.FirstName }),
		texts("last_name", func(u *people.User) string { return u.LastName }),
		numbers("disabled", func(u *people.User) int64 { return flag(u.Disabled) }),
		numbers("organization_id", func(u *people.User) int64 { return u.Organization }),
		numbers("created_at", func(u *people.User) int64 { return micros(u.CreatedAt) }),
		numbers("updated_at", func(u *people.User) int64 { return micros(u.CreatedAt) }))
}

func (tx txBulk) InsertPasswords(passwords []people.Password) error {
	return insertMany(tx.deploymentTx, "credentials", passwords,
		numbers("user_id", func(p *people.Password) int64 { return p.User }),
		texts("kind", func(*people.Password) string { return people.CredentialPassword }),
		texts("secret", func(p *people.Password) string { return p.Encoded }),
		numbers("created_at", func(p *people.Password) int64 { return micros(p.CreatedAt) }),
		numbers("updated_at", func(p *people.Password) int64 { return micros(p.CreatedAt) }))
}

func (tx txBulk) EmailsAmong(folded []string) (map[string]people.Email, error) {
	rows, err := among(tx.deploymentTx, readEmail, `SELECT `+emailColumns+` FROM emails WHERE deployment = :deployment AND folded`, folded)
	opens := func(e people.Email) bool { return e.Primary || !e.VerifiedAt.IsZero() }
	found := make(map[string]people.Email, len(rows))
	for _, e := range rows {
		key := people.FoldEmail(e.Address)
		if before, twice := found[key]; !twice || opens(e) || !opens(before) && e.ID < before.ID {
			found[key] = e
		}
	}
	return found, err
}

func (tx txBulk) PrimaryEmails(users []int64) (map[int64]people.Email, error) {
	rows, err := among(tx.deploymentTx, readEmail, `SELECT `+emailColumns+` FROM emails WHERE deployment = :deployment AND is_primary = 1 AND user_id`, users)
	return by(rows, func(e people.Email) int64 { return e.User }), err
}

func (tx txBulk) DeleteUnproven(ids []int64) error {
	return execAmong(tx.peopleTx, `DELETE FROM emails WHERE id`+tx.dialect.oneOf+` AND verified_at = 0 AND deployment = :deployment`, ids)
}

func (tx txBulk) InsertEmails(emails []people.Email) error {
	return insertMany(tx.deploymentTx, "emails", emails,
		numbers("id", func(e *people.Email) int64 { return e.ID }),
		numbers("user_id", func(e *people.Email) int64 { return e.User }),
		texts("address", func(e *people.Email) string { return e.Address }),
		texts("folded", func(e *people.Email) string { return people.FoldEmail(e.Address) }),
		numbers("is_primary", func(e *people.Email) int64 { return flag(e.Primary) }),
		numbers("verified_at", func(e *people.Email) int64 { return micros(e.VerifiedAt) }),
		numbers("created_at", func(e *people.Email) int64 { return micros(e.CreatedAt) }))
}

func (tx txBulk) DemoteEmails(ids []int64) error {
	return execAmong(tx.peopleTx, `UPDATE emails SET is_primary = 0 WHERE id`+tx.dialect.oneOf+` AND deployment = :deployment`, ids)
}

// execAmong runs a statement whose parameter is a list.
func execAmong(tx *peopleTx, query string, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	whole, err := tx.dialect.listOf(ids)
	if err != nil {
		return err
	}
	return tx.exec(query, whole)
}

func (tx txBulk) PhonesAmong(users []int64, numbers []string) ([]people.Phone, error) {
	own, err := among(tx.deploymentTx, readPhone, `SELECT `+phoneColumns+` FROM phones WHERE deployment = :deployment AND user_id`, users)
	if err != nil {
		return nil, err
	}
	verified, err := among(tx.deploymentTx, readPhone, `SELECT `+phoneColumns+` FROM phones WHERE deployment = :deployment AND verified_at > 0 AND number`, numbers)
	known := by(own, func(p people.Phone) int64 { return p.ID })
	for _, p := range verified {
		if _, twice := known[p.ID]; !twice {
			own = append(own, p)
		}
	}
	return own, err
}

func (tx txBulk) InsertPhones(phones []people.Phone) error {
	return insertMany(tx.deploymentTx, "phones", phones,
		numbers("id", func(p *people.Phone) int64 { return p.ID }),
		numbers("user_id", func(p *people.Phone) int64 { return p.User }),
		texts("number", func(p *people.Phone) string { return p.Number }),
		texts("region", func(p *people.Phone) string { return p.Region }),
		numbers("is_primary", func(p *people.Phone) int64 { return flag(p.Primary) }),
		numbers("verified_at", func(p *people.Phone) int64 { return micros(p.VerifiedAt) }),
		numbers("created_at", func(p *people.Phone) int64 { return micros(p.CreatedAt) }))
}

func (tx txBulk) DemotePhones(ids []int64) error {
	return execAmong(tx.peopleTx, `UPDATE phones SET is_primary = 0 WHERE id`+tx.dialect.oneOf+` AND deployment = :deployment`, ids)
}

func (tx txBulk) OrganizationsAmong(ids []int64) (map[int64]people.Organization, error) {
	rows, err := among(tx.deploymentTx, readOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.deployment = :deployment AND o.id`, ids)
	return by(rows, func(o people.Organization) int64 { return o.ID }), err
}

func by[K comparable, T any](rows []T, key func(T) K) map[K]T {
	found := make(map[K]T, len(rows))
	for _, row := range rows {
		found[key(row)] = row
	}
	return found
}

func (tx txBulk) SlugsTaken(slugs []string) (map[string]bool, error) {
	taken, err := setOf(tx.deploymentTx, `SELECT slug FROM organizations WHERE deployment = :deployment AND slug`, slugs)
	if err != nil {
		return nil, err
	}
	former, err := setOf(tx.deploymentTx, `SELECT slug FROM organization_slugs WHERE deployment = :deployment AND slug`, slugs)
	maps.Copy(taken, former)
	return taken, err
}

func (tx txBulk) InsertOrganizations(organizations []people.Organization) error {
	return insertMany(tx.deploymentTx, "organizations", organizations,
		numbers("id", func(o *people.Organization) int64 { return o.ID }),
		texts("name", func(o *people.Organization) string { return o.Name }),
		texts("slug", func(o *people.Organization) string { return o.Slug }),
		texts("description", func(o *people.Organization) string { return o.Description }),
		texts("image_url", func(o *people.Organization) string { return o.ImageURL }),
		numbers("workspace_id", func(o *people.Organization) int64 { return o.Workspace }),
		numbers("created_at", func(o *people.Organization) int64 { return micros(o.CreatedAt) }))
}

func readWorkspace(row *sql.Rows, w *people.Workspace) error { return row.Scan(workspaceFields(w)...) }

func (tx txBulk) WorkspacesAmong(ids []int64) (map[int64]people.Workspace, error) {
	rows, err := among(tx.deploymentTx, readWorkspace, `SELECT `+workspaceColumns+` FROM workspaces w WHERE w.deployment = :deployment AND w.id`, ids)
	return by(rows, func(w people.Workspace) int64 { return w.ID }), err
}

func (tx txBulk) WorkspaceSlugsTaken(organizations []int64, slugs []string) ([]people.Workspace, error) {
	wanted, err := tx.dialect.listOf(slugs)
	if err != nil || len(slugs) == 0 {
		return nil, err
	}
	read := func(row *sql.Rows, w *people.Workspace) error { return row.Scan(&w.ID, &w.Organization, &w.Slug) }
	return among(tx.deploymentTx, read, `SELECT id, organization_id, slug FROM workspaces
		WHERE deployment = :deployment AND slug`+tx.dialect.oneOf+` AND organization_id`, organizations, wanted)
}

func (tx txBulk) InsertWorkspaces(workspaces []people.Workspace) error {
	return insertMany(tx.deploymentTx, "workspaces", workspaces,
		numbers("id", func(w *people.Workspace) int64 { return w.ID }),
		numbers("organization_id", func(w *people.Workspace) int64 { return w.Organization }),
		texts("name", func(w *people.Workspace) string { return w.Name }),
		texts("slug", func(w *people.Workspace) string { return w.Slug }),
		numbers("created_at", func(w *people.Workspace) int64 { return micros(w.CreatedAt) }))
}

func (tx txBulk) MembershipsAmong(users []int64) (organizations, workspaces map[[2]int64]bool, err error) {
	read := func(row *sql.Rows, member *[2]int64) error { return row.Scan(&member[0], &member[1]) }
	in := func(query string) (map[[2]int64]bool, error) {
		rows, err := among(tx.deploymentTx, read, query, users)
		found := make(map[[2]int64]bool, len(rows))
		for _, row := range rows {
			found[row] = true
		}
		return found, err
	}
	if organizations, err = in(`SELECT organization_id, user_id FROM organization_memberships WHERE deployment = :deployment AND user_id`); err != nil {
		return nil, nil, err
	}
	workspaces, err = in(`SELECT workspace_id, user_id FROM workspace_memberships WHERE deployment = :deployment AND user_id`)
	return organizations, workspaces, err
}

func (tx txBulk) InsertMembers(members []people.Member) error {
	return insertMany(tx.deploymentTx, "organization_memberships", members,
		numbers("id", func(m *people.Member) int64 { return m.ID }),
		numbers("organization_id", func(m *people.Member) int64 { return m.Organization.ID }),
		numbers("user_id", func(m *people.Member) int64 { return m.User }),
		numbers("role_id", func(m *people.Member) int64 { return m.Role }),
		numbers("owner", func(m *people.Member) int64 { return flag(m.Owner) }),
		numbers("workspace_id", func(m *people.Member) int64 { return m.Workspace }),
		numbers("created_at", func(m *people.Member) int64 { return micros(m.CreatedAt) }))
}

func (tx txBulk) InsertWorkspaceMembers(members []people.WorkspaceMember) error {
	return insertMany(tx.deploymentTx, "workspace_memberships", members,
		numbers("id", func(m *people.WorkspaceMember) int64 { return m.ID }),
		numbers("workspace_id", func(m *people.WorkspaceMember) int64 { return m.Workspace.ID }),
		numbers("organization_id", func(m *people.WorkspaceMember) int64 { return m.Workspace.Organization }),
		numbers("user_id", func(m *people.WorkspaceMember) int64 { return m.User }),
		numbers("role_id", func(m *people.WorkspaceMember) int64 { return m.Role }),
		numbers("owner", func(m *people.WorkspaceMember) int64 { return flag(m.Owner) }),
		numbers("created_at", func(m *people.WorkspaceMember) int64 { return micros(m.CreatedAt) }))
}
