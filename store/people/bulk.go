package people

import "time"

// Bulk reads and writes many rows at once, for imports: each method costs a statement or a few, however many rows it is about. Who writes
// checked before that the rows break no uniqueness; that others write them meanwhile is ErrDuplicate, and loses the transaction.
type Bulk interface {
	// UsersAmong returns which ids are of users.
	UsersAmong(ids []int64) (map[int64]bool, error)
	// LockUsers is UsersAmong, locking the users in the order of their ids.
	LockUsers(ids []int64) (map[int64]bool, error)
	InsertUsers([]User) error
	InsertPasswords([]Password) error

	// EmailsAmong returns which addresses belong to users, as FoldEmail compares them.
	EmailsAmong(folded []string) (map[string]Email, error)
	// PrimaryEmails returns the primary email of each user that has one.
	PrimaryEmails(users []int64) (map[int64]Email, error)
	InsertEmails([]Email) error
	// DeleteUnproven deletes those of the emails that are not verified.
	DeleteUnproven(ids []int64) error
	// DemoteEmails makes emails not primary.
	DemoteEmails(ids []int64) error

	// PhonesAmong returns the phones of users, and those that others verified of numbers.
	PhonesAmong(users []int64, numbers []string) ([]Phone, error)
	InsertPhones([]Phone) error
	// DemotePhones makes phones not primary.
	DemotePhones(ids []int64) error

	OrganizationsAmong(ids []int64) (map[int64]Organization, error)
	// SlugsTaken returns which slugs are, or were, those of organizations.
	SlugsTaken(slugs []string) (map[string]bool, error)
	InsertOrganizations([]Organization) error

	WorkspacesAmong(ids []int64) (map[int64]Workspace, error)
	// WorkspaceSlugsTaken returns which slugs are those of workspaces in organizations: of each only id, organization and slug.
	WorkspaceSlugsTaken(organizations []int64, slugs []string) ([]Workspace, error)
	InsertWorkspaces([]Workspace) error

	// MembershipsAmong returns what the users are members of: of each pair the organization or workspace first, then the user.
	MembershipsAmong(users []int64) (organizations, workspaces map[[2]int64]bool, err error)
	InsertMembers([]Member) error
	InsertWorkspaceMembers([]WorkspaceMember) error
}

// Password is a user's password, by its encoded hash.
type Password struct {
	User      int64
	Encoded   string
	CreatedAt time.Time
}
