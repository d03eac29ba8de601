package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

var organizationStories = []story{
	{name: "an organization is read as written, and its slug is its own", run: func(e *env) {
		e.begin()
		want := organization(1)
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(want) }, func(tx people.Tx) error { return tx.Organizations().SetDefaultWorkspace(1, 5) })
		want.Workspace = 5
		got, _ := one(e, func(tx people.Tx) (people.Organization, bool, error) { return tx.Organizations().Organization(1) })
		e.Expect(got).To(gomega.Equal(want))
		e.insert(func(tx people.Tx) error {
			locked, _, err := tx.Organizations().LockOrganization(1)
			e.Expect(locked).To(gomega.Equal(want))
			_, found, more := tx.Organizations().LockOrganization(2)
			e.Expect(found).To(gomega.BeFalse())
			e.ok(more)
			return err
		})
		same := organization(2)
		same.Slug = want.Slug
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Organizations().InsertOrganization(same) })
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error {
			o := organization(1)
			o.Slug = "other"
			return tx.Organizations().InsertOrganization(o)
		})
		taken := func(slug string) bool {
			return all(e, func(tx people.Tx) (bool, error) { return tx.Organizations().SlugTaken(slug) })
		}
		e.Expect(taken(want.Slug)).To(gomega.BeTrue())
		e.Expect(taken("other")).To(gomega.BeFalse())
	}},
	{name: "the slug of a deleted organization is never given again", run: func(e *env) {
		e.begin()
		gone := organization(1)
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(gone) })
		for range 2 { // the second time there is nothing to delete
			e.insert(func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(1) })
		}
		e.Expect(all(e, func(tx people.Tx) (bool, error) { return tx.Organizations().SlugTaken(gone.Slug) })).To(gomega.BeTrue())
		e.Expect(all(e, func(tx people.Tx) (map[string]bool, error) { return tx.Bulk().SlugsTaken([]string{gone.Slug, "other"}) })).To(gomega.Equal(map[string]bool{gone.Slug: true}))
	}},
	{name: "a workspace is read as written, and its slug is single in its organization", run: func(e *env) {
		e.begin()
		insert := func(w people.Workspace) func(tx people.Tx) error {
			return func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(w) }
		}
		elsewhere, same := workspace(3, 2), workspace(4, 1)
		elsewhere.Slug, same.Slug = workspace(1, 1).Slug, workspace(1, 1).Slug
		e.insert(insert(workspace(2, 1)), insert(workspace(1, 1)), insert(elsewhere))
		e.refuses(people.ErrDuplicate, insert(same))
		e.refuses(people.ErrDuplicate, insert(workspace(1, 3)))
		got, _ := one(e, func(tx people.Tx) (people.Workspace, bool, error) { return tx.Organizations().Workspace(3) })
		e.Expect(got).To(gomega.Equal(elsewhere))
		e.Expect(all(e, func(tx people.Tx) ([]people.Workspace, error) { return tx.Organizations().WorkspacesOf(1) })).To(gomega.Equal([]people.Workspace{workspace(1, 1), workspace(2, 1)}))
	}},
	{name: "memberships are read with what they are in, the oldest first, one a user", run: func(e *env) {
		e.begin()
		for n := range int64(2) {
			e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(n + 1)) },
				func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(n+1, n+1)) })
		}
		first, second, owner := member(1, 1, 1), member(2, 2, 1), member(3, 1, 2)
		owner.Owner, owner.Role = true, 0
		for _, m := range []people.Member{second, first, owner} {
			e.insert(func(tx people.Tx) error { return tx.Organizations().InsertMember(m) })
		}
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Organizations().InsertMember(member(4, 1, 1)) })
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Organizations().InsertMember(member(1, 2, 2)) })
		e.insert(func(tx people.Tx) error { return tx.Organizations().SetMemberWorkspace(1, 1, 5) })
		first.Organization, second.Organization, owner.Organization, first.Workspace = organization(1), organization(2), organization(1), 5
		e.Expect(all(e, func(tx people.Tx) ([]people.Member, error) { return tx.Organizations().MembershipsOf(1) })).To(gomega.Equal([]people.Member{first, second}))
		for _, found := range []people.Member{first, second, owner} {
			e.insert(func(tx people.Tx) error {
				got, _, err := tx.Organizations().Member(found.Organization.ID, found.User)
				e.Expect(got).To(gomega.Equal(found))
				return err
			})
		}
		_, found := one(e, func(tx people.Tx) (people.Member, bool, error) { return tx.Organizations().Member(2, 2) })
		e.Expect(found).To(gomega.BeFalse())

		mine, other := workspaceMember(1, 1, 1, 1), workspaceMember(2, 2, 2, 1)
		mine.Owner = true
		for _, m := range []people.WorkspaceMember{other, mine, workspaceMember(3, 1, 1, 2)} {
			e.insert(func(tx people.Tx) error { return tx.Organizations().InsertWorkspaceMember(m) })
		}
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Organizations().InsertWorkspaceMember(workspaceMember(4, 1, 1, 1)) })
		mine.Workspace, other.Workspace = workspace(1, 1), workspace(2, 2)
		for organization, want := range map[int64][]people.WorkspaceMember{0: {mine, other}, 1: {mine}, 2: {other}, 3: nil} {
			e.Expect(all(e, func(tx people.Tx) ([]people.WorkspaceMember, error) {
				return tx.Organizations().WorkspaceMembershipsOf(1, organization)
			})).To(gomega.Equal(want))
		}
		got, _ := one(e, func(tx people.Tx) (people.WorkspaceMember, bool, error) {
			return tx.Organizations().WorkspaceMember(1, 1)
		})
		e.Expect(got).To(gomega.Equal(mine))

		both := func(organization, user int64) (m people.Member, in []people.WorkspaceMember, found bool) {
			e.view(home, func(tx people.Tx) (err error) {
				m, in, found, err = tx.Organizations().MemberWithWorkspaces(organization, user)
				return err
			})
			return m, in, found
		}
		m, in, found := both(1, 1)
		e.Expect([]any{found, m.Organization.ID, m.User, in}).To(gomega.Equal([]any{true, int64(1), int64(1), []people.WorkspaceMember{mine}}))
		separate, _ := one(e, func(tx people.Tx) (people.Member, bool, error) { return tx.Organizations().Member(1, 1) })
		e.Expect(m).To(gomega.Equal(separate))
		_, _, found = both(3, 1)
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "a membership ends with those in the organization's workspaces, and the sign-ins leave it", run: func(e *env) {
		e.begin()
		for n := range int64(2) {
			e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(n + 1)) },
				func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(n+1, n+1)) },
				func(tx people.Tx) error { return tx.Organizations().InsertMember(member(n+1, n+1, 1)) },
				func(tx people.Tx) error { return tx.Organizations().InsertMember(member(n+11, n+1, 2)) },
				func(tx people.Tx) error {
					return tx.Organizations().InsertWorkspaceMember(workspaceMember(n+1, n+1, n+1, 1))
				},
				func(tx people.Tx) error {
					return tx.Organizations().InsertWorkspaceMember(workspaceMember(n+11, n+1, n+1, 2))
				})
			for user := range int64(2) {
				g := signIn(10*n+user+1, n+1, user+1)
				g.Organization, g.Workspace = n+1, n+1
				e.insert(insertSignIn(g))
			}
		}
		e.reports(true, func(tx people.Tx) (bool, error) { return tx.Organizations().DeleteMember(1, 1) })
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Organizations().DeleteMember(1, 1) })
		for user, want := range map[int64][]int64{1: {0, 2}, 2: {1, 2}} {
			var active, member, inWorkspace []int64
			for _, g := range all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(user) }) {
				e.Expect(g.Workspace).To(gomega.Equal(g.Organization))
				active = append(active, g.Organization)
			}
			for _, m := range all(e, func(tx people.Tx) ([]people.Member, error) { return tx.Organizations().MembershipsOf(user) }) {
				member = append(member, m.Organization.ID)
			}
			for _, m := range all(e, func(tx people.Tx) ([]people.WorkspaceMember, error) {
				return tx.Organizations().WorkspaceMembershipsOf(user, 0)
			}) {
				inWorkspace = append(inWorkspace, m.Workspace.ID)
			}
			e.Expect(active).To(gomega.Equal(want), "user %d", user)
			if want[0] == 0 {
				want = want[1:]
			}
			e.Expect(member).To(gomega.Equal(want), "user %d", user)
			e.Expect(inWorkspace).To(gomega.Equal(want), "user %d", user)
		}
	}},
	{name: "an invitation is found by its token and accepted once, while it is open", run: func(e *env) {
		e.begin()
		want := invitation(1, 1)
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertInvitation(want) }, func(tx people.Tx) error { return tx.Organizations().InsertInvitation(invitation(2, 1)) })
		same := invitation(3, 1)
		same.Hash = want.Hash
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Organizations().InsertInvitation(same) })
		byToken := func(tx people.Tx) (people.Invitation, bool, error) {
			return tx.Organizations().InvitationByToken(hashOf(1))
		}
		got, _ := one(e, byToken)
		e.Expect(got).To(gomega.Equal(want))
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Organizations().AcceptInvitation(1, want.ExpiresAt) })
		now := after(time.Minute)
		e.Expect(e.winners(20, func(tx people.Tx) (bool, error) { return tx.Organizations().AcceptInvitation(1, now) })).To(gomega.Equal(1))
		got, _ = one(e, byToken)
		want.AcceptedAt = now
		e.Expect(got).To(gomega.Equal(want))
		got, _ = one(e, func(tx people.Tx) (people.Invitation, bool, error) { return tx.Organizations().Invitation(2) })
		e.Expect(got).To(gomega.Equal(invitation(2, 1)))
		_, found := one(e, func(tx people.Tx) (people.Invitation, bool, error) {
			return tx.Organizations().InvitationByToken(hashOf(9))
		})
		e.Expect(found).To(gomega.BeFalse())
	}},
}
