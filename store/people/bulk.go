package people

import "time"

// Bulk reads and writes many rows at once, for imports. Each method costs a few statements, however many rows there
// are. Callers check beforehand that the rows violate no uniqueness constraint. If another transaction writes a
// conflicting row in the meantime, the insert fails with ErrDuplicate, and the transaction is lost.
type Bulk interface {
	// UsersAmong returns which of the ids are ids of users.
	UsersAmong(ids []int64) (map[int64]bool, error)
	// LockUsers is UsersAmong, locking the users in the order of their ids.
	LockUsers(ids []int64) (map[int64]bool, error)
	InsertUsers([]User) error
	InsertPasswords([]Password) error

	// EmailsAmong returns which of the addresses belong to users, as FoldEmail compares them.
	EmailsAmong(folded []string) (map[string]Email, error)
	// PrimaryEmails returns the primary email of each user that has one.
	PrimaryEmails(users []int64) (map[int64]Email, error)
	InsertEmails([]Email) error
	// DeleteUnproven deletes the emails that are not verified.
	DeleteUnproven(ids []int64) error
	// DemoteEmails makes the emails not primary.
	DemoteEmails(ids []int64) error

	// PhonesAmong returns all phones of the users, and the verified phones of other users that have one of the numbers.
	PhonesAmong(users []int64, numbers []string) ([]Phone, error)
	InsertPhones([]Phone) error
	// DemotePhones makes the phones not primary.
	DemotePhones(ids []int64) error

	OrganizationsAmong(ids []int64) (map[int64]Organization, error)
	// SlugsTaken returns which of the slugs an organization has or had.
	SlugsTaken(slugs []string) (map[string]bool, error)
	InsertOrganizations([]Organization) error

	WorkspacesAmong(ids []int64) (map[int64]Workspace, error)
	// WorkspaceSlugsTaken returns the workspaces in the organizations that have one of the slugs, with only id,
	// organization and slug.
	WorkspaceSlugsTaken(organizations []int64, slugs []string) ([]Workspace, error)
	InsertWorkspaces([]Workspace) error

	// MembershipsAmong returns the memberships of the users: pairs of organization or workspace, and user.
	MembershipsAmong(users []int64) (organizations, workspaces map[[2]int64]bool, err error)
	InsertMembers([]Member) error
	InsertWorkspaceMembers([]WorkspaceMember) error

	// SubjectsTaken returns which of the subjects at an issuer have an identity of a connection.
	SubjectsTaken(connection int64, issuer string, subjects []string) (map[string]bool, error)
	// IdentityCounts returns how many identities each of the users has. Users without identities are absent.
	IdentityCounts(users []int64) (map[int64]int, error)
	InsertIdentities([]Identity) error
}

// Password is a user's password, by its encoded hash.
type Password struct {
	User      int64
	Encoded   string
	CreatedAt time.Time
}
