package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/people"
)

func insertMember(m people.Member) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Organizations().InsertMember(m) }
}

func insertWorkspaceMember(m people.WorkspaceMember) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Organizations().InsertWorkspaceMember(m) }
}

var suspensionStories = []story{
	{name: "a suspended membership comes back as it was: role, owner, workspaces, and no workspace that is deleted", run: func(e *env) {
		e.begin()
		e.members()
		e.change("apps/other", func(tx people.Tx) error { return furnish(tx, "other") })
		other := e.pictureOf("apps/other")
		m := member(2, 1, 2)
		m.Owner, m.Role, m.Workspace = true, 70, 1
		in := workspaceMember(2, 1, 1, 2)
		in.Owner, in.Role = true, 80
		deleted := workspaceMember(3, 9, 1, 2) // the workspace 9 does not exist
		e.insert(insertMember(m), insertWorkspaceMember(in), insertWorkspaceMember(deleted))
		before, beforeIn, _ := membershipOf(e, 1, 2)
		e.Expect([]any{before.Owner, before.Role, before.Workspace}).To(gomega.Equal([]any{true, int64(70), int64(1)}))
		e.Expect(beforeIn).To(gomega.HaveLen(1))
		elsewhere := member(4, 5, 2)
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(5)) }, insertMember(elsewhere))

		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Directories().SuspendMember(1, 2, 3, after(time.Hour)) })
		_, left, found := membershipOf(e, 1, 2)
		e.Expect(found || len(left) > 0).To(gomega.BeFalse())
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Directories().SuspendMember(1, 2, 3, after(time.Hour)) })
		got, _ := suspendedMember(e, 1, 2)
		e.Expect(got).To(gomega.Equal(people.SuspendedMember{ID: 2, Organization: 1, User: 2, Directory: 3, Role: 70, Owner: true, SuspendedAt: after(time.Hour)}))
		e.Expect([]any{countSuspended(e, 2), countSuspended(e, 1), anySuspended(e, 1), anySuspended(e, 5)}).To(gomega.Equal([]any{1, 0, true, false}))
		_, _, found = membershipOf(e, 5, 2)
		e.Expect(found).To(gomega.BeTrue(), "the membership in another organization")
		_, in1, found := membershipOf(e, 1, 1)
		e.Expect(found && len(in1) == 1).To(gomega.BeTrue(), "the membership of another user")

		e.reportsFalse(restore(5, 2))
		e.reportsTrue(restore(1, 2))
		restored, restoredIn, _ := membershipOf(e, 1, 2)
		e.Expect(restored).To(gomega.Equal(before))
		e.Expect(restoredIn).To(gomega.Equal(beforeIn))
		e.insert(func(tx people.Tx) error { w := workspace(9, 1); return tx.Organizations().InsertWorkspace(w) })
		_, restoredIn, _ = membershipOf(e, 1, 2)
		e.Expect(restoredIn).To(gomega.HaveLen(1), "the membership in the deleted workspace is not there")
		e.Expect([]any{countSuspended(e, 2), anySuspended(e, 1)}).To(gomega.Equal([]any{0, false}))
		e.reportsFalse(restore(1, 2))
		e.Expect(e.pictureOf("apps/other")).To(gomega.Equal(other))
	}},
	{name: "keys in an organization are orphaned while their user is suspended, and accepted again afterwards", run: func(e *env) {
		e.begin()
		e.members()
		in, inWorkspace, elsewhere := apiKey(1, "in"), apiKey(2, "in workspace"), apiKey(3, "elsewhere")
		in.Workspace, elsewhere.Organization, elsewhere.Workspace = 0, 0, 0
		e.addKeys(in, inWorkspace, elsewhere)
		orphaned := func() (of []bool) {
			for _, k := range []people.APIKey{in, inWorkspace, elsewhere} {
				bound, found := e.lookUp(k)
				e.Expect(found).To(gomega.BeTrue())
				of = append(of, bound.Orphaned)
			}
			return of
		}
		e.Expect(orphaned()).To(gomega.Equal([]bool{false, false, false}))
		e.Expect(e.changedBy(suspend(1, 1, 3))).To(gomega.ConsistOf(in.Digest, inWorkspace.Digest))
		e.Expect(orphaned()).To(gomega.Equal([]bool{true, true, false}))
		changed := e.changedBy(func(tx people.Tx) error { _, err := tx.Directories().RestoreMember(1, 1); return err })
		e.Expect(changed).To(gomega.ConsistOf(in.Digest, inWorkspace.Digest))
		e.Expect(orphaned()).To(gomega.Equal([]bool{false, false, false}))
		bound, _ := e.lookUp(inWorkspace)
		e.Expect(bound.Role).To(gomega.BeEquivalentTo(200))
	}},
	{name: "sign-ins lose the organization of a suspended membership, and no other", run: func(e *env) {
		e.begin()
		e.members()
		var want []people.SignIn
		for n, in := range [][3]int64{{1, 1, 1}, {1, 5, 6}, {2, 1, 1}} { // user, organization, workspace
			g := signIn(int64(n)+1, int64(n)+1, in[0])
			e.insert(insertSession(session(int64(n)+1)), insertSignIn(g), func(tx people.Tx) error {
				return tx.Sessions().SetActiveOrganization(g.ID, in[1], in[2])
			})
			if n > 0 {
				g.Organization, g.Workspace = in[1], in[2]
			}
			want = append(want, g)
		}
		e.insert(suspend(1, 1, 3))
		for n := range want {
			got := all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(want[n].User) })
			e.Expect(got).To(gomega.ContainElement(want[n]))
		}
	}},
	{name: "restoring a user who is a member again only deletes the suspended membership", run: func(e *env) {
		e.begin()
		e.members()
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(2, 1)) }, insertWorkspaceMember(workspaceMember(2, 2, 1, 1)), suspend(1, 1, 3))
		again, in := member(7, 1, 1), workspaceMember(7, 1, 1, 1)
		again.Role, in.Role = 5, 6
		e.insert(insertMember(again), insertWorkspaceMember(in))
		before, beforeIn, _ := membershipOf(e, 1, 1)
		e.reportsTrue(restore(1, 1))
		after, afterIn, _ := membershipOf(e, 1, 1)
		e.Expect(after).To(gomega.Equal(before))
		e.Expect(afterIn).To(gomega.Equal(beforeIn), "no workspace is added")
		e.Expect(countSuspended(e, 1)).To(gomega.BeZero())
		e.reportsFalse(restore(1, 1))
	}},
	{name: "a suspension replaces an older one of the user", run: func(e *env) {
		e.begin()
		e.members()
		e.insert(suspend(1, 1, 3))
		again := member(7, 1, 1)
		again.Role = 5
		e.insert(insertMember(again))
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Directories().SuspendMember(1, 1, 4, after(time.Hour)) })
		got, _ := suspendedMember(e, 1, 1)
		e.Expect(got).To(gomega.Equal(people.SuspendedMember{ID: 7, Organization: 1, User: 1, Directory: 4, Role: 5, SuspendedAt: after(time.Hour)}))
		e.reportsTrue(restore(1, 1))
		m, in, _ := membershipOf(e, 1, 1)
		e.Expect([]int64{m.ID, m.Role}).To(gomega.Equal([]int64{7, 5}))
		e.Expect(in).To(gomega.BeEmpty(), "the workspaces of the older membership are forgotten")
	}},
	{name: "a dropped suspended membership takes the user's keys in the organization with it, and no others", run: func(e *env) {
		e.begin()
		e.members()
		in, elsewhere := apiKey(1, "in"), apiKey(2, "elsewhere")
		elsewhere.Organization, elsewhere.Workspace = 0, 0
		e.addKeys(in, elsewhere)
		e.reportsFalse(drop(1, 1))
		_, found := e.lookUp(in)
		e.Expect(found).To(gomega.BeTrue(), "nothing was suspended")
		e.insert(suspend(1, 1, 3))
		e.Expect(e.changedBy(func(tx people.Tx) error { _, err := tx.Directories().DropSuspended(1, 1); return err })).To(gomega.Equal([]apikey.Digest{in.Digest}))
		_, found = e.lookUp(in)
		e.Expect(found).To(gomega.BeFalse())
		bound, found := e.lookUp(elsewhere)
		e.Expect(found && !bound.Orphaned).To(gomega.BeTrue())
		e.Expect(countSuspended(e, 1)).To(gomega.BeZero())
		e.reportsFalse(drop(1, 1))
		e.reportsFalse(restore(1, 1))
		e.insert(insertMember(member(7, 1, 1)), suspend(1, 1, 3))
		e.reportsTrue(restore(1, 1))
		_, workspaces, _ := membershipOf(e, 1, 1)
		e.Expect(workspaces).To(gomega.BeEmpty(), "workspaces go with the dropped membership")
	}},
	{name: "with a deleted user, suspended memberships go, and the user of the directory waits again", run: func(e *env) {
		e.begin()
		e.members()
		row, other := scimUser(1, 3), scimUser(2, 3)
		row.User, other.User = 1, 2
		e.insert(insertSCIMUser(row), insertSCIMUser(other), insertMember(member(2, 1, 2)), insertMember(member(3, 2, 1)), suspend(1, 1, 3), suspend(1, 2, 3), suspend(2, 1, 3), func(tx people.Tx) error {
			return tx.Directories().PutDirectoryAccount(people.DirectoryAccount{User: 1, CreatedBy: 3})
		})
		e.Expect(countSuspended(e, 1)).To(gomega.Equal(2))
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		e.Expect([]int{countSuspended(e, 1), countSuspended(e, 2)}).To(gomega.Equal([]int{0, 1}))
		e.Expect([]bool{anySuspended(e, 1), anySuspended(e, 2)}).To(gomega.Equal([]bool{true, false}))
		e.Expect(all(e, func(tx people.Tx) (people.DirectoryAccount, error) { return tx.Directories().DirectoryAccount(1) })).To(gomega.Equal(people.DirectoryAccount{User: 1}))
		row.User = 0
		e.Expect(all(e, func(tx people.Tx) ([]people.SCIMUser, error) {
			return tx.SCIM().FindSCIMUsers(3, people.SCIMFilter{}, 0, 9)
		})).To(gomega.Equal([]people.SCIMUser{row, other}))
		e.Expect(all(e, func(tx people.Tx) ([]people.SCIMUser, error) { return tx.SCIM().WaitingSCIMUsers(row.Email, 9) })).To(gomega.Equal([]people.SCIMUser{row}))
		e.insert(insertMember(member(9, 1, 1)), suspend(1, 1, 3))
		e.reportsTrue(restore(1, 1))
		_, workspaces, _ := membershipOf(e, 1, 1)
		e.Expect(workspaces).To(gomega.BeEmpty(), "suspended memberships in workspaces went with the user")
	}},
	{name: "with a deleted organization, its suspended memberships go with their keys", run: func(e *env) {
		e.begin()
		e.members()
		in := apiKey(1, "in")
		e.addKeys(in)
		e.insert(insertMember(member(2, 2, 1)), suspend(1, 1, 3), suspend(2, 1, 3))
		e.Expect(e.changedBy(func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(1) })).To(gomega.Equal([]apikey.Digest{in.Digest}))
		_, found := e.lookUp(in)
		e.Expect(found).To(gomega.BeFalse())
		e.Expect([]any{countSuspended(e, 1), anySuspended(e, 1), anySuspended(e, 2)}).To(gomega.Equal([]any{1, false, true}))
		e.reportsFalse(restore(1, 1))
	}},
}
