package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func setupLink(n, organization int64) people.SetupLink {
	created := after(time.Duration(n) * time.Second)
	return people.SetupLink{
		ID: n, Organization: organization, Hash: hashOf(n), Email: "it@example.com", Intents: []string{people.SetupSSO, people.SetupDomains}, CreatedBy: 1,
		CreatedAt: created, ExpiresAt: created.Add(24 * time.Hour), Session: 7,
	}
}

func insertSetupLink(l people.SetupLink) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.SetupLinks().InsertSetupLink(l) }
}

var setupLinkStories = []story{
	{name: "a setup link is read as written, by its hash and by the session in which its code was entered", run: func(e *env) {
		e.begin()
		first, second := setupLink(1, 3), setupLink(2, 3)
		first.Session, second.Session, second.Intents, second.CreatedBy = 0, 0, []string{people.SetupSSO}, 0
		e.insert(insertSetupLink(first), insertSetupLink(second))
		again := setupLink(3, 3)
		again.Hash = first.Hash
		e.refuses(people.ErrDuplicate, insertSetupLink(again))
		byHash := func(n int64) people.SetupLink {
			l, _ := one(e, func(tx people.Tx) (people.SetupLink, bool, error) { return tx.SetupLinks().SetupLinkByHash(hashOf(n)) })
			return l
		}
		e.Expect([]people.SetupLink{byHash(1), byHash(2)}).To(gomega.Equal([]people.SetupLink{first, second}))
		ofSession := func(session int64) (id int64) {
			l, _ := one(e, func(tx people.Tx) (people.SetupLink, bool, error) { return tx.SetupLinks().SetupLinkOfSession(session) })
			return l.ID
		}
		e.Expect(ofSession(0)).To(gomega.BeZero())
		prove := func(id, session int64) func(tx people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) {
				return tx.SetupLinks().ProveSetupLink(id, session, after(time.Minute))
			}
		}
		e.reportsTrue(prove(1, 10))
		e.reportsFalse(prove(9, 11))
		e.Expect(byHash(1).ProvedAt).To(gomega.Equal(after(time.Minute)))
		e.reportsTrue(prove(1, 11)) // another browser
		e.Expect([]int64{ofSession(10), ofSession(11)}).To(gomega.Equal([]int64{0, 1}))
		e.reportsTrue(prove(2, 11)) // another link in it
		e.Expect(ofSession(11)).To(gomega.Equal(int64(2)))
	}},
	{name: "setup links are listed the newest first while they live, and end with their organization, their maker and their time", run: func(e *env) {
		e.begin()
		e.insert(insertSetupLink(setupLink(1, 3)), insertSetupLink(setupLink(2, 3)), insertSetupLink(setupLink(3, 4)))
		own := setupLink(4, 3)
		own.CreatedBy = 2
		e.insert(insertSetupLink(own))
		listed := func(organization int64, now time.Time, limit int) (all []int64) {
			e.view(home, func(tx people.Tx) error {
				links, err := tx.SetupLinks().SetupLinksOf(organization, now, limit)
				for _, l := range links {
					all = append(all, l.ID)
				}
				return err
			})
			return all
		}
		e.Expect(listed(3, born, 10)).To(gomega.Equal([]int64{4, 2, 1}))
		e.Expect(listed(3, born, 2)).To(gomega.Equal([]int64{4, 2}))
		e.Expect(listed(3, setupLink(2, 3).ExpiresAt, 10)).To(gomega.Equal([]int64{4}))
		remove := func(organization, id int64) func(tx people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.SetupLinks().DeleteSetupLink(organization, id) }
		}
		e.reportsFalse(remove(4, 1))
		e.reportsTrue(remove(3, 1))
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(2) })
		e.Expect(listed(3, born, 10)).To(gomega.Equal([]int64{2}))
		e.insert(func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(4) })
		e.Expect(listed(4, born, 10)).To(gomega.BeEmpty())
		_, err := e.store.Purge(e.ctx, setupLink(2, 3).ExpiresAt.Add(time.Second), people.Retention{Audit: 1000 * time.Hour, ToolCalls: 1000 * time.Hour}, 100)
		e.ok(err)
		e.Expect(listed(3, born, 10)).To(gomega.BeEmpty())
	}},
}
