package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// oauthPut returns a put of an app, or of a client of the app "portal".
func oauthPut(e *env, kind, name, uid string, id int64) store.Put {
	e.t.Helper()
	var content any = document.OAuthApp{Slug: name}
	if kind == document.KindOAuthClient {
		content = document.OAuthClient{App: "portal", Name: name}
	}
	payload, err := document.Encode(document.Meta{CreatedAt: born, UpdatedAt: born}, content)
	e.ok(err)
	return store.Put{Document: store.Document{
		Owner: store.Owner{Identity: store.Identity{Kind: kind, Namespace: "apps", Name: name}, UID: uid}, Generation: 1, Deployment: home, ID: id, Key: name, Hash: uid + name, Payload: payload,
	}}
}

// later returns a time after every ending that the store dates by its own clock.
func later() time.Time { return time.Now().Add(time.Hour).UTC().Truncate(time.Microsecond) }

// endingStories test what ends with the deletion of a client or an app.
var endingStories = []story{
	{name: "what people granted a declared client ends with its deletion for good, and with nothing else", run: func(e *env) {
		e.begin()
		const app, client = 70, 80
		app1, client1, other := oauthPut(e, document.KindOAuthApp, "portal", "u1", app), oauthPut(e, document.KindOAuthClient, "reports", "u1", client), oauthPut(e, document.KindOAuthClient, "other", "u1", client+1)
		for _, put := range []store.Put{app1, client1, other} {
			e.put(put)
		}
		for n := range int64(3) { // two grants to the client in two organizations, and one to the other client
			g := grantOf(n+1, 1)
			g.App, g.Client, g.Organization = app, ids.Format(client+n/2), n
			e.insert(putGrant(g), insertFamily(tokenFamily(n+1, n+1)), insertRefreshToken(refreshToken(n+1, n+1)))
		}
		rebuilt := oauthPut(e, document.KindOAuthClient, "reports", "u2", client) // created by a rebuilt cluster
		e.put(again(rebuilt, "u1"))
		e.ok(e.store.Retain(e.ctx, e.term, other.Owner))
		e.ok(e.store.Delete(e.ctx, e.term, client1.Owner)) // the UID is no longer recorded
		e.Expect(grantsLeft(e, 3)).To(gomega.Equal([]int64{1, 2, 3}))

		e.ok(e.store.Delete(e.ctx, e.term, rebuilt.Owner))
		e.Expect(grantsLeft(e, 3)).To(gomega.Equal([]int64{3}))
		e.Expect(all(e, func(tx people.Tx) ([]people.Grant, error) { return tx.OAuth().GrantsOf(1) })).To(gomega.HaveLen(1))
		e.Expect(all(e, func(tx people.Tx) ([]people.Grant, error) {
			return tx.OAuth().ListGrants(people.GrantFilter{App: app}, 9)
		})).To(gomega.HaveLen(1))
		e.put(oauthPut(e, document.KindOAuthClient, "reports", "u3", client))
		e.Expect(grantsLeft(e, 3)).To(gomega.Equal([]int64{3}), "the new client has none of the old grants")

		anew := grantOf(9, 1)
		anew.App, anew.Client, anew.Organization, anew.CreatedAt, anew.UpdatedAt = app, ids.Format(client), 0, later(), later()
		e.insert(func(tx people.Tx) error {
			id, err := tx.OAuth().PutGrant(anew, 9)
			e.Expect(id).To(gomega.BeEquivalentTo(9))
			return err
		})
		e.Expect(grantsLeft(e, 9)).To(gomega.Equal([]int64{3, 9}))
		families, _, tokens := livesOn(e, 3)
		e.Expect([][]int64{families, tokens}).To(gomega.Equal([][]int64{{2, 3}, {2, 3}}), "the new grant replaced the first one with everything that depended on it")
		e.Expect(e.purged(born, time.Hour, 10)).To(gomega.BeEquivalentTo(1))
		families, _, tokens = livesOn(e, 3)
		e.Expect([][]int64{families, tokens}).To(gomega.Equal([][]int64{{3}, {3}}))
		e.Expect(grantsLeft(e, 9)).To(gomega.Equal([]int64{3, 9}))
	}},
	{name: "with an app end its clients of run time and all that was granted, in batches", run: func(e *env) {
		e.begin()
		app := oauthPut(e, document.KindOAuthApp, "portal", "u1", 1)
		e.put(app)
		const many = 25
		for n := range int64(many) {
			c := oauthClient(n + 1)
			c.UsedAt, c.ByBackend = after(time.Hour), n%2 == 0
			g := grantOf(n+1, 1)
			e.insert(insertOAuthClient(c), func(tx people.Tx) error { _, err := tx.OAuth().PutGrant(g, many); return err }, insertFamily(tokenFamily(n+1, n+1)))
		}
		elsewhere := grantOf(many+1, 2)
		elsewhere.App = 2
		e.insert(putGrant(elsewhere))
		e.ok(e.store.Delete(e.ctx, e.term, app.Owner))
		e.put(oauthPut(e, document.KindOAuthApp, "portal", "u2", 1))
		e.Expect(grantsLeft(e, many+1)).To(gomega.Equal([]int64{many + 1}))
		e.Expect(all(e, func(tx people.Tx) ([]people.OAuthClient, error) {
			return tx.OAuthClients().ListOAuthClients(1, people.OAuthClientPlace{}, 99)
		})).To(gomega.BeEmpty())
		_, found := one(e, func(tx people.Tx) (people.OAuthClient, bool, error) {
			return tx.OAuthClients().OAuthClientAlike(1, hashOf(2))
		})
		e.Expect(found).To(gomega.BeFalse())

		same := oauthClient(1) // the client registers again
		same.CreatedAt, same.Fingerprint = later(), hashOf(2)
		e.insert(insertOAuthClient(same))
		e.Expect(e.purged(born, time.Hour, 4)).To(gomega.BeEquivalentTo(many + many - 2))
		got, _ := one(e, func(tx people.Tx) (people.OAuthClient, bool, error) {
			return tx.OAuthClients().OAuthClient(1, same.Client)
		})
		e.Expect(got).To(gomega.Equal(same))
		families, _, _ := livesOn(e, many)
		e.Expect(families).To(gomega.BeEmpty())
	}},
	{name: "a deleted client's grants are deleted in batches, however many", run: func(e *env) {
		e.begin()
		const many = 45
		c := oauthClient(1)
		c.UsedAt = born
		e.insert(insertOAuthClient(c))
		for n := range int64(many) {
			g := grantOf(n+1, n+1)
			g.Client = c.Client
			e.insert(putGrant(g), insertFamily(tokenFamily(n+1, n+1)))
		}
		e.insert(func(tx people.Tx) error {
			_, err := tx.OAuthClients().DeleteOAuthClient(1, c.Client, after(time.Minute))
			return err
		})
		e.Expect(grantsLeft(e, many)).To(gomega.BeEmpty())
		for _, want := range []int{20, 20, 5, 0} {
			n, err := e.store.Purge(e.ctx, born, people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 20)
			e.ok(err)
			e.Expect(n).To(gomega.BeEquivalentTo(want))
		}
		families, _, _ := livesOn(e, many)
		e.Expect(families).To(gomega.BeEmpty())
		e.Expect(e.purged(after(2*time.Hour), time.Hour, 10)).To(gomega.BeZero())
		erased, err := e.store.Erase(e.ctx, e.term, home, 10)
		e.ok(err)
		e.Expect(erased).To(gomega.BeZero(), "the ending is forgotten as well")
	}},
	{name: "of a person's grants the one that was used longest ago gives way, with its tokens", run: func(e *env) {
		e.begin()
		put := func(n int64) {
			g := grantOf(n, 1)
			e.insert(func(tx people.Tx) error { _, err := tx.OAuth().PutGrant(g, 3); return err })
		}
		for n := range int64(3) {
			put(n + 1)
		}
		used := tokenFamily(1, 1)
		used.UsedAt = after(time.Hour)
		e.insert(insertFamily(used), insertFamily(tokenFamily(2, 2)), putGrant(grantOf(9, 2)))
		put(4)
		e.Expect(grantsLeft(e, 9)).To(gomega.Equal([]int64{1, 3, 4, 9}), "the first is in use")
		families, _, _ := livesOn(e, 9)
		e.Expect(families).To(gomega.Equal([]int64{1}))
		put(4)
		e.Expect(grantsLeft(e, 9)).To(gomega.Equal([]int64{1, 3, 4, 9}), "a grant that exists already counts only once")
	}},
	{name: "a grant that nothing lives on is remembered for a year", run: func(e *env) {
		e.begin()
		for n := range int64(3) {
			g := grantOf(n+1, 1)
			g.UpdatedAt = after(time.Duration(n) * time.Hour)
			e.insert(putGrant(g))
		}
		alive := tokenFamily(1, 1)
		alive.ExpiresAt = after(2 * people.GrantKeptFor)
		e.insert(insertFamily(alive))
		e.Expect(e.purged(after(people.GrantKeptFor), time.Hour, 10)).To(gomega.BeZero())
		e.Expect(e.purged(after(people.GrantKeptFor+90*time.Minute), time.Hour, 10)).To(gomega.BeEquivalentTo(1))
		e.Expect(grantsLeft(e, 3)).To(gomega.Equal([]int64{1, 3}), "the first has tokens")
	}},
}
