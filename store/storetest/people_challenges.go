package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func insertChallenge(c people.Challenge) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Challenges().InsertChallenge(c) }
}

func liveChallenge(e *env, purpose string, subject int64) (people.Challenge, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.Challenge, bool, error) {
		return tx.Challenges().LiveChallenge(purpose, subject)
	})
}

// winners counts how many of several concurrent callers get true.
func (e *env) winners(callers int, write func(tx people.Tx) (bool, error)) int {
	e.t.Helper()
	var told atomic.Int64
	together(callers, func(int) {
		var did bool
		err := e.store.Change(e.ctx, home, func(tx people.Tx) (err error) {
			did, err = write(tx)
			return err
		})
		if err != nil {
			e.t.Error(err)
		} else if did {
			told.Add(1)
		}
	})
	return int(told.Load())
}

var challengeStories = []story{
	{name: "a challenge is read as written and replaces the earlier ones of its purpose and subject alone", run: func(e *env) {
		e.begin()
		first := challenge(1, 1)
		e.insert(insertChallenge(first))
		got, _ := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got).To(gomega.Equal(first))
		otherSubject, otherPurpose := challenge(2, 2), challenge(3, 1)
		otherSubject.Recipient = first.Recipient
		otherPurpose.Purpose = people.PurposeSignIn
		e.insert(insertChallenge(otherSubject), insertChallenge(otherPurpose))
		got, _ = liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got).To(gomega.Equal(first), "a challenge of another subject with the same recipient replaces nothing")

		again := challenge(5, 1)
		e.insert(insertChallenge(again))
		got, _ = liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got).To(gomega.Equal(again))
		for subject, purpose := range map[int64]string{1: people.PurposeSignIn, 2: people.PurposePhone} {
			_, found := liveChallenge(e, purpose, subject)
			e.Expect(found).To(gomega.BeTrue(), "subject %d", subject)
		}
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Challenges().CountTry(1, 5, born) })
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Challenges().ConsumeChallenge(1, born) })
		e.refuses(people.ErrDuplicate, insertChallenge(again))
		got, _ = liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got).To(gomega.Equal(again), "a refused challenge replaces nothing")
	}},
	{name: "tries are counted to the bound and no further, however many count at once", run: func(e *env) {
		e.begin()
		e.insert(insertChallenge(challenge(1, 1)))
		e.Expect(e.winners(100, func(tx people.Tx) (bool, error) { return tx.Challenges().CountTry(1, 5, born) })).To(gomega.Equal(5))
		got, _ := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got.Tries).To(gomega.Equal(5))
	}},
	{name: "a try counts on what lives alone", run: func(e *env) {
		e.begin()
		e.insert(insertChallenge(challenge(1, 1)))
		e.reports(true, func(tx people.Tx) (bool, error) {
			return tx.Challenges().CountTry(1, 5, challenge(1, 1).ExpiresAt.Add(-time.Microsecond))
		})
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Challenges().CountTry(1, 5, challenge(1, 1).ExpiresAt) })
		e.reports(false, func(tx people.Tx) (bool, error) {
			return tx.Challenges().ConsumeChallenge(1, challenge(1, 1).ExpiresAt)
		})
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Challenges().CountTry(2, 5, born) })
		got, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeTrue(), "it may have expired")
		e.Expect(got.Tries).To(gomega.Equal(1))
		e.reports(true, func(tx people.Tx) (bool, error) { return tx.Challenges().ConsumeChallenge(1, born) })
		e.reports(false, func(tx people.Tx) (bool, error) { return tx.Challenges().CountTry(1, 5, born) })
	}},
	{name: "a challenge is used once, however many use it at once", run: func(e *env) {
		e.begin()
		e.insert(insertChallenge(challenge(1, 1)))
		e.Expect(e.winners(100, func(tx people.Tx) (bool, error) { return tx.Challenges().ConsumeChallenge(1, born) })).To(gomega.Equal(1))
		_, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "challenges of a subject are voided", run: func(e *env) {
		e.begin()
		other := challenge(3, 1)
		other.Purpose = people.PurposeSignIn
		e.insert(insertChallenge(challenge(1, 1)), insertChallenge(challenge(2, 2)), insertChallenge(other),
			func(tx people.Tx) error { return tx.Challenges().VoidChallenges(people.PurposePhone, 1) })
		_, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeFalse())
		_, found = liveChallenge(e, people.PurposePhone, 2)
		e.Expect(found).To(gomega.BeTrue())
		_, found = liveChallenge(e, people.PurposeSignIn, 1)
		e.Expect(found).To(gomega.BeTrue())
	}},
	{name: "sends are found by what a filter names, and counted by country and by who asked", run: func(e *env) {
		e.begin()
		at := func(n int64) time.Time { return send(n).At }
		for n, adapt := range map[int64]func(*people.Send){
			1: func(*people.Send) {}, 2: func(*people.Send) {},
			3: func(s *people.Send) { s.User, s.Known = 2, true }, 4: func(s *people.Send) { s.Client, s.Recipient = "192.0.2.2", "+12025550002" },
			5: func(s *people.Send) { s.Region, s.WideNetwork = "DE", "198.51.100.0/24" }, 6: func(s *people.Send) { s.Sent = false },
			7: func(s *people.Send) {
				s.Channel, s.Recipient, s.Purpose, s.User = people.ChannelMail, "x@example.com", people.PurposeSignIn, 0
			},
		} {
			s := send(n)
			adapt(&s)
			e.insert(func(tx people.Tx) error { return tx.Limits().RecordSend(s) })
		}
		for what, tc := range map[string]struct {
			filter people.SendFilter
			since  time.Time
			want   []time.Time
		}{
			"all of a channel": {people.SendFilter{}, born, []time.Time{at(1), at(2), at(3), at(4), at(5), at(6)}},
			"since":            {people.SendFilter{}, at(4), []time.Time{at(5), at(6)}},
			"a user":           {people.SendFilter{User: 2}, born, []time.Time{at(3)}},
			"a recipient":      {people.SendFilter{Recipient: "+12025550002"}, born, []time.Time{at(4)}},
			"a client":         {people.SendFilter{Client: "192.0.2.1"}, born, []time.Time{at(1), at(2), at(3), at(5), at(6)}},
			"a neighbourhood":  {people.SendFilter{WideNetwork: "198.51.100.0/24"}, born, []time.Time{at(5)}},
			"unknown":          {people.SendFilter{Unknown: true}, at(1), []time.Time{at(2), at(4), at(5), at(6)}},
			"a purpose":        {people.SendFilter{Purpose: people.PurposeSignIn}, born, nil},
			"several":          {people.SendFilter{User: 1, Client: "192.0.2.1", Purpose: people.PurposePhone}, at(2), []time.Time{at(5), at(6)}},
		} {
			tc.filter.Channel = people.ChannelSMS
			got := all(e, func(tx people.Tx) ([]time.Time, error) { return tx.Limits().Sends(tc.filter, tc.since) })
			e.Expect(got).To(gomega.Equal(tc.want), what)
		}
		e.Expect(all(e, func(tx people.Tx) (people.SendCounts, error) {
			return tx.Limits().SendsOn(people.ChannelSMS, "US", at(2))
		})).
			To(gomega.Equal(people.SendCounts{All: 4, ToRegion: 3, Unknown: 3}))
	}},
	{name: "a counter counts until its end, and begins anew then", run: func(e *env) {
		e.begin()
		count := func(subject string, now time.Time) (c people.Counter) {
			e.insert(func(tx people.Tx) (err error) {
				c, err = tx.Limits().Count("mail", subject, now, now.Add(time.Hour))
				return err
			})
			return c
		}
		counted := func(now time.Time) people.Counter {
			return all(e, func(tx people.Tx) (people.Counter, error) { return tx.Limits().Counted("mail", "a", now) })
		}
		e.Expect(counted(born)).To(gomega.BeZero())
		e.Expect(count("a", born)).To(gomega.Equal(people.Counter{Count: 1, Ends: after(time.Hour)}))
		e.Expect(count("a", after(time.Minute))).To(gomega.Equal(people.Counter{Count: 2, Ends: after(time.Hour)}))
		e.Expect(count("b", born).Count).To(gomega.Equal(1))
		for range 3 {
			e.insert(func(tx people.Tx) error { return tx.Limits().Uncount("mail", "b", born) })
		}
		e.Expect(count("b", born).Count).To(gomega.Equal(1), "a counter never goes below 0")
		e.Expect(counted(after(59 * time.Minute))).To(gomega.Equal(people.Counter{Count: 2, Ends: after(time.Hour)}))
		e.Expect(counted(after(time.Hour))).To(gomega.BeZero())
		e.Expect(count("a", after(time.Hour))).To(gomega.Equal(people.Counter{Count: 1, Ends: after(2 * time.Hour)}))
	}},
	{name: "a client is known to the account that signed in from it, for a time", run: func(e *env) {
		e.begin()
		knows := func(user int64, client string, since time.Time) bool {
			return all(e, func(tx people.Tx) (bool, error) { return tx.Limits().KnownClient(user, client, since) })
		}
		e.insert(func(tx people.Tx) error { return tx.Limits().RememberClient(1, "192.0.2.1", born) })
		e.Expect(knows(1, "192.0.2.1", born.Add(-time.Hour))).To(gomega.BeTrue())
		e.Expect(knows(1, "192.0.2.1", born)).To(gomega.BeFalse())
		e.Expect(knows(1, "192.0.2.2", born.Add(-time.Hour))).To(gomega.BeFalse())
		e.Expect(knows(2, "192.0.2.1", born.Add(-time.Hour))).To(gomega.BeFalse())
		e.insert(func(tx people.Tx) error { return tx.Limits().RememberClient(1, "192.0.2.1", after(time.Hour)) })
		e.Expect(knows(1, "192.0.2.1", born)).To(gomega.BeTrue())
	}},
	{name: "a name is locked until the transaction ends, in its deployment alone", run: func(e *env) {
		e.begin()
		var mu sync.Mutex
		sum := map[string]int{}
		read := func(deployment string) int { mu.Lock(); defer mu.Unlock(); return sum[deployment] }
		write := func(deployment string, n int) { mu.Lock(); defer mu.Unlock(); sum[deployment] = n }
		var all sync.WaitGroup
		for range 8 {
			for _, deployment := range []string{home, "apps/other"} {
				all.Go(func() {
					e.ok(e.store.Change(e.ctx, deployment, func(tx people.Tx) error {
						if err := tx.Limits().Lock("name"); err != nil {
							return err
						}
						before := read(deployment)
						if _, _, err := tx.Users().User(1); err != nil { // without Lock, others would run here
							return err
						}
						write(deployment, before+1)
						return nil
					}))
				})
			}
		}
		all.Wait()
		e.Expect(sum).To(gomega.Equal(map[string]int{home: 8, "apps/other": 8}))
	}},
	{name: "a failure counter begins at none and is kept", run: func(e *env) {
		e.begin()
		failure := func(scope, subject string) (f people.Failure) {
			e.insert(func(tx people.Tx) (err error) { f, err = tx.Limits().LockFailure(scope, subject, born); return err })
			return f
		}
		e.Expect(failure("password", "a")).To(gomega.Equal(people.Failure{Scope: "password", Subject: "a", UpdatedAt: born}))
		want := people.Failure{Scope: "password", Subject: "a", Count: 11, Until: after(time.Minute), UpdatedAt: after(time.Second)}
		e.insert(func(tx people.Tx) error { return tx.Limits().PutFailure(want) })
		e.Expect(failure("password", "a")).To(gomega.Equal(want))
		e.Expect(failure("password", "b").Count).To(gomega.BeZero())
		e.Expect(failure("phone", "a").Count).To(gomega.BeZero())
	}},
}
