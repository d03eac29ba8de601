package provisioning

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

// LastOwnerError refuses to deactivate the last owner of an organization.
type LastOwnerError struct {
	// User is the owner's account.
	User int64
}

func (e *LastOwnerError) Error() string { return account.ErrOwnerLeaves.Error() }

// Unwrap returns account.ErrOwnerLeaves.
func (e *LastOwnerError) Unwrap() error { return account.ErrOwnerLeaves }

// CreateUser adds a user. Errors: a scim.Error, a LastOwnerError.
func (c *Change) CreateUser(doc scim.User) (people.SCIMUser, error) {
	id, err := c.NewID()
	if err != nil {
		return people.SCIMUser{}, err
	}
	to, err := stated(people.SCIMUser{ID: id, Directory: c.Directory.ID, Version: 1, CreatedAt: c.Now}, doc)
	if err != nil {
		return to.Row, err
	}
	if err := c.requireCapacity(); err != nil {
		return to.Row, err
	}
	if err := c.requireFreeName(to.Row); err != nil {
		return to.Row, err
	}
	if to.Row.User, err = account.Provision(c.Unit, c.Directory, account.DirectoryUser{}, to); err != nil {
		return to.Row, c.refused(to.Row.User, err)
	}
	to.Row.UpdatedAt = c.Now
	if err := c.SCIM().InsertSCIMUser(to.Row); err != nil {
		return to.Row, err
	}
	if err := c.applyRoles(to.Row); err != nil {
		return to.Row, err
	}
	if err := c.Audit("scim.user.created", object("user", id)); err != nil {
		return to.Row, err
	}
	return to.Row, c.write(1, 0)
}

// countedEvery is after how many new users of a directory the users of all directories without a resource are counted.
const countedEvery = 100

// requireCapacity returns an Error if the directory, or all those that organizations and backends of the deployment set
// up, have as many users as they may.
func (c *Change) requireCapacity() error {
	most := int64(people.MaxSCIMUsers)
	if c.Directory.Runtime {
		most = people.MaxRuntimeSCIMUsers
	}
	if c.state.Users >= most {
		return full("the directory has as many users as it may")
	}
	if !c.Directory.Runtime || c.state.Users%countedEvery != 0 {
		return nil
	}
	if c.state.Users >= people.MaxSCIMUsersWithoutDomain {
		if has, err := account.HasDomains(c.Unit, c.Directory.Of); err != nil || !has {
			return account.FirstOf(err, full("the directory has as many users as it may until the organization has a domain: prove one"))
		}
	}
	c.Rows += countedEvery // the count reads the directories of the deployment
	n, err := c.SCIM().CountRuntimeSCIMUsers()
	if err == nil && n >= people.MaxSCIMUsersOfRuntime {
		err = full("the directories that organizations of this service set up have as many users as they may: ask the service for a directory of its own")
	}
	return err
}

// ReplaceUser replaces the document of a user. Without active, the user stays as active as before.
func (c *Change) ReplaceUser(id int64, doc scim.User) (people.SCIMUser, error) {
	return c.updateUser(id, func(before scim.User) (scim.User, error) {
		if !doc.HasActive() && before.HasActive() {
			return doc.WithActive(before.Active()), nil
		}
		return doc, nil
	})
}

// PatchUser applies all operations of a PATCH to a user, or none.
func (c *Change) PatchUser(id int64, patch scim.Patch) (people.SCIMUser, error) {
	return c.updateUser(id, func(before scim.User) (scim.User, error) { return before.Apply(patch) })
}

// ProvisionWaiting gives a user that waits an account, if the address is now in a domain of the organization.
func (c *Change) ProvisionWaiting(id int64) error {
	_, err := c.updateUser(id, func(before scim.User) (scim.User, error) { return before, nil })
	return err
}

// updateUser changes a user. A change to an equal document writes nothing, unless the user waits and the address is now
// in a domain of the organization.
func (c *Change) updateUser(id int64, change func(scim.User) (scim.User, error)) (people.SCIMUser, error) {
	row, err := c.user(id)
	if err != nil {
		return row, err
	}
	if err := c.require(row.Version); err != nil {
		return row, err
	}
	before, err := scim.DecodeUser([]byte(row.Document))
	if err != nil {
		return row, err
	}
	from, err := stated(row, before)
	if err != nil {
		return row, err
	}
	after, err := change(before)
	if err != nil {
		return row, err
	}
	if after.Equal(before) && (row.User != 0 || !row.Active) {
		return row, nil
	}
	to, err := stated(row, after)
	if err != nil {
		return row, err
	}
	if to.Row.Name != row.Name {
		if err := c.requireFreeName(to.Row); err != nil {
			return row, err
		}
	}
	if to.Row.User, err = account.Provision(c.Unit, c.Directory, from, to); err != nil {
		return row, c.refused(to.Row.User, err)
	}
	if after.Equal(before) {
		if to.Row.User == 0 {
			return row, nil
		}
	} else {
		to.Row.Version, to.Row.UpdatedAt = row.Version+1, c.Now
	}
	if err := c.SCIM().UpdateSCIMUser(to.Row); err != nil {
		return to.Row, err
	}
	if err := c.applyRoles(to.Row); err != nil {
		return to.Row, err
	}
	if err := c.Audit("scim.user.changed", object("user", id)); err != nil {
		return to.Row, err
	}
	return to.Row, c.write(0, 0)
}

// DeleteUser deprovisions and deletes a user.
func (c *Change) DeleteUser(id int64) error {
	row, err := c.user(id)
	if err != nil {
		return err
	}
	if err := c.require(row.Version); err != nil {
		return err
	}
	if row.Active {
		doc, err := scim.DecodeUser([]byte(row.Document))
		if err != nil {
			return err
		}
		from, err := stated(row, doc)
		if err != nil {
			return err
		}
		to := from
		to.Row.Active = false
		if row.User, err = account.Provision(c.Unit, c.Directory, from, to); err != nil {
			return c.refused(row.User, err)
		}
	}
	if err := account.EraseProvisioned(c.Unit, c.Directory, row); err != nil {
		return err
	}
	if _, err := c.SCIM().DeleteSCIMUser(c.Directory.ID, id); err != nil {
		return err
	}
	if err := c.Audit("scim.user.deleted", object("user", id)); err != nil {
		return err
	}
	return c.write(-1, 0)
}

// user returns a user for a change. It locks one without an account: a concurrent sign-in may give it one.
func (c *Change) user(id int64) (people.SCIMUser, error) {
	row, found, err := c.SCIM().SCIMUser(c.Directory.ID, id)
	if err == nil && found && row.User == 0 {
		row, found, err = c.SCIM().LockSCIMUser(c.Directory.ID, id)
	}
	if err == nil && !found {
		err = NotFound("user")
	}
	return row, err
}

// refused returns the error of a refusal about an account.
func (c *Change) refused(user int64, err error) error {
	if errors.Is(err, account.ErrOwnerLeaves) {
		return &LastOwnerError{User: user}
	}
	return conflictOf(err)
}

func (c *Change) requireFreeName(row people.SCIMUser) error {
	taken, err := c.SCIM().FindSCIMUsers(c.Directory.ID, people.SCIMFilter{Name: row.Name}, 0, 1)
	if err == nil && len(taken) > 0 && taken[0].ID != row.ID {
		err = conflict("another user has this userName")
	}
	return err
}

// applyRoles gives an active user with an account the role that groups lead to.
func (c *Change) applyRoles(row people.SCIMUser) error {
	if row.User == 0 || !row.Active {
		return nil
	}
	return c.auditRoles([]int64{row.ID})
}

// stated returns a row with the values of a document. An address that is not valid, or not in the form of addresses of
// accounts, counts as none.
func stated(row people.SCIMUser, doc scim.User) (account.DirectoryUser, error) {
	encoded, err := doc.Encode()
	if err != nil {
		return account.DirectoryUser{Row: row}, err
	}
	address, err := text.Email(doc.Email())
	if err != nil {
		address = ""
	}
	row.Name, row.ExternalID, row.Email = people.FoldEmail(doc.UserName()), doc.ExternalID(), people.FoldEmail(address)
	row.Active, row.Document = doc.Active(), string(encoded)
	return account.DirectoryUser{Row: row, Address: address, FirstName: personName(doc.GivenName()), LastName: personName(doc.FamilyName())}, nil
}

// personName returns a name as accounts have it, "" for one that they cannot have.
func personName(sent string) string {
	name, err := text.Name(sent)
	if err != nil {
		return ""
	}
	return name
}
