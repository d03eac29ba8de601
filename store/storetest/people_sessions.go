package storetest

import (
	"slices"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

func insertSession(s people.Session) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Sessions().InsertSession(s) }
}

func insertToken(t people.Token) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Sessions().InsertToken(t) }
}

func insertSignIn(g people.SignIn) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Sessions().InsertSignIn(g) }
}

// sessionOf reads the session of token n.
func sessionOf(e *env, n int64) (people.Session, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.Session, bool, error) { return tx.Sessions().SessionByToken(hashOf(n)) })
}

// tokensLeft returns the numbers, from 1 to most, whose tokens exist.
func tokensLeft(e *env, most int64) (left []int64) {
	e.t.Helper()
	for n := range most {
		if _, found := sessionOf(e, n+1); found {
			left = append(left, n+1)
		}
	}
	return left
}

var sessionStories = []story{
	{name: "a session is found by each of its tokens, with its sign-ins, the oldest first", run: func(e *env) {
		e.begin()
		want := session(1)
		want.Anonymous, want.Attempting, want.ActiveSignIn = true, true, 2
		first, second := tokenOf(1, 1), tokenOf(2, 1)
		second.Parent, second.UsedAt, second.DiesAt = first.Hash, after(time.Minute), after(time.Hour)
		older, newer := signIn(1, 1, 5), signIn(2, 1, 6)
		newer.Organization, newer.Workspace = 7, 8
		e.insert(insertSession(want), insertToken(first), insertToken(second), insertSignIn(newer), insertSignIn(older), insertSignIn(signIn(3, 9, 5)))
		want.SignIns = []people.SignIn{older, newer}
		for n, token := range map[int64]people.Token{1: first, 2: second} {
			got, found := sessionOf(e, n)
			e.Expect(found).To(gomega.BeTrue())
			e.Expect(got.Token.Parent).To(gomega.HaveLen(len(token.Parent)))
			got.Token.Parent, want.Token = token.Parent, token
			e.Expect(got).To(gomega.Equal(want))
			e.insert(func(tx people.Tx) error {
				locked, found, err := tx.Sessions().LockSession(hashOf(n))
				e.Expect(found).To(gomega.BeTrue())
				locked.Token.Parent = token.Parent
				e.Expect(locked).To(gomega.Equal(want))
				return err
			})
		}
		e.insert(func(tx people.Tx) error {
			_, found, err := tx.Sessions().LockSession(hashOf(9))
			e.Expect(found).To(gomega.BeFalse())
			return err
		})

		changed := want
		changed.Anonymous, changed.Attempting, changed.ActiveSignIn, changed.UsedAt, changed.ExpiresAt = false, false, 1, after(time.Minute), after(48*time.Hour)
		changed.Address, changed.UserAgent = "never written", "never written"
		e.insert(func(tx people.Tx) error { return tx.Sessions().UpdateSession(changed) }, func(tx people.Tx) error { return tx.Sessions().SetActiveOrganization(1, 3, 4) })
		changed.Address, changed.UserAgent = want.Address, want.UserAgent
		changed.SignIns = []people.SignIn{older, newer}
		changed.SignIns[0].Organization, changed.SignIns[0].Workspace = 3, 4
		got, _ := sessionOf(e, 1)
		got.Token, changed.Token = people.Token{}, people.Token{}
		e.Expect(got).To(gomega.Equal(changed))
	}},
	{name: "ids, token hashes and a session's accounts are single", run: func(e *env) {
		e.begin()
		e.insert(insertSession(session(1)), insertToken(tokenOf(1, 1)), insertSignIn(signIn(1, 1, 1)))
		e.refuses(people.ErrDuplicate, insertSession(session(1)))
		e.refuses(people.ErrDuplicate, insertToken(tokenOf(1, 2)))
		e.refuses(people.ErrDuplicate, insertSignIn(signIn(2, 1, 1)))
		e.refuses(people.ErrDuplicate, insertSignIn(signIn(1, 2, 2)))
	}},
	{name: "a session ends with its tokens, sign-ins and attempts, and no other does", run: func(e *env) {
		e.begin()
		for n := range int64(2) {
			e.insert(insertSession(session(n+1)), insertToken(tokenOf(n+1, n+1)), insertSignIn(signIn(n+1, n+1, 1)),
				func(tx people.Tx) error { return tx.Attempts().InsertAttempt(attempt(n+1, n+1)) })
		}
		e.insert(func(tx people.Tx) error { return tx.Sessions().EndSession(1) })
		e.Expect(tokensLeft(e, 2)).To(gomega.Equal([]int64{2}))
		e.Expect(all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(1) })).To(gomega.Equal([]people.SignIn{signIn(2, 2, 1)}))
		_, found := one(e, func(tx people.Tx) (people.Attempt, bool, error) { return tx.Attempts().Attempt(1) })
		e.Expect(found).To(gomega.BeFalse())
		_, found = one(e, func(tx people.Tx) (people.Attempt, bool, error) { return tx.Attempts().Attempt(2) })
		e.Expect(found).To(gomega.BeTrue())
	}},
	{name: "ending a user's sessions leaves the other accounts of a session in it, one of them active", run: func(e *env) {
		e.begin()
		const active, idle = 2, 3 // session 1 has no other user
		for n := range int64(3) {
			s := session(n + 1)
			s.ActiveSignIn = 10 * (n + 1)
			e.insert(insertSession(s), insertToken(tokenOf(n+1, n+1)), insertSignIn(signIn(10*(n+1), n+1, 1)))
		}
		e.insert(insertSignIn(signIn(21, active, 2)), insertSignIn(signIn(22, active, 3)), insertSignIn(signIn(31, idle, 2)),
			func(tx people.Tx) error {
				s := session(idle)
				s.ActiveSignIn = 31
				return tx.Sessions().UpdateSession(s)
			})
		var ended []people.SignIn
		e.insert(func(tx people.Tx) (err error) { ended, err = tx.Sessions().EndSessionsOf(1); return err })
		e.Expect(ended).To(gomega.HaveLen(3))
		e.Expect(tokensLeft(e, 3)).To(gomega.Equal([]int64{active, idle}))
		got, _ := sessionOf(e, active)
		e.Expect(got.SignIns).To(gomega.Equal([]people.SignIn{signIn(21, active, 2), signIn(22, active, 3)}))
		e.Expect(got.ActiveSignIn).To(gomega.BeEquivalentTo(22))
		got, _ = sessionOf(e, idle)
		e.Expect(got.ActiveSignIn).To(gomega.BeEquivalentTo(31))
		e.Expect(all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(1) })).To(gomega.BeEmpty())
		e.insert(func(tx people.Tx) (err error) { ended, err = tx.Sessions().EndSessionsOf(1); return err })
		e.Expect(ended).To(gomega.BeEmpty())
	}},
	{name: "the anonymous sessions of an address that live are counted", run: func(e *env) {
		e.begin()
		for n := range int64(5) {
			s := session(n + 1)
			s.Anonymous = n != 0
			if n == 1 {
				s.Address = "192.0.2.2"
			}
			e.insert(insertSession(s))
		}
		pending := func(at time.Time) int {
			return all(e, func(tx people.Tx) (int, error) { return tx.Sessions().PendingFrom("192.0.2.1", at) })
		}
		e.Expect(pending(born)).To(gomega.Equal(3))
		e.Expect(pending(session(3).ExpiresAt)).To(gomega.Equal(2))
		e.Expect(pending(after(2 * time.Hour))).To(gomega.BeZero())
	}},
	{name: "the first use of a token is kept, and lets the parent die once, at the earlier time", run: func(e *env) {
		e.begin()
		child, sibling := tokenOf(2, 1), tokenOf(3, 1)
		child.Parent, sibling.Parent = hashOf(1), hashOf(1)
		e.insert(insertSession(session(1)), insertToken(tokenOf(1, 1)), insertToken(child), insertToken(sibling))
		use := func(t people.Token, now, dies time.Duration) {
			e.t.Helper()
			e.insert(func(tx people.Tx) error { return tx.Sessions().UseToken(t, after(now), after(dies)) })
		}
		times := func(n int64) [2]time.Time {
			s, _ := sessionOf(e, n)
			return [2]time.Time{s.Token.UsedAt, s.Token.DiesAt}
		}
		use(tokenOf(1, 1), time.Second, time.Hour)
		e.Expect(times(1)).To(gomega.Equal([2]time.Time{after(time.Second)}), "a first token has no parent")
		use(child, time.Minute, time.Minute+10*time.Second)
		use(child, 2*time.Minute, 3*time.Minute)
		e.Expect(times(2)).To(gomega.Equal([2]time.Time{after(time.Minute)}))
		e.Expect(times(1)).To(gomega.Equal([2]time.Time{after(time.Second), after(time.Minute + 10*time.Second)}))
		use(sibling, time.Minute+time.Second, time.Minute+5*time.Second)
		e.Expect(times(1)).To(gomega.Equal([2]time.Time{after(time.Second), after(time.Minute + 5*time.Second)}))
		e.Expect(times(2)).To(gomega.Equal([2]time.Time{after(time.Minute)}), "siblings never kill each other")
		e.insert(func(tx people.Tx) error { return tx.Sessions().ReplaceTokens(1, after(time.Hour)) })
		e.Expect(tokensLeft(e, 3)).To(gomega.HaveLen(3), "they are remembered")
		for n := range int64(3) {
			s, _ := sessionOf(e, n+1)
			e.Expect(s.Token.Replaced).To(gomega.BeTrue())
			e.Expect(s.Token.DiesAt).To(gomega.Equal(after(time.Hour)))
		}
		e.insert(func(tx people.Tx) error { return tx.Sessions().ReplaceTokens(1, after(2*time.Hour)) })
		e.Expect(times(1)[1]).To(gomega.Equal(after(time.Hour)), "a token is replaced once")
	}},
	{name: "tokens are trimmed: the long dead, then the dying, then the oldest, never the presented one", run: func(e *env) {
		e.begin()
		const none = 0
		for _, tc := range []struct {
			name string
			// dying maps the numbers of tokens, 1 to 8, to their times of death relative to now.
			dying     map[int64]time.Duration
			presented int64
			most      int
			left      []int64
		}{
			{"enough room", nil, 1, 8, []int64{1, 2, 3, 4, 5, 6, 7, 8}},
			{"the oldest go", nil, 8, 3, []int64{6, 7, 8}},
			{"the presented one stays, old as it is", nil, 1, 3, []int64{1, 7, 8}},
			{"the presented one alone", nil, 4, 1, []int64{4}},
			{"what dies already goes first, the oldest first", map[int64]time.Duration{7: time.Hour, 8: time.Hour}, 1, 7, []int64{1, 2, 3, 4, 5, 6, 8}},
			{"the presented one stays, dying as it is", map[int64]time.Duration{1: time.Hour, 8: time.Hour}, 1, 3, []int64{1, 6, 7}},
			{"what died long ago goes, what died just now stays and does not count", map[int64]time.Duration{1: -time.Hour, 2: -time.Second}, 3, 6, []int64{2, 3, 4, 5, 6, 7, 8}},
			{"the presented one stays even dead", map[int64]time.Duration{1: -time.Hour}, 1, 7, []int64{1, 2, 3, 4, 5, 6, 7, 8}},
			{"none presented", nil, none, 3, []int64{6, 7, 8}},
		} {
			e.insert(insertSession(session(1)), insertToken(tokenOf(100, 2)))
			for n := range int64(8) {
				t := tokenOf(n+1, 1)
				if dies, dying := tc.dying[n+1]; dying {
					t.DiesAt = after(time.Hour + dies)
				}
				e.insert(insertToken(t))
			}
			e.insert(func(tx people.Tx) error {
				return tx.Sessions().TrimTokens(1, hashOf(tc.presented), tc.most, after(time.Hour), after(time.Hour-time.Minute))
			})
			e.Expect(tokensLeft(e, 8)).To(gomega.Equal(tc.left), tc.name)
			e.insert(insertSession(session(2)))
			_, found := sessionOf(e, 100)
			e.Expect(found).To(gomega.BeTrue(), "a token of another session")
			e.insert(func(tx people.Tx) error { return tx.Sessions().EndSession(1) }, func(tx people.Tx) error { return tx.Sessions().EndSession(2) })
		}
	}},
	{name: "sign-ins of a user are listed the oldest first, and leave an organization alone", run: func(e *env) {
		e.begin()
		first, second, third := signIn(1, 1, 1), signIn(2, 2, 1), signIn(3, 1, 2)
		for _, g := range []*people.SignIn{&first, &second, &third} {
			g.Organization, g.Workspace = 7, 8
		}
		second.Organization = 9
		e.insert(insertSignIn(second), insertSignIn(first), insertSignIn(third), func(tx people.Tx) error { return tx.Sessions().LeaveOrganization(1, 7) })
		first.Organization, first.Workspace = 0, 0
		signInsOf := func(user int64) []people.SignIn {
			return all(e, func(tx people.Tx) ([]people.SignIn, error) { return tx.Sessions().SignInsOf(user) })
		}
		e.Expect(signInsOf(1)).To(gomega.Equal([]people.SignIn{first, second}))
		e.Expect(signInsOf(2)).To(gomega.Equal([]people.SignIn{third}))
		e.insert(func(tx people.Tx) error { return tx.Sessions().DeleteSignIn(1) })
		e.Expect(signInsOf(1)).To(gomega.Equal([]people.SignIn{second}))
	}},
	{name: "an attempt is read as written, is open until it is completed or expired, and completed once", run: func(e *env) {
		e.begin()
		first, second, other := attempt(1, 1), attempt(2, 1), attempt(3, 2)
		second.User, second.Kind = 5, people.AttemptSignIn
		for _, a := range []people.Attempt{second, first, other} {
			e.insert(func(tx people.Tx) error { return tx.Attempts().InsertAttempt(a) })
		}
		e.refuses(people.ErrDuplicate, func(tx people.Tx) error { return tx.Attempts().InsertAttempt(first) })
		got, _ := one(e, func(tx people.Tx) (people.Attempt, bool, error) { return tx.Attempts().Attempt(2) })
		e.Expect(got).To(gomega.Equal(second))
		open := func(at time.Time) []people.Attempt {
			return all(e, func(tx people.Tx) ([]people.Attempt, error) { return tx.Attempts().AttemptsOf(1, at) })
		}
		e.Expect(open(born)).To(gomega.Equal([]people.Attempt{first, second}))
		e.Expect(open(first.ExpiresAt)).To(gomega.Equal([]people.Attempt{second}))
		completions := make([]bool, 20)
		together(len(completions), func(i int) {
			err := e.store.Change(e.ctx, home, func(tx people.Tx) (err error) {
				completions[i], err = tx.Attempts().CompleteAttempt(1)
				return err
			})
			if err != nil {
				e.t.Error(err)
			}
		})
		e.Expect(slices.DeleteFunc(completions, func(did bool) bool { return !did })).To(gomega.HaveLen(1))
		got, _ = one(e, func(tx people.Tx) (people.Attempt, bool, error) { return tx.Attempts().Attempt(1) })
		e.Expect(got.Completed).To(gomega.BeTrue())
		e.Expect(got.PasswordHash).To(gomega.BeEmpty(), "a completed attempt keeps no password")
		e.Expect(open(born)).To(gomega.Equal([]people.Attempt{second}))
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Attempts().CompleteAttempt(99) })
		second.Email, second.User, second.FirstName, second.LastName = "else@example.com", 6, "Ada", "Lovelace"
		second.Proofs = assurance.Proofs{}.With(assurance.SSO, born)
		update := func(a people.Attempt) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Attempts().UpdateAttempt(a) }
		}
		e.reports(true, update(second))
		e.Expect(open(born)).To(gomega.Equal([]people.Attempt{second}))
		e.reports(false, update(first))
		e.insert(func(tx people.Tx) error { return tx.Attempts().ProveAttempt(2, second.Proofs, born) })
		e.reports(false, update(second))
	}},
}
