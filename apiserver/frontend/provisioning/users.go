package provisioning

import (
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/provisioning"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// maxGroupsOfUser bounds the attribute groups of a user.
const maxGroupsOfUser = 1000

func createUser(c *call) error {
	return writeUser(c, http.StatusCreated, scim.ReadUser, func(change *provisioning.Change, _ int64, doc scim.User) (people.SCIMUser, error) {
		return change.CreateUser(doc)
	})
}

func replaceUser(c *call) error {
	return writeUser(c, http.StatusOK, scim.ReadUser, (*provisioning.Change).ReplaceUser)
}

func patchUser(c *call) error {
	return writeUser(c, http.StatusOK, scim.ReadPatch, (*provisioning.Change).PatchUser)
}

// writeUser reads a body, changes a user by it, and responds with the user.
func writeUser[T any](c *call, status int, read func([]byte) (T, error), write func(*provisioning.Change, int64, T) (people.SCIMUser, error)) error {
	id, selection, sent, done, err := prepare(c, read)
	if err != nil {
		return err
	}
	defer done()
	var out written
	err = c.change(func(change *provisioning.Change) error {
		row, err := write(change, id, sent)
		if err != nil {
			return err
		}
		out, err = c.renderUser(change.Unit, row, selection, status == http.StatusCreated)
		return err
	})
	if err != nil {
		return err
	}
	c.respondWith(status, out)
	return nil
}

// prepare reads the id of a request's path, if it has one, the selection of attributes, and the body, whose memory
// counts until done is called.
func prepare[T any](c *call, read func([]byte) (T, error)) (id int64, selection scim.Selection, sent T, done func(), err error) {
	if c.r.PathValue("id") != "" {
		if id, err = c.id(); err != nil {
			return id, selection, sent, nil, err
		}
	}
	if selection, err = c.selection(); err != nil {
		return id, selection, sent, nil, err
	}
	raw, done, err := c.body()
	if err != nil {
		return id, selection, sent, nil, err
	}
	if sent, err = read(raw); err != nil {
		done()
	}
	return id, selection, sent, done, err
}

func deleteUser(c *call) error {
	return c.remove((*provisioning.Change).DeleteUser)
}

// remove deletes a resource.
func (c *call) remove(remove func(*provisioning.Change, int64) error) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	if err := c.change(func(change *provisioning.Change) error { return remove(change, id) }); err != nil {
		return err
	}
	c.respond(http.StatusNoContent, nil)
	return nil
}

func readUser(c *call) error {
	id, err := c.id()
	if err != nil {
		return err
	}
	selection, err := c.selection()
	if err != nil {
		return err
	}
	var out written
	err = c.view(func(u *account.Unit, d account.Directory) error {
		row, found, err := u.SCIM().SCIMUser(d.ID, id)
		if err != nil {
			return err
		}
		if !found {
			return provisioning.NotFound("user")
		}
		out, err = c.renderUser(u, row, selection, false)
		return err
	})
	if err != nil {
		return err
	}
	c.respondRead(out)
	return nil
}

func listUsers(c *call) error {
	return list(c, lister[people.SCIMUser]{
		parse: scim.ParseUserFilter,
		total: func(d people.Directory) int64 { return d.Users },
		find: func(u *account.Unit, filter people.SCIMFilter, offset, limit int) ([]people.SCIMUser, error) {
			return u.SCIM().FindSCIMUsers(c.directory.ID, filter, offset, limit)
		},
		match: func(_ *account.Unit, f *scim.Filter, row people.SCIMUser) (bool, error) {
			doc, err := scim.DecodeUser([]byte(row.Document))
			return err == nil && f.MatchUser(doc, c.userMeta(row)), err
		},
		render: func(u *account.Unit, row people.SCIMUser, s scim.Selection) ([]byte, error) {
			out, err := c.renderUser(u, row, s, false)
			return out.body, err
		},
	})
}

func (c *call) userMeta(row people.SCIMUser) scim.Meta {
	return scim.Meta{ID: row.ID, Created: row.CreatedAt, Modified: row.UpdatedAt, Version: row.Version, Location: c.userLocation(row.ID)}
}

func (c *call) userLocation(id int64) string { return c.directory.base + "/Users/" + ids.Format(id) }

func (c *call) groupLocation(id int64) string { return c.directory.base + "/Groups/" + ids.Format(id) }

// renderUser returns a user as it is served. A new user is in no group.
func (c *call) renderUser(u *account.Unit, row people.SCIMUser, selection scim.Selection, isNew bool) (written, error) {
	doc, err := scim.DecodeUser([]byte(row.Document))
	if err != nil {
		return written{}, err
	}
	var groups []scim.GroupRef
	if selection.Wants("groups") && !isNew {
		named, err := u.SCIM().SCIMGroupsOf(row.Directory, row.ID, maxGroupsOfUser)
		if err != nil {
			return written{}, err
		}
		c.rows += len(named)
		for _, g := range named {
			groups = append(groups, scim.GroupRef{ID: g.ID, Display: g.DisplayName, Location: c.groupLocation(g.ID)})
		}
	}
	out := written{meta: c.userMeta(row)}
	out.body, err = scim.RenderUser(doc, out.meta, groups, selection)
	return out, err
}
