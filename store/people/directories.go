package people

import (
	"context"
	"time"
)

// Directories are the state of directories, and what directories did with memberships and accounts. A directory is
// declared by a resource, whose id it has, or a RuntimeDirectory.
type Directories interface {
	RuntimeDirectories

	// LockDirectory returns the state of a directory and locks it, so that the changes of a directory take turns. It
	// creates the state of a directory that has none.
	LockDirectory(id int64) (Directory, error)
	Directory(id int64) (Directory, bool, error)
	// UpdateDirectory writes everything but the id.
	UpdateDirectory(Directory) error
	// ClearDirectory deletes up to limit rows of a directory: memberships of groups, then users, groups, suspended
	// memberships, and its state last, with what is left of a RuntimeDirectory that was deleted. It returns how many rows
	// it deleted. 0: nothing is left.
	ClearDirectory(id int64, limit int) (int64, error)

	// SuspendMember moves a membership with those in workspaces to the suspended ones, in place of a suspended one of
	// the user, and marks the user's keys in the organization as changed. It reports whether there was a membership.
	SuspendMember(organization, user, directory int64, now time.Time) (bool, error)
	SuspendedMember(organization, user int64) (SuspendedMember, bool, error)
	// RestoreMember moves a suspended membership back, without those in workspaces that were deleted meanwhile. If the
	// user is a member again, it only deletes the suspended one. It reports whether there was one. The caller has locked
	// the organization.
	RestoreMember(organization, user int64) (bool, error)
	// DropSuspended deletes a suspended membership with the user's keys in the organization, and reports whether there
	// was one.
	DropSuspended(organization, user int64) (bool, error)
	// CountSuspended counts the suspended memberships of a user.
	CountSuspended(user int64) (int, error)
	// AnySuspended reports whether an organization has suspended members.
	AnySuspended(organization int64) (bool, error)

	// DirectoryAccount returns what directories did with an account; the zero value with the user for nothing.
	DirectoryAccount(user int64) (DirectoryAccount, error)
	PutDirectoryAccount(DirectoryAccount) error
}

// SCIM are the users and groups of directories. Every method reads or writes those of one directory, except those that
// begin with an account or an address.
type SCIM interface {
	// InsertSCIMUser fails with ErrDuplicate if the directory has a user of the name or of the account.
	InsertSCIMUser(SCIMUser) error
	SCIMUser(directory, id int64) (SCIMUser, bool, error)
	// LockSCIMUser is SCIMUser with a lock, for a change of a user without an account, which TieSCIMUser may give one.
	LockSCIMUser(directory, id int64) (SCIMUser, bool, error)
	// FindSCIMUsers returns up to limit users that match the filter, in the order of their ids, after skipping offset.
	FindSCIMUsers(directory int64, filter SCIMFilter, offset, limit int) ([]SCIMUser, error)
	// UpdateSCIMUser writes everything but the ids and CreatedAt. It fails as InsertSCIMUser does.
	UpdateSCIMUser(SCIMUser) error
	// DeleteSCIMUser deletes a user with the memberships in groups, and reports whether there was one.
	DeleteSCIMUser(directory, id int64) (bool, error)
	// TieSCIMUser sets the account of a user that has none, and reports whether this call did. It fails with
	// ErrDuplicate if another user of the directory has the account.
	TieSCIMUser(directory, id, user int64) (bool, error)
	// SCIMUsersOf returns the users of all directories that have an account.
	SCIMUsersOf(user int64) ([]SCIMUser, error)
	// WaitingSCIMUsers returns up to limit users of all directories, active or not, that have an address and no account,
	// in the order of their ids.
	WaitingSCIMUsers(email string, limit int) ([]SCIMUser, error)
	// FirstWaitingSCIMUsers returns, of each of some directories, the first active user that has an address and no
	// account, in the order of their ids. Of a directory, only the first MaxSCIMUsersOfAddress with the address count.
	FirstWaitingSCIMUsers(directories []int64, email string) ([]SCIMUser, error)
	// SCIMAccounts returns the accounts of users, 0 for a user without one. Ids that the directory does not have are
	// left out. In a Change, it locks the rows: a concurrent TieSCIMUser waits.
	SCIMAccounts(directory int64, ids []int64) (map[int64]int64, error)

	// CountRuntimeSCIMUsers counts the users of all RuntimeDirectories, deleted ones too until they are cleared.
	CountRuntimeSCIMUsers() (int64, error)

	// InsertSCIMGroup fails with ErrDuplicate if the directory has a group of the name.
	InsertSCIMGroup(SCIMGroup) error
	SCIMGroup(directory, id int64) (SCIMGroup, bool, error)
	// FindSCIMGroups is FindSCIMUsers for groups.
	FindSCIMGroups(directory int64, filter SCIMFilter, offset, limit int) ([]SCIMGroup, error)
	// UpdateSCIMGroup writes everything but the ids and CreatedAt. It fails as InsertSCIMGroup does.
	UpdateSCIMGroup(SCIMGroup) error
	// DeleteSCIMGroup deletes a group with its memberships, and reports whether there was one.
	DeleteSCIMGroup(directory, id int64) (bool, error)
	// AddSCIMMembers adds users to a group, and returns those that it did not have.
	AddSCIMMembers(directory, group int64, users []int64) ([]int64, error)
	// RemoveSCIMMembers removes users from a group, and returns those that it had.
	RemoveSCIMMembers(directory, group int64, users []int64) ([]int64, error)
	// CountSCIMMemberships adds up the users of all groups of a directory.
	CountSCIMMemberships(directory int64) (int64, error)
	// SCIMMembers returns up to limit users of a group after an id, in the order of their ids.
	SCIMMembers(directory, group, after int64, limit int) ([]SCIMMember, error)
	// SCIMMemberIDs returns the users of a group, in the order of their ids.
	SCIMMemberIDs(directory, group int64) ([]int64, error)
	// SCIMGroupsOf returns up to limit groups of a user, in the order of their ids.
	SCIMGroupsOf(directory, user int64, limit int) ([]SCIMGroupName, error)
	// SCIMMembersNamed returns, of users, those that groups of some names have. The names are compared exactly.
	SCIMMembersNamed(directory int64, names []string, users []int64) ([]SCIMNamedMember, error)

	// SetMemberRoles gives a role to those of some accounts that are members of an organization and not owners, and
	// marks their keys there as changed. It returns the id, the user and the role of each membership that changed.
	SetMemberRoles(organization, role int64, users []int64) ([]Member, error)
}

// Directory is the state of a directory.
type Directory struct {
	ID int64
	// Organization is the organization whose members it maintains, by its newest change; 0 before the first.
	Organization  int64
	Users, Groups int64
	// EndedAt is when a server first saw that it is no longer declared, zero while it is.
	EndedAt time.Time
	// ProvisionedDomains identifies the domains of the organization when every user that waited for one of them was
	// processed. Users that were refused still wait. "" if that has not happened.
	ProvisionedDomains string
	// Roles identifies the group roles that members have: of a declared directory, what the caller wrote; of a
	// RuntimeDirectory, StaleRoles after they were changed, "" once members have them.
	Roles string
}

// StaleRoles are the Roles of a RuntimeDirectory whose members may not have the roles by its group roles yet.
const StaleRoles = "stale"

// SCIMUser is a user of a directory.
type SCIMUser struct {
	ID, Directory int64
	// User is the account, 0 while the user waits until the address is proven.
	User int64
	// Name is userName in the form of FoldEmail, unique in the directory.
	Name string
	// ExternalID is "" for none. It is compared exactly.
	ExternalID string
	// Email is the address in the form of FoldEmail, "" for none.
	Email   string
	Active  bool
	Version int64
	// Document has the attributes in the form of apiserver/scim.
	Document             string
	CreatedAt, UpdatedAt time.Time
}

// SCIMGroup is a group of a directory.
type SCIMGroup struct {
	ID, Directory int64
	DisplayName   string
	ExternalID    string
	// Members counts its users.
	Members, Version     int64
	CreatedAt, UpdatedAt time.Time
}

// SCIMFilter selects the users or groups that match each of its members that is set.
type SCIMFilter struct {
	ID int64
	// Name is userName or displayName in the form of FoldEmail.
	Name       string
	ExternalID string
	// Email selects users by address.
	Email string
	// Member selects groups by a user in them.
	Member int64
	// After leaves out users and groups up to this id.
	After int64
	// Waiting selects the active users with an address and without an account.
	Waiting bool
}

// SCIMMember is a user of a group.
type SCIMMember struct {
	ID int64
	// Document is that of the user.
	Document string
}

// SCIMGroupName is a group of a user.
type SCIMGroupName struct {
	ID          int64
	DisplayName string
}

// SCIMNamedMember is a user that a group of a name has.
type SCIMNamedMember struct {
	User  int64
	Group string
}

// SuspendedMember is a membership that a directory suspended.
type SuspendedMember struct {
	ID, Organization, User, Directory int64
	Role                              int64
	Owner                             bool
	SuspendedAt                       time.Time
}

// DirectoryAccount is what directories did with an account.
type DirectoryAccount struct {
	User int64
	// CreatedBy is the directory that created it, and DisabledBy the one that disabled it; 0: none.
	CreatedBy, DisabledBy int64
}

// The bounds of a directory. Those of a RuntimeDirectory are lower: an organization that any user creates can set
// one up.
const (
	MaxSCIMUsers  = 1_000_000
	MaxSCIMGroups = 10_000
	// MaxSCIMMembers bounds the users of one group, and MaxSCIMMemberships those of all groups, added up.
	MaxSCIMMembers     = 100_000
	MaxSCIMMemberships = 10_000_000
	// MaxSCIMUsersOfAddress bounds the users of a directory with one address that are read when the address is proven.
	MaxSCIMUsersOfAddress = 100
	// MaxRuntimeSCIMUsers and MaxRuntimeSCIMMemberships are those of a RuntimeDirectory.
	MaxRuntimeSCIMUsers       = 100_000
	MaxRuntimeSCIMMemberships = 1_000_000
	// MaxSCIMUsersWithoutDomain bounds the users of a RuntimeDirectory of an organization without a domain, a multiple of
	// 100.
	MaxSCIMUsersWithoutDomain = 1000
	// MaxSCIMUsersOfRuntime bounds the users of all RuntimeDirectories of a deployment.
	MaxSCIMUsersOfRuntime = 2_000_000
)

// MethodSCIM is the method of sign-ups by a directory, as analytics reports it.
const MethodSCIM = "sso:scim"

// DirectoryKeptFor is how long the users, groups and suspended memberships of a directory are kept after its end. A
// Directory with the same namespace and name that is declared in this time has them again.
const DirectoryKeptFor = 30 * 24 * time.Hour

// DirectoryRef names a directory of a deployment.
type DirectoryRef struct {
	Deployment string
	ID         int64
	EndedAt    time.Time
	// Runtime reports that it is a RuntimeDirectory, and Deleted that it was one.
	Runtime, Deleted bool
	// Waiting reports that it has users with an address and without an account.
	Waiting bool
	// Roles are those of its Directory.
	Roles string
}

// DirectoryUpkeep is periodic work over the directories of all deployments.
type DirectoryUpkeep interface {
	// ListDirectories returns up to limit directories with a state, in the order of deployments and ids: those after
	// the given one; the first ones for the zero DirectoryRef.
	ListDirectories(ctx context.Context, after DirectoryRef, limit int) ([]DirectoryRef, error)
}
