package storetest

import (
	"bytes"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// addition returns an address that a user added and has not verified.
func addition(n, user int64, address string) people.Email {
	return people.Email{ID: n, User: user, Address: address, CreatedAt: after(time.Duration(n) * time.Second)}
}

func insertEmail(email people.Email) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Bulk().InsertEmails([]people.Email{email}) }
}

// accountStories test how users change their own accounts.
var accountStories = []story{
	{name: "an address stands in several accounts until one proves it, and is found in the one it opens", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			e.insert(insertUser(n + 1))
		}
		first, second := addition(2001, 2, "New@example.com"), addition(2002, 3, "new@example.com")
		e.insert(insertEmail(second), insertEmail(first))
		e.refuses(people.ErrDuplicate, insertEmail(addition(2003, 2, "NEW@example.com")))
		at := func() (found []int64) {
			for _, email := range all(e, func(tx people.Tx) ([]people.Email, error) { return tx.Users().EmailsAt("new@example.com") }) {
				found = append(found, email.ID)
			}
			one, _ := one(e, func(tx people.Tx) (people.Email, bool, error) { return tx.Users().Email("new@example.com") })
			owner, _ := e.userByEmail("new@example.com")
			e.Expect([]int64{one.ID, one.User}).To(gomega.Equal([]int64{found[0], owner.ID}))
			among := all(e, func(tx people.Tx) (map[string]people.Email, error) {
				return tx.Bulk().EmailsAmong([]string{"new@example.com"})
			})
			e.Expect(among["new@example.com"].ID).To(gomega.Equal(found[0]))
			return found
		}
		e.Expect(at()).To(gomega.Equal([]int64{2001, 2002}))
		e.insert(func(tx people.Tx) error { return tx.Users().VerifyEmail(2002, after(time.Hour)) })
		e.Expect(at()).To(gomega.Equal([]int64{2002, 2001}))
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Users().VerifyEmail(2001, after(time.Hour)) })
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Users().MakePrimaryEmail(2, 2001) })
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteEmail(2002) }, func(tx people.Tx) error { return tx.Users().VerifyEmail(2001, after(time.Hour)) })
		e.Expect(at()).To(gomega.Equal([]int64{2001}))
	}},
	{name: "a sign-in remembers when it was proven anew, and is told of when it is over, until its retention ends", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1), insertUser(2))
		for n := range int64(3) {
			e.insert(insertSession(session(n+1)), insertToken(tokenOf(n+1, n+1)), insertSignIn(signIn(n+1, n+1, 1)), insertSignIn(signIn(n+11, n+1, 2)))
		}
		e.insert(func(tx people.Tx) error { return tx.Sessions().ProveSignIn(2, nil, after(time.Hour)) })
		got, _ := sessionOf(e, 2)
		e.Expect(got.SignIns[0].ProvenAt()).To(gomega.Equal(after(time.Hour)))
		e.Expect(got.SignIns[1].ProvenAt()).To(gomega.Equal(signIn(12, 2, 2).CreatedAt))

		ended := func(limit int) []people.EndedSignIn {
			return all(e, func(tx people.Tx) ([]people.EndedSignIn, error) { return tx.Sessions().EndedSignIns(1, limit) })
		}
		e.Expect(ended(10)).To(gomega.BeEmpty())
		e.insert(func(tx people.Tx) error { return tx.Sessions().DeleteSignIn(1) }, func(tx people.Tx) error { return tx.Sessions().EndSession(2) })
		e.changesMany(1, func(tx people.Tx) (int64, error) {
			ended, err := tx.Sessions().EndSessionsOf(1)
			return int64(len(ended)), err
		})
		want := make([]people.EndedSignIn, 0, 3)
		for n := int64(3); n > 0; n-- {
			s, g := session(n), signIn(n, n, 1)
			want = append(want, people.EndedSignIn{ID: n, User: 1, Method: g.Method, Address: s.Address, UserAgent: s.UserAgent, CreatedAt: g.CreatedAt, UsedAt: s.UsedAt})
		}
		e.Expect(ended(10)).To(gomega.Equal(want))
		e.Expect(ended(2)).To(gomega.Equal(want[:2]))

		linked, err := e.store.Linked(e.ctx)
		e.ok(err)
		e.Expect(linked).To(gomega.ContainElement(home))
		_, err = e.store.Unlink(e.ctx, home, session(2).UsedAt, 10)
		e.ok(err)
		e.Expect(ended(10)).To(gomega.Equal(want[:2]))
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		e.Expect(ended(10)).To(gomega.BeEmpty())
	}},
	{name: "the attempts on an account become nobody's, whose codes are right for nothing, and those on others go on", run: func(e *env) {
		e.begin()
		begin := func(n, user int64, kind string) {
			a, c := attempt(n, 1), challenge(n, n)
			a.User, a.Kind = user, kind
			c.Purpose, c.Channel, c.User = kind, people.ChannelMail, 0
			e.insert(func(tx people.Tx) error { return tx.Attempts().InsertAttempt(a) }, func(tx people.Tx) error { return tx.Challenges().InsertChallenge(c) })
		}
		begin(1, 1, people.AttemptResetPassword)
		begin(2, 2, people.AttemptResetPassword)
		begin(3, 1, people.AttemptSignUp) // no user can complete it: the address is taken
		begin(4, 1, people.AttemptResetPassword)
		e.insert(func(tx people.Tx) error { return tx.Attempts().ProveAttempt(4, nil, after(time.Minute)) },
			func(tx people.Tx) error { return tx.Challenges().InsertChallenge(challenge(5, 1)) }, func(tx people.Tx) error { return tx.Attempts().EndAttemptsOf(1) })
		for n, want := range map[int64]struct {
			found, right bool
			user         int64
		}{1: {true, false, 0}, 2: {true, true, 2}, 3: {true, true, 1}, 4: {}} {
			a, found := one(e, func(tx people.Tx) (people.Attempt, bool, error) { return tx.Attempts().Attempt(n) })
			e.Expect([]any{found, a.User}).To(gomega.Equal([]any{want.found, want.user}))
			if !found {
				continue
			}
			e.Expect(a.PasswordHash == "").To(gomega.Equal(want.user == 0))
			c, live := liveChallenge(e, a.Kind, n)
			e.Expect(live).To(gomega.BeTrue(), "a missing challenge would reveal the account")
			e.Expect(bytes.Equal(c.MAC, challenge(n, n).MAC)).To(gomega.Equal(want.right))
		}
		c, live := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(live && bytes.Equal(c.MAC, challenge(5, 1).MAC)).To(gomega.BeTrue(), "the code of a phone with the same id as the attempt was voided")
	}},
	{name: "members are listed with their accounts, in pages, and change roles", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(1)) }, func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(1, 1)) })
		for n := range int64(3) {
			e.insert(insertUser(n+1), func(tx people.Tx) error { return tx.Organizations().InsertMember(member(n+1, 1, n+1)) },
				func(tx people.Tx) error {
					return tx.Organizations().InsertWorkspaceMember(workspaceMember(n+1, 1, 1, n+1))
				})
		}
		changed := member(2, 1, 2)
		changed.Role, changed.Owner = 0, true
		e.insert(func(tx people.Tx) error { return tx.Organizations().UpdateMember(changed) }, func(tx people.Tx) error { return tx.Organizations().SetWorkspaceMemberRole(2, 4) })
		account := func(n int64) people.Account {
			u, _ := user(n)
			return people.Account{ID: n, FirstName: u.FirstName, LastName: u.LastName, Email: u.Email}
		}
		e.Expect(all(e, func(tx people.Tx) ([]people.MemberAccount, error) { return tx.Organizations().MembersOf(1, 1, 1) })).To(
			gomega.Equal([]people.MemberAccount{{Member: changed, Account: account(2)}}))
		e.Expect(all(e, func(tx people.Tx) ([]people.MemberAccount, error) { return tx.Organizations().MembersOf(1, 0, 10) })).To(gomega.HaveLen(3))
		e.Expect(all(e, func(tx people.Tx) (int, error) { return tx.Organizations().OwnersOf(1) })).To(gomega.Equal(1))
		changed.Organization = organization(1)
		got, _ := one(e, func(tx people.Tx) (people.Member, bool, error) { return tx.Organizations().MemberByID(1, 2) })
		e.Expect(got).To(gomega.Equal(changed))
		_, found := one(e, func(tx people.Tx) (people.Member, bool, error) { return tx.Organizations().MemberByID(2, 2) })
		e.Expect(found).To(gomega.BeFalse(), "a membership of another organization")

		inWorkspace := workspaceMember(2, 1, 1, 2)
		inWorkspace.Role = 4
		e.Expect(all(e, func(tx people.Tx) ([]people.WorkspaceMemberAccount, error) {
			return tx.Organizations().WorkspaceMembersOf(1, 1, 1)
		})).To(
			gomega.Equal([]people.WorkspaceMemberAccount{{WorkspaceMember: inWorkspace, Account: account(2)}}))
		g := signIn(1, 1, 2)
		g.Organization, g.Workspace = 1, 1
		e.insert(insertSignIn(g), func(tx people.Tx) error { return tx.Organizations().DeleteWorkspaceMember(inWorkspace) })
		_, found = one(e, func(tx people.Tx) (people.WorkspaceMember, bool, error) {
			return tx.Organizations().WorkspaceMemberByID(1, 2)
		})
		e.Expect(found).To(gomega.BeFalse())
		g.Workspace = 0
		e.Expect(all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(2) })).To(gomega.Equal([]people.SignIn{g}))
	}},
	{name: "an organization goes with all that is in it, and others stay", run: func(e *env) {
		e.begin()
		for n := range int64(2) {
			g := signIn(n+1, n+1, 1)
			g.Organization, g.Workspace = n+1, n+1
			e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(n + 1)) },
				func(tx people.Tx) error { return tx.Organizations().InsertWorkspace(workspace(n+1, n+1)) },
				func(tx people.Tx) error { return tx.Organizations().InsertMember(member(n+1, n+1, 1)) },
				func(tx people.Tx) error {
					return tx.Organizations().InsertWorkspaceMember(workspaceMember(n+1, n+1, n+1, 1))
				},
				func(tx people.Tx) error { return tx.Organizations().InsertInvitation(invitation(n+1, n+1)) }, insertSignIn(g))
		}
		e.insert(func(tx people.Tx) error {
			return tx.Organizations().UpdateOrganization(people.Organization{ID: 2, Name: "New", ImageURL: "https://cdn.example/new.png"})
		}, func(tx people.Tx) error { return tx.Organizations().RenameWorkspace(2, "Also new") }, func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(1) })
		for n, there := range map[int64]bool{1: false, 2: true} {
			o, found := one(e, func(tx people.Tx) (people.Organization, bool, error) { return tx.Organizations().Organization(n) })
			e.Expect(found).To(gomega.Equal(there))
			w, found := one(e, func(tx people.Tx) (people.Workspace, bool, error) { return tx.Organizations().Workspace(n) })
			e.Expect(found).To(gomega.Equal(there))
			if there {
				e.Expect([]string{o.Name, o.Description, o.ImageURL, o.Slug, w.Name}).To(gomega.Equal([]string{"New", "", "https://cdn.example/new.png", "organization-2", "Also new"}))
			}
			i, found := one(e, func(tx people.Tx) (people.Invitation, bool, error) { return tx.Organizations().Invitation(n) })
			e.Expect([]bool{found, i.RevokedAt.IsZero()}).To(gomega.Equal([]bool{true, there}), "the invitation stays, revoked, because it counts toward the limit")
			_, found = one(e, func(tx people.Tx) (people.Member, bool, error) { return tx.Organizations().Member(n, 1) })
			e.Expect(found).To(gomega.Equal(there))
			_, found = one(e, func(tx people.Tx) (people.WorkspaceMember, bool, error) {
				return tx.Organizations().WorkspaceMember(n, 1)
			})
			e.Expect(found).To(gomega.Equal(there))
		}
		var active []int64
		for _, g := range all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(1) }) {
			active = append(active, g.Organization, g.Workspace)
		}
		e.Expect(active).To(gomega.Equal([]int64{0, 0, 2, 2}))
	}},
}

func (e *env) userByEmail(folded string) (people.User, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.User, bool, error) { return tx.Users().UserByEmail(folded) })
}

// changesMany runs a write that returns how many rows of home it changed.
func (e *env) changesMany(want int64, write func(tx people.Tx) (int64, error)) {
	e.t.Helper()
	var n int64
	e.change(home, func(tx people.Tx) (err error) {
		n, err = write(tx)
		return err
	})
	e.Expect(n).To(gomega.Equal(want))
}
