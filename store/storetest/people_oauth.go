package storetest

import (
	"fmt"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func authorizationRequest(n int64) people.AuthorizationRequest {
	return people.AuthorizationRequest{
		Hash: hashOf(n), App: 1, Client: "client", Parameters: `{"state":"x"}`, Network: "192.0.2.1", CreatedAt: born.Add(time.Duration(n) * time.Second), ExpiresAt: after(10 * time.Minute),
	}
}

func grantOf(n, user int64) people.Grant {
	return people.Grant{ID: n, App: 1, Client: fmt.Sprint("client", n), User: user, Organization: 2, Workspace: 3, Scopes: []string{"read", "write"}, CreatedAt: born, UpdatedAt: after(time.Duration(n) * time.Second)}
}

func tokenFamily(n, grant int64) people.TokenFamily {
	return people.TokenFamily{
		ID: n, Grant: grant, App: 1, Client: "client", User: 1, Session: 1, SignIn: 1, Scopes: []string{"openid"}, Resources: []string{"https://a.example"}, Nonce: "n", Method: people.MethodPassword,
		AuthenticatedAt: born, Offline: true, CreatedAt: born, UsedAt: born, ExpiresAt: after(time.Hour),
	}
}

func authorizationCode(n, family int64) people.AuthorizationCode {
	return people.AuthorizationCode{Hash: hashOf(n), Family: family, RedirectURI: "https://client.example/cb", Challenge: "c", CreatedAt: born, ExpiresAt: after(time.Minute)}
}

func refreshToken(n, family int64) people.RefreshToken {
	return people.RefreshToken{Hash: hashOf(n), Family: family, Parent: []byte{}, Network: "", CreatedAt: born.Add(time.Duration(n) * time.Second), ExpiresAt: after(time.Hour)}
}

func device(n int64) people.Device {
	return people.Device{
		Hash: hashOf(n), UserCode: fmt.Sprint("CODE-", n), App: 1, Client: "client", Parameters: "{}", Network: "192.0.2.1", State: people.DevicePending, Interval: 5 * time.Second,
		CreatedAt: born.Add(time.Duration(n) * time.Second), ExpiresAt: after(9 * time.Minute),
	}
}

func oauthClient(n int64) people.OAuthClient {
	return people.OAuthClient{
		App: 1, Client: fmt.Sprint("client", n), Content: "{}", Fingerprint: hashOf(n), Manager: hashOf(n + 100), CreatedAt: born.Add(time.Duration(n) * time.Second), FreshUntil: after(time.Hour),
	}
}

func insertOAuthClient(c people.OAuthClient) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.InsertOAuthClient(c) }
}

func insertDevice(d people.Device) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.InsertDevice(d, 9) }
}

func putGrant(g people.Grant) func(people.Tx) error {
	return func(tx people.Tx) error { _, err := tx.PutGrant(g); return err }
}

func insertFamily(f people.TokenFamily) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.InsertTokenFamily(f, 9) }
}

func insertCode(c people.AuthorizationCode) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.InsertAuthorizationCode(c) }
}

func insertRefreshToken(t people.RefreshToken) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.InsertRefreshToken(t) }
}

// refreshTokensLeft returns the numbers, from 1 to most, whose refresh tokens there are.
func refreshTokensLeft(e *env, most int64) (left []int64) {
	e.t.Helper()
	for n := range most {
		if _, found := one(e, func(tx people.Tx) (people.RefreshToken, bool, error) { return tx.RefreshToken(hashOf(n + 1)) }); found {
			left = append(left, n+1)
		}
	}
	return left
}

// livesOn are the families, codes and refresh tokens, from 1 to most, that there are.
func livesOn(e *env, most int64) (families, codes, tokens []int64) {
	e.t.Helper()
	for n := int64(1); n <= most; n++ {
		if _, found := one(e, func(tx people.Tx) (people.TokenFamily, bool, error) { return tx.TokenFamily(n) }); found {
			families = append(families, n)
		}
		if _, found := one(e, func(tx people.Tx) (people.AuthorizationCode, bool, error) { return tx.AuthorizationCode(hashOf(n)) }); found {
			codes = append(codes, n)
		}
	}
	return families, codes, refreshTokensLeft(e, most)
}

var oauthStories = []story{
	{name: "an authorization request is kept until it is decided, and of one network only the newest", run: func(e *env) {
		e.begin()
		other := authorizationRequest(9)
		other.Network, other.Pushed = "198.51.100.1", true
		e.insert(func(tx people.Tx) error { return tx.InsertAuthorizationRequest(other, 2) })
		for n := range int64(4) {
			e.insert(func(tx people.Tx) error { return tx.InsertAuthorizationRequest(authorizationRequest(n+1), 2) })
		}
		read := func(n int64) (people.AuthorizationRequest, bool) {
			return one(e, func(tx people.Tx) (people.AuthorizationRequest, bool, error) {
				return tx.AuthorizationRequest(hashOf(n))
			})
		}
		for n, want := range map[int64]bool{1: false, 2: false, 3: true, 4: true, 9: true} {
			_, found := read(n)
			e.Expect(found).To(gomega.Equal(want), "%d", n)
		}
		got, _ := read(9)
		e.Expect(got).To(gomega.Equal(other))
		for _, want := range []bool{true, false} {
			e.insert(func(tx people.Tx) error {
				deleted, err := tx.DeleteAuthorizationRequest(hashOf(9))
				e.Expect(deleted).To(gomega.Equal(want))
				return err
			})
		}
	}},
	{name: "what a person grants a client once more takes the place of the grant there", run: func(e *env) {
		e.begin()
		first, other, again := grantOf(1, 1), grantOf(2, 1), grantOf(1, 1)
		other.Client, other.Organization = first.Client, 7
		again.ID, again.Scopes, again.Resources, again.UpdatedAt = 5, nil, []string{"https://a.example", "https://b.example"}, after(time.Hour)
		e.insert(putGrant(first), putGrant(other), putGrant(grantOf(3, 2)), func(tx people.Tx) error {
			id, err := tx.PutGrant(again)
			e.Expect(id).To(gomega.Equal(first.ID))
			return err
		})
		again.ID = first.ID
		e.insert(func(tx people.Tx) error {
			got, err := tx.GrantsOf(1)
			e.Expect(got).To(gomega.Equal([]people.Grant{again, other}))
			return err
		})
	}},
	{name: "with a grant ends all that lives on it, and nothing else", run: func(e *env) {
		e.begin()
		for n := range int64(3) {
			grant := min(n+1, 2) // of the second one there are two families
			e.insert(putGrant(grantOf(grant, 1)), insertFamily(tokenFamily(n+1, grant)), insertCode(authorizationCode(n+1, n+1)), insertRefreshToken(refreshToken(n+1, n+1)))
		}
		e.insert(func(tx people.Tx) error {
			deleted, err := tx.DeleteGrant(2)
			e.Expect(deleted).To(gomega.BeTrue())
			return err
		})
		families, codes, tokens := livesOn(e, 3)
		e.Expect([][]int64{families, codes, tokens}).To(gomega.Equal([][]int64{{1}, {1}, {1}}))
		e.insert(func(tx people.Tx) error {
			ended, err := tx.EndTokenFamily(1)
			e.Expect(ended).To(gomega.BeTrue())
			return err
		})
		families, codes, tokens = livesOn(e, 3)
		e.Expect([][]int64{families, codes, tokens}).To(gomega.Equal([][]int64{nil, nil, nil}))
		_, stands := one(e, func(tx people.Tx) (people.Grant, bool, error) { return tx.Grant(1) })
		e.Expect(stands).To(gomega.BeTrue())
	}},
	{name: "a deleted user's grants are gone with all that lives on them", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.InsertUser(user(1)) }, putGrant(grantOf(1, 1)), putGrant(grantOf(2, 2)),
			insertFamily(tokenFamily(1, 1)), insertFamily(tokenFamily(2, 2)), insertRefreshToken(refreshToken(1, 1)), insertRefreshToken(refreshToken(2, 2)),
			func(tx people.Tx) error { return tx.DeleteUser(1) })
		families, _, tokens := livesOn(e, 2)
		e.Expect([][]int64{families, tokens}).To(gomega.Equal([][]int64{{2}, {2}}))
	}},
	{name: "a family is read as it was written, and what changes is what it is used for", run: func(e *env) {
		e.begin()
		want := tokenFamily(1, 1)
		e.insert(insertFamily(want))
		got, _ := one(e, func(tx people.Tx) (people.TokenFamily, bool, error) { return tx.TokenFamily(1) })
		e.Expect(got).To(gomega.Equal(want))
		changed := want
		changed.Scopes, changed.UsedAt, changed.ExpiresAt, changed.Nonce = nil, after(time.Minute), after(2*time.Hour), "never written"
		e.insert(func(tx people.Tx) error { return tx.UpdateTokenFamily(changed) }, func(tx people.Tx) error {
			got, found, err := tx.LockTokenFamily(1)
			changed.Nonce = want.Nonce
			e.Expect(found).To(gomega.BeTrue())
			e.Expect(got).To(gomega.Equal(changed))
			return err
		})
	}},
	{name: "of a grant's families the one that was used longest ago gives way, with its tokens", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			f := tokenFamily(n+1, 1)
			f.UsedAt = after(time.Duration(10-n) * time.Minute) // the first was used last
			e.insert(func(tx people.Tx) error { return tx.InsertTokenFamily(f, 3) }, insertRefreshToken(refreshToken(n+1, n+1)), insertCode(authorizationCode(n+1, n+1)))
		}
		e.insert(insertFamily(tokenFamily(5, 2)))
		families, _, _ := livesOn(e, 6)
		e.Expect(families).To(gomega.Equal([]int64{1, 2, 3, 5}), "the fourth gave way to itself")
		latest := tokenFamily(6, 1)
		latest.UsedAt = after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.InsertTokenFamily(latest, 3) })
		families, codes, tokens := livesOn(e, 6)
		e.Expect(families).To(gomega.Equal([]int64{1, 2, 5, 6}))
		e.Expect(codes).To(gomega.Equal([]int64{1, 2, 4}))
		e.Expect(tokens).To(gomega.Equal([]int64{1, 2, 4}))
	}},
	{name: "a code is redeemed once, and not after its time", run: func(e *env) {
		e.begin()
		want := authorizationCode(1, 1)
		e.insert(insertCode(want))
		for _, try := range []struct {
			at   time.Time
			want bool
		}{{want.ExpiresAt, false}, {after(time.Second), true}, {after(time.Second), false}} {
			e.insert(func(tx people.Tx) error {
				redeemed, err := tx.RedeemAuthorizationCode(hashOf(1), try.at)
				e.Expect(redeemed).To(gomega.Equal(try.want))
				return err
			})
		}
		want.RedeemedAt = after(time.Second)
		got, _ := one(e, func(tx people.Tx) (people.AuthorizationCode, bool, error) { return tx.AuthorizationCode(hashOf(1)) })
		e.Expect(got).To(gomega.Equal(want))
	}},
	{name: "a refresh token's first use is written down, and lets the one before die", run: func(e *env) {
		e.begin()
		parent, child := refreshToken(1, 1), refreshToken(2, 1)
		child.Parent = parent.Hash
		e.insert(insertRefreshToken(parent), insertRefreshToken(child))
		child.Network = "192.0.2.0/24"
		use := func(at, dies time.Time) {
			e.insert(func(tx people.Tx) error { return tx.UseRefreshToken(child, at, dies) })
		}
		use(after(time.Second), after(11*time.Second))
		use(after(time.Minute), after(2*time.Minute)) // neither comes later
		got, _ := one(e, func(tx people.Tx) (people.RefreshToken, bool, error) { return tx.RefreshToken(hashOf(1)) })
		e.Expect(got.DiesAt).To(gomega.Equal(after(11 * time.Second)))
		got, _ = one(e, func(tx people.Tx) (people.RefreshToken, bool, error) { return tx.RefreshToken(hashOf(2)) })
		child.UsedAt, child.ParentDiesAt = after(time.Second), after(11*time.Second)
		e.Expect(got).To(gomega.Equal(child))
	}},
	{name: "of a family's refresh tokens the newest are kept, and the presented one", run: func(e *env) {
		e.begin()
		for n := int64(1); n <= 8; n++ {
			t := refreshToken(n, 1)
			if n%2 == 0 {
				t.UsedAt = after(time.Minute)
			}
			e.insert(insertRefreshToken(t))
		}
		e.insert(insertRefreshToken(refreshToken(9, 2)), func(tx people.Tx) error { return tx.TrimRefreshTokens(1, hashOf(1), 1, 2) })
		e.Expect(refreshTokensLeft(e, 9)).To(gomega.Equal([]int64{1, 5, 7, 8, 9}))
	}},
	{name: "a device waits until a person decides, under a code of its own, and of one network only the newest", run: func(e *env) {
		e.begin()
		read := func(n int64) (people.Device, bool) {
			return one(e, func(tx people.Tx) (people.Device, bool, error) { return tx.DeviceByUserCode(fmt.Sprint("CODE-", n)) })
		}
		e.insert(insertDevice(device(1)))
		twin := device(9)
		twin.UserCode = device(1).UserCode
		e.Expect(e.store.Change(e.ctx, home, insertDevice(twin))).To(gomega.MatchError(people.ErrDuplicate))
		e.insert(insertDevice(device(2)), func(tx people.Tx) error { return tx.InsertDevice(device(3), 2) })
		_, found := read(1)
		e.Expect(found).To(gomega.BeFalse())
		got, _ := read(2)
		e.Expect(got).To(gomega.Equal(device(2)))
		changed := device(2)
		changed.State, changed.Family, changed.PolledAt, changed.Interval, changed.Client = people.DeviceGranted, 7, after(time.Minute), 10*time.Second, "never written"
		e.insert(func(tx people.Tx) error { return tx.UpdateDevice(changed) }, func(tx people.Tx) error {
			got, _, err := tx.LockDevice(hashOf(2))
			changed.Client = device(2).Client
			e.Expect(got).To(gomega.Equal(changed))
			return err
		}, func(tx people.Tx) error { return tx.DeleteDevice(hashOf(2)) })
		_, found = read(2)
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "of a sign-in's end those clients are told once that want to be, whatever ended it", run: func(e *env) {
		e.begin()
		told := func(n, signIn int64, client string, backchannel bool) people.TokenFamily {
			f := tokenFamily(n, 1)
			f.SignIn, f.Session, f.User, f.Client, f.Backchannel = signIn, signIn, signIn, client, backchannel
			return f
		}
		for n := int64(1); n <= 4; n++ {
			e.insert(func(tx people.Tx) error { return tx.InsertUser(user(n)) }, insertSession(session(n)), insertSignIn(signIn(n, n, n)))
		}
		e.insert(insertFamily(told(1, 1, "a", true)), insertFamily(told(2, 1, "a", true)), insertFamily(told(3, 1, "b", true)), insertFamily(told(4, 1, "c", false)),
			insertFamily(told(5, 2, "a", true)), insertFamily(told(6, 3, "a", true)), insertFamily(told(7, 4, "a", true)))
		take := func() (taken []people.Logout) {
			e.insert(func(tx people.Tx) (err error) { taken, err = tx.TakeLogouts(9); return err })
			return taken
		}
		e.Expect(take()).To(gomega.BeEmpty())
		e.insert(func(tx people.Tx) error { return tx.EndSession(1) }, func(tx people.Tx) error { return tx.DeleteSignIn(2) }, func(tx people.Tx) error { return tx.DeleteUser(3) })
		waiting, err := e.store.LogoutsWaiting(e.ctx)
		e.ok(err)
		e.Expect(waiting).To(gomega.Equal([]string{home}))
		e.Expect(take()).To(gomega.ConsistOf(
			people.Logout{App: 1, Client: "a", User: 1, Session: 1}, people.Logout{App: 1, Client: "b", User: 1, Session: 1}, people.Logout{App: 1, Client: "a", User: 2, Session: 2},
			people.Logout{App: 1, Client: "a", User: 3, Session: 3}))
		e.Expect(take()).To(gomega.BeEmpty())
	}},
	{name: "a client of run time is found by its name and by what it shares, and takes its grants along", run: func(e *env) {
		e.begin()
		plain, shared := oauthClient(2), oauthClient(3)
		plain.Fingerprint, plain.Manager, plain.FreshUntil = nil, nil, time.Time{}
		read := func(name string) (people.OAuthClient, bool) {
			return one(e, func(tx people.Tx) (people.OAuthClient, bool, error) { return tx.OAuthClient(1, name) })
		}
		e.insert(insertOAuthClient(shared), insertOAuthClient(plain), insertOAuthClient(func() people.OAuthClient { c := plain; c.Client = "another"; return c }()))
		for _, want := range []people.OAuthClient{plain, shared} {
			got, _ := read(want.Client)
			e.Expect(got).To(gomega.Equal(want))
		}
		alike, found := one(e, func(tx people.Tx) (people.OAuthClient, bool, error) {
			return tx.OAuthClientAlike(1, shared.Fingerprint)
		})
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(alike).To(gomega.Equal(shared))
		_, found = one(e, func(tx people.Tx) (people.OAuthClient, bool, error) { return tx.OAuthClientAlike(1, nil) })
		e.Expect(found).To(gomega.BeFalse())
		twin := oauthClient(9)
		twin.Fingerprint = shared.Fingerprint
		e.Expect(e.store.Change(e.ctx, home, insertOAuthClient(twin))).To(gomega.MatchError(people.ErrDuplicate))

		unused := func() (count int, oldest people.OAuthClient) {
			e.insert(func(tx people.Tx) (err error) { count, oldest, err = tx.UnusedOAuthClients(1); return err })
			return count, oldest
		}
		count, oldest := unused()
		e.Expect(count).To(gomega.Equal(3))
		e.Expect(oldest.Client).To(gomega.Equal("another"))
		used := shared
		used.UsedAt, used.Content, used.Manager, used.FreshUntil = after(time.Minute), `{"x":1}`, hashOf(7), after(2*time.Hour)
		e.insert(func(tx people.Tx) error { return tx.UpdateOAuthClient(used) })
		got, _ := read(used.Client)
		e.Expect(got).To(gomega.Equal(used))
		count, _ = unused()
		e.Expect(count).To(gomega.Equal(2))

		mine, others := grantOf(3, 1), grantOf(4, 1)
		e.insert(putGrant(mine), putGrant(others), insertFamily(tokenFamily(1, 3)), func(tx people.Tx) error {
			deleted, err := tx.DeleteOAuthClient(1, used.Client)
			e.Expect(deleted).To(gomega.BeTrue())
			return err
		})
		_, found = read(used.Client)
		e.Expect(found).To(gomega.BeFalse())
		families, _, _ := livesOn(e, 2)
		e.Expect(families).To(gomega.BeEmpty())
		_, found = one(e, func(tx people.Tx) (people.Grant, bool, error) { return tx.Grant(4) })
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
			e.insert(func(tx people.Tx) (err error) { list, err = tx.ListOAuthClients(1, place, 2); return err })
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
			count, _, err := tx.UnusedOAuthClients(1)
			e.Expect(count).To(gomega.BeZero())
			return err
		})
		e.Expect(e.purged(after(10*people.UnusedClientFor), time.Hour, 10)).To(gomega.BeZero())
		made.Content, made.UpdatedAt = `{"x":2}`, after(time.Hour)
		e.insert(func(tx people.Tx) error { return tx.UpdateOAuthClient(made) }, func(tx people.Tx) error {
			got, _, err := tx.LockOAuthClient(1, made.Client)
			e.Expect(got).To(gomega.Equal(made))
			return err
		})
	}},
	{name: "grants of an app are listed page by page, the newest first, of a client and of a user", run: func(e *env) {
		e.begin()
		for n, user := range []int64{1, 2, 1, 1} {
			g := grantOf(int64(n+1), user)
			if n == 2 {
				g.Client = "client1"
				g.Workspace = 9
			}
			e.insert(putGrant(g))
		}
		elsewhere := grantOf(9, 1)
		elsewhere.App = 2
		e.insert(putGrant(elsewhere))
		for _, c := range []struct {
			filter people.GrantFilter
			limit  int
			want   []int64
		}{
			{people.GrantFilter{App: 1}, 9, []int64{4, 3, 2, 1}},
			{people.GrantFilter{App: 1}, 2, []int64{4, 3}},
			{people.GrantFilter{App: 1, Before: 3}, 9, []int64{2, 1}},
			{people.GrantFilter{App: 1, User: 1}, 9, []int64{4, 3, 1}},
			{people.GrantFilter{App: 1, Client: "client1"}, 9, []int64{3, 1}},
			{people.GrantFilter{App: 1, Client: "client2", User: 1}, 9, nil},
			{people.GrantFilter{App: 3}, 9, nil},
		} {
			var got []int64
			e.insert(func(tx people.Tx) error {
				list, err := tx.ListGrants(c.filter, c.limit)
				got = nil
				for _, g := range list {
					got = append(got, g.ID)
				}
				return err
			})
			e.Expect(got).To(gomega.Equal(c.want), "%+v", c.filter)
		}
	}},
	{name: "clients that nobody used are purged after a day", run: func(e *env) {
		e.begin()
		used := oauthClient(2)
		used.UsedAt = born
		e.insert(insertOAuthClient(oauthClient(1)), insertOAuthClient(used))
		e.Expect(e.purged(after(people.UnusedClientFor), time.Hour, 10)).To(gomega.BeZero())
		e.Expect(e.purged(after(people.UnusedClientFor+2*time.Second), time.Hour, 10)).To(gomega.BeEquivalentTo(1))
		_, found := one(e, func(tx people.Tx) (people.OAuthClient, bool, error) { return tx.OAuthClient(1, used.Client) })
		e.Expect(found).To(gomega.BeTrue())
	}},
	{name: "what is over of authorizations is purged", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error { return tx.InsertAuthorizationRequest(authorizationRequest(1), 2) }, insertFamily(tokenFamily(1, 1)),
			insertCode(authorizationCode(1, 1)), insertRefreshToken(refreshToken(1, 1)), insertDevice(device(1)))
		purge := func(now time.Time) int64 {
			n, err := e.store.Purge(e.ctx, now, time.Hour, 10)
			e.Expect(err).NotTo(gomega.HaveOccurred())
			return n
		}
		e.Expect(purge(after(8 * time.Minute))).To(gomega.BeZero())
		e.Expect(purge(after(11 * time.Minute))).To(gomega.Equal(int64(2)))
		e.Expect(purge(after(61*time.Minute - time.Second))).To(gomega.Equal(int64(2)))
		e.Expect(purge(after(61*time.Minute + time.Second))).To(gomega.Equal(int64(1)))
	}},
	{name: "a sign-in leads to its session", run: func(e *env) {
		e.begin()
		want, g := session(1), signIn(2, 1, 5)
		want.ActiveSignIn = 2
		e.insert(insertSession(want), insertSignIn(g), insertSignIn(signIn(3, 1, 6)))
		got, found := one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.SessionOfSignIn(2) })
		e.Expect(found).To(gomega.BeTrue())
		want.SignIns = []people.SignIn{g}
		e.Expect(got).To(gomega.Equal(want))
		_, found = one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.SessionOfSignIn(9) })
		e.Expect(found).To(gomega.BeFalse())
	}},
}
