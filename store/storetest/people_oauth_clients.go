package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// oauthClientStories test runtime clients.
var oauthClientStories = []story{
	{name: "a client of run time is found by its name and by what it shares, and takes its grants along", run: func(e *env) {
		e.begin()
		plain, shared := oauthClient(2), oauthClient(3)
		plain.Fingerprint, plain.Manager, plain.FreshUntil = nil, nil, time.Time{}
		read := func(name string) (people.OAuthClient, bool) {
			return one(e, func(tx people.Tx) (people.OAuthClient, bool, error) { return tx.OAuthClients().OAuthClient(1, name) })
		}
		e.insert(insertOAuthClient(shared), insertOAuthClient(plain), insertOAuthClient(func() people.OAuthClient { c := plain; c.Client = "another"; return c }()))
		for _, want := range []people.OAuthClient{plain, shared} {
			got, _ := read(want.Client)
			e.Expect(got).To(gomega.Equal(want))
		}
		alike, found := one(e, func(tx people.Tx) (people.OAuthClient, bool, error) {
			return tx.OAuthClients().OAuthClientAlike(1, shared.Fingerprint)
		})
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(alike).To(gomega.Equal(shared))
		_, found = one(e, func(tx people.Tx) (people.OAuthClient, bool, error) {
			return tx.OAuthClients().OAuthClientAlike(1, nil)
		})
		e.Expect(found).To(gomega.BeFalse())
		twin := oauthClient(9)
		twin.Fingerprint = shared.Fingerprint
		e.Expect(e.store.Change(e.ctx, home, insertOAuthClient(twin))).To(gomega.MatchError(people.ErrDuplicate))

		unused := func() (count int, oldest people.OAuthClient) {
			e.insert(func(tx people.Tx) (err error) {
				count, oldest, err = tx.OAuthClients().UnusedOAuthClients(1, "")
				return err
			})
			return count, oldest
		}
		count, oldest := unused()
		e.Expect(count).To(gomega.Equal(3))
		e.Expect(oldest.Client).To(gomega.Equal("another"))
		used := shared
		used.UsedAt, used.Content, used.Manager, used.FreshUntil = after(time.Minute), `{"x":1}`, hashOf(7), after(2*time.Hour)
		e.insert(func(tx people.Tx) error { return tx.OAuthClients().UpdateOAuthClient(used) })
		got, _ := read(used.Client)
		e.Expect(got).To(gomega.Equal(used))
		count, _ = unused()
		e.Expect(count).To(gomega.Equal(2))

		mine, others := grantOf(3, 1), grantOf(4, 1)
		e.insert(putGrant(mine), putGrant(others), insertFamily(tokenFamily(1, 3)), func(tx people.Tx) error {
			deleted, err := tx.OAuthClients().DeleteOAuthClient(1, used.Client, born)
			e.Expect(deleted).To(gomega.BeTrue())
			return err
		})
		_, found = read(used.Client)
		e.Expect(found).To(gomega.BeFalse())
		_, found = one(e, func(tx people.Tx) (people.Grant, bool, error) { return tx.OAuth().Grant(3) })
		e.Expect(found).To(gomega.BeFalse())
		e.Expect(e.purged(born, time.Hour, 10)).To(gomega.BeEquivalentTo(1), "the grant")
		families, _, _ := livesOn(e, 2)
		e.Expect(families).To(gomega.BeEmpty())
		_, found = one(e, func(tx people.Tx) (people.Grant, bool, error) { return tx.OAuth().Grant(4) })
		e.Expect(found).To(gomega.BeTrue())
	}},
	{name: "clients of an app are listed page by page, the newest first", run: func(e *env) {
		e.begin()
		var want []people.OAuthClient
		for n := range int64(5) {
			c := oauthClient(n + 1)
			c.CreatedAt, c.UpdatedAt, c.ByBackend = after(time.Duration(n/2)*time.Minute), after(time.Hour), n%2 == 0
			e.insert(insertOAuthClient(c))
			want = append([]people.OAuthClient{c}, want...)
		}
		elsewhere := oauthClient(9)
		elsewhere.App = 2
		e.insert(insertOAuthClient(elsewhere))
		page := func(place people.OAuthClientPlace) (list []people.OAuthClient) {
			e.insert(func(tx people.Tx) (err error) {
				list, err = tx.OAuthClients().ListOAuthClients(1, place, 2)
				return err
			})
			return list
		}
		var got []people.OAuthClient
		for list := page(people.OAuthClientPlace{}); len(list) > 0; {
			got = append(got, list...)
			last := list[len(list)-1]
			list = page(people.OAuthClientPlace{At: last.CreatedAt, Client: last.Client})
		}
		e.Expect(got).To(gomega.Equal(want))
	}},
	{name: "a client that a backend made is kept though nobody uses it", run: func(e *env) {
		e.begin()
		made := oauthClient(1)
		made.ByBackend = true
		e.insert(insertOAuthClient(made), func(tx people.Tx) error {
			count, _, err := tx.OAuthClients().UnusedOAuthClients(1, "")
			e.Expect(count).To(gomega.BeZero())
			return err
		})
		e.Expect(e.purged(after(10*people.UnusedClientFor), time.Hour, 10)).To(gomega.BeZero())
		made.Content, made.UpdatedAt = `{"x":2}`, after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.OAuthClients().UpdateOAuthClient(made) }, func(tx people.Tx) error {
			got, _, err := tx.OAuthClients().LockOAuthClient(1, made.Client)
			e.Expect(got).To(gomega.Equal(made))
			return err
		})
	}},
	{name: "clients that registered themselves are counted, and purged when nobody used them for long, with all that was granted them", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			c := oauthClient(n + 1)
			c.UsedAt, c.ByBackend = after(time.Duration(4-n)*time.Hour), n == 3 // the last is a backend's, and kept
			g := grantOf(n+1, 1)
			g.UpdatedAt = c.UsedAt
			e.insert(insertOAuthClient(c), putGrant(g))
		}
		elsewhere := oauthClient(9)
		elsewhere.App, elsewhere.UsedAt = 2, after(9*time.Hour)
		e.insert(insertOAuthClient(elsewhere))
		used := func() (count int, first string) {
			e.insert(func(tx people.Tx) error {
				n, oldest, err := tx.OAuthClients().UsedOAuthClients(1, "")
				count, first = n, oldest.Client
				return err
			})
			return count, first
		}
		count, first := used()
		e.Expect(count).To(gomega.Equal(3))
		e.Expect(first).To(gomega.Equal("client3"))
		e.Expect(e.purged(after(people.IdleClientFor+2*time.Hour), people.IdleClientFor, 1)).To(gomega.BeZero())
		e.Expect(e.purged(after(people.IdleClientFor+3*time.Hour+time.Second), people.IdleClientFor, 1)).To(gomega.BeEquivalentTo(4), "two clients, with a grant each")
		count, first = used()
		e.Expect(count).To(gomega.Equal(1))
		e.Expect(first).To(gomega.Equal("client1"))
		e.Expect(grantsLeft(e, 4)).To(gomega.Equal([]int64{1, 4}))
	}},
	{name: "clients that registered themselves are counted by network, and the network with the most is found", run: func(e *env) {
		e.begin()
		for n, network := range []string{"a", "b", "b", "", "", ""} {
			unused, used := oauthClient(int64(n+1)), oauthClient(int64(n+11))
			unused.Network, used.Network, used.UsedAt = network, network, after(time.Duration(n)*time.Hour)
			if used.UsedAt.IsZero() {
				used.UsedAt = born
			}
			e.insert(insertOAuthClient(unused), insertOAuthClient(used))
		}
		theirs := oauthClient(20)
		theirs.Network, theirs.ByBackend = "a", true
		e.insert(insertOAuthClient(theirs), func(tx people.Tx) error {
			for _, used := range []bool{false, true} {
				largest, err := tx.OAuthClients().LargestClientNetwork(1, used)
				e.Expect(err).NotTo(gomega.HaveOccurred())
				e.Expect(largest).To(gomega.Equal("b"))
			}
			none, err := tx.OAuthClients().LargestClientNetwork(2, false)
			e.Expect(none).To(gomega.BeEmpty())
			return err
		}, func(tx people.Tx) error {
			count, oldest, err := tx.OAuthClients().UnusedOAuthClients(1, "a")
			e.Expect([]any{count, oldest.Client}).To(gomega.Equal([]any{1, "client1"}))
			e.Expect(err).NotTo(gomega.HaveOccurred())
			count, oldest, err = tx.OAuthClients().UsedOAuthClients(1, "b")
			e.Expect([]any{count, oldest.Client}).To(gomega.Equal([]any{2, "client12"}))
			e.Expect(err).NotTo(gomega.HaveOccurred())
			return tx.OAuthClients().RenewOAuthClient(1, "client1", "b", after(time.Hour))
		}, func(tx people.Tx) error {
			count, _, err := tx.OAuthClients().UnusedOAuthClients(1, "b")
			e.Expect(count).To(gomega.Equal(3))
			return err
		})
	}},
	{name: "of the clients that registered themselves and were used, one is found that nobody's grant stands for", run: func(e *env) {
		e.begin()
		ungranted := func() (people.OAuthClient, bool) {
			return one(e, func(tx people.Tx) (people.OAuthClient, bool, error) { return tx.OAuthClients().UngrantedOAuthClient(1) })
		}
		put := func(n, app int64, used time.Duration) {
			c, theirs := oauthClient(n), grantOf(n, n)
			c.UsedAt, theirs.App = after(used), app
			e.insert(insertOAuthClient(c), putGrant(theirs))
		}
		put(1, 1, time.Hour)
		_, found := ungranted()
		e.Expect(found).To(gomega.BeFalse())
		put(2, 2, 3*time.Hour) // a grant to another app's client of the same name
		put(3, 2, 2*time.Hour)
		made, unused := oauthClient(4), oauthClient(5)
		made.ByBackend, made.UsedAt = true, born
		e.insert(insertOAuthClient(made), insertOAuthClient(unused))
		free, found := ungranted()
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(free.Client).To(gomega.Equal("client3"))
	}},
	{name: "clients that nobody used are purged after a day", run: func(e *env) {
		e.begin()
		used := oauthClient(2)
		used.UsedAt = born
		e.insert(insertOAuthClient(oauthClient(1)), insertOAuthClient(used))
		e.Expect(e.purged(after(people.UnusedClientFor), time.Hour, 10)).To(gomega.BeZero())
		e.Expect(e.purged(after(people.UnusedClientFor+2*time.Second), time.Hour, 10)).To(gomega.BeEquivalentTo(1))
		_, found := one(e, func(tx people.Tx) (people.OAuthClient, bool, error) {
			return tx.OAuthClients().OAuthClient(1, used.Client)
		})
		e.Expect(found).To(gomega.BeTrue())
	}},
}
