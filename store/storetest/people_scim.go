package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// scimUser returns a user of a directory that waits for an account.
func scimUser(n, directory int64) people.SCIMUser {
	return people.SCIMUser{
		ID: n, Directory: directory, Name: fmt.Sprintf("name-%d", n), ExternalID: fmt.Sprintf("External-%d", n), Email: fmt.Sprintf("scim%d@example.com", n), Active: true,
		Version: 1, Document: fmt.Sprintf(`{"n":%d}`, n), CreatedAt: after(time.Duration(n) * time.Second), UpdatedAt: after(time.Duration(n) * time.Minute),
	}
}

func tied(u people.SCIMUser, user int64) people.SCIMUser {
	u.User = user
	return u
}

func insertSCIMUser(u people.SCIMUser) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.SCIM().InsertSCIMUser(u) }
}

func (e *env) scimUser(directory, id int64) (people.SCIMUser, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.SCIMUser, bool, error) { return tx.SCIM().SCIMUser(directory, id) })
}

func findSCIMUsers(e *env, directory int64, filter people.SCIMFilter, offset, limit int) (ids []int64) {
	e.t.Helper()
	for _, u := range all(e, func(tx people.Tx) ([]people.SCIMUser, error) {
		return tx.SCIM().FindSCIMUsers(directory, filter, offset, limit)
	}) {
		e.Expect(u.Directory).To(gomega.Equal(directory))
		ids = append(ids, u.ID)
	}
	return ids
}

var scimUserStories = []story{
	{name: "a user is read and updated as written, in its directory only", run: func(e *env) {
		e.begin()
		u, bare := scimUser(1, 3), scimUser(2, 3)
		u.User = 7
		bare.ExternalID, bare.Email, bare.Active = "", "", false
		same := scimUser(1, 4)
		e.insert(insertSCIMUser(u), insertSCIMUser(bare), insertSCIMUser(same))
		for _, want := range []people.SCIMUser{u, bare, same} {
			got, _ := e.scimUser(want.Directory, want.ID)
			e.Expect(got).To(gomega.Equal(want))
		}
		_, found := e.scimUser(4, 2)
		e.Expect(found).To(gomega.BeFalse())
		changed := people.SCIMUser{
			ID: 1, Directory: 3, User: 8, Name: "new", ExternalID: "new external", Email: "new@example.com", Version: 9, Document: "{}", CreatedAt: u.CreatedAt, UpdatedAt: after(time.Hour),
		}
		stated := changed
		stated.CreatedAt = after(99 * time.Hour)
		e.insert(func(tx people.Tx) error { return tx.SCIM().UpdateSCIMUser(stated) })
		for _, want := range []people.SCIMUser{changed, bare, same} {
			got, _ := e.scimUser(want.Directory, want.ID)
			e.Expect(got).To(gomega.Equal(want))
		}
	}},
	{name: "a directory has one user of a name and one of an account", run: func(e *env) {
		e.begin()
		e.insert(insertSCIMUser(tied(scimUser(1, 3), 7)), insertSCIMUser(tied(scimUser(2, 3), 8)), insertSCIMUser(scimUser(3, 3)), insertSCIMUser(scimUser(4, 3)))
		for _, wrong := range []func(u *people.SCIMUser){
			func(u *people.SCIMUser) { u.Name = scimUser(1, 3).Name }, func(u *people.SCIMUser) { u.User = 7 },
		} {
			inserted, updated := scimUser(5, 3), tied(scimUser(2, 3), 8)
			wrong(&inserted)
			wrong(&updated)
			e.refuses(people.ErrDuplicate, insertSCIMUser(inserted))
			e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.SCIM().UpdateSCIMUser(updated) })
			inserted.Directory = 4
			e.insert(insertSCIMUser(inserted))
			e.insert(func(tx people.Tx) error { _, err := tx.SCIM().DeleteSCIMUser(4, 5); return err })
		}
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { _, err := tx.SCIM().TieSCIMUser(3, 3, 7); return err })
		e.refuses(people.ErrDuplicate, insertSCIMUser(scimUser(1, 3)))
		shared := scimUser(5, 3)
		shared.ExternalID, shared.Email = scimUser(1, 3).ExternalID, scimUser(1, 3).Email
		e.insert(insertSCIMUser(shared))
	}},
	{name: "users are found by each member of a filter, in the order of their ids, in pages", run: func(e *env) {
		e.begin()
		for _, n := range []int64{5, 2, 4, 1, 3} {
			u := scimUser(n, 3)
			if n > 3 {
				u.ExternalID, u.Email = "shared", "shared@example.com"
			}
			e.insert(insertSCIMUser(u), insertSCIMUser(scimUser(n, 4)))
		}
		for _, of := range []struct {
			filter        people.SCIMFilter
			offset, limit int
			want          []int64
		}{
			{people.SCIMFilter{}, 0, 9, []int64{1, 2, 3, 4, 5}},
			{people.SCIMFilter{}, 0, 2, []int64{1, 2}},
			{people.SCIMFilter{}, 3, 2, []int64{4, 5}},
			{people.SCIMFilter{}, 5, 2, nil},
			{people.SCIMFilter{}, 0, 0, nil},
			{people.SCIMFilter{ID: 2}, 0, 9, []int64{2}},
			{people.SCIMFilter{ID: 9}, 0, 9, nil},
			{people.SCIMFilter{Name: "name-3"}, 0, 9, []int64{3}},
			{people.SCIMFilter{ExternalID: "External-3"}, 0, 9, []int64{3}},
			{people.SCIMFilter{ExternalID: "external-3"}, 0, 9, nil},
			{people.SCIMFilter{ExternalID: "shared"}, 0, 9, []int64{4, 5}},
			{people.SCIMFilter{ExternalID: "shared"}, 1, 9, []int64{5}},
			{people.SCIMFilter{Email: "scim1@example.com"}, 0, 9, []int64{1}},
			{people.SCIMFilter{Email: "shared@example.com"}, 0, 1, []int64{4}},
			{people.SCIMFilter{Email: "shared@example.com", ID: 5}, 0, 9, []int64{5}},
			{people.SCIMFilter{ID: 5, Name: "name-5", ExternalID: "shared", Email: "shared@example.com"}, 0, 9, []int64{5}},
			{people.SCIMFilter{ID: 5, Name: "name-4"}, 0, 9, nil},
		} {
			e.Expect(findSCIMUsers(e, 3, of.filter, of.offset, of.limit)).To(gomega.Equal(of.want), "%+v after %d, up to %d", of.filter, of.offset, of.limit)
		}
		e.Expect(findSCIMUsers(e, 9, people.SCIMFilter{}, 0, 9)).To(gomega.BeEmpty())
	}},
	{name: "a deleted user leaves its groups, which count one member less and have a new version", run: func(e *env) {
		e.begin()
		counted := func(n, members int64) people.SCIMGroup {
			g := scimGroup(n, 3)
			g.Members = members
			return g
		}
		e.insert(insertSCIMUser(scimUser(1, 3)), insertSCIMUser(scimUser(2, 3)), insertSCIMGroup(counted(1, 2)), insertSCIMGroup(counted(2, 1)), insertSCIMGroup(counted(3, 1)),
			addSCIMMembers(3, 1, 1, 2), addSCIMMembers(3, 2, 1), addSCIMMembers(3, 3, 2),
			insertSCIMUser(scimUser(1, 4)), insertSCIMGroup(scimGroup(1, 4)), addSCIMMembers(4, 1, 1))
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.SCIM().DeleteSCIMUser(3, 1) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.SCIM().DeleteSCIMUser(3, 1) })
		want := []people.SCIMGroup{counted(1, 1), counted(2, 0), counted(3, 1)}
		want[0].Version, want[1].Version = 2, 2
		e.Expect(all(e, func(tx people.Tx) ([]people.SCIMGroup, error) {
			return tx.SCIM().FindSCIMGroups(3, people.SCIMFilter{}, 0, 9)
		})).To(gomega.Equal(want))
		e.Expect([][]int64{memberIDs(e, 3, 1), memberIDs(e, 3, 2), memberIDs(e, 3, 3), memberIDs(e, 4, 1)}).To(gomega.Equal([][]int64{{2}, nil, {2}, {1}}))
		_, found := e.scimUser(4, 1)
		e.Expect(found).To(gomega.BeTrue(), "another directory's")
		other, _ := e.scimGroup(4, 1)
		e.Expect(other).To(gomega.Equal(scimGroup(1, 4)))
	}},
	{name: "a user gets an account once, whoever tries at once", run: func(e *env) {
		e.begin()
		e.insert(insertSCIMUser(scimUser(1, 3)), insertSCIMUser(scimUser(2, 3)))
		var won atomic.Int64
		var account atomic.Int64
		together(20, func(i int) {
			did := false
			err := e.store.Change(e.ctx, home, func(tx people.Tx) (err error) {
				did, err = tx.SCIM().TieSCIMUser(3, 1, int64(i)+1)
				return err
			})
			if err != nil {
				e.t.Error(err)
			}
			if did {
				won.Add(1)
				account.Store(int64(i) + 1)
			}
		})
		e.Expect(won.Load()).To(gomega.BeEquivalentTo(1))
		got, _ := e.scimUser(3, 1)
		e.Expect(got).To(gomega.Equal(tied(scimUser(1, 3), account.Load())))
		other, _ := e.scimUser(3, 2)
		e.Expect(other).To(gomega.Equal(scimUser(2, 3)))
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.SCIM().TieSCIMUser(3, 9, 99) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.SCIM().TieSCIMUser(4, 2, 99) })
	}},
	{name: "users are found by their account, and those that wait by their address", run: func(e *env) {
		e.begin()
		var waiting, of []people.SCIMUser
		for n := range int64(4) {
			u, a := scimUser(n+1, n+1), tied(scimUser(n+11, n+1), 7)
			u.Email, a.Email = "shared@example.com", "shared@example.com"
			e.insert(insertSCIMUser(u), insertSCIMUser(a))
			waiting, of = append(waiting, u), append(of, a)
		}
		none := scimUser(30, 3)
		none.Email = ""
		e.insert(insertSCIMUser(none))
		wait := func(email string, limit int) []people.SCIMUser {
			return all(e, func(tx people.Tx) ([]people.SCIMUser, error) { return tx.SCIM().WaitingSCIMUsers(email, limit) })
		}
		e.Expect(wait("shared@example.com", 9)).To(gomega.Equal(waiting))
		e.Expect(wait("shared@example.com", 2)).To(gomega.Equal(waiting[:2]))
		e.Expect(wait("", 9)).To(gomega.BeEmpty())
		e.Expect(wait("other@example.com", 9)).To(gomega.BeEmpty())
		for account, want := range map[int64][]people.SCIMUser{7: of, 8: nil, 0: nil} {
			e.Expect(all(e, func(tx people.Tx) ([]people.SCIMUser, error) { return tx.SCIM().SCIMUsersOf(account) })).To(gomega.Equal(want))
		}
	}},
	{name: "the first user of each directory that waits for an address is found among its users of the address", run: func(e *env) {
		e.begin()
		const email = "shared@example.com"
		user := func(n, directory int64, active bool, account int64) people.SCIMUser {
			u := tied(scimUser(n, directory), account)
			u.Email, u.Active = email, active
			e.insert(insertSCIMUser(u))
			return u
		}
		for directory := range int64(5) {
			e.insert(lockDirectory(directory + 1))
		}
		user(1, 1, false, 0)
		user(2, 1, true, 7)
		first := user(3, 1, true, 0)
		user(4, 1, true, 0)
		second := user(5, 2, true, 0)
		user(6, 3, false, 0)
		e.insert(insertSCIMUser(scimUser(7, 4)))
		for n := range int64(people.MaxSCIMUsersOfAddress) {
			user(100+n, 5, false, 0)
		}
		user(900, 5, true, 0)
		waiting := func(email string, directories ...int64) []people.SCIMUser {
			return all(e, func(tx people.Tx) ([]people.SCIMUser, error) {
				return tx.SCIM().FirstWaitingSCIMUsers(directories, email)
			})
		}
		e.Expect(waiting(email, 5, 4, 3, 2, 1, 99)).To(gomega.Equal([]people.SCIMUser{first, second}))
		e.Expect(waiting(email, 2)).To(gomega.Equal([]people.SCIMUser{second}))
		e.Expect(waiting(email)).To(gomega.BeEmpty())
		e.Expect(waiting("", 1, 2)).To(gomega.BeEmpty())
		e.Expect(waiting("other@example.com", 1, 2)).To(gomega.BeEmpty())
	}},
	{name: "the accounts of users are read, and locked in a change", run: func(e *env) {
		e.begin()
		e.insert(insertSCIMUser(tied(scimUser(1, 3), 7)), insertSCIMUser(scimUser(2, 3)), insertSCIMUser(tied(scimUser(3, 4), 9)))
		read := func(ids ...int64) map[int64]int64 {
			return all(e, func(tx people.Tx) (map[int64]int64, error) { return tx.SCIM().SCIMAccounts(3, ids) })
		}
		e.Expect(read(2, 1, 3, 99)).To(gomega.Equal(map[int64]int64{1: 7, 2: 0}))
		e.Expect(read()).To(gomega.BeEmpty())

		tie := make(chan error, 1)
		e.insert(func(tx people.Tx) error {
			before, err := tx.SCIM().SCIMAccounts(3, []int64{1, 2})
			go func() {
				tie <- e.store.Change(e.ctx, home, func(tx people.Tx) error { _, err := tx.SCIM().TieSCIMUser(3, 2, 8); return err })
			}()
			select {
			case <-tie:
				e.t.Error("the account was set while the rows were locked")
			case <-time.After(100 * time.Millisecond):
			}
			again, more := tx.SCIM().SCIMAccounts(3, []int64{1, 2})
			e.Expect(again).To(gomega.Equal(before))
			e.ok(more)
			return err
		})
		e.ok(<-tie)
		e.Expect(read(1, 2)).To(gomega.Equal(map[int64]int64{1: 7, 2: 8}))
	}},
}
