package storetest

import (
	"fmt"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
)

func scimGroup(n, directory int64) people.SCIMGroup {
	return people.SCIMGroup{
		ID: n, Directory: directory, DisplayName: fmt.Sprintf("Group %d", n), ExternalID: fmt.Sprintf("External-%d", n), Members: 1, Version: 1,
		CreatedAt: after(time.Duration(n) * time.Second), UpdatedAt: after(time.Duration(n) * time.Minute),
	}
}

func insertSCIMGroup(g people.SCIMGroup) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.SCIM().InsertSCIMGroup(g) }
}

func addSCIMMembers(directory, group int64, users ...int64) func(people.Tx) error {
	return func(tx people.Tx) error { _, err := tx.SCIM().AddSCIMMembers(directory, group, users); return err }
}

func (e *env) scimGroup(directory, id int64) (people.SCIMGroup, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.SCIMGroup, bool, error) { return tx.SCIM().SCIMGroup(directory, id) })
}

func memberIDs(e *env, directory, group int64) []int64 {
	e.t.Helper()
	return all(e, func(tx people.Tx) ([]int64, error) { return tx.SCIM().SCIMMemberIDs(directory, group) })
}

// returned runs a write on home and returns the ids that it returns.
func returned[T any](e *env, write func(tx people.Tx) ([]T, error)) (ids []T) {
	e.t.Helper()
	e.change(home, func(tx people.Tx) (err error) {
		ids, err = write(tx)
		return err
	})
	return ids
}

var scimGroupStories = []story{
	{name: "a group is read and updated as written; its name is unique in its directory in any case", run: func(e *env) {
		e.begin()
		g, bare, same := scimGroup(1, 3), scimGroup(2, 3), scimGroup(1, 4)
		bare.ExternalID, bare.Members = "", 0
		e.insert(insertSCIMGroup(g), insertSCIMGroup(bare), insertSCIMGroup(same))
		expect := func(groups ...people.SCIMGroup) {
			for _, want := range groups {
				got, _ := e.scimGroup(want.Directory, want.ID)
				e.Expect(got).To(gomega.Equal(want))
			}
		}
		expect(g, bare, same)
		_, found := e.scimGroup(4, 2)
		e.Expect(found).To(gomega.BeFalse())
		again := scimGroup(5, 3)
		again.DisplayName = "GROUP 1"
		e.refuses(people.ErrDuplicate, insertSCIMGroup(again))
		again.ID = 2
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.SCIM().UpdateSCIMGroup(again) })
		changed := people.SCIMGroup{ID: 1, Directory: 3, DisplayName: "gROUP 1", ExternalID: "new", Members: 8, Version: 9, CreatedAt: g.CreatedAt, UpdatedAt: after(time.Hour)}
		stated := changed
		stated.CreatedAt = after(99 * time.Hour)
		e.insert(func(tx people.Tx) error { return tx.SCIM().UpdateSCIMGroup(stated) })
		expect(changed, bare, same)
	}},
	{name: "groups are found by each member of a filter, in the order of their ids, in pages", run: func(e *env) {
		e.begin()
		for _, n := range []int64{5, 2, 4, 1, 3} {
			g := scimGroup(n, 3)
			if n > 3 {
				g.ExternalID = "shared"
			}
			e.insert(insertSCIMGroup(g), insertSCIMGroup(scimGroup(n, 4)), addSCIMMembers(3, n, 10+n%2), addSCIMMembers(4, n, 12))
		}
		for _, of := range []struct {
			filter        people.SCIMFilter
			offset, limit int
			want          []int64
		}{
			{people.SCIMFilter{}, 0, 9, []int64{1, 2, 3, 4, 5}},
			{people.SCIMFilter{}, 1, 2, []int64{2, 3}},
			{people.SCIMFilter{}, 5, 2, nil},
			{people.SCIMFilter{}, 0, 0, nil},
			{people.SCIMFilter{ID: 2}, 0, 9, []int64{2}},
			{people.SCIMFilter{Name: "group 3"}, 0, 9, []int64{3}},
			{people.SCIMFilter{Name: "Group 3"}, 0, 9, nil},
			{people.SCIMFilter{ExternalID: "shared"}, 0, 9, []int64{4, 5}},
			{people.SCIMFilter{ExternalID: "Shared"}, 0, 9, nil},
			{people.SCIMFilter{Member: 11}, 0, 9, []int64{1, 3, 5}},
			{people.SCIMFilter{Member: 11}, 1, 1, []int64{3}},
			{people.SCIMFilter{Member: 10, ExternalID: "shared"}, 0, 9, []int64{4}},
			{people.SCIMFilter{Member: 12}, 0, 9, nil},
			{people.SCIMFilter{ID: 5, Name: "group 5", ExternalID: "shared", Member: 11}, 0, 9, []int64{5}},
			{people.SCIMFilter{ID: 5, Member: 10}, 0, 9, nil},
		} {
			var got []int64
			for _, g := range all(e, func(tx people.Tx) ([]people.SCIMGroup, error) {
				return tx.SCIM().FindSCIMGroups(3, of.filter, of.offset, of.limit)
			}) {
				got = append(got, g.ID)
			}
			e.Expect(got).To(gomega.Equal(of.want), "%+v after %d, up to %d", of.filter, of.offset, of.limit)
		}
	}},
	{name: "members are added and removed once, and a deleted group leaves none", run: func(e *env) {
		e.begin()
		add := func(users ...int64) []int64 {
			return returned(e, func(tx people.Tx) ([]int64, error) { return tx.SCIM().AddSCIMMembers(3, 1, users) })
		}
		remove := func(users ...int64) []int64 {
			return returned(e, func(tx people.Tx) ([]int64, error) { return tx.SCIM().RemoveSCIMMembers(3, 1, users) })
		}
		e.insert(insertSCIMGroup(scimGroup(1, 3)), addSCIMMembers(3, 2, 1, 2), addSCIMMembers(4, 1, 1, 2))
		e.Expect(add(4, 2)).To(gomega.ConsistOf(int64(4), int64(2)))
		e.Expect(add(2, 3, 4, 1, 3)).To(gomega.ConsistOf(int64(3), int64(1)))
		e.Expect(add(2, 3)).To(gomega.BeEmpty())
		e.Expect(add()).To(gomega.BeEmpty())
		e.Expect(memberIDs(e, 3, 1)).To(gomega.Equal([]int64{1, 2, 3, 4}))
		e.Expect(remove(9, 3, 1, 3)).To(gomega.ConsistOf(int64(3), int64(1)))
		e.Expect(remove(3, 1)).To(gomega.BeEmpty())
		e.Expect(remove()).To(gomega.BeEmpty())
		e.Expect(memberIDs(e, 3, 1)).To(gomega.Equal([]int64{2, 4}))
		many := make([]int64, 25_000)
		for i := range many {
			many[i] = int64(i) + 100
		}
		e.Expect(add(many...)).To(gomega.Equal(many))
		e.Expect(remove(many...)).To(gomega.HaveLen(len(many)))
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.SCIM().DeleteSCIMGroup(3, 1) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.SCIM().DeleteSCIMGroup(3, 1) })
		_, found := e.scimGroup(3, 1)
		e.Expect(found).To(gomega.BeFalse())
		e.Expect([][]int64{memberIDs(e, 3, 1), memberIDs(e, 3, 2), memberIDs(e, 4, 1)}).To(gomega.Equal([][]int64{nil, {1, 2}, {1, 2}}))
	}},
	{name: "members are read in pages with their documents, and the groups of a user with their names", run: func(e *env) {
		e.begin()
		var want []people.SCIMMember
		for n := range int64(5) {
			u := scimUser(n+1, 3)
			other := scimUser(n+1, 4)
			other.Document = "other"
			e.insert(insertSCIMUser(u), insertSCIMUser(other), insertSCIMGroup(scimGroup(n+1, 3)), insertSCIMGroup(scimGroup(n+1, 4)), addSCIMMembers(3, n+1, 1), addSCIMMembers(4, n+1, 2))
			want = append(want, people.SCIMMember{ID: u.ID, Document: u.Document})
		}
		e.insert(addSCIMMembers(3, 1, 5, 4, 3, 2))
		page := func(after int64, limit int) []people.SCIMMember {
			return all(e, func(tx people.Tx) ([]people.SCIMMember, error) { return tx.SCIM().SCIMMembers(3, 1, after, limit) })
		}
		e.Expect(page(0, 9)).To(gomega.Equal(want))
		e.Expect(page(0, 2)).To(gomega.Equal(want[:2]))
		e.Expect(page(2, 2)).To(gomega.Equal(want[2:4]))
		e.Expect(page(5, 2)).To(gomega.BeEmpty())
		e.Expect(memberIDs(e, 3, 1)).To(gomega.Equal([]int64{1, 2, 3, 4, 5}))
		groups := func(user int64, limit int) (ids []int64) {
			for _, g := range all(e, func(tx people.Tx) ([]people.SCIMGroupName, error) { return tx.SCIM().SCIMGroupsOf(3, user, limit) }) {
				e.Expect(g.DisplayName).To(gomega.Equal(scimGroup(g.ID, 3).DisplayName))
				ids = append(ids, g.ID)
			}
			return ids
		}
		e.Expect([][]int64{groups(1, 9), groups(1, 3), groups(2, 9), groups(9, 9)}).To(gomega.Equal([][]int64{{1, 2, 3, 4, 5}, {1, 2, 3}, {1}, nil}))
	}},
	{name: "members are found by the exact names of their groups", run: func(e *env) {
		e.begin()
		group := func(n, directory int64, name string) func(people.Tx) error {
			g := scimGroup(n, directory)
			g.DisplayName = name
			return insertSCIMGroup(g)
		}
		e.insert(group(1, 3, "Engineering"), group(2, 3, "sales"), group(3, 3, "Support"), group(1, 4, "engineering"),
			addSCIMMembers(3, 1, 1, 2, 3), addSCIMMembers(3, 2, 2, 4), addSCIMMembers(3, 3, 1), addSCIMMembers(4, 1, 4))
		named := func(names []string, users ...int64) []people.SCIMNamedMember {
			return all(e, func(tx people.Tx) ([]people.SCIMNamedMember, error) {
				return tx.SCIM().SCIMMembersNamed(3, names, users)
			})
		}
		e.Expect(named([]string{"Engineering", "sales"}, 1, 2, 4, 9)).To(gomega.ConsistOf(people.SCIMNamedMember{User: 1, Group: "Engineering"},
			people.SCIMNamedMember{User: 2, Group: "Engineering"}, people.SCIMNamedMember{User: 2, Group: "sales"}, people.SCIMNamedMember{User: 4, Group: "sales"}))
		e.Expect(named([]string{"engineering", "Engineering"}, 1)).To(gomega.ConsistOf(people.SCIMNamedMember{User: 1, Group: "Engineering"}))
		for _, none := range [][]string{{"engineering"}, {"SALES"}, {"other"}, {}, nil} {
			e.Expect(named(none, 1, 2, 3, 4)).To(gomega.BeEmpty(), "%q", none)
		}
		e.Expect(named([]string{"Engineering"})).To(gomega.BeEmpty())
	}},
	{name: "members get a role; owners and others keep theirs, and only changed keys are marked", run: func(e *env) {
		e.begin()
		e.members() // user 1 has role 100
		m := func(id, organization, user, role int64, owner bool) func(people.Tx) error {
			row := member(id, organization, user)
			row.Role, row.Owner = role, owner
			return insertMember(row)
		}
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(2)) })
		e.insert(m(2, 1, 2, 100, true), m(3, 1, 3, 300, false), m(4, 1, 4, 100, false), m(5, 2, 1, 100, false), m(6, 1, 6, 100, false), suspend(1, 6, 3))
		first, unchanged, elsewhere := apiKey(1, "first"), apiKey(3, "unchanged"), apiKey(4, "elsewhere")
		unchanged.Owner, elsewhere.Organization, elsewhere.Workspace = 3, 2, 0
		e.addKeys(first, unchanged, elsewhere)
		var changed []people.Member
		digests := e.changedBy(func(tx people.Tx) (err error) {
			changed, err = tx.SCIM().SetMemberRoles(1, 300, []int64{3, 1, 2, 6, 99})
			return err
		})
		e.Expect(changed).To(gomega.Equal([]people.Member{{ID: 1, User: 1, Role: 300}}))
		e.Expect(digests).To(gomega.Equal([]apikey.Digest{first.Digest}))
		roles := func() (all []int64) {
			for _, of := range [][2]int64{{1, 1}, {1, 2}, {1, 3}, {1, 4}, {2, 1}} {
				row, _, _ := membershipOf(e, of[0], of[1])
				all = append(all, row.Role)
			}
			s, _ := suspendedMember(e, 1, 6)
			return append(all, s.Role)
		}
		e.Expect(roles()).To(gomega.Equal([]int64{300, 100, 300, 100, 100, 100}))
		for _, none := range [][]int64{{1, 3}, {2}, {}, nil} {
			e.Expect(returned(e, func(tx people.Tx) ([]people.Member, error) { return tx.SCIM().SetMemberRoles(1, 300, none) })).To(gomega.BeEmpty())
		}
		several := returned(e, func(tx people.Tx) ([]people.Member, error) { return tx.SCIM().SetMemberRoles(1, 0, []int64{4, 3, 1}) })
		e.Expect(several).To(gomega.ConsistOf(people.Member{ID: 1, User: 1}, people.Member{ID: 3, User: 3}, people.Member{ID: 4, User: 4}))
		e.Expect(roles()).To(gomega.Equal([]int64{0, 100, 0, 0, 100, 100}))
	}},
}
