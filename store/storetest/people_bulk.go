package storetest

import (
	"errors"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

var bulkStories = []story{
	{name: "rows that are written together are as if written one by one", run: func(e *env) {
		e.begin()
		one, two := "apps/one", "apps/two"
		ada, address := user(1)
		address.VerifiedAt = address.CreatedAt
		number, org, space, m, wm, known := phone(1, 1), organization(1), workspace(1, 1), member(1, 1, 1), workspaceMember(1, 1, 1, 1), identity(1, 1, 1)
		e.change(one, func(tx people.Tx) error {
			return errors.Join(tx.Users().InsertUser(ada, address), tx.Users().PutCredential(1, people.CredentialPassword, "hash", born), tx.Phones().InsertPhone(number),
				tx.Organizations().InsertOrganization(org), tx.Organizations().InsertWorkspace(space), tx.Organizations().InsertMember(m), tx.Organizations().InsertWorkspaceMember(wm), tx.Records().RecordEvent(event(1, people.EventSignUp, 1)), tx.Identities().InsertIdentity(known))
		})
		e.change(two, func(tx people.Tx) error {
			return errors.Join(tx.Bulk().InsertUsers([]people.User{ada}), tx.Bulk().InsertEmails([]people.Email{address}),
				tx.Bulk().InsertPasswords([]people.Password{{User: 1, Encoded: "hash", CreatedAt: born}}), tx.Bulk().InsertPhones([]people.Phone{number}),
				tx.Bulk().InsertOrganizations([]people.Organization{org}), tx.Bulk().InsertWorkspaces([]people.Workspace{space}), tx.Bulk().InsertMembers([]people.Member{m}),
				tx.Bulk().InsertWorkspaceMembers([]people.WorkspaceMember{wm}), tx.Records().RecordEvents([]people.Event{event(1, people.EventSignUp, 1)}), tx.Bulk().InsertIdentities([]people.Identity{known}))
		})
		e.Expect(e.pictureOf(two)).To(gomega.Equal(e.pictureOf(one)))
		period := people.Period{From: born, To: after(time.Hour)}
		want, err := e.store.Summarize(e.ctx, one, period, people.Period{}, 10)
		e.ok(err)
		got, err := e.store.Summarize(e.ctx, two, period, people.Period{}, 10)
		e.ok(err)
		e.Expect(got).To(gomega.Equal(want))
	}},
	{name: "an email is proven once it is verified, and one of them is primary", run: func(e *env) {
		e.begin()
		ada, address := user(1)
		second := people.Email{ID: 2, User: 1, Address: "second@example.com", CreatedAt: after(time.Hour)}
		e.insert(func(tx people.Tx) error {
			return errors.Join(tx.Bulk().InsertUsers([]people.User{ada}), tx.Bulk().InsertEmails([]people.Email{address, second}))
		})
		e.insert(func(tx people.Tx) error { return tx.Users().VerifyEmail(2, after(2*time.Hour)) }, func(tx people.Tx) error { return tx.Bulk().DemoteEmails([]int64{address.ID}) })
		second.VerifiedAt, address.Primary = after(2*time.Hour), false
		e.Expect(all(e, func(tx people.Tx) ([]people.Email, error) { return tx.Users().EmailsOf(1) })).To(gomega.Equal([]people.Email{address, second}))
		primary := func(tx people.Tx) (map[int64]people.Email, error) { return tx.Bulk().PrimaryEmails([]int64{1}) }
		e.Expect(all(e, primary)).To(gomega.BeEmpty())
		e.insert(func(tx people.Tx) error { return tx.Users().MakePrimaryEmail(1, address.ID) }, func(tx people.Tx) error { return tx.Users().MakePrimaryEmail(1, 2) })
		second.Primary = true
		e.Expect(all(e, primary)).To(gomega.Equal(map[int64]people.Email{1: second}))
		e.insert(func(tx people.Tx) error { return tx.Bulk().DeleteUnproven([]int64{address.ID, 2}) })
		e.Expect(all(e, func(tx people.Tx) (map[string]people.Email, error) {
			return tx.Bulk().EmailsAmong([]string{people.FoldEmail(address.Address), people.FoldEmail(second.Address)})
		})).To(gomega.Equal(map[string]people.Email{second.Address: second}))
	}},
	{name: "only those workspaces are read whose slugs are asked for", run: func(e *env) {
		e.begin()
		own, beside, others := workspace(1, 1), workspace(2, 1), workspace(3, 2)
		others.Slug = own.Slug
		e.insert(func(tx people.Tx) error { return tx.Bulk().InsertWorkspaces([]people.Workspace{own, beside, others}) })
		taken := func(organizations ...int64) []people.Workspace {
			return all(e, func(tx people.Tx) ([]people.Workspace, error) {
				return tx.Bulk().WorkspaceSlugsTaken(organizations, []string{own.Slug, "free"})
			})
		}
		row := func(w people.Workspace) people.Workspace {
			return people.Workspace{ID: w.ID, Organization: w.Organization, Slug: w.Slug}
		}
		e.Expect(taken(1)).To(gomega.ConsistOf(row(own)))
		e.Expect(taken(1, 2)).To(gomega.ConsistOf(row(own), row(others)))
	}},
	{name: "phones are found by their users and, verified, by their numbers, each once", run: func(e *env) {
		e.begin()
		own, others, unverified := phone(1, 1), phone(2, 2), phone(3, 3)
		others.VerifiedAt, own.VerifiedAt = born, born
		e.insert(func(tx people.Tx) error { return tx.Bulk().InsertPhones([]people.Phone{own, others, unverified}) })
		found := all(e, func(tx people.Tx) ([]people.Phone, error) {
			return tx.Bulk().PhonesAmong([]int64{1}, []string{own.Number, others.Number, unverified.Number})
		})
		e.Expect(found).To(gomega.ConsistOf(own, others))
	}},
}
