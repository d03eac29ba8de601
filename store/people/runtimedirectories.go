package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
)

// RuntimeDirectories are the directories of organization admins and backends, with their tokens. A declared directory
// has no row here.
type RuntimeDirectories interface {
	// InsertRuntimeDirectory inserts a directory with an empty state.
	InsertRuntimeDirectory(RuntimeDirectory) error
	RuntimeDirectory(id int64) (RuntimeDirectory, bool, error)
	// LockRuntimeDirectory is RuntimeDirectory with a lock, for a caller that will change the directory.
	LockRuntimeDirectory(id int64) (RuntimeDirectory, bool, error)
	// UpdateRuntimeDirectory writes Connection, Settings, Active and UpdatedAt.
	UpdateRuntimeDirectory(RuntimeDirectory) error
	// DeleteRuntimeDirectory deletes a directory with its tokens, and reports whether there was one. Its users, groups,
	// suspended memberships and state stay until ClearDirectory. The caller has locked its state.
	DeleteRuntimeDirectory(id int64) (bool, error)
	// ListRuntimeDirectories returns up to limit directories that match the filter, the newest first.
	ListRuntimeDirectories(filter RuntimeDirectoryFilter, limit int) ([]RuntimeDirectory, error)
	// RuntimeDirectoriesOf returns the ids of the directories of some organizations, in ascending order.
	RuntimeDirectoriesOf(organizations []int64) ([]int64, error)

	// InsertDirectoryToken fails with ErrDuplicate if another token of the deployment has the public id.
	InsertDirectoryToken(DirectoryToken) error
	// DirectoryTokens returns the tokens of directories, expired ones too, the oldest first.
	DirectoryTokens(directories []int64) ([]DirectoryToken, error)
	// DirectoryToken finds a token of a directory by its public id. It may have expired.
	DirectoryToken(directory int64, public string) (DirectoryToken, bool, error)
	// UseDirectoryToken writes UsedAt, unless it is after a time, and reports whether this call did.
	UseDirectoryToken(directory, id int64, now, after time.Time) (bool, error)
	// DeleteDirectoryToken deletes a token of a directory, and reports whether there was one.
	DeleteDirectoryToken(directory, id int64) (bool, error)
}

// RuntimeDirectory is a directory of an organization admin or a backend.
type RuntimeDirectory struct {
	ID, Organization int64
	Slug             string
	// Connection is the connection by which its users sign in, 0: none. It may have been deleted.
	Connection int64
	// Settings are its other settings as JSON.
	Settings             string
	Active               bool
	CreatedAt, UpdatedAt time.Time
}

// RuntimeDirectoryFilter selects the directories that match each of its members that is set.
type RuntimeDirectoryFilter struct {
	Organization int64
	// Before leaves out this directory and all newer ones; 0: none.
	Before int64
}

// DirectoryToken is a token of a RuntimeDirectory. The token itself is not stored.
type DirectoryToken struct {
	ID, Directory int64
	// Public is its public id, and Last4 its last four characters.
	Public, Last4 string
	// Digest is the SHA-256 of the token.
	Digest    apikey.Digest
	CreatedAt time.Time
	// ExpiresAt is zero for a token without an end.
	ExpiresAt time.Time
	// UsedAt is when a request last had the token, to the minute; zero: never.
	UsedAt time.Time
}

// Live reports whether the token has not expired at a time.
func (t DirectoryToken) Live(now time.Time) bool {
	return t.ExpiresAt.IsZero() || now.Before(t.ExpiresAt)
}
