package provisioning

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// CreateGroup adds a group with its members. Errors: a scim.Error.
func (c *Change) CreateGroup(g scim.Group, members scim.MemberChange) (people.SCIMGroup, error) {
	id, err := c.NewID()
	if err != nil {
		return people.SCIMGroup{}, err
	}
	row := people.SCIMGroup{
		ID: id, Directory: c.Directory.ID, DisplayName: g.DisplayName, ExternalID: g.ExternalID, Version: 1, Members: int64(len(members.Add)), CreatedAt: c.Now, UpdatedAt: c.Now,
	}
	if c.state.Groups >= people.MaxSCIMGroups {
		return row, full("the directory has as many groups as it may")
	}
	if err := c.requireFreeGroupName(row); err != nil {
		return row, err
	}
	c.Rows += len(members.Add)
	if err := c.requireUsers(members.Add); err != nil {
		return row, err
	}
	if err := c.SCIM().InsertSCIMGroup(row); err != nil {
		return row, err
	}
	if _, err := c.SCIM().AddSCIMMembers(c.Directory.ID, id, members.Add); err != nil {
		return row, err
	}
	if err := c.requireMemberships(int64(len(members.Add))); err != nil {
		return row, err
	}
	if c.gives(row.DisplayName) {
		if err := c.auditRoles(members.Add); err != nil {
			return row, err
		}
	}
	if err := c.Audit("scim.group.created", object("group", id)); err != nil {
		return row, err
	}
	return row, c.write(0, 1)
}

// ReplaceGroup replaces a group and its members.
func (c *Change) ReplaceGroup(id int64, g scim.Group, members scim.MemberChange) (people.SCIMGroup, error) {
	return c.updateGroup(id, func(scim.Group) (scim.Group, scim.MemberChange, error) { return g, members, nil })
}

// PatchGroup applies all operations of a PATCH to a group, or none.
func (c *Change) PatchGroup(id int64, patch scim.Patch) (people.SCIMGroup, error) {
	return c.updateGroup(id, func(before scim.Group) (scim.Group, scim.MemberChange, error) { return before.Apply(patch) })
}

// updateGroup changes a group. A change to an equal group writes nothing.
func (c *Change) updateGroup(id int64, change func(scim.Group) (scim.Group, scim.MemberChange, error)) (people.SCIMGroup, error) {
	row, found, err := c.SCIM().SCIMGroup(c.Directory.ID, id)
	if err != nil || !found {
		return row, account.FirstOf(err, NotFound("group"))
	}
	if err := c.require(row.Version); err != nil {
		return row, err
	}
	before := scim.Group{DisplayName: row.DisplayName, ExternalID: row.ExternalID}
	after, members, err := change(before)
	if err != nil {
		return row, err
	}
	to := row
	to.DisplayName, to.ExternalID = after.DisplayName, after.ExternalID
	if people.FoldEmail(to.DisplayName) != people.FoldEmail(row.DisplayName) {
		if err := c.requireFreeGroupName(to); err != nil {
			return row, err
		}
	}
	moved, added, err := c.changeMembers(row, members)
	if err != nil {
		return row, err
	}
	if after == before && len(moved) == 0 {
		return row, nil
	}
	to.Members, to.Version, to.UpdatedAt = row.Members+2*added-int64(len(moved)), row.Version+1, c.Now
	if to.Members > people.MaxSCIMMembers {
		return row, full(fmt.Sprintf("a group has at most %d members", people.MaxSCIMMembers))
	}
	if err := c.SCIM().UpdateSCIMGroup(to); err != nil {
		return row, err
	}
	if err := c.requireMemberships(added); err != nil {
		return row, err
	}
	if err := c.rolesAfter(before, after, to, moved); err != nil {
		return to, err
	}
	detail := fmt.Sprintf("added %d, removed %d", added, int64(len(moved))-added)
	if err := c.AuditDetail("scim.group.changed", object("group", id), detail); err != nil {
		return to, err
	}
	return to, c.write(0, 0)
}

// requireMemberships returns an Error if the groups of the directory have more users than they may, after some were
// added.
func (c *Change) requireMemberships(added int64) error {
	if added == 0 {
		return nil
	}
	most := int64(people.MaxSCIMMemberships)
	if c.Directory.Runtime {
		most = people.MaxRuntimeSCIMMemberships
	}
	n, err := c.SCIM().CountSCIMMemberships(c.Directory.ID)
	if err == nil && n > most {
		err = full(fmt.Sprintf("the groups of a directory have at most %d members in all", most))
	}
	return err
}

// changeMembers writes a change of a group's members. It returns the users that were added or removed, and how many
// were added.
func (c *Change) changeMembers(row people.SCIMGroup, members scim.MemberChange) (moved []int64, added int64, err error) {
	if members.Replace {
		have, err := c.SCIM().SCIMMemberIDs(c.Directory.ID, row.ID)
		if err != nil {
			return nil, 0, err
		}
		members.Remove = slices.DeleteFunc(have, func(id int64) bool {
			_, stays := slices.BinarySearch(members.Add, id)
			return stays
		})
	}
	c.Rows += len(members.Add) + len(members.Remove)
	if err := c.requireUsers(members.Add); err != nil {
		return nil, 0, err
	}
	more, err := c.SCIM().AddSCIMMembers(c.Directory.ID, row.ID, members.Add)
	if err != nil {
		return nil, 0, err
	}
	less, err := c.SCIM().RemoveSCIMMembers(c.Directory.ID, row.ID, members.Remove)
	return append(more, less...), int64(len(more)), err
}

// rolesAfter gives the roles after a change of a group. If the group began or ceased to give a role, that concerns all
// its members.
func (c *Change) rolesAfter(before, after scim.Group, row people.SCIMGroup, moved []int64) error {
	if before.DisplayName != after.DisplayName && (c.gives(before.DisplayName) || c.gives(after.DisplayName)) {
		all, err := c.SCIM().SCIMMemberIDs(c.Directory.ID, row.ID)
		if err != nil {
			return err
		}
		moved = append(all, moved...)
		slices.Sort(moved)
		moved = slices.Compact(moved)
	} else if !c.gives(after.DisplayName) {
		return nil
	}
	return c.auditRoles(moved)
}

// DeleteGroup deletes a group.
func (c *Change) DeleteGroup(id int64) error {
	row, found, err := c.SCIM().SCIMGroup(c.Directory.ID, id)
	if err != nil || !found {
		return account.FirstOf(err, NotFound("group"))
	}
	if err := c.require(row.Version); err != nil {
		return err
	}
	var members []int64
	if c.gives(row.DisplayName) {
		if members, err = c.SCIM().SCIMMemberIDs(c.Directory.ID, id); err != nil {
			return err
		}
	}
	if _, err := c.SCIM().DeleteSCIMGroup(c.Directory.ID, id); err != nil {
		return err
	}
	if err := c.auditRoles(members); err != nil {
		return err
	}
	if err := c.Audit("scim.group.deleted", object("group", id)); err != nil {
		return err
	}
	return c.write(0, -1)
}

// gives reports whether a group of a name gives a role.
func (c *Change) gives(name string) bool {
	return slices.ContainsFunc(c.RolesByGroup(c.Directory), func(r directory.GroupRole) bool { return r.Group == name })
}

// auditedRoles bounds the changed roles of one request that are audited one by one.
const auditedRoles = 100

// ReapplyRoles gives users the roles that groups lead to now.
func (c *Change) ReapplyRoles(users []int64) error { return c.auditRoles(users) }

// auditRoles gives users the roles that groups lead to, and audits the changed memberships.
func (c *Change) auditRoles(users []int64) error {
	c.Rows += len(users)
	changed, err := account.ApplyRoles(c.Unit, c.Directory, users)
	if err != nil {
		return err
	}
	if len(changed) > auditedRoles {
		detail := fmt.Sprintf("the roles of %d members changed", len(changed))
		return c.AuditDetail("organization.member_changed", "organization:"+ids.Format(c.Directory.Of.ID), detail)
	}
	for _, membership := range changed {
		if err := c.Audit("organization.member_changed", "membership:"+ids.Format(membership)); err != nil {
			return err
		}
	}
	return nil
}

func (c *Change) requireFreeGroupName(row people.SCIMGroup) error {
	taken, err := c.SCIM().FindSCIMGroups(c.Directory.ID, people.SCIMFilter{Name: people.FoldEmail(row.DisplayName)}, 0, 1)
	if err == nil && len(taken) > 0 && taken[0].ID != row.ID {
		err = conflict("another group has this displayName")
	}
	return err
}

// requireUsers returns an Error if the directory lacks one of some users.
func (c *Change) requireUsers(users []int64) error {
	known, err := c.SCIM().SCIMAccounts(c.Directory.ID, users)
	if err != nil {
		return err
	}
	for _, id := range users {
		if _, found := known[id]; !found {
			return &scim.Error{
				Status: http.StatusBadRequest, Type: scim.InvalidValue, Detail: "the directory has no user " + ids.Format(id) + ", which members names: create it first",
			}
		}
	}
	return nil
}
