// Package provisioning has the changes of a directory's users and groups, each in one transaction with what it does to
// accounts and memberships. It does not depend on HTTP: it returns errors of package scim, and errors of package
// account.
package provisioning

import (
	"errors"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Change is a change of a directory within a transaction. Changes of one directory take turns.
type Change struct {
	*account.Unit
	Directory account.Directory
	state     people.Directory
	// Rows counts the members of groups that the change read or wrote, beyond the user or group itself.
	Rows int
	// Matches reports whether a version fits the condition of the request (If-Match), nil for none.
	Matches func(version int64) bool
}

// Begin locks a directory for a change, and finds it after that: it may have been deleted meanwhile. Errors are those
// of account.FindDirectory.
func Begin(u *account.Unit, id int64) (*Change, error) {
	state, err := u.Directories().LockDirectory(id)
	if err != nil {
		return nil, err
	}
	d, err := account.FindDirectory(u, id)
	return &Change{Unit: u, Directory: d, state: state}, err
}

// write writes the state of the directory if the change altered it.
func (c *Change) write(users, groups int64) error {
	if users == 0 && groups == 0 && c.state.Organization == c.Directory.Of.ID && c.state.EndedAt.IsZero() {
		return nil
	}
	c.state.Users, c.state.Groups = c.state.Users+users, c.state.Groups+groups
	c.state.Organization, c.state.EndedAt = c.Directory.Of.ID, people.Directory{}.EndedAt
	if c.state.Roles == "" && !c.Directory.Runtime {
		c.state.Roles = account.RolesKey(c.Tenant, c.Directory)
	}
	return c.Directories().UpdateDirectory(c.state)
}

// require returns an Error if the version does not fit the condition of the request.
func (c *Change) require(version int64) error {
	if c.Matches != nil && !c.Matches(version) {
		return &scim.Error{Status: http.StatusPreconditionFailed, Detail: "the resource has another version than If-Match names: read it again"}
	}
	return nil
}

// NotFound returns the Error for a user or group that the directory does not have.
func NotFound(kind string) error {
	return &scim.Error{Status: http.StatusNotFound, Detail: "the directory has no such " + kind}
}

func conflict(detail string) error {
	return &scim.Error{Status: http.StatusConflict, Type: scim.Uniqueness, Detail: detail}
}

func full(detail string) error {
	return &scim.Error{Status: http.StatusForbidden, Detail: detail}
}

// conflictOf returns the Error of a refusal of package account.
func conflictOf(err error) error {
	switch {
	case errors.Is(err, account.ErrProvisionedElsewhere):
		return conflict("another user of a directory of this organization has the account with this address")
	case errors.Is(err, account.ErrEmailTaken):
		return conflict("another account has this address")
	case errors.Is(err, account.ErrTooManyEmails):
		return conflict("the account has as many addresses as it may: remove one of them first")
	case errors.Is(err, account.ErrSuspended):
		return conflict("another directory of this organization deactivated the user: remove the user there first")
	}
	return err
}

// object returns the name of a user or group in audit records.
func object(kind string, id int64) string { return "scim_" + kind + ":" + ids.Format(id) }
