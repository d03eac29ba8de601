package provisioning

import (
	"bytes"
	"io"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/provisioning"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// membersAtOnce is how many members one query reads.
const membersAtOnce = 1000

// groupAndMembers is the body of a POST or a PUT of a group.
type groupAndMembers struct {
	group   scim.Group
	members scim.MemberChange
}

func readGroupBody(raw []byte) (g groupAndMembers, err error) {
	g.group, g.members, err = scim.ReadGroup(raw)
	return g, err
}

func createGroup(c *call) error {
	return writeGroup(c, http.StatusCreated, readGroupBody, func(change *provisioning.Change, _ int64, g groupAndMembers) (people.SCIMGroup, error) {
		return change.CreateGroup(g.group, g.members)
	})
}

func replaceGroup(c *call) error {
	return writeGroup(c, http.StatusOK, readGroupBody, func(change *provisioning.Change, id int64, g groupAndMembers) (people.SCIMGroup, error) {
		return change.ReplaceGroup(id, g.group, g.members)
	})
}

// patchGroup responds without a body if the members are excluded: clients that add a member to a large group need none.
func patchGroup(c *call) error {
	return writeGroup(c, http.StatusNoContent, scim.ReadPatch, (*provisioning.Change).PatchGroup)
}

// writeGroup reads a body, changes a group by it, and responds with the group. With the status 204, it responds without
// a body if the members are excluded, else with 200.
func writeGroup[T any](c *call, status int, read func([]byte) (T, error), write func(*provisioning.Change, int64, T) (people.SCIMGroup, error)) error {
	id, selection, sent, done, err := prepare(c, read)
	if err != nil {
		return err
	}
	var row people.SCIMGroup
	err = c.change(func(change *provisioning.Change) (err error) {
		row, err = write(change, id, sent)
		return err
	})
	done()
	if err != nil {
		return err
	}
	if status == http.StatusNoContent && !selection.Wants("members") {
		c.w.Header().Set("ETag", c.groupMeta(row).ETag())
		c.respond(status, nil)
		return nil
	}
	if status == http.StatusCreated {
		c.w.Header().Set("Location", c.groupLocation(row.ID))
	} else {
		status = http.StatusOK
	}
	return c.view(func(u *account.Unit, _ account.Directory) error { return c.streamGroup(u, status, row, selection) })
}

func deleteGroup(c *call) error {
	return c.remove((*provisioning.Change).DeleteGroup)
}

func readGroup(c *call) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	selection, err := c.selection()
	if err != nil {
		return err
	}
	return c.view(func(u *account.Unit, d account.Directory) error {
		row, found, err := u.SCIM().SCIMGroup(d.ID, id)
		if err != nil {
			return err
		}
		if !found {
			return provisioning.NotFound("group")
		}
		meta := c.groupMeta(row)
		if names := c.r.Header.Get("If-None-Match"); names != "" && scim.MatchesETag(names, meta.Version) {
			c.respondRead(written{meta: meta})
			return nil
		}
		return c.streamGroup(u, http.StatusOK, row, selection)
	})
}

func listGroups(c *call) error {
	return list(c, lister[people.SCIMGroup]{
		parse: scim.ParseGroupFilter,
		total: func(d people.Directory) int64 { return d.Groups },
		find: func(u *account.Unit, filter people.SCIMFilter, offset, limit int) ([]people.SCIMGroup, error) {
			return u.SCIM().FindSCIMGroups(c.directory.ID, filter, offset, limit)
		},
		match: func(u *account.Unit, f *scim.Filter, row people.SCIMGroup) (bool, error) {
			var failed error
			has := func(member string) bool {
				id, err := ids.Parse(member)
				if err != nil || failed != nil {
					return false
				}
				found, err := u.SCIM().FindSCIMGroups(row.Directory, people.SCIMFilter{ID: row.ID, Member: id}, 0, 1)
				failed = err
				return len(found) > 0
			}
			matches := f.MatchGroup(scim.Group{DisplayName: row.DisplayName, ExternalID: row.ExternalID}, c.groupMeta(row), has)
			return matches, failed
		},
		render: func(u *account.Unit, row people.SCIMGroup, s scim.Selection) ([]byte, error) {
			var out bytes.Buffer
			err := c.writeGroupTo(&out, u, row, s)
			return out.Bytes(), err
		},
	})
}

func (c *call) groupMeta(row people.SCIMGroup) scim.Meta {
	return scim.Meta{ID: row.ID, Created: row.CreatedAt, Modified: row.UpdatedAt, Version: row.Version, Location: c.groupLocation(row.ID)}
}

// streamGroup responds with a group. Its members are read and written in parts.
func (c *call) streamGroup(u *account.Unit, status int, row people.SCIMGroup, selection scim.Selection) error {
	c.w.Header().Set("ETag", c.groupMeta(row).ETag())
	return c.stream(status, func(w io.Writer) error { return c.writeGroupTo(w, u, row, selection) })
}

func (c *call) writeGroupTo(w io.Writer, u *account.Unit, row people.SCIMGroup, selection scim.Selection) error {
	g := scim.Group{DisplayName: row.DisplayName, ExternalID: row.ExternalID}
	return scim.WriteGroup(w, g, c.groupMeta(row), selection, func(yield func(scim.Member) error) error {
		for after := int64(0); ; {
			members, err := u.SCIM().SCIMMembers(row.Directory, row.ID, after, membersAtOnce)
			if err != nil {
				return err
			}
			c.rows += len(members)
			for _, m := range members {
				doc, err := scim.DecodeUser([]byte(m.Document))
				if err != nil {
					return err
				}
				if err := yield(scim.Member{ID: m.ID, Display: doc.DisplayName(), Location: c.userLocation(m.ID)}); err != nil {
					return err
				}
			}
			if len(members) < membersAtOnce {
				return nil
			}
			after = members[len(members)-1].ID
		}
	})
}
