package storetest

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// suspendedUser is the user whose membership furnish suspends.
const suspendedUser = 50

func suspend(organization, user, directory int64) func(people.Tx) error {
	return func(tx people.Tx) error {
		_, err := tx.Directories().SuspendMember(organization, user, directory, born)
		return err
	}
}

func lockDirectory(id int64) func(people.Tx) error {
	return func(tx people.Tx) error { _, err := tx.Directories().LockDirectory(id); return err }
}

// furnishDirectories is the part of furnish for directories.
func furnishDirectories(tx people.Tx, mark string) error {
	u, g := scimUser(1, 1), scimGroup(1, 1)
	u.User, u.ExternalID, g.ExternalID = 1, mark, mark
	d := runtimeDirectory(1)
	d.Settings = mark
	m, w := member(suspendedUser, 1, suspendedUser), workspaceMember(suspendedUser, 1, 1, suspendedUser)
	m.Role = int64(len(mark))
	for _, write := range []func(people.Tx) error{
		insertRuntimeDirectory(d), insertDirectoryToken(directoryToken(1, 1)), insertSCIMUser(u), insertSCIMGroup(g), addSCIMMembers(1, 1, 1),
		func(tx people.Tx) error { return tx.Organizations().InsertMember(m) },
		func(tx people.Tx) error { return tx.Organizations().InsertWorkspaceMember(w) },
		suspend(1, suspendedUser, 1),
		func(tx people.Tx) error {
			return tx.Directories().PutDirectoryAccount(people.DirectoryAccount{User: 1, CreatedBy: 1, DisabledBy: int64(len(mark))})
		},
	} {
		if err := write(tx); err != nil {
			return err
		}
	}
	return nil
}

// membership returns a user's membership in an organization, with those in its workspaces.
func membershipOf(e *env, organization, user int64) (m people.Member, in []people.WorkspaceMember, found bool) {
	e.t.Helper()
	e.view(home, func(tx people.Tx) (err error) {
		if m, found, err = tx.Organizations().Member(organization, user); err == nil {
			in, err = tx.Organizations().WorkspaceMembershipsOf(user, organization)
		}
		return err
	})
	return m, in, found
}

func suspendedMember(e *env, organization, user int64) (people.SuspendedMember, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.SuspendedMember, bool, error) {
		return tx.Directories().SuspendedMember(organization, user)
	})
}

func countSuspended(e *env, user int64) int {
	e.t.Helper()
	return all(e, func(tx people.Tx) (int, error) { return tx.Directories().CountSuspended(user) })
}

func anySuspended(e *env, organization int64) bool {
	e.t.Helper()
	return all(e, func(tx people.Tx) (bool, error) { return tx.Directories().AnySuspended(organization) })
}

func restore(organization, user int64) func(people.Tx) (bool, error) {
	return func(tx people.Tx) (bool, error) { return tx.Directories().RestoreMember(organization, user) }
}

func drop(organization, user int64) func(people.Tx) (bool, error) {
	return func(tx people.Tx) (bool, error) { return tx.Directories().DropSuspended(organization, user) }
}

// cleared clears a directory in batches until nothing is left, and returns the sizes of the batches.
func cleared(e *env, deployment string, id int64, limit int) (batches []int64) {
	e.t.Helper()
	for {
		var n int64
		e.change(deployment, func(tx people.Tx) (err error) {
			n, err = tx.Directories().ClearDirectory(id, limit)
			return err
		})
		if n == 0 {
			return batches
		}
		batches = append(batches, n)
	}
}

var directoryStories = []story{
	{name: "the state of a directory is created once, read as written, and belongs to its deployment", run: func(e *env) {
		e.begin()
		read := func() (people.Directory, bool) {
			return one(e, func(tx people.Tx) (people.Directory, bool, error) { return tx.Directories().Directory(3) })
		}
		_, found := read()
		e.Expect(found).To(gomega.BeFalse())
		d := people.Directory{ID: 3}
		lock := func(deployment string, want people.Directory) {
			e.change(deployment, func(tx people.Tx) error {
				got, err := tx.Directories().LockDirectory(3)
				e.Expect(got).To(gomega.Equal(want))
				return err
			})
		}
		lock(home, d)
		d.Organization, d.Users, d.Groups, d.EndedAt, d.ProvisionedDomains, d.Roles = 7, 8, 9, after(time.Hour), "a", "b"
		e.insert(func(tx people.Tx) error { return tx.Directories().UpdateDirectory(d) })
		lock(home, d)
		lock("apps/other", people.Directory{ID: 3})
		got, _ := read()
		e.Expect(got).To(gomega.Equal(d))
		d.EndedAt = time.Time{}
		e.insert(func(tx people.Tx) error { return tx.Directories().UpdateDirectory(d) })
		got, _ = read()
		e.Expect(got).To(gomega.Equal(d))
	}},
	{name: "what directories did with an account is read as written, and nothing for other accounts", run: func(e *env) {
		e.begin()
		read := func(user int64) people.DirectoryAccount {
			return all(e, func(tx people.Tx) (people.DirectoryAccount, error) { return tx.Directories().DirectoryAccount(user) })
		}
		e.Expect(read(5)).To(gomega.Equal(people.DirectoryAccount{User: 5}))
		for _, a := range []people.DirectoryAccount{{User: 5, CreatedBy: 1, DisabledBy: 2}, {User: 5, CreatedBy: 1}} {
			e.insert(func(tx people.Tx) error { return tx.Directories().PutDirectoryAccount(a) })
			e.Expect(read(5)).To(gomega.Equal(a))
		}
		e.Expect(read(6)).To(gomega.Equal(people.DirectoryAccount{User: 6}))
	}},
	{name: "a directory is cleared in batches, members of groups first and its state last, and no other directory is", run: func(e *env) {
		e.begin()
		e.members()
		kept := apiKey(2, "kept")
		kept.Organization, kept.Workspace = 2, 0
		e.addKeys(apiKey(1, "suspended"), kept)
		fill := func(deployment string, directory int64) {
			e.change(deployment, func(tx people.Tx) error {
				for n := range int64(5) {
					for _, write := range []func(people.Tx) error{insertSCIMUser(scimUser(n+1, directory)), insertSCIMGroup(scimGroup(n+1, directory)), addSCIMMembers(directory, n+1, 1, n+1)} {
						if err := write(tx); err != nil {
							return err
						}
					}
				}
				return lockDirectory(directory)(tx)
			})
		}
		fill(home, 1)
		fill(home, 2)
		fill("apps/other", 1)
		e.insert(suspend(1, 1, 1), insertMember(member(2, 2, 1)), suspend(2, 1, 2), insertMember(member(3, 3, 9)), suspend(3, 9, 1))
		members := func(directory int64) []int64 {
			return all(e, func(tx people.Tx) ([]int64, error) { return tx.SCIM().SCIMMemberIDs(directory, 2) })
		}
		e.Expect(members(1)).To(gomega.Equal([]int64{1, 2}))
		other := e.pictureOf("apps/other")
		changed := e.changedBy(func(tx people.Tx) error { // one batch deletes no user before the memberships of all groups
			n, err := tx.Directories().ClearDirectory(1, 8)
			e.Expect(n).To(gomega.BeEquivalentTo(8))
			return err
		})
		e.Expect(changed).To(gomega.BeEmpty())
		e.Expect(all(e, func(tx people.Tx) ([]people.SCIMUser, error) {
			return tx.SCIM().FindSCIMUsers(1, people.SCIMFilter{}, 0, 9)
		})).To(gomega.HaveLen(5))
		e.Expect(cleared(e, home, 1, 3)).To(gomega.Equal([]int64{1, 3, 2, 3, 2, 2, 1}))
		_, found := one(e, func(tx people.Tx) (people.Directory, bool, error) { return tx.Directories().Directory(1) })
		e.Expect(found).To(gomega.BeFalse())
		_, first := e.lookUp(apiKey(1, "suspended"))
		_, second := e.lookUp(kept)
		e.Expect([]bool{first, second}).To(gomega.Equal([]bool{false, true}), "keys of a suspended membership go with it")
		e.Expect([]bool{anySuspended(e, 1), anySuspended(e, 2), anySuspended(e, 3)}).To(gomega.Equal([]bool{false, true, false}))
		_, found = one(e, func(tx people.Tx) (people.Directory, bool, error) { return tx.Directories().Directory(2) })
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(members(2)).To(gomega.Equal([]int64{1, 2}))
		e.Expect(e.pictureOf("apps/other")).To(gomega.Equal(other))
		e.Expect(cleared(e, home, 9, 3)).To(gomega.BeEmpty())
	}},
	{name: "directories of all deployments are listed in batches, each once", run: func(e *env) {
		e.begin()
		var want []people.DirectoryRef
		for _, deployment := range []string{"apps/a", "apps/a-b", "apps/b"} {
			for n := range int64(4) {
				d := people.Directory{ID: n + 1, Roles: deployment}
				if n%2 == 1 {
					d.EndedAt = after(time.Duration(n) * time.Hour)
				}
				e.change(deployment, lockDirectory(d.ID))
				e.change(deployment, func(tx people.Tx) error { return tx.Directories().UpdateDirectory(d) })
				want = append(want, people.DirectoryRef{Deployment: deployment, ID: d.ID, EndedAt: d.EndedAt, Roles: d.Roles})
			}
		}
		for _, limit := range []int{1, 3, 4, 12, 100} {
			var got []people.DirectoryRef
			for after := (people.DirectoryRef{}); ; after = got[len(got)-1] {
				batch, err := e.store.ListDirectories(e.ctx, after, limit)
				e.ok(err)
				e.Expect(len(batch)).To(gomega.BeNumerically("<=", limit))
				if len(batch) == 0 {
					break
				}
				got = append(got, batch...)
			}
			e.Expect(got).To(gomega.Equal(want), "in batches of %d", limit)
		}
		ended, cancel := context.WithCancel(e.ctx)
		cancel()
		_, err := e.store.ListDirectories(ended, people.DirectoryRef{}, 1)
		e.Expect(err).To(gomega.HaveOccurred())
	}},
	{name: "of many suspensions of one membership at once, one has an effect, and of many restorations one", run: func(e *env) {
		e.begin()
		e.members()
		for _, does := range []func(tx people.Tx) (bool, error){
			func(tx people.Tx) (bool, error) { return tx.Directories().SuspendMember(1, 1, 3, born) }, restore(1, 1),
		} {
			var done atomic.Int64
			together(10, func(int) {
				did := false
				err := e.store.Change(e.ctx, home, func(tx people.Tx) (err error) {
					if _, _, err = tx.Organizations().LockOrganization(1); err == nil {
						did, err = does(tx)
					}
					return err
				})
				if err != nil {
					e.t.Error(err)
				}
				if did {
					done.Add(1)
				}
			})
			e.Expect(done.Load()).To(gomega.BeEquivalentTo(1))
		}
		_, in, found := membershipOf(e, 1, 1)
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(in).To(gomega.HaveLen(1))
	}},
}
