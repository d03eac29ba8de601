package storetest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func connection(n, organization int64) people.Connection {
	created := after(time.Duration(n) * time.Second)
	return people.Connection{
		ID: n, Organization: organization, Slug: fmt.Sprintf("connection-%d", n), Settings: fmt.Sprintf(`{"n":%d}`, n), Secrets: fmt.Sprintf("sealed %d", n),
		Active: true, CreatedAt: created, UpdatedAt: created,
	}
}

func ssoAttempt(n int64) people.SSOAttempt {
	created := after(time.Duration(n) * time.Second)
	return people.SSOAttempt{
		Attempt: n, Connection: 1, State: hashOf(n), RequestID: "_request", Host: "acme.example", Intent: people.IntentSignIn, Continue: "/orders",
		Invitation: 7, OrganizationName: "Org", CreatedAt: created, ExpiresAt: created.Add(10 * time.Minute),
	}
}

func connectionFailure(n, connection int64) people.ConnectionFailure {
	return people.ConnectionFailure{
		ID: n, Connection: connection, At: after(time.Duration(n) * time.Second), RequestID: fmt.Sprintf("request-%d", n), Step: "id_token", Reason: "audience",
		Expected: "x", Got: "y", Subject: "subject", Email: "person@example.com",
	}
}

func insertConnection(c people.Connection) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Connections().InsertConnection(c) }
}

func insertSSOAttempt(a people.SSOAttempt) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Connections().InsertSSOAttempt(a) }
}

func recordConnectionFailure(f people.ConnectionFailure) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Connections().RecordConnectionFailure(f) }
}

func errUnless(true bool, text string) error {
	if true {
		return nil
	}
	return errors.New(text)
}

// furnishConnections inserts a row of each kind for user 1, organization 1 and attempt 1.
func furnishConnections(tx people.Tx, mark string) error {
	c, a, f, i, d, l := connection(1, 1), ssoAttempt(1), connectionFailure(1, 1), identity(1, 1, 1), domain(1, 1), setupLink(1, 1)
	c.Settings, a.Host, f.Reason, i.Email, d.Seen, l.Email, a.Tries = mark, mark, mark, mark, mark, mark, 1
	for _, err := range []error{
		insertConnection(c)(tx), insertSSOAttempt(a)(tx), recordConnectionFailure(f)(tx), fetchDocument(upstreamDocument(1, people.UpstreamDiscovery, mark))(tx),
		insertIdentity(i)(tx), insertDomain(d)(tx), insertSetupLink(l)(tx), tx.Connections().RecordConnectionEnd(1, born),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

var connectionStories = []story{
	{name: "a connection is read as written, by id and by slug; its slug is unique in the deployment", run: func(e *env) {
		e.begin()
		c := connection(1, 3)
		e.insert(insertConnection(c))
		byID := func(tx people.Tx) (people.Connection, bool, error) { return tx.Connections().Connection(1) }
		bySlug := func(tx people.Tx) (people.Connection, bool, error) { return tx.Connections().ConnectionBySlug(c.Slug) }
		got, _ := one(e, byID)
		e.Expect(got).To(gomega.Equal(c))
		got, _ = one(e, bySlug)
		e.Expect(got).To(gomega.Equal(c))
		again := connection(2, 4)
		again.Slug = c.Slug
		e.refuses(people.ErrDuplicate, insertConnection(again))
		e.change("apps/other", insertConnection(c))
		changed := c
		changed.Settings, changed.Secrets, changed.Active, changed.Enforces, changed.UpdatedAt = "{}", "", false, true, after(time.Hour)
		stated := changed
		stated.Slug, stated.Organization = "never-written", 9
		e.insert(func(tx people.Tx) error { return tx.Connections().UpdateConnection(stated) })
		got, _ = one(e, byID)
		e.Expect(got).To(gomega.Equal(changed))
		for _, lock := range []func(tx people.Tx) (people.Connection, bool, error){
			func(tx people.Tx) (people.Connection, bool, error) { return tx.Connections().LockConnection(1) },
			func(tx people.Tx) (people.Connection, bool, error) { return tx.Connections().LockConnectionShared(1) },
		} {
			e.insert(func(tx people.Tx) error {
				locked, found, err := lock(tx)
				e.Expect(found).To(gomega.BeTrue())
				e.Expect(locked).To(gomega.Equal(changed))
				return err
			})
		}
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Connections().DeleteConnection(1) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Connections().DeleteConnection(1) })
		_, found := one(e, bySlug)
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "connections are listed the newest first, in pages, and counted per organization", run: func(e *env) {
		e.begin()
		for n := range int64(6) {
			e.insert(insertConnection(connection(n+1, n%2)))
		}
		listed := func(filter people.ConnectionFilter, limit int) (ids []int64) {
			for _, c := range all(e, func(tx people.Tx) ([]people.Connection, error) {
				return tx.Connections().ListConnections(filter, limit)
			}) {
				ids = append(ids, c.ID)
			}
			return ids
		}
		e.Expect(listed(people.ConnectionFilter{}, 10)).To(gomega.Equal([]int64{6, 5, 4, 3, 2, 1}))
		e.Expect(listed(people.ConnectionFilter{Before: 5}, 2)).To(gomega.Equal([]int64{4, 3}))
		e.Expect(listed(people.ConnectionFilter{Organization: 1}, 10)).To(gomega.Equal([]int64{6, 4, 2}))
		e.Expect(listed(people.ConnectionFilter{Organization: 1, Before: 6}, 1)).To(gomega.Equal([]int64{4}))
		e.Expect(listed(people.ConnectionFilter{OfDeployment: true, Before: 5}, 10)).To(gomega.Equal([]int64{3, 1}))
		count := func(organization int64) int {
			return all(e, func(tx people.Tx) (int, error) { return tx.Connections().CountConnections(organization) })
		}
		e.Expect([]int{count(1), count(2)}).To(gomega.Equal([]int{3, 0}))
	}},
	{name: "an organization states whether it has active connections, and whether one enforces, also after concurrent changes", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(1)) },
			func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(2)) })
		own := func() []people.OwnConnections {
			var out []people.OwnConnections
			for n := range int64(2) {
				o, _ := one(e, func(tx people.Tx) (people.Organization, bool, error) { return tx.Organizations().Organization(n + 1) })
				out = append(out, o.OwnConnections)
			}
			return out
		}
		first, second, none := connection(1, 1), connection(2, 1), connection(3, 0)
		none.Enforces = true
		e.insert(insertConnection(first), insertConnection(second), insertConnection(none))
		e.Expect(own()).To(gomega.Equal([]people.OwnConnections{people.HasConnections, people.NoConnections}))
		update := func(c people.Connection, active, enforces bool) func(tx people.Tx) error {
			c.Active, c.Enforces = active, enforces
			return func(tx people.Tx) error { return tx.Connections().UpdateConnection(c) }
		}
		for _, step := range []struct {
			change func(people.Tx) error
			want   people.OwnConnections
		}{
			{update(first, true, true), people.EnforcesConnections}, {update(second, true, true), people.EnforcesConnections},
			{update(first, false, true), people.EnforcesConnections}, {update(second, true, false), people.HasConnections},
			{update(second, false, false), people.NoConnections}, {update(first, true, true), people.EnforcesConnections},
			{func(tx people.Tx) error { _, err := tx.Connections().DeleteConnection(1); return err }, people.NoConnections},
		} {
			e.insert(step.change)
			e.Expect(own()).To(gomega.Equal([]people.OwnConnections{step.want, people.NoConnections}))
		}
		e.insert(insertConnection(first))
		for range 10 { // one transaction ends the enforcement by a connection while another begins that by the other
			e.insert(update(first, true, true), update(second, true, false))
			var both sync.WaitGroup
			both.Go(func() { e.insert(update(first, true, false)) })
			both.Go(func() { e.insert(update(second, true, true)) })
			both.Wait()
			e.Expect(own()).To(gomega.Equal([]people.OwnConnections{people.EnforcesConnections, people.NoConnections}))
		}
	}},
	{name: "the sealed secrets of connections are listed in batches, and sealed again unless they changed", run: func(e *env) {
		e.begin()
		var want []people.SealedSecret
		for _, deployment := range []string{"apps/b", home} {
			for n := range int64(3) {
				c := connection(n+1, 1)
				if n == 1 {
					c.Secrets = ""
				} else {
					want = append(want, people.SealedSecret{Deployment: deployment, ID: c.ID, Sealed: c.Secrets})
				}
				e.change(deployment, insertConnection(c))
			}
		}
		var got []people.SealedSecret
		for last := (people.SealedSecret{}); ; last = got[len(got)-1] {
			batch, err := e.store.SealedConnections(e.ctx, last, 3)
			e.ok(err)
			if len(batch) == 0 {
				break
			}
			got = append(got, batch...)
		}
		e.Expect(got).To(gomega.Equal(want))
		reseal := func(from string) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Connections().ResealConnection(1, from, "again") }
		}
		e.reportsFalse(reseal("another"))
		e.Expect(e.winners(8, reseal(connection(1, 1).Secrets))).To(gomega.Equal(1))
	}},
	{name: "a deleted connection takes its sign-ins, identities, documents and failures along, and no others", run: func(e *env) {
		e.begin()
		e.insert(insertConnection(connection(1, 3)), insertConnection(connection(2, 3)), insertConnection(connection(3, 4)))
		for n := int64(1); n <= 3; n++ {
			by := signIn(n, n, n)
			by.Upstream.Connection = n
			s := session(n)
			s.ActiveSignIn = n
			e.insert(insertSession(s), insertToken(tokenOf(n, n)), insertSignIn(by), insertIdentity(identity(n, n, n)),
				recordConnectionFailure(connectionFailure(n, n)), fetchDocument(upstreamDocument(n, people.UpstreamJWKS, "{}")))
		}
		e.insert(insertSignIn(signIn(4, 1, 9)))
		left := func() (connections []int64) {
			e.view(home, func(tx people.Tx) error {
				for n := int64(1); n <= 3; n++ {
					identities, err := tx.Identities().CountIdentities(n)
					e.ok(err)
					failures, err := tx.Connections().ConnectionFailures(n, 9)
					e.ok(err)
					_, document, err := tx.Connections().UpstreamDocument(n, people.UpstreamJWKS)
					e.ok(err)
					signIns, err := tx.Sessions().SignInsOf(n)
					e.ok(err)
					_, found, err := tx.Connections().Connection(n)
					e.ok(err)
					e.Expect([]bool{identities == 1, len(failures) == 1, document, len(signIns) == 1}).To(gomega.HaveEach(found), "connection %d", n)
					if found {
						connections = append(connections, n)
					}
				}
				return nil
			})
			return connections
		}
		e.Expect(left()).To(gomega.Equal([]int64{1, 2, 3}))
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Connections().DeleteConnection(1) })
		e.Expect(left()).To(gomega.Equal([]int64{2, 3}))
		kept, found := sessionOf(e, 1)
		e.Expect(found).To(gomega.BeTrue(), "another account is in the session")
		e.Expect([]any{kept.ActiveSignIn, len(kept.SignIns)}).To(gomega.Equal([]any{int64(4), 1}))

		e.insert(func(tx people.Tx) error { return tx.Organizations().InsertOrganization(organization(3)) },
			func(tx people.Tx) error { return tx.Organizations().DeleteOrganization(3) })
		e.Expect(left()).To(gomega.Equal([]int64{3}))
	}},
	{name: "the connections with sign-ins, identities or a recorded end are walked one by one, in all deployments", run: func(e *env) {
		e.begin()
		by := func(id, connection int64) func(people.Tx) error {
			g := signIn(id, 1, id)
			g.Upstream.Connection = connection
			return insertSignIn(g)
		}
		ended := func(connection int64) func(people.Tx) error {
			return func(tx people.Tx) error { return tx.Connections().RecordConnectionEnd(connection, after(time.Hour)) }
		}
		e.change("apps/b", insertIdentity(identity(1, 8, 1)))
		e.insert(insertSession(session(1)), by(1, 3), by(2, 3), by(3, 0), by(4, 1<<62), insertIdentity(identity(1, 2, 1)), insertIdentity(identity(2, 3, 1)),
			insertIdentity(identity(3, 2, 2)), insertConnection(connection(2, 1)), insertConnection(connection(9, 1)), ended(3), ended(5))
		e.change("zone/c", ended(1))
		want := []people.UpstreamConnection{
			{Deployment: home, ID: 2, Runtime: true}, {Deployment: home, ID: 3, EndedAt: after(time.Hour)}, {Deployment: home, ID: 5, EndedAt: after(time.Hour)},
			{Deployment: home, ID: 1 << 62}, {Deployment: "apps/b", ID: 8}, {Deployment: "zone/c", ID: 1, EndedAt: after(time.Hour)},
		}
		slices.SortFunc(want, func(a, b people.UpstreamConnection) int {
			return cmp.Or(strings.Compare(a.Deployment, b.Deployment), cmp.Compare(a.ID, b.ID))
		})
		var got []people.UpstreamConnection
		for last := (people.UpstreamConnection{}); ; last = got[len(got)-1] {
			next, found, err := e.store.NextUpstreamConnection(e.ctx, last)
			e.ok(err)
			if !found {
				break
			}
			got = append(got, next)
		}
		e.Expect(got).To(gomega.Equal(want))
	}},
	{name: "a later end of a connection replaces the earlier one, until it is forgotten", run: func(e *env) {
		e.begin()
		read := func() (time.Time, bool) {
			var at time.Time
			found := false
			e.change(home, func(tx people.Tx) (err error) { at, found, err = tx.Connections().LockConnectionEnd(1); return err })
			return at, found
		}
		record := func(at time.Time) func(people.Tx) error {
			return func(tx people.Tx) error { return tx.Connections().RecordConnectionEnd(1, at) }
		}
		_, found := read()
		e.Expect(found).To(gomega.BeFalse())
		e.insert(record(born), record(after(time.Hour)))
		at, found := read()
		e.Expect([]any{at, found}).To(gomega.Equal([]any{after(time.Hour), true}))
		e.change("apps/b", func(tx people.Tx) error { return tx.Connections().ForgetConnectionEnd(1) })
		_, found = read()
		e.Expect(found).To(gomega.BeTrue(), "the record is another deployment's")
		e.insert(func(tx people.Tx) error { return tx.Connections().ForgetConnectionEnd(1) })
		_, found = read()
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "a sign-in that locked a connection leaves no identity of it when it is deleted concurrently", run: func(e *env) {
		e.begin()
		for round := int64(1); round <= 10; round++ {
			e.insert(insertConnection(connection(round, 1)))
			together(4, func(i int) {
				err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
					if i == 0 {
						_, err := tx.Connections().DeleteConnection(round)
						return err
					}
					_, found, err := tx.Connections().LockConnectionShared(round)
					if err != nil || !found {
						return err
					}
					return tx.Identities().InsertIdentity(identity(10*round+int64(i), round, int64(i)))
				})
				if err != nil {
					e.t.Error(err)
				}
			})
			e.Expect(all(e, func(tx people.Tx) (int64, error) { return tx.Identities().CountIdentities(round) })).To(gomega.BeZero())
		}
	}},
}
