package storetest

import (
	"slices"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

// ssoAttemptLeft reports whether an SSO attempt exists.
func ssoAttemptLeft(e *env, attempt int64) bool {
	e.t.Helper()
	_, found := one(e, func(tx people.Tx) (people.SSOAttempt, bool, error) { return tx.Connections().SSOAttempt(attempt) })
	return found
}

// signInsLeft returns the ids of the sign-ins of users.
func signInsLeft(e *env, users ...int64) (left []int64) {
	e.t.Helper()
	for _, user := range users {
		for _, g := range all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(user) }) {
			left = append(left, g.ID)
		}
	}
	slices.Sort(left)
	return left
}

// upstreamSignIn is the nth sign-in, in session n, by a connection.
func upstreamSignIn(n, user int64, upstream people.Upstream) people.SignIn {
	g := signIn(n, n, user)
	g.Upstream = upstream
	return g
}

var ssoStories = []story{
	{name: "an SSO attempt is read as written, by its attempt and by its state, which is unique", run: func(e *env) {
		e.begin()
		a := ssoAttempt(1)
		a.Intent, a.User, a.SignIn, a.Tries, a.Outcome, a.Claims = people.IntentLink, 3, 4, 1, "sealed outcome", "sealed claims"
		e.insert(insertSSOAttempt(a))
		got, _ := one(e, func(tx people.Tx) (people.SSOAttempt, bool, error) { return tx.Connections().SSOAttempt(1) })
		e.Expect(got).To(gomega.Equal(a))
		got, _ = one(e, func(tx people.Tx) (people.SSOAttempt, bool, error) {
			return tx.Connections().SSOAttemptByState(hashOf(1))
		})
		e.Expect(got).To(gomega.Equal(a))
		_, found := one(e, func(tx people.Tx) (people.SSOAttempt, bool, error) {
			return tx.Connections().SSOAttemptByState(hashOf(2))
		})
		e.Expect(found).To(gomega.BeFalse())
		again := ssoAttempt(2)
		again.State = a.State
		e.refuses(people.ErrDuplicate, insertSSOAttempt(again))
		e.change("apps/other", insertSSOAttempt(again))
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Connections().DeleteSSOAttempt(1) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Connections().DeleteSSOAttempt(1) })
	}},
	{name: "an SSO attempt has few tries, and one answer completes it, in time", run: func(e *env) {
		e.begin()
		a := ssoAttempt(1)
		e.insert(insertSSOAttempt(a), insertSSOAttempt(ssoAttempt(2)))
		try := func(attempt int64, now time.Time) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Connections().CountSSOTry(attempt, 3, now) }
		}
		giveBack := func(attempt int64, now time.Time) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Connections().ReturnSSOTry(attempt, now) }
		}
		put := func(now time.Time) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Connections().PutSSOOutcome(1, "outcome", now) }
		}
		complete := func(attempt int64, now time.Time) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Connections().CompleteSSOAttempt(attempt, "claims", now) }
		}
		end := a.ExpiresAt
		for _, late := range []func(time.Time) func(people.Tx) (bool, error){
			func(now time.Time) func(people.Tx) (bool, error) { return try(1, now) }, put,
			func(now time.Time) func(people.Tx) (bool, error) { return complete(1, now) },
		} {
			e.reportsFalse(late(end))
		}
		e.reportsTrue(put(after(time.Minute)))
		e.Expect(e.winners(20, try(1, after(time.Minute)))).To(gomega.Equal(3))
		e.reportsFalse(giveBack(1, end))
		e.Expect(e.winners(20, giveBack(1, after(time.Minute)))).To(gomega.Equal(3), "no more than were counted")
		e.Expect(e.winners(20, try(1, after(time.Minute)))).To(gomega.Equal(3))
		e.Expect(e.winners(100, complete(1, end.Add(-time.Microsecond)))).To(gomega.Equal(1))
		a.Tries, a.Claims, a.CompletedAt = 3, "claims", end.Add(-time.Microsecond)
		got, _ := one(e, func(tx people.Tx) (people.SSOAttempt, bool, error) { return tx.Connections().SSOAttempt(1) })
		e.Expect(got).To(gomega.Equal(a), "without its outcome")
		e.reportsFalse(put(after(time.Minute)))
		e.reportsFalse(giveBack(1, after(time.Minute)))
		e.reportsTrue(complete(2, after(time.Minute)))
		e.reportsFalse(try(2, after(time.Minute)))
		got, _ = one(e, func(tx people.Tx) (people.SSOAttempt, bool, error) { return tx.Connections().SSOAttempt(2) })
		e.Expect(got.Tries).To(gomega.BeZero())
	}},
	{name: "SSO attempts end with their sessions, with the accounts that began them, and when they expire", run: func(e *env) {
		e.begin()
		for n := int64(1); n <= 5; n++ {
			e.insert(func(tx people.Tx) error { return tx.Attempts().InsertAttempt(attempt(n, n)) })
		}
		proven := attempt(6, 6)
		proven.User, proven.ProvedAt = 7, after(time.Minute)
		link := ssoAttempt(3)
		link.Intent, link.User = people.IntentLink, 7
		e.insert(insertSSOAttempt(ssoAttempt(1)), insertSSOAttempt(ssoAttempt(2)), insertSSOAttempt(link), insertSSOAttempt(ssoAttempt(4)), insertSSOAttempt(ssoAttempt(6)),
			insertUser(7), insertSession(session(1)), func(tx people.Tx) error { return tx.Attempts().InsertAttempt(proven) })
		left := func() (ids []int64) {
			for n := int64(1); n <= 6; n++ {
				if ssoAttemptLeft(e, n) {
					ids = append(ids, n)
				}
			}
			return ids
		}
		e.insert(func(tx people.Tx) error { return tx.Sessions().EndSession(1) })
		e.Expect(left()).To(gomega.Equal([]int64{2, 3, 4, 6}))
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(7) })
		e.Expect(left()).To(gomega.Equal([]int64{2, 4}))
		e.purged(ssoAttempt(2).ExpiresAt, 365*24*time.Hour, 10)
		e.Expect(left()).To(gomega.Equal([]int64{2, 4}))
		e.purged(ssoAttempt(2).ExpiresAt.Add(time.Microsecond), 365*24*time.Hour, 10)
		e.Expect(left()).To(gomega.Equal([]int64{4}))
	}},
	{name: "a session shows by which connection its sign-ins came, and the rest is read one by one", run: func(e *env) {
		e.begin()
		stored := people.Upstream{Connection: 3, Identity: 4, SessionID: "sid", ConfinedTo: 5, EndsAt: after(time.Hour), IDToken: "sealed"}
		shown := stored
		shown.SessionID, shown.IDToken = "", ""
		g, other := upstreamSignIn(1, 7, stored), signIn(2, 1, 8)
		e.insert(insertSession(session(1)), insertToken(tokenOf(1, 1)), insertSignIn(g), insertSignIn(other))
		g.Upstream = shown
		read := func() []people.SignIn {
			s, _ := sessionOf(e, 1)
			e.Expect(all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(7) })).To(gomega.Equal(s.SignIns[:1]))
			of, _ := one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.OAuth().SessionOfSignIn(1) })
			e.Expect(of.SignIns).To(gomega.Equal(s.SignIns[:1]))
			sessions := all(e, func(tx people.Tx) ([]people.Session, error) { return tx.Sessions().SessionsOf(7) })
			e.Expect(sessions[0].SignIns).To(gomega.Equal(s.SignIns[:1]))
			return s.SignIns
		}
		e.Expect(read()).To(gomega.Equal([]people.SignIn{g, other}))
		upstreamOf := func(id int64) people.Upstream {
			u, found := one(e, func(tx people.Tx) (people.Upstream, bool, error) { return tx.Sessions().UpstreamOf(id) })
			e.Expect(found).To(gomega.BeTrue())
			return u
		}
		e.Expect([]people.Upstream{upstreamOf(1), upstreamOf(2)}).To(gomega.Equal([]people.Upstream{stored, {}}))
		again := people.Upstream{Connection: 6, Identity: 7, SessionID: "other", EndsAt: after(2 * time.Hour), IDToken: "sealed again"}
		e.insert(func(tx people.Tx) error { return tx.Sessions().SetUpstream(1, again) })
		e.Expect([]people.Upstream{upstreamOf(1), upstreamOf(2)}).To(gomega.Equal([]people.Upstream{again, {}}))
		g.Upstream = again
		g.Upstream.SessionID, g.Upstream.IDToken = "", ""
		e.Expect(read()).To(gomega.Equal([]people.SignIn{g, other}))
		e.Expect([]bool{g.Upstream.Ended(after(2*time.Hour - 1)), g.Upstream.Ended(after(2 * time.Hour)), other.Upstream.Ended(after(2 * time.Hour))}).
			To(gomega.Equal([]bool{false, true, false}))
	}},
	{name: "the sign-ins of a connection, of its subject and of its session end", run: func(e *env) {
		e.begin()
		for n, upstream := range []people.Upstream{
			{Connection: 1, Identity: 1, SessionID: "a"}, {Connection: 1, Identity: 1, SessionID: "b"}, {Connection: 1, Identity: 2, SessionID: "c"},
			{Connection: 1, Identity: 3}, {Connection: 1, Identity: 4}, {Connection: 2, Identity: 5, SessionID: "c"}, {},
		} {
			id := int64(n + 1)
			e.insert(insertSession(session(id)), insertToken(tokenOf(id, id)), insertSignIn(upstreamSignIn(id, 7, upstream)))
		}
		e.insert(insertSignIn(signIn(100, 3, 8)))
		end := func(filter people.UpstreamFilter, limit int) (ended []int64) {
			e.insert(func(tx people.Tx) error {
				list, err := tx.Sessions().EndSignInsBy(filter, limit)
				for _, g := range list {
					ended = append(ended, g.ID)
				}
				return err
			})
			return ended
		}
		e.Expect(end(people.UpstreamFilter{}, 10)).To(gomega.BeEmpty())
		e.Expect(end(people.UpstreamFilter{SessionID: "a"}, 10)).To(gomega.BeEmpty())
		mine := identity(2, 1, 7)
		e.insert(insertIdentity(mine))
		e.Expect(end(people.UpstreamFilter{Connection: 1, SessionID: "c", Issuer: "https://other.example"}, 10)).To(gomega.BeEmpty())
		e.Expect(end(people.UpstreamFilter{Connection: 1, SessionID: "b", Issuer: mine.Issuer}, 10)).To(gomega.BeEmpty(), "the identity is unknown")
		e.Expect(end(people.UpstreamFilter{Connection: 1, SessionID: "c", Issuer: mine.Issuer}, 10)).To(gomega.Equal([]int64{3}))
		e.Expect(end(people.UpstreamFilter{Connection: 1, Identity: 1, SessionID: "b"}, 10)).To(gomega.Equal([]int64{2}))
		e.Expect(end(people.UpstreamFilter{Identity: 1}, 10)).To(gomega.Equal([]int64{1}))
		e.Expect(signInsLeft(e, 7, 8)).To(gomega.Equal([]int64{4, 5, 6, 7, 100}))
		e.Expect(end(people.UpstreamFilter{Connection: 1}, 1)).To(gomega.Equal([]int64{4}))
		e.Expect(end(people.UpstreamFilter{Connection: 1}, 10)).To(gomega.Equal([]int64{5}))
		e.Expect(end(people.UpstreamFilter{Connection: 1}, 10)).To(gomega.BeEmpty())
		e.Expect(signInsLeft(e, 7, 8)).To(gomega.Equal([]int64{6, 7, 100}))
		e.Expect(tokensLeft(e, 7)).To(gomega.Equal([]int64{3, 6, 7}), "a session without sign-ins ends")
		ended := all(e, func(tx people.Tx) ([]people.EndedSignIn, error) { return tx.Sessions().EndedSignIns(7, 10) })
		e.Expect(ended).To(gomega.HaveLen(5))
	}},
	{name: "a sign-in that ends before its session is purged, unless it was prolonged", run: func(e *env) {
		e.begin()
		ends := people.Upstream{Connection: 1, EndsAt: after(time.Minute)}
		for n := range int64(4) {
			deployment := []string{home, "apps/other"}[n%2]
			e.change(deployment, insertSession(session(n+1)))
			e.change(deployment, insertToken(tokenOf(n+1, n+1)))
			e.change(deployment, insertSignIn(upstreamSignIn(n+1, 7, ends)))
		}
		e.insert(insertSignIn(signIn(9, 1, 8)), insertFamily(people.TokenFamily{ID: 5, App: 1, Client: "client", User: 7, Session: 3, SignIn: 3, Backchannel: true, ExpiresAt: after(time.Hour)}))
		e.Expect(e.purged(after(time.Minute-time.Microsecond), time.Hour, 10)).To(gomega.BeZero())
		prolonged := ends
		prolonged.EndsAt = after(2 * time.Minute)
		e.change("apps/other", func(tx people.Tx) error { return tx.Sessions().SetUpstream(2, prolonged) })
		e.Expect(e.purged(after(time.Minute), time.Hour, 1)).To(gomega.BeEquivalentTo(3))
		e.Expect(signInsLeft(e, 7, 8)).To(gomega.Equal([]int64{9}))
		e.Expect(tokensLeft(e, 4)).To(gomega.Equal([]int64{1}), "another account is in the session")
		waiting, err := e.store.LogoutsWaiting(e.ctx)
		e.ok(err)
		e.Expect(waiting).To(gomega.Equal([]string{home}), "clients are notified")
		e.Expect(e.purged(after(2*time.Minute), time.Hour, 10)).To(gomega.BeEquivalentTo(1))
	}},
}
