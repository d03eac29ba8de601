package storetest

import (
	"fmt"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
)

// runtimeDirectory returns a directory of organization 1.
func runtimeDirectory(id int64) people.RuntimeDirectory {
	return people.RuntimeDirectory{
		ID: id, Organization: 1, Slug: fmt.Sprintf("d-%d", id), Connection: 3, Settings: "{}", Active: true, CreatedAt: born, UpdatedAt: born,
	}
}

func directoryToken(id, directory int64) people.DirectoryToken {
	public := fmt.Sprintf("token-%d", id)
	digest, _ := apikey.DigestOf(public)
	return people.DirectoryToken{ID: id, Directory: directory, Public: public, Last4: "last", Digest: digest, CreatedAt: born, ExpiresAt: after(time.Hour)}
}

func insertRuntimeDirectory(d people.RuntimeDirectory) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Directories().InsertRuntimeDirectory(d) }
}

func insertDirectoryToken(t people.DirectoryToken) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Directories().InsertDirectoryToken(t) }
}

// listedDirectories returns the ids of the directories that a filter selects.
func listedDirectories(e *env, filter people.RuntimeDirectoryFilter, limit int) (ids []int64) {
	for _, d := range all(e, func(tx people.Tx) ([]people.RuntimeDirectory, error) {
		return tx.Directories().ListRuntimeDirectories(filter, limit)
	}) {
		ids = append(ids, d.ID)
	}
	return ids
}

func tokensOf(e *env, directories ...int64) []people.DirectoryToken {
	return all(e, func(tx people.Tx) ([]people.DirectoryToken, error) {
		return tx.Directories().DirectoryTokens(directories)
	})
}

func deleteRuntimeDirectory(id int64) func(people.Tx) (bool, error) {
	return func(tx people.Tx) (bool, error) { return tx.Directories().DeleteRuntimeDirectory(id) }
}

var runtimeDirectoryStories = []story{
	{name: "a directory of an organization is read as written, has a state, and is listed with its filter", run: func(e *env) {
		e.begin()
		read := func() (people.RuntimeDirectory, bool) {
			return one(e, func(tx people.Tx) (people.RuntimeDirectory, bool, error) { return tx.Directories().RuntimeDirectory(5) })
		}
		_, found := read()
		e.Expect(found).To(gomega.BeFalse())
		d := runtimeDirectory(5)
		e.insert(insertRuntimeDirectory(d))
		e.refuses(people.ErrDuplicate, insertRuntimeDirectory(d))
		got, _ := read()
		e.Expect(got).To(gomega.Equal(d))
		state, found := one(e, func(tx people.Tx) (people.Directory, bool, error) { return tx.Directories().Directory(5) })
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(state).To(gomega.Equal(people.Directory{ID: 5}))
		d.Connection, d.Settings, d.Active, d.UpdatedAt = 0, `{"a":1}`, false, after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.Directories().UpdateRuntimeDirectory(d) })
		got, _ = read()
		e.Expect(got).To(gomega.Equal(d))

		other := runtimeDirectory(6)
		other.Organization = 2
		e.insert(insertRuntimeDirectory(other), insertRuntimeDirectory(runtimeDirectory(7)))
		e.change("apps/other", insertRuntimeDirectory(runtimeDirectory(8)))
		for _, of := range []struct {
			filter people.RuntimeDirectoryFilter
			want   []int64
		}{
			{people.RuntimeDirectoryFilter{}, []int64{7, 6, 5}},
			{people.RuntimeDirectoryFilter{Organization: 1}, []int64{7, 5}},
			{people.RuntimeDirectoryFilter{Organization: 1, Before: 7}, []int64{5}},
			{people.RuntimeDirectoryFilter{Before: 7}, []int64{6, 5}},
			{people.RuntimeDirectoryFilter{Organization: 9}, nil},
		} {
			e.Expect(listedDirectories(e, of.filter, 10)).To(gomega.Equal(of.want), "%+v", of.filter)
		}
		e.Expect(listedDirectories(e, people.RuntimeDirectoryFilter{}, 2)).To(gomega.Equal([]int64{7, 6}))

		of := func(organizations ...int64) []int64 {
			return all(e, func(tx people.Tx) ([]int64, error) { return tx.Directories().RuntimeDirectoriesOf(organizations) })
		}
		e.Expect(of(2, 1, 9)).To(gomega.Equal([]int64{5, 6, 7}))
		e.Expect(of(9)).To(gomega.BeEmpty())
		e.Expect(of()).To(gomega.BeEmpty())
		e.reportsTrue(deleteRuntimeDirectory(5))
		e.Expect(of(1)).To(gomega.Equal([]int64{7}))
	}},
	{name: "tokens of directories are found by public id in their directory alone, used at most once in a while, and deleted", run: func(e *env) {
		e.begin()
		first, second := directoryToken(1, 5), directoryToken(2, 5)
		second.ExpiresAt = time.Time{}
		e.insert(insertDirectoryToken(second), insertDirectoryToken(first), insertDirectoryToken(directoryToken(3, 6)))
		same := directoryToken(4, 6)
		same.Public = first.Public
		e.refuses(people.ErrDuplicate, insertDirectoryToken(same))
		e.change("apps/other", insertDirectoryToken(first))
		e.Expect(tokensOf(e, 5)).To(gomega.Equal([]people.DirectoryToken{first, second}))
		e.Expect(tokensOf(e, 6, 5)).To(gomega.HaveLen(3))
		e.Expect(tokensOf(e)).To(gomega.BeEmpty())
		find := func(directory int64, public string) (people.DirectoryToken, bool) {
			return one(e, func(tx people.Tx) (people.DirectoryToken, bool, error) {
				return tx.Directories().DirectoryToken(directory, public)
			})
		}
		got, _ := find(5, "token-1")
		e.Expect(got).To(gomega.Equal(first))
		_, found := find(6, "token-1")
		e.Expect(found).To(gomega.BeFalse())
		use := func(now, after time.Time) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Directories().UseDirectoryToken(5, 1, now, after) }
		}
		e.reportsTrue(use(after(time.Minute), after(time.Minute)))
		e.reportsFalse(use(after(time.Hour), born))
		got, _ = find(5, "token-1")
		e.Expect(got.UsedAt).To(gomega.Equal(after(time.Minute)))
		remove := func(directory, id int64) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Directories().DeleteDirectoryToken(directory, id) }
		}
		e.reportsFalse(remove(6, 1))
		e.reportsTrue(remove(5, 1))
		e.reportsFalse(remove(5, 1))
		e.Expect(tokensOf(e, 5)).To(gomega.Equal([]people.DirectoryToken{second}))
	}},
	{name: "a deleted directory of an organization has no token, is listed until it is cleared, and leaves nothing", run: func(e *env) {
		e.begin()
		e.insert(insertRuntimeDirectory(runtimeDirectory(5)), insertRuntimeDirectory(runtimeDirectory(6)), lockDirectory(7),
			insertDirectoryToken(directoryToken(1, 5)), insertDirectoryToken(directoryToken(2, 6)), insertSCIMUser(scimUser(1, 5)))
		e.reportsTrue(deleteRuntimeDirectory(5))
		e.reportsFalse(deleteRuntimeDirectory(5))
		_, found := one(e, func(tx people.Tx) (people.RuntimeDirectory, bool, error) { return tx.Directories().RuntimeDirectory(5) })
		e.Expect(found).To(gomega.BeFalse())
		e.Expect(listedDirectories(e, people.RuntimeDirectoryFilter{Organization: 1}, 10)).To(gomega.Equal([]int64{6}))
		e.Expect(tokensOf(e, 5, 6)).To(gomega.Equal([]people.DirectoryToken{directoryToken(2, 6)}))
		refs, err := e.store.ListDirectories(e.ctx, people.DirectoryRef{}, 10)
		e.ok(err)
		e.Expect(refs).To(gomega.Equal([]people.DirectoryRef{
			{Deployment: home, ID: 5, Deleted: true, Waiting: true}, {Deployment: home, ID: 6, Runtime: true}, {Deployment: home, ID: 7},
		}))
		e.Expect(cleared(e, home, 5, 10)).To(gomega.Equal([]int64{1, 1}))
		e.Expect(cleared(e, home, 6, 10)).To(gomega.Equal([]int64{1}))
		_, found = one(e, func(tx people.Tx) (people.RuntimeDirectory, bool, error) { return tx.Directories().RuntimeDirectory(6) })
		e.Expect(found).To(gomega.BeTrue(), "clearing deletes no directory that still exists")
		e.insert(insertRuntimeDirectory(runtimeDirectory(5)))
	}},
	{name: "users of organizations' directories, and users of the groups of a directory, are counted", run: func(e *env) {
		e.begin()
		count := func(of func(people.Tx) (int64, error)) int64 { return all(e, of) }
		users := func() int64 {
			return count(func(tx people.Tx) (int64, error) { return tx.SCIM().CountRuntimeSCIMUsers() })
		}
		memberships := func(directory int64) int64 {
			return count(func(tx people.Tx) (int64, error) { return tx.SCIM().CountSCIMMemberships(directory) })
		}
		e.Expect([]int64{users(), memberships(5)}).To(gomega.Equal([]int64{0, 0}))
		e.insert(insertRuntimeDirectory(runtimeDirectory(5)), insertRuntimeDirectory(runtimeDirectory(6)), lockDirectory(7))
		e.change("apps/other", insertRuntimeDirectory(runtimeDirectory(5)))
		for id := range int64(3) {
			e.insert(func(tx people.Tx) error {
				return tx.Directories().UpdateDirectory(people.Directory{ID: id + 5, Users: 10 * (id + 1)})
			})
		}
		e.change("apps/other", func(tx people.Tx) error {
			return tx.Directories().UpdateDirectory(people.Directory{ID: 5, Users: 1000})
		})
		e.Expect(users()).To(gomega.BeEquivalentTo(30), "of 5 and 6; 7 is declared")
		e.reportsTrue(deleteRuntimeDirectory(6))
		e.Expect(users()).To(gomega.BeEquivalentTo(30), "until it is cleared")
		for id, members := range map[int64]int64{1: 3, 2: 4} {
			g := scimGroup(id, 5)
			g.Members = members
			e.insert(insertSCIMGroup(g))
		}
		e.insert(insertSCIMGroup(scimGroup(1, 6)))
		e.Expect(memberships(5)).To(gomega.BeEquivalentTo(7))
	}},
	{name: "an organization's directories are deleted with it", run: func(e *env) {
		e.begin()
		e.members()
		other := runtimeDirectory(6)
		other.Organization = 2
		e.insert(insertRuntimeDirectory(runtimeDirectory(5)), insertRuntimeDirectory(other), insertDirectoryToken(directoryToken(1, 5)), insertDirectoryToken(directoryToken(2, 6)))
		e.insert(func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(1) })
		e.Expect(listedDirectories(e, people.RuntimeDirectoryFilter{}, 10)).To(gomega.Equal([]int64{6}))
		e.Expect(tokensOf(e, 5, 6)).To(gomega.Equal([]people.DirectoryToken{directoryToken(2, 6)}))
	}},
	{name: "active users with an address and without an account wait, and their directory is listed as such", run: func(e *env) {
		e.begin()
		add := func(id, directory int64, change func(*people.SCIMUser)) {
			u := scimUser(id, directory)
			u.User, u.Active = 0, true
			change(&u)
			e.insert(insertSCIMUser(u))
		}
		e.insert(lockDirectory(1), lockDirectory(2))
		add(1, 1, func(*people.SCIMUser) {})
		add(2, 1, func(u *people.SCIMUser) { u.User = 1 })
		add(3, 1, func(u *people.SCIMUser) { u.Active = false })
		add(4, 1, func(u *people.SCIMUser) { u.Email = "" })
		add(5, 1, func(*people.SCIMUser) {})
		add(6, 2, func(u *people.SCIMUser) { u.User = 2 })
		waiting := func(after int64) (ids []int64) {
			for _, u := range all(e, func(tx people.Tx) ([]people.SCIMUser, error) {
				return tx.SCIM().FindSCIMUsers(1, people.SCIMFilter{Waiting: true, After: after}, 0, 9)
			}) {
				ids = append(ids, u.ID)
			}
			return ids
		}
		e.Expect(waiting(0)).To(gomega.Equal([]int64{1, 5}))
		e.Expect(waiting(1)).To(gomega.Equal([]int64{5}))
		refs, err := e.store.ListDirectories(e.ctx, people.DirectoryRef{}, 10)
		e.ok(err)
		e.Expect(refs).To(gomega.Equal([]people.DirectoryRef{{Deployment: home, ID: 1, Waiting: true}, {Deployment: home, ID: 2}}))
	}},
	{name: "users and groups of a directory are listed after an id", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			e.insert(insertSCIMUser(scimUser(n+1, 1)), insertSCIMGroup(scimGroup(n+1, 1)))
		}
		users := all(e, func(tx people.Tx) ([]people.SCIMUser, error) {
			return tx.SCIM().FindSCIMUsers(1, people.SCIMFilter{After: 2}, 0, 9)
		})
		groups := all(e, func(tx people.Tx) ([]people.SCIMGroup, error) {
			return tx.SCIM().FindSCIMGroups(1, people.SCIMFilter{After: 3}, 0, 9)
		})
		e.Expect(users).To(gomega.HaveLen(2))
		e.Expect(users[0].ID).To(gomega.BeEquivalentTo(3))
		e.Expect(groups).To(gomega.HaveLen(1))
	}},
}
