package users

import (
	"database/sql"
	"maps"
	"slices"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

func (tx txBulk) UsersAmong(ids []int64) (map[int64]bool, error) {
	return db.SetOf(tx.Tx, `SELECT id FROM users WHERE deployment = :deployment AND id`, ids)
}

func (tx txBulk) LockUsers(ids []int64) (map[int64]bool, error) {
	if err := tx.Writable(); err != nil {
		return nil, err
	}
	// The rows are found and locked in the order of the list.
	slices.Sort(ids)
	rows, err := db.AmongLocked(tx.Tx, tx.Lock(), func(row *sql.Rows, id *int64) error { return row.Scan(id) }, `SELECT id FROM users WHERE deployment = :deployment AND id`, ids)
	found := make(map[int64]bool, len(rows))
	for _, id := range rows {
		found[id] = true
	}
	return found, err
}

func (tx txBulk) InsertUsers(users []people.User) error {
	return db.InsertMany(tx.Tx, "users", users,
		db.Numbers("id", func(u *people.User) int64 { return u.ID }),
		db.Texts("first_name", func(u *people.User) string { return u.FirstName }),
		db.Texts("last_name", func(u *people.User) string { return u.LastName }),
		db.Numbers("disabled", func(u *people.User) int64 { return db.Flag(u.Disabled) }),
		db.Numbers("organization_id", func(u *people.User) int64 { return u.Organization }),
		db.Numbers("created_at", func(u *people.User) int64 { return db.Micros(u.CreatedAt) }),
		db.Numbers("updated_at", func(u *people.User) int64 { return db.Micros(u.CreatedAt) }))
}

func (tx txBulk) InsertPasswords(passwords []people.Password) error {
	return db.InsertMany(tx.Tx, "credentials", passwords,
		db.Numbers("user_id", func(p *people.Password) int64 { return p.User }),
		db.Texts("kind", func(*people.Password) string { return people.CredentialPassword }),
		db.Texts("secret", func(p *people.Password) string { return p.Encoded }),
		db.Numbers("created_at", func(p *people.Password) int64 { return db.Micros(p.CreatedAt) }),
		db.Numbers("updated_at", func(p *people.Password) int64 { return db.Micros(p.CreatedAt) }))
}

func (tx txBulk) EmailsAmong(folded []string) (map[string]people.Email, error) {
	rows, err := db.Among(tx.Tx, readEmail, `SELECT `+emailColumns+` FROM emails WHERE deployment = :deployment AND folded`, folded)
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
	rows, err := db.Among(tx.Tx, readEmail, `SELECT `+emailColumns+` FROM emails WHERE deployment = :deployment AND is_primary = 1 AND user_id`, users)
	return by(rows, func(e people.Email) int64 { return e.User }), err
}

func (tx txBulk) DeleteUnproven(ids []int64) error {
	return execAmong(tx.peopleTx, `DELETE FROM emails WHERE id`+tx.Dialect.OneOf+` AND verified_at = 0 AND deployment = :deployment`, ids)
}

func (tx txBulk) InsertEmails(emails []people.Email) error {
	return db.InsertMany(tx.Tx, "emails", emails,
		db.Numbers("id", func(e *people.Email) int64 { return e.ID }),
		db.Numbers("user_id", func(e *people.Email) int64 { return e.User }),
		db.Texts("address", func(e *people.Email) string { return e.Address }),
		db.Texts("folded", func(e *people.Email) string { return people.FoldEmail(e.Address) }),
		db.Numbers("is_primary", func(e *people.Email) int64 { return db.Flag(e.Primary) }),
		db.Numbers("verified_at", func(e *people.Email) int64 { return db.Micros(e.VerifiedAt) }),
		db.Numbers("created_at", func(e *people.Email) int64 { return db.Micros(e.CreatedAt) }))
}

func (tx txBulk) DemoteEmails(ids []int64) error {
	return execAmong(tx.peopleTx, `UPDATE emails SET is_primary = 0 WHERE id`+tx.Dialect.OneOf+` AND deployment = :deployment`, ids)
}

// execAmong runs a statement whose parameter is a list.
func execAmong(tx *peopleTx, query string, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	whole, err := tx.Dialect.ListOf(ids)
	if err != nil {
		return err
	}
	return tx.Exec(query, whole)
}

func (tx txBulk) PhonesAmong(users []int64, numbers []string) ([]people.Phone, error) {
	own, err := db.Among(tx.Tx, readPhone, `SELECT `+phoneColumns+` FROM phones WHERE deployment = :deployment AND user_id`, users)
	if err != nil {
		return nil, err
	}
	verified, err := db.Among(tx.Tx, readPhone, `SELECT `+phoneColumns+` FROM phones WHERE deployment = :deployment AND verified_at > 0 AND number`, numbers)
	known := by(own, func(p people.Phone) int64 { return p.ID })
	for _, p := range verified {
		if _, twice := known[p.ID]; !twice {
			own = append(own, p)
		}
	}
	return own, err
}

func (tx txBulk) InsertPhones(phones []people.Phone) error {
	return db.InsertMany(tx.Tx, "phones", phones,
		db.Numbers("id", func(p *people.Phone) int64 { return p.ID }),
		db.Numbers("user_id", func(p *people.Phone) int64 { return p.User }),
		db.Texts("number", func(p *people.Phone) string { return p.Number }),
		db.Texts("region", func(p *people.Phone) string { return p.Region }),
		db.Numbers("is_primary", func(p *people.Phone) int64 { return db.Flag(p.Primary) }),
		db.Numbers("verified_at", func(p *people.Phone) int64 { return db.Micros(p.VerifiedAt) }),
		db.Numbers("created_at", func(p *people.Phone) int64 { return db.Micros(p.CreatedAt) }))
}

func (tx txBulk) DemotePhones(ids []int64) error {
	return execAmong(tx.peopleTx, `UPDATE phones SET is_primary = 0 WHERE id`+tx.Dialect.OneOf+` AND deployment = :deployment`, ids)
}

func (tx txBulk) OrganizationsAmong(ids []int64) (map[int64]people.Organization, error) {
	rows, err := db.Among(tx.Tx, readOrganization, `SELECT `+organizationColumns+` FROM organizations o WHERE o.deployment = :deployment AND o.id`, ids)
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
	taken, err := db.SetOf(tx.Tx, `SELECT slug FROM organizations WHERE deployment = :deployment AND slug`, slugs)
	if err != nil {
		return nil, err
	}
	former, err := db.SetOf(tx.Tx, `SELECT slug FROM organization_slugs WHERE deployment = :deployment AND slug`, slugs)
	maps.Copy(taken, former)
	return taken, err
}

func (tx txBulk) InsertOrganizations(organizations []people.Organization) error {
	return db.InsertMany(tx.Tx, "organizations", organizations,
		db.Numbers("id", func(o *people.Organization) int64 { return o.ID }),
		db.Texts("name", func(o *people.Organization) string { return o.Name }),
		db.Texts("slug", func(o *people.Organization) string { return o.Slug }),
		db.Texts("description", func(o *people.Organization) string { return o.Description }),
		db.Texts("image_url", func(o *people.Organization) string { return o.ImageURL }),
		db.Numbers("workspace_id", func(o *people.Organization) int64 { return o.Workspace }),
		db.Numbers("created_at", func(o *people.Organization) int64 { return db.Micros(o.CreatedAt) }))
}

func readWorkspace(row *sql.Rows, w *people.Workspace) error { return row.Scan(workspaceFields(w)...) }

func (tx txBulk) WorkspacesAmong(ids []int64) (map[int64]people.Workspace, error) {
	rows, err := db.Among(tx.Tx, readWorkspace, `SELECT `+workspaceColumns+` FROM workspaces w WHERE w.deployment = :deployment AND w.id`, ids)
	return by(rows, func(w people.Workspace) int64 { return w.ID }), err
}

func (tx txBulk) WorkspaceSlugsTaken(organizations []int64, slugs []string) ([]people.Workspace, error) {
	wanted, err := tx.Dialect.ListOf(slugs)
	if err != nil || len(slugs) == 0 {
		return nil, err
	}
	read := func(row *sql.Rows, w *people.Workspace) error { return row.Scan(&w.ID, &w.Organization, &w.Slug) }
	return db.Among(tx.Tx, read, `SELECT id, organization_id, slug FROM workspaces
		WHERE deployment = :deployment AND slug`+tx.Dialect.OneOf+` AND organization_id`, organizations, wanted)
}

func (tx txBulk) InsertWorkspaces(workspaces []people.Workspace) error {
	return db.InsertMany(tx.Tx, "workspaces", workspaces,
		db.Numbers("id", func(w *people.Workspace) int64 { return w.ID }),
		db.Numbers("organization_id", func(w *people.Workspace) int64 { return w.Organization }),
		db.Texts("name", func(w *people.Workspace) string { return w.Name }),
		db.Texts("slug", func(w *people.Workspace) string { return w.Slug }),
		db.Numbers("created_at", func(w *people.Workspace) int64 { return db.Micros(w.CreatedAt) }))
}

func (tx txBulk) MembershipsAmong(users []int64) (organizations, workspaces map[[2]int64]bool, err error) {
	read := func(row *sql.Rows, member *[2]int64) error { return row.Scan(&member[0], &member[1]) }
	in := func(query string) (map[[2]int64]bool, error) {
		rows, err := db.Among(tx.Tx, read, query, users)
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
	return db.InsertMany(tx.Tx, "organization_memberships", members,
		db.Numbers("id", func(m *people.Member) int64 { return m.ID }),
		db.Numbers("organization_id", func(m *people.Member) int64 { return m.Organization.ID }),
		db.Numbers("user_id", func(m *people.Member) int64 { return m.User }),
		db.Numbers("role_id", func(m *people.Member) int64 { return m.Role }),
		db.Numbers("owner", func(m *people.Member) int64 { return db.Flag(m.Owner) }),
		db.Numbers("workspace_id", func(m *people.Member) int64 { return m.Workspace }),
		db.Numbers("created_at", func(m *people.Member) int64 { return db.Micros(m.CreatedAt) }))
}

func (tx txBulk) InsertWorkspaceMembers(members []people.WorkspaceMember) error {
	return db.InsertMany(tx.Tx, "workspace_memberships", members,
		db.Numbers("id", func(m *people.WorkspaceMember) int64 { return m.ID }),
		db.Numbers("workspace_id", func(m *people.WorkspaceMember) int64 { return m.Workspace.ID }),
		db.Numbers("organization_id", func(m *people.WorkspaceMember) int64 { return m.Workspace.Organization }),
		db.Numbers("user_id", func(m *people.WorkspaceMember) int64 { return m.User }),
		db.Numbers("role_id", func(m *people.WorkspaceMember) int64 { return m.Role }),
		db.Numbers("owner", func(m *people.WorkspaceMember) int64 { return db.Flag(m.Owner) }),
		db.Numbers("created_at", func(m *people.WorkspaceMember) int64 { return db.Micros(m.CreatedAt) }))
}
