package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store/people"
)

func insertMessage(m people.Message) func(tx people.Tx) error {
	return func(tx people.Tx) error { return tx.Challenges().InsertMessage(m) }
}

func (e *env) claim(now time.Time, limit int) []people.Message {
	e.t.Helper()
	claimed, err := e.store.LeaseMessages(e.ctx, now, time.Minute, people.Claim{Limit: limit})
	e.ok(err)
	return claimed
}

func (e *env) settle(want bool, m people.Message, to people.Outcome) {
	e.t.Helper()
	settled, err := e.store.AckMessage(e.ctx, m, to)
	e.ok(err)
	e.Expect(settled).To(gomega.Equal(want))
}

var outboxStories = []story{
	{name: "messages are claimed the oldest first, once a lease, with what they are for", run: func(e *env) {
		e.begin()
		for _, n := range []int64{3, 1, 2} {
			e.insert(insertMessage(message(n)))
		}
		e.change("apps/other", insertMessage(message(4)))
		e.Expect(e.claim(after(-time.Hour), 10)).To(gomega.BeEmpty(), "none is due")
		claimed := e.claim(after(time.Minute), 2)
		e.Expect(claimed).To(gomega.HaveLen(2))
		for i, m := range claimed {
			e.Expect(m.Lease).NotTo(gomega.BeEmpty())
			want := message(int64(i + 1))
			want.Deployment, want.Tries, want.Lease = home, 1, m.Lease
			e.Expect(m).To(gomega.Equal(want))
		}
		rest := e.claim(after(time.Minute), 10)
		e.Expect(rest).To(gomega.HaveLen(2))
		e.Expect(rest[1].Deployment).To(gomega.Equal("apps/other"))
		e.Expect(e.claim(after(time.Minute), 10)).To(gomega.BeEmpty(), "all are leased")
		e.refuses(people.ErrDuplicate, insertMessage(message(1)))
	}},
	{name: "a claim leaves out the deployments and the sign-out messages that there is no room for", run: func(e *env) {
		e.begin()
		logout := message(2)
		logout.Channel = people.ChannelLogout
		e.insert(insertMessage(message(1)), insertMessage(logout))
		e.change("apps/other", insertMessage(message(3)))
		for _, tt := range []struct {
			claim people.Claim
			want  []int64
		}{
			{people.Claim{Limit: 10, Except: []string{home, "apps/other", "apps/third"}}, nil},
			{people.Claim{Limit: 10, Except: []string{"apps/other"}, ExceptLogouts: []string{"apps/third", home}}, []int64{1}},
			{people.Claim{Limit: 10, Except: []string{"apps/other"}, ExceptLogouts: []string{"apps/third"}}, []int64{2}},
			{people.Claim{Limit: 10, NoLogouts: true, ExceptLogouts: []string{"apps/third"}}, []int64{3}},
		} {
			claimed, err := e.store.LeaseMessages(e.ctx, after(time.Minute), time.Minute, tt.claim)
			e.ok(err)
			var ids []int64
			for _, m := range claimed {
				ids = append(ids, m.ID)
			}
			e.Expect(ids).To(gomega.Equal(tt.want), "%+v", tt.claim)
		}
	}},
	{name: "a lease that ended is claimed again, and its holder settles nothing any more", run: func(e *env) {
		e.begin()
		e.insert(insertMessage(message(1)))
		lost := e.claim(after(time.Minute), 1)[0]
		e.Expect(e.claim(after(2*time.Minute-time.Microsecond), 1)).To(gomega.BeEmpty())
		again := e.claim(after(2*time.Minute), 1)
		e.Expect(again).To(gomega.HaveLen(1))
		e.Expect(again[0].Tries).To(gomega.Equal(2))
		e.Expect(again[0].Lease).NotTo(gomega.Equal(lost.Lease))
		for _, state := range []string{people.MessageSent, people.MessagePending} {
			e.settle(false, lost, people.Outcome{State: state, NextAt: after(time.Hour)})
		}
		e.settle(true, again[0], people.Outcome{State: people.MessageSent, ProviderID: "SM1"})
		e.settle(false, again[0], people.Outcome{State: people.MessageFailed, Reason: "twice"})
		e.Expect(e.claim(after(24*time.Hour), 10)).To(gomega.BeEmpty())
	}},
	{name: "a message that stays pending is due at its time, and keeps its body until it is settled", run: func(e *env) {
		e.begin()
		for n, state := range []string{people.MessageSent, people.MessageFailed, people.MessageExpired, people.MessageVoid} {
			e.insert(insertMessage(message(1)))
			now := after(time.Duration(n) * time.Hour)
			first := e.claim(now.Add(time.Minute), 1)[0]
			e.settle(true, first, people.Outcome{State: people.MessagePending, NextAt: now.Add(30 * time.Minute), Reason: "throttled"})
			e.settle(false, first, people.Outcome{State: state})
			e.Expect(e.claim(now.Add(30*time.Minute-time.Microsecond), 1)).To(gomega.BeEmpty())
			second := e.claim(now.Add(30*time.Minute), 1)
			e.Expect(second).To(gomega.HaveLen(1))
			e.Expect(second[0].Sealed).To(gomega.Equal(message(1).Sealed))
			e.Expect(second[0].Tries).To(gomega.Equal(2))
			e.settle(true, second[0], people.Outcome{State: state})
			e.Expect(e.claim(now.Add(24*time.Hour), 1)).To(gomega.BeEmpty(), state)
			_, err := e.store.Erase(e.ctx, e.term, home, 10)
			e.ok(err)
		}
	}},
	{name: "a message reports whether its challenge is over", run: func(e *env) {
		e.begin()
		for n := range int64(4) {
			m := message(n + 1)
			m.Challenge = n + 1
			e.insert(insertChallenge(challenge(n+1, n+1)), insertMessage(m))
		}
		// A challenge of another deployment with the same id does not affect the message.
		e.change("apps/other", insertChallenge(challenge(1, 1)))
		e.change("apps/other", func(tx people.Tx) error { return tx.Challenges().VoidChallenges(people.PurposePhone, 1) })
		e.insert(func(tx people.Tx) error { return tx.Challenges().VoidChallenges(people.PurposePhone, 2) }, insertMessage(message(5)))
		e.reports(true, func(tx people.Tx) (bool, error) { return tx.Challenges().ConsumeChallenge(3, born) })
		void := map[int64]bool{}
		for _, m := range e.claim(after(time.Minute), 10) {
			void[m.ID] = m.Void
		}
		e.Expect(void).To(gomega.Equal(map[int64]bool{1: false, 2: true, 3: true, 4: false, 5: false}))
	}},
	{name: "no message is handed to two of four dispatchers, and none is left", run: func(e *env) {
		e.begin()
		dispatch(e, 1)
	}},
	{name: "no message is handed to two dispatchers of two processes, and none is left", pair: true, run: func(e *env) {
		e.begin()
		dispatch(e, 2)
	}},
}

// dispatch lets four dispatchers lease and acknowledge messages concurrently, through one handle or two.
func dispatch(e *env, handles int) {
	const messages, dispatchers, limit = 200, 4, 7
	for _, deployment := range []string{home, "apps/other"} {
		e.change(deployment, func(tx people.Tx) error {
			for n := range int64(messages / 2) {
				if err := tx.Challenges().InsertMessage(message(n + 1)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	stores := []people.Messages{e.store}
	if handles == 2 {
		stores = append(stores, e.suite.second(e.t, e.store))
	}
	var mu sync.Mutex
	handed := map[string]int{}
	together(dispatchers, func(i int) {
		on := stores[i%len(stores)]
		for {
			claimed, err := on.LeaseMessages(e.ctx, after(time.Hour), time.Hour, people.Claim{Limit: limit})
			if err != nil || len(claimed) > limit {
				e.t.Errorf("%d messages, %v", len(claimed), err)
				return
			}
			mu.Lock()
			for _, m := range claimed {
				handed[fmt.Sprint(m.Deployment, " ", m.ID)]++
			}
			whole := len(handed) == messages
			mu.Unlock()
			for _, m := range claimed {
				if settled, err := on.AckMessage(e.ctx, m, people.Outcome{State: people.MessageSent}); err != nil || !settled {
					e.t.Errorf("settled %v, %v", settled, err)
				}
			}
			// A dispatcher may get fewer messages than are due, or none, while others lease theirs.
			if whole || e.ctx.Err() != nil {
				return
			}
		}
	})
	e.Expect(handed).To(gomega.HaveLen(messages))
	for name, times := range handed {
		e.Expect(times).To(gomega.Equal(1), name)
	}
}
