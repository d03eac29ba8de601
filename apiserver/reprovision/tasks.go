package reprovision

import (
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/provisioning"
	"github.com/cardea-iam/cardea/store/people"
)

// task is what is due of a directory after a change.
type task struct {
	// due reports whether a listed directory may need the task.
	due func(t *account.Tenant, ref people.DirectoryRef) bool
	// key returns what identifies the change, "" if there is nothing to do.
	key func(u *account.Unit, d account.Directory, state people.Directory) (string, error)
	// filter selects the users, of which apply changes up to atOnce in a transaction.
	filter people.SCIMFilter
	atOnce int
	apply  func(c *provisioning.Change, users []int64) error
	// needs reports whether apply may change a user.
	needs func(u *account.Unit, d account.Directory, row people.SCIMUser) (bool, error)
	// record writes into the state that the task is done.
	record func(state *people.Directory, d account.Directory, key string)
}

// tasks are all tasks, in order.
var tasks = []*task{&domains, &roles}

// domains adds users that waited for a domain that the organization has now.
var domains = task{
	due: func(_ *account.Tenant, ref people.DirectoryRef) bool { return ref.Waiting },
	key: func(u *account.Unit, d account.Directory, state people.Directory) (string, error) {
		key, err := account.DomainsKey(u, d.Of)
		if state.ProvisionedDomains == key {
			key = ""
		}
		return key, err
	},
	filter: people.SCIMFilter{Waiting: true}, atOnce: 1,
	apply: func(c *provisioning.Change, users []int64) error { return c.ProvisionWaiting(users[0]) },
	needs: func(u *account.Unit, d account.Directory, row people.SCIMUser) (bool, error) {
		return account.HoldsDomain(u, d.Of, row.Email)
	},
	record: func(state *people.Directory, _ account.Directory, key string) { state.ProvisionedDomains = key },
}

// roles gives members the roles by changed group roles.
var roles = task{
	due: func(t *account.Tenant, ref people.DirectoryRef) bool {
		if ref.Runtime {
			return ref.Roles == people.StaleRoles
		}
		d, declared := t.DeclaredDirectory(ref.ID)
		return declared && ref.Roles != account.RolesKey(t, d)
	},
	key: func(u *account.Unit, d account.Directory, state people.Directory) (string, error) {
		switch key := account.RolesKey(u.Tenant, d); {
		case d.Runtime && state.Roles != people.StaleRoles:
			return "", nil
		case !d.Runtime && state.Roles == key:
			return "", nil
		default:
			return key, nil
		}
	},
	atOnce: 100,
	apply:  func(c *provisioning.Change, users []int64) error { return c.ReapplyRoles(users) },
	needs: func(_ *account.Unit, _ account.Directory, row people.SCIMUser) (bool, error) {
		return row.User != 0, nil
	},
	record: func(state *people.Directory, d account.Directory, key string) {
		if state.Roles = key; d.Runtime {
			state.Roles = ""
		}
	},
}
