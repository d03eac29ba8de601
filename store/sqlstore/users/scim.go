package users

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const scimUserColumns = `id, directory_id, user_id, name, external_id, email, active, version, document, created_at, updated_at`

func readSCIMUser(row *sql.Rows, u *people.SCIMUser) error {
	return row.Scan(&u.ID, &u.Directory, &u.User, &u.Name, &u.ExternalID, &u.Email, &u.Active, &u.Version, &u.Document, db.At{To: &u.CreatedAt}, db.At{To: &u.UpdatedAt})
}

const scimUsers = `SELECT ` + scimUserColumns + ` FROM scim_users WHERE deployment = :deployment AND `

func (tx txSCIM) InsertSCIMUser(u people.SCIMUser) error {
	return tx.Exec(`INSERT INTO scim_users (deployment, `+scimUserColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		u.ID, u.Directory, u.User, u.Name, u.ExternalID, u.Email, db.Flag(u.Active), u.Version, u.Document, db.Micros(u.CreatedAt), db.Micros(u.UpdatedAt))
}

func (tx txSCIM) SCIMUser(directory, id int64) (people.SCIMUser, bool, error) {
	return db.First(tx.Tx, readSCIMUser, scimUsers+`directory_id = ? AND id = ?`, directory, id)
}

func (tx txSCIM) LockSCIMUser(directory, id int64) (people.SCIMUser, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.SCIMUser{}, false, err
	}
	return db.First(tx.Tx, readSCIMUser, scimUsers+`directory_id = ? AND id = ?`+tx.Lock(), directory, id)
}

func (tx txSCIM) FindSCIMUsers(directory int64, filter people.SCIMFilter, offset, limit int) ([]people.SCIMUser, error) {
	query, args := scimUsers+`directory_id = ?`, []any{directory}
	query, args = matching(query, args, filter)
	if filter.Waiting {
		query += ` AND user_id = 0 AND email <> '' AND active = 1`
	}
	if filter.Email != "" {
		query, args = query+` AND email = ? AND email <> ''`, append(args, filter.Email)
	}
	return db.List(tx.Tx, readSCIMUser, query+` ORDER BY id LIMIT ? OFFSET ?`, append(args, limit, offset)...)
}

// matching adds the conditions of a filter that users and groups share.
func matching(query string, args []any, filter people.SCIMFilter) (string, []any) {
	if filter.ID != 0 {
		query, args = query+` AND id = ?`, append(args, filter.ID)
	}
	if filter.After != 0 {
		query, args = query+` AND id > ?`, append(args, filter.After)
	}
	if filter.Name != "" {
		query, args = query+` AND name = ?`, append(args, filter.Name)
	}
	if filter.ExternalID != "" {
		// The second condition permits the partial index.
		query, args = query+` AND external_id = ? AND external_id <> ''`, append(args, filter.ExternalID)
	}
	return query, args
}

func (tx txSCIM) UpdateSCIMUser(u people.SCIMUser) error {
	return tx.Exec(`UPDATE scim_users SET user_id = ?, name = ?, external_id = ?, email = ?, active = ?, version = ?, document = ?, updated_at = ?
		WHERE directory_id = ? AND id = ? AND deployment = :deployment`,
		u.User, u.Name, u.ExternalID, u.Email, db.Flag(u.Active), u.Version, u.Document, db.Micros(u.UpdatedAt), u.Directory, u.ID)
}

func (tx txSCIM) DeleteSCIMUser(directory, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM scim_users WHERE deployment = :deployment AND directory_id = ? AND id = ?`, directory, id)
	if err != nil || n == 0 {
		return false, err
	}
	err = tx.Exec(`UPDATE scim_groups SET member_count = member_count - 1, version = version + 1 WHERE directory_id = ? AND deployment = :deployment AND id IN (
		SELECT m.group_id FROM scim_members m WHERE m.deployment = :deployment AND m.directory_id = ? AND m.member_id = ?)`, directory, directory, id)
	if err != nil {
		return false, err
	}
	return true, tx.Exec(`DELETE FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND member_id = ?`, directory, id)
}

func (tx txSCIM) TieSCIMUser(directory, id, user int64) (bool, error) {
	n, err := tx.Affected(`UPDATE scim_users SET user_id = ? WHERE directory_id = ? AND id = ? AND user_id = 0 AND deployment = :deployment`, user, directory, id)
	return n == 1, err
}

func (tx txSCIM) SCIMUsersOf(user int64) ([]people.SCIMUser, error) {
	return db.List(tx.Tx, readSCIMUser, scimUsers+`user_id = ? AND user_id <> 0 ORDER BY directory_id`, user)
}

func (tx txSCIM) WaitingSCIMUsers(email string, limit int) ([]people.SCIMUser, error) {
	return db.List(tx.Tx, readSCIMUser, scimUsers+`user_id = 0 AND email = ? AND email <> '' ORDER BY id LIMIT ?`, email, limit)
}

// FirstWaitingSCIMUsers bounds the rows of each directory before it selects one. The bound also makes PostgreSQL use
// the index by directory and address: in that by address alone, it would read the rows of other directories.
func (tx txSCIM) FirstWaitingSCIMUsers(directories []int64, email string) ([]people.SCIMUser, error) {
	found, err := db.Among(tx.Tx, func(row *sql.Rows, u *people.SCIMUser) error { return row.Scan(&u.Directory, &u.ID) },
		`SELECT s.id AS directory, COALESCE((SELECT MIN(w.id) FROM (SELECT u.id, u.user_id, u.active FROM scim_users u WHERE u.deployment = s.deployment
			AND u.directory_id = s.id AND u.email = ? AND u.email <> '' ORDER BY u.id LIMIT ?) w WHERE w.user_id = 0 AND w.active = 1), 0) AS first
		FROM directories s WHERE s.deployment = :deployment AND s.id`, directories, email, people.MaxSCIMUsersOfAddress)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(found, func(a, b people.SCIMUser) int { return cmp.Compare(a.ID, b.ID) })
	var rows []people.SCIMUser
	for _, first := range found {
		if first.ID == 0 {
			continue
		}
		row, found, err := tx.SCIMUser(first.Directory, first.ID)
		if err != nil {
			return nil, err
		}
		if found {
			rows = append(rows, row)
		}
	}
	return rows, nil
}

func (tx txSCIM) SCIMAccounts(directory int64, ids []int64) (map[int64]int64, error) {
	rows, err := db.AmongLocked(tx.Tx, tx.Lock(), func(row *sql.Rows, pair *[2]int64) error { return row.Scan(&pair[0], &pair[1]) },
		`SELECT id, user_id FROM scim_users WHERE deployment = :deployment AND directory_id = ? AND id`, ids, directory)
	accounts := make(map[int64]int64, len(rows))
	for _, pair := range rows {
		accounts[pair[0]] = pair[1]
	}
	return accounts, err
}

func (tx txSCIM) CountRuntimeSCIMUsers() (int64, error) {
	var n int64
	_, err := tx.Get([]any{&n}, `SELECT CAST(COALESCE(SUM(d.user_count), 0) AS BIGINT) FROM runtime_directories r
		JOIN directories d ON d.deployment = r.deployment AND d.id = r.id WHERE r.deployment = :deployment`)
	return n, err
}

func (tx txSCIM) CountSCIMMemberships(directory int64) (int64, error) {
	var n int64
	_, err := tx.Get([]any{&n}, `SELECT CAST(COALESCE(SUM(member_count), 0) AS BIGINT) FROM scim_groups WHERE deployment = :deployment AND directory_id = ?`, directory)
	return n, err
}

const scimGroupColumns = `id, directory_id, display_name, name, external_id, member_count, version, created_at, updated_at`

func readSCIMGroup(row *sql.Rows, g *people.SCIMGroup) error {
	var name string
	return row.Scan(&g.ID, &g.Directory, &g.DisplayName, &name, &g.ExternalID, &g.Members, &g.Version, db.At{To: &g.CreatedAt}, db.At{To: &g.UpdatedAt})
}

const scimGroups = `SELECT ` + scimGroupColumns + ` FROM scim_groups WHERE deployment = :deployment AND `

func (tx txSCIM) InsertSCIMGroup(g people.SCIMGroup) error {
	return tx.Exec(`INSERT INTO scim_groups (deployment, `+scimGroupColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		g.ID, g.Directory, g.DisplayName, people.FoldEmail(g.DisplayName), g.ExternalID, g.Members, g.Version, db.Micros(g.CreatedAt), db.Micros(g.UpdatedAt))
}

func (tx txSCIM) SCIMGroup(directory, id int64) (people.SCIMGroup, bool, error) {
	return db.First(tx.Tx, readSCIMGroup, scimGroups+`directory_id = ? AND id = ?`, directory, id)
}

func (tx txSCIM) FindSCIMGroups(directory int64, filter people.SCIMFilter, offset, limit int) ([]people.SCIMGroup, error) {
	query, args := scimGroups+`directory_id = ?`, []any{directory}
	query, args = matching(query, args, filter)
	if filter.Member != 0 {
		query += ` AND id IN (SELECT m.group_id FROM scim_members m WHERE m.deployment = :deployment AND m.directory_id = ? AND m.member_id = ?)`
		args = append(args, directory, filter.Member)
	}
	return db.List(tx.Tx, readSCIMGroup, query+` ORDER BY id LIMIT ? OFFSET ?`, append(args, limit, offset)...)
}

func (tx txSCIM) UpdateSCIMGroup(g people.SCIMGroup) error {
	return tx.Exec(`UPDATE scim_groups SET display_name = ?, name = ?, external_id = ?, member_count = ?, version = ?, updated_at = ?
		WHERE directory_id = ? AND id = ? AND deployment = :deployment`,
		g.DisplayName, people.FoldEmail(g.DisplayName), g.ExternalID, g.Members, g.Version, db.Micros(g.UpdatedAt), g.Directory, g.ID)
}

func (tx txSCIM) DeleteSCIMGroup(directory, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM scim_groups WHERE deployment = :deployment AND directory_id = ? AND id = ?`, directory, id)
	if err != nil || n == 0 {
		return false, err
	}
	return true, tx.Exec(`DELETE FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND group_id = ?`, directory, id)
}

// unique returns the distinct ids of a list, in ascending order.
func unique(ids []int64) []int64 { return slices.Compact(slices.Sorted(slices.Values(ids))) }

// present returns which of some users a group has.
func (tx txSCIM) present(directory, group int64, users []int64) (map[int64]bool, error) {
	found, err := db.Among(tx.Tx, func(row *sql.Rows, id *int64) error { return row.Scan(id) },
		`SELECT member_id FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND group_id = ? AND member_id`, users, directory, group)
	have := make(map[int64]bool, len(found))
	for _, id := range found {
		have[id] = true
	}
	return have, err
}

func (tx txSCIM) AddSCIMMembers(directory, group int64, users []int64) ([]int64, error) {
	have, err := tx.present(directory, group, users)
	if err != nil {
		return nil, err
	}
	added := slices.DeleteFunc(unique(users), func(id int64) bool { return have[id] })
	return added, db.InsertMany(tx.Tx, "scim_members", added,
		db.Numbers("member_id", func(id *int64) int64 { return *id }),
		db.Numbers("directory_id", func(*int64) int64 { return directory }),
		db.Numbers("group_id", func(*int64) int64 { return group }))
}

func (tx txSCIM) RemoveSCIMMembers(directory, group int64, users []int64) ([]int64, error) {
	have, err := tx.present(directory, group, users)
	if err != nil || len(have) == 0 {
		return nil, err
	}
	removed := slices.DeleteFunc(unique(users), func(id int64) bool { return !have[id] })
	list, err := tx.Dialect.ListOf(removed)
	if err != nil {
		return nil, err
	}
	return removed, tx.Exec(`DELETE FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND group_id = ? AND member_id`+tx.Dialect.OneOf,
		tx.Dialect.Planned(directory, group, list)...)
}

func (tx txSCIM) SCIMMemberIDs(directory, group int64) ([]int64, error) {
	return db.List(tx.Tx, readID, `SELECT member_id FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND group_id = ? ORDER BY member_id`, directory, group)
}

// SCIMMembers looks the users up by their ids. In a join, PostgreSQL reads all users of the directory for each member
// while the table has no statistics.
func (tx txSCIM) SCIMMembers(directory, group, after int64, limit int) ([]people.SCIMMember, error) {
	ids, err := db.List(tx.Tx, readID, `SELECT member_id FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND group_id = ?
		AND member_id > ? ORDER BY member_id LIMIT ?`, directory, group, after, limit)
	if err != nil {
		return nil, err
	}
	members, err := db.Among(tx.Tx, func(row *sql.Rows, m *people.SCIMMember) error { return row.Scan(&m.ID, &m.Document) },
		`SELECT id, document FROM scim_users WHERE deployment = :deployment AND directory_id = ? AND id`, ids, directory)
	slices.SortFunc(members, func(a, b people.SCIMMember) int { return cmp.Compare(a.ID, b.ID) })
	return members, err
}

func (tx txSCIM) SCIMGroupsOf(directory, user int64, limit int) ([]people.SCIMGroupName, error) {
	return db.List(tx.Tx, func(row *sql.Rows, g *people.SCIMGroupName) error { return row.Scan(&g.ID, &g.DisplayName) },
		`SELECT g.id, g.display_name FROM scim_members m JOIN scim_groups g ON g.deployment = m.deployment AND g.directory_id = m.directory_id AND g.id = m.group_id
		WHERE m.deployment = :deployment AND m.directory_id = ? AND m.member_id = ? ORDER BY m.group_id LIMIT ?`, directory, user, limit)
}

func (tx txSCIM) SCIMMembersNamed(directory int64, names []string, users []int64) ([]people.SCIMNamedMember, error) {
	folded := make([]string, len(names))
	for i, name := range names {
		folded[i] = people.FoldEmail(name)
	}
	groups, err := db.MapOf[int64, string](tx.Tx, `SELECT id, display_name FROM scim_groups WHERE deployment = :deployment AND directory_id = ? AND name`, folded, directory)
	if err != nil {
		return nil, err
	}
	var ids []int64
	for id, name := range groups {
		if slices.Contains(names, name) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	list, err := tx.Dialect.ListOf(ids)
	if err != nil {
		return nil, err
	}
	return db.Among(tx.Tx, func(row *sql.Rows, m *people.SCIMNamedMember) error {
		var group int64
		err := row.Scan(&m.User, &group)
		m.Group = groups[group]
		return err
	}, `SELECT member_id, group_id FROM scim_members WHERE deployment = :deployment AND directory_id = ? AND group_id`+tx.Dialect.OneOf+` AND member_id`, users, directory, list)
}

func (tx txSCIM) SetMemberRoles(organization, role int64, users []int64) ([]people.Member, error) {
	if err := tx.Writable(); err != nil || len(users) == 0 {
		return nil, err
	}
	list, err := tx.Dialect.ListOf(users)
	if err != nil {
		return nil, err
	}
	var changed []int64
	memberships, err := db.List(tx.Tx, func(row *sql.Rows, m *people.Member) error {
		err := row.Scan(&m.ID, &m.User)
		m.Role = role
		changed = append(changed, m.User)
		return err
	}, `UPDATE organization_memberships SET role_id = ? WHERE owner = 0 AND role_id <> ? AND organization_id = ? AND deployment = :deployment AND user_id`+tx.Dialect.OneOf+`
		RETURNING id, user_id`, tx.Dialect.Planned(role, role, organization, list)...)
	if err != nil {
		return nil, err
	}
	digests, err := db.Among(tx.Tx, func(row *sql.Rows, digest *[]byte) error { return row.Scan(digest) },
		`SELECT digest FROM api_keys WHERE deployment = :deployment AND owner_user_id > 0 AND organization_id = ? AND owner_user_id`, changed, organization)
	tx.keys.mark(digests)
	return memberships, err
}
