package storetest

import (
	"errors"
	"fmt"
	"slices"
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
		ID: n, Grant: grant, App: 1, Client: "client", User: 1, Session: 1, SignIn: 1, Connection: 3, Scopes: []string{"openid"}, Resources: []string{"https://a.example"}, Nonce: "n", Method: people.MethodPassword,
		AuthenticatedAt: born, Offline: true, CreatedAt: born, UsedAt: born, ExpiresAt: after(time.Hour),
	}
}

func authorizationCode(n, family int64) people.AuthorizationCode {
	return people.AuthorizationCode{Hash: hashOf(n), Family: family, RedirectURI: "https://client.example/cb", Challenge: "c", CreatedAt: born, ExpiresAt: after(time.Minute)}
}

func refreshToken(n, family int64) people.RefreshToken {
	return people.RefreshToken{Hash: hashOf(n), Family: family, Parent: []byte{}, Network: "", CreatedAt: born.Add(time.Duration(n) * time.Second), ExpiresAt: after(time.Hour)}
}

// atMost returns bounds that allow n rows per Network. The other bounds are too high to matter.
func atMost(n int) people.WaitingBounds {
	return people.WaitingBounds{Network: n, NetworkBlock: 99, App: 999}
}

func device(n int64) people.Device {
	return people.Device{
		Hash: hashOf(n), UserCode: fmt.Sprint("CODE-", n), App: 1, Client: "client", Parameters: "{}", Network: "192.0.2.1", NetworkBlock: "192.0.2.0/24", State: people.DevicePending, Interval: 5 * time.Second,
		CreatedAt: born.Add(time.Duration(n) * time.Second), ExpiresAt: after(9 * time.Minute),
	}
}

func oauthClient(n int64) people.OAuthClient {
	return people.OAuthClient{
		App: 1, Client: fmt.Sprint("client", n), Content: "{}", Fingerprint: hashOf(n), Manager: hashOf(n + 100), CreatedAt: born.Add(time.Duration(n) * time.Second), FreshUntil: after(time.Hour),
	}
}

func insertOAuthClient(c people.OAuthClient) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.OAuthClients().InsertOAuthClient(c) }
}

func insertDevice(d people.Device) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.OAuth().InsertDevice(d, atMost(9)) }
}

func putGrant(g people.Grant) func(people.Tx) error {
	return func(tx people.Tx) error { _, err := tx.OAuth().PutGrant(g, 9); return err }
}

func insertFamily(f people.TokenFamily) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.OAuth().InsertTokenFamily(f, 9) }
}

func insertCode(c people.AuthorizationCode) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.OAuth().InsertAuthorizationCode(c) }
}

func insertRefreshToken(t people.RefreshToken) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.OAuth().InsertRefreshToken(t) }
}

// refreshTokensLeft returns the numbers, from 1 to most, whose refresh tokens exist.
func refreshTokensLeft(e *env, most int64) (left []int64) {
	e.t.Helper()
	for n := range most {
		if _, found := one(e, func(tx people.Tx) (people.RefreshToken, bool, error) { return tx.OAuth().RefreshToken(hashOf(n + 1)) }); found {
			left = append(left, n+1)
		}
	}
	return left
}

// grantsLeft returns the numbers, from 1 to most, whose grants exist and have not ended.
func grantsLeft(e *env, most int64) (left []int64) {
	e.t.Helper()
	for n := range most {
		if _, stands := one(e, func(tx people.Tx) (people.Grant, bool, error) { return tx.OAuth().Grant(n + 1) }); stands {
			left = append(left, n+1)
		}
	}
	return left
}

// livesOn returns the numbers, from 1 to most, whose token families, codes and refresh tokens exist.
func livesOn(e *env, most int64) (families, codes, tokens []int64) {
	e.t.Helper()
	for n := int64(1); n <= most; n++ {
		if _, found := one(e, func(tx people.Tx) (people.TokenFamily, bool, error) { return tx.OAuth().TokenFamily(n) }); found {
			families = append(families, n)
		}
		if _, found := one(e, func(tx people.Tx) (people.AuthorizationCode, bool, error) {
			return tx.OAuth().AuthorizationCode(hashOf(n))
		}); found {
			codes = append(codes, n)
		}
	}
	return families, codes, refreshTokensLeft(e, most)
}

// oauthStories contains the stories of all people_oauth files. Those in this file test waiting requests and devices,
// the purge of expired rows, and the end of sign-ins.
var oauthStories = slices.Concat(grantStories, tokenStories, oauthClientStories, endingStories, []story{
	{name: "an authorization request is kept until it is decided, and of one network only the newest", run: func(e *env) {
		e.begin()
		other := authorizationRequest(9)
		other.Network, other.Pushed = "198.51.100.1", true
		e.insert(func(tx people.Tx) error { return tx.OAuth().InsertAuthorizationRequest(other, atMost(2)) })
		for n := range int64(4) {
			e.insert(func(tx people.Tx) error {
				return tx.OAuth().InsertAuthorizationRequest(authorizationRequest(n+1), atMost(2))
			})
		}
		read := func(n int64) (people.AuthorizationRequest, bool) {
			return one(e, func(tx people.Tx) (people.AuthorizationRequest, bool, error) {
				return tx.OAuth().AuthorizationRequest(hashOf(n))
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
				deleted, err := tx.OAuth().DeleteAuthorizationRequest(hashOf(9))
				e.Expect(deleted).To(gomega.Equal(want))
				return err
			})
		}
	}},
	{name: "authorization requests and devices are bounded per network and per app, and the network with the most gives way", run: func(e *env) {
		e.begin()
		bounds := people.WaitingBounds{Network: 99, NetworkBlock: 4, App: 6}
		n := int64(0)
		insert := func(block string) {
			n++
			r, d := authorizationRequest(n), device(n)
			r.Network, r.NetworkBlock, r.CreatedAt = fmt.Sprint(block, n), block, born.Add(time.Duration(n)*time.Second)
			d.Network, d.NetworkBlock = r.Network, block
			e.insert(func(tx people.Tx) error { return tx.OAuth().InsertAuthorizationRequest(r, bounds) }, func(tx people.Tx) error { return tx.OAuth().InsertDevice(d, bounds) })
		}
		for range 6 { // 1 to 6: two more than the bound of a network
			insert("2001:db8:1::/48")
		}
		for _, block := range []string{"a", "b", "c"} { // 7 to 9: one more than the bound of the app
			insert(block)
		}
		for id, want := range map[int64]bool{1: false, 2: false, 3: false, 4: true, 5: true, 6: true, 7: true, 8: true, 9: true} {
			_, request := one(e, func(tx people.Tx) (people.AuthorizationRequest, bool, error) {
				return tx.OAuth().AuthorizationRequest(hashOf(id))
			})
			_, waits := one(e, func(tx people.Tx) (people.Device, bool, error) { return tx.OAuth().Device(hashOf(id)) })
			e.Expect([]bool{request, waits}).To(gomega.Equal([]bool{want, want}), "%d", id)
		}
	}},
	{name: "at its bounds an authorization request or device of a server whose clock is behind is kept, and an older row gives way", run: func(e *env) {
		e.begin()
		for name, bounds := range map[string]people.WaitingBounds{
			"of a network": {Network: 2, NetworkBlock: 99, App: 99}, "of a block": {Network: 99, NetworkBlock: 2, App: 99}, "of an app": {Network: 99, NetworkBlock: 99, App: 2},
		} {
			for n := range int64(6) { // each is older than the one before
				r, d := authorizationRequest(n), device(n)
				r.CreatedAt, d.CreatedAt = born.Add(-time.Duration(n)*time.Second), born.Add(-time.Duration(n)*time.Second)
				r.Network, d.Network = "192.0.2.1", "192.0.2.1"
				r.NetworkBlock, d.NetworkBlock = "192.0.2.0/24", "192.0.2.0/24"
				e.insert(func(tx people.Tx) error { return tx.OAuth().InsertAuthorizationRequest(r, bounds) }, func(tx people.Tx) error { return tx.OAuth().InsertDevice(d, bounds) })
				_, request := one(e, func(tx people.Tx) (people.AuthorizationRequest, bool, error) {
					return tx.OAuth().AuthorizationRequest(hashOf(n))
				})
				_, waits := one(e, func(tx people.Tx) (people.Device, bool, error) { return tx.OAuth().Device(hashOf(n)) })
				e.Expect([]bool{request, waits}).To(gomega.Equal([]bool{true, true}), "%s %d", name, n)
			}
			left := 0
			for n := range int64(6) {
				e.insert(func(tx people.Tx) error {
					request, err := tx.OAuth().DeleteAuthorizationRequest(hashOf(n))
					if request {
						left++
					}
					return errors.Join(err, tx.OAuth().DeleteDevice(hashOf(n)))
				})
			}
			e.Expect(left).To(gomega.Equal(2), name)
		}
	}},
	{name: "a device waits until a person decides, under a code of its own, and of one network only the newest", run: func(e *env) {
		e.begin()
		read := func(n int64) (people.Device, bool) {
			return one(e, func(tx people.Tx) (people.Device, bool, error) {
				return tx.OAuth().DeviceByUserCode(fmt.Sprint("CODE-", n))
			})
		}
		e.insert(insertDevice(device(1)))
		twin := device(9)
		twin.UserCode = device(1).UserCode
		e.Expect(e.store.Change(e.ctx, home, insertDevice(twin))).To(gomega.MatchError(people.ErrDuplicate))
		e.insert(insertDevice(device(2)), func(tx people.Tx) error { return tx.OAuth().InsertDevice(device(3), atMost(2)) })
		_, found := read(1)
		e.Expect(found).To(gomega.BeFalse())
		got, _ := read(2)
		e.Expect(got).To(gomega.Equal(device(2)))
		changed := device(2)
		changed.State, changed.Family, changed.PolledAt, changed.Interval, changed.Client = people.DeviceGranted, 7, after(time.Minute), 10*time.Second, "never written"
		e.insert(func(tx people.Tx) error { return tx.OAuth().UpdateDevice(changed) }, func(tx people.Tx) error {
			got, _, err := tx.OAuth().LockDevice(hashOf(2))
			changed.Client = device(2).Client
			e.Expect(got).To(gomega.Equal(changed))
			return err
		}, func(tx people.Tx) error { return tx.OAuth().DeleteDevice(hashOf(2)) })
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
			e.insert(func(tx people.Tx) error { return tx.Users().InsertUser(user(n)) }, insertSession(session(n)), insertSignIn(signIn(n, n, n)))
		}
		e.insert(insertFamily(told(1, 1, "a", true)), insertFamily(told(2, 1, "a", true)), insertFamily(told(3, 1, "b", true)), insertFamily(told(4, 1, "c", false)),
			insertFamily(told(5, 2, "a", true)), insertFamily(told(6, 3, "a", true)), insertFamily(told(7, 4, "a", true)))
		take := func() (taken []people.Logout) {
			e.insert(func(tx people.Tx) (err error) { taken, err = tx.OAuth().TakeLogouts(9); return err })
			return taken
		}
		e.Expect(take()).To(gomega.BeEmpty())
		e.insert(func(tx people.Tx) error { return tx.Sessions().EndSession(1) }, func(tx people.Tx) error { return tx.Sessions().DeleteSignIn(2) }, func(tx people.Tx) error { return tx.Users().DeleteUser(3) })
		waiting, err := e.store.LogoutsWaiting(e.ctx)
		e.ok(err)
		e.Expect(waiting).To(gomega.Equal([]string{home}))
		e.Expect(take()).To(gomega.ConsistOf(
			people.Logout{App: 1, Client: "a", User: 1, Session: 1}, people.Logout{App: 1, Client: "b", User: 1, Session: 1}, people.Logout{App: 1, Client: "a", User: 2, Session: 2},
			people.Logout{App: 1, Client: "a", User: 3, Session: 3}))
		e.Expect(take()).To(gomega.BeEmpty())
	}},
	{name: "what is over of authorizations is purged", run: func(e *env) {
		e.begin()
		e.insert(func(tx people.Tx) error {
			return tx.OAuth().InsertAuthorizationRequest(authorizationRequest(1), atMost(2))
		}, insertFamily(tokenFamily(1, 1)),
			insertCode(authorizationCode(1, 1)), insertRefreshToken(refreshToken(1, 1)), insertDevice(device(1)))
		purge := func(now time.Time) int64 {
			n, err := e.store.Purge(e.ctx, now, people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 10)
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
		got, found := one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.OAuth().SessionOfSignIn(2) })
		e.Expect(found).To(gomega.BeTrue())
		want.SignIns = []people.SignIn{g}
		e.Expect(got).To(gomega.Equal(want))
		_, found = one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.OAuth().SessionOfSignIn(9) })
		e.Expect(found).To(gomega.BeFalse())
	}},
})
