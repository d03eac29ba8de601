package storetest

import (
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func insertChallenge(c people.Challenge) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.InsertChallenge(c) }
}

func liveChallenge(e *env, purpose string, subject int64) (people.Challenge, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.Challenge, bool, error) { return tx.LiveChallenge(purpose, subject) })
}

// tellers counts how many of callers at once are told that they did.
func (e *env) tellers(callers int, write func(tx people.Tx) (bool, error)) int {
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
	{name: "a challenge is read as written and replaces the earlier ones of its purpose, user and recipient alone", run: func(e *env) {
		e.begin()
		first := challenge(1, 1)
		e.insert(insertChallenge(first))
		got, _ := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got).To(gomega.Equal(first))
		otherUser, otherPurpose, otherRecipient := challenge(2, 2), challenge(3, 3), challenge(4, 4)
		otherUser.User, otherUser.Recipient = 2, first.Recipient
		otherPurpose.Purpose, otherPurpose.Recipient = people.PurposeSignIn, first.Recipient
		e.insert(insertChallenge(otherUser), insertChallenge(otherPurpose), insertChallenge(otherRecipient))
		got, _ = liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got).To(gomega.Equal(first))

		again := challenge(5, 5)
		again.Recipient = first.Recipient
		e.insert(insertChallenge(again))
		_, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeFalse())
		for subject, purpose := range map[int64]string{2: people.PurposePhone, 3: people.PurposeSignIn, 4: people.PurposePhone, 5: people.PurposePhone} {
			_, found = liveChallenge(e, purpose, subject)
			e.Expect(found).To(gomega.BeTrue(), "subject %d", subject)
		}
		e.tells(false, func(tx people.Tx) (bool, error) { return tx.CountTry(1, 5, born) })
		e.tells(false, func(tx people.Tx) (bool, error) { return tx.ConsumeChallenge(1, born) })
		e.refuses(people.ErrDuplicate, insertChallenge(again))
		_, found = liveChallenge(e, people.PurposePhone, 5)
		e.Expect(found).To(gomega.BeTrue(), "a refused challenge replaces nothing")
	}},
	{name: "tries are counted to the bound and no further, however many count at once", run: func(e *env) {
		e.begin()
		e.insert(insertChallenge(challenge(1, 1)))
		e.Expect(e.tellers(100, func(tx people.Tx) (bool, error) { return tx.CountTry(1, 5, born) })).To(gomega.Equal(5))
		got, _ := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(got.Tries).To(gomega.Equal(5))
	}},
	{name: "a try counts on what lives alone", run: func(e *env) {
		e.begin()
		e.insert(insertChallenge(challenge(1, 1)))
		e.tells(true, func(tx people.Tx) (bool, error) {
			return tx.CountTry(1, 5, challenge(1, 1).ExpiresAt.Add(-time.Microsecond))
		})
		e.tells(false, func(tx people.Tx) (bool, error) { return tx.CountTry(1, 5, challenge(1, 1).ExpiresAt) })
		e.tells(false, func(tx people.Tx) (bool, error) { return tx.ConsumeChallenge(1, challenge(1, 1).ExpiresAt) })
		e.tells(false, func(tx people.Tx) (bool, error) { return tx.CountTry(2, 5, born) })
		got, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeTrue(), "it may have expired")
		e.Expect(got.Tries).To(gomega.Equal(1))
		e.tells(true, func(tx people.Tx) (bool, error) { return tx.ConsumeChallenge(1, born) })
		e.tells(false, func(tx people.Tx) (bool, error) { return tx.CountTry(1, 5, born) })
	}},
	{name: "a challenge is used once, however many use it at once", run: func(e *env) {
		e.begin()
		e.insert(insertChallenge(challenge(1, 1)))
		e.Expect(e.tellers(100, func(tx people.Tx) (bool, error) { return tx.ConsumeChallenge(1, born) })).To(gomega.Equal(1))
		_, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeFalse())
	}},
	{name: "challenges of a subject are voided", run: func(e *env) {
		e.begin()
		other := challenge(3, 1)
		other.Purpose = people.PurposeSignIn
		e.insert(insertChallenge(challenge(1, 1)), insertChallenge(challenge(2, 2)), insertChallenge(other),
			func(tx people.Tx) error { return tx.VoidChallenges(people.PurposePhone, 1) })
		_, found := liveChallenge(e, people.PurposePhone, 1)
		e.Expect(found).To(gomega.BeFalse())
		_, found = liveChallenge(e, people.PurposePhone, 2)
		e.Expect(found).To(gomega.BeTrue())
		_, found = liveChallenge(e, people.PurposeSignIn, 1)
		e.Expect(found).To(gomega.BeTrue())
	}},
	{name: "sends are counted by recipient, by address and by region, also when replaced", run: func(e *env) {
		e.begin()
		at := func(n int64) time.Time { return challenge(n, 1).CreatedAt }
		for n, adapt := range map[int64]func(*people.Challenge){
			1: func(*people.Challenge) {}, 2: func(*people.Challenge) {},
			3: func(c *people.Challenge) { c.User = 2 }, 4: func(c *people.Challenge) { c.Address = "192.0.2.2" },
			5: func(c *people.Challenge) { c.Region = "DE" }, 6: func(c *people.Challenge) { c.Sent = false },
			7: func(c *people.Challenge) {
				c.Channel, c.Recipient, c.Purpose = people.ChannelMail, "x@example.com", people.PurposeSignIn
			},
		} {
			c := challenge(n, 1)
			adapt(&c)
			e.insert(insertChallenge(c))
		}
		sendsTo := func(since time.Time) []time.Time {
			return all(e, func(tx people.Tx) ([]time.Time, error) {
				return tx.SendsTo(people.PurposePhone, 1, challenge(1, 1).Recipient, since)
			})
		}
		e.Expect(sendsTo(born)).To(gomega.Equal([]time.Time{at(1), at(2), at(4), at(5), at(6)}))
		e.Expect(sendsTo(at(2))).To(gomega.Equal([]time.Time{at(4), at(5), at(6)}))
		e.Expect(all(e, func(tx people.Tx) ([]time.Time, error) { return tx.SendsFrom(people.ChannelSMS, "192.0.2.1", at(1)) })).
			To(gomega.Equal([]time.Time{at(2), at(3), at(5), at(6)}))
		e.Expect(all(e, func(tx people.Tx) ([]int64, error) {
			sent, toRegion, err := tx.SendsOn(people.ChannelSMS, "US", at(2))
			return []int64{sent, toRegion}, err
		})).To(gomega.Equal([]int64{4, 3}))
	}},
	{name: "a failure counter begins at none and is kept", run: func(e *env) {
		e.begin()
		failure := func(scope, subject string) (f people.Failure) {
			e.insert(func(tx people.Tx) (err error) { f, err = tx.LockFailure(scope, subject, born); return err })
			return f
		}
		e.Expect(failure("password", "a")).To(gomega.Equal(people.Failure{Scope: "password", Subject: "a", UpdatedAt: born}))
		want := people.Failure{Scope: "password", Subject: "a", Count: 11, Until: after(time.Minute), UpdatedAt: after(time.Second)}
		e.insert(func(tx people.Tx) error { return tx.PutFailure(want) })
		e.Expect(failure("password", "a")).To(gomega.Equal(want))
		e.Expect(failure("password", "b").Count).To(gomega.BeZero())
		e.Expect(failure("phone", "a").Count).To(gomega.BeZero())
	}},
}
