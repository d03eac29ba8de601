package storetest

import (
	"errors"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// logged returns an event of a subject.
func logged(subject int64) people.LoggedEvent {
	return people.LoggedEvent{
		At: after(time.Duration(subject) * time.Minute), Type: "membership.created", Version: 1, Actor: "user:1", SubjectType: "membership", SubjectID: ids.Format(subject),
		Organization: 2, Workspace: 3, Data: `{"user_id":"1"}`,
	}
}

// logEvents records events without numbers.
func logEvents(subjects ...int64) func(people.Tx) error {
	return func(tx people.Tx) error {
		list := make([]people.LoggedEvent, len(subjects))
		for i, subject := range subjects {
			list[i] = logged(subject)
		}
		return tx.Records().LogEvents(list)
	}
}

// numberEvents numbers all events of a deployment.
func numberEvents(tx people.Tx) error { _, err := tx.EventLog().NumberEvents(100); return err }

// furnishEvents writes a numbered event, and one without a number.
func furnishEvents(tx people.Tx, mark string) error {
	e := logged(1)
	e.Actor = mark
	return errors.Join(tx.Records().LogEvents([]people.LoggedEvent{e}), numberEvents(tx), logEvents(2)(tx))
}

// eventReads are the part of reads for events.
var eventReads = map[string]func(tx people.Tx) (any, error){
	"EventsAfter": func(tx people.Tx) (any, error) { return value(tx.EventLog().EventsAfter(0, 10)) },
	"LoggedEvent": func(tx people.Tx) (any, error) {
		return optional(tx.EventLog().LoggedEvent(ids.From(logged(1).At) | 1))
	},
	"LoggedEvents": func(tx people.Tx) (any, error) {
		return value(tx.EventLog().LoggedEvents([]int64{9, ids.From(logged(1).At) | 1}))
	},
	"EventBounds": func(tx people.Tx) (any, error) { return value(tx.EventLog().EventBounds()) },
	"EventPeople": func(tx people.Tx) (any, error) {
		ids := []int64{1, 2}
		return value(tx.EventLog().EventPeople(people.EventSubjects{Users: ids, Emails: ids, Phones: ids, SignIns: ids, Invitations: ids}))
	},
	"EventNumbered": func(tx people.Tx) (any, error) {
		id, at, found, err := tx.EventLog().EventNumbered(1)
		return []any{id, at, found}, err
	},
}

// eventWrites are the part of writes for events.
var eventWrites = map[string]func(tx people.Tx) error{
	"LogEvents":    logEvents(9),
	"NumberEvents": func(tx people.Tx) error { return errors.Join(logEvents(9)(tx), numberEvents(tx)) },
	"ForgetEvents": func(tx people.Tx) error {
		_, err := tx.EventLog().ForgetEvents(after(time.Hour), 1)
		return errors.Join(logEvents(9)(tx), numberEvents(tx), err)
	},
}

// numbersOf returns the subjects of the numbered events of a deployment, after it checked that their numbers are dense
// and their ids distinct.
func (e *env) numbersOf(deployment string) (subjects []int64) {
	e.t.Helper()
	e.view(deployment, func(tx people.Tx) error {
		bounds, err := tx.EventLog().EventBounds()
		if err != nil {
			return err
		}
		list, err := tx.EventLog().EventsAfter(0, 10_000)
		known := map[int64]bool{}
		for i, one := range list {
			e.Expect(one.Sequence).To(gomega.Equal(bounds.First + int64(i)))
			e.Expect(known[one.ID]).To(gomega.BeFalse(), "two events have one id")
			known[one.ID] = true
			subject, err := ids.Parse(one.SubjectID)
			e.ok(err)
			subjects = append(subjects, subject)
		}
		if len(list) > 0 {
			e.Expect(bounds.Last).To(gomega.Equal(list[len(list)-1].Sequence))
		}
		return err
	})
	return subjects
}

var eventStories = []story{
	{name: "events get dense numbers in the order in which they were recorded, and read as they were written", run: func(e *env) {
		e.begin()
		e.change(home, logEvents(5, 3))
		e.change(home, logEvents(4))
		e.change("apps/other", logEvents(1))
		e.Expect(e.numbersOf(home)).To(gomega.BeEmpty())
		waiting, err := e.store.UnnumberedEvents(e.ctx)
		e.ok(err)
		e.Expect(waiting).To(gomega.ConsistOf(people.Unnumbered{Deployment: home, Oldest: logged(5).At}, people.Unnumbered{Deployment: "apps/other", Oldest: logged(1).At}))
		for _, want := range []int{2, 1, 0} {
			e.change(home, func(tx people.Tx) error {
				numbered, err := tx.EventLog().NumberEvents(2)
				e.Expect(numbered).To(gomega.HaveLen(want))
				if want == 2 {
					first := logged(5)
					e.Expect(numbered[0]).To(gomega.Equal(people.NumberedEvent{Type: first.Type, At: first.At}))
				}
				return err
			})
		}
		e.Expect(e.numbersOf(home)).To(gomega.Equal([]int64{5, 3, 4}))
		waiting, err = e.store.UnnumberedEvents(e.ctx)
		e.ok(err)
		e.Expect(waiting).To(gomega.ConsistOf(people.Unnumbered{Deployment: "apps/other", Oldest: logged(1).At}))
		want := logged(3)
		want.Sequence, want.ID = 2, ids.From(want.At)|2
		found, has := one(e, func(tx people.Tx) (people.LoggedEvent, bool, error) { return tx.EventLog().LoggedEvent(want.ID) })
		e.Expect(has).To(gomega.BeTrue())
		e.Expect(found).To(gomega.Equal(want))
		_, has = one(e, func(tx people.Tx) (people.LoggedEvent, bool, error) {
			return tx.EventLog().LoggedEvent(ids.From(logged(1).At) | 1)
		})
		e.Expect(has).To(gomega.BeFalse(), "of another deployment")
		e.view(home, func(tx people.Tx) error {
			id, at, found, err := tx.EventLog().EventNumbered(3)
			e.Expect([]any{id, at, found}).To(gomega.Equal([]any{ids.From(logged(4).At) | 3, logged(4).At, true}))
			return err
		})
	}},
	{name: "a rolled back transaction leaves no event", run: func(e *env) {
		e.begin()
		undone := errors.New("undone")
		err := e.store.Change(e.ctx, home, func(tx people.Tx) error { return errors.Join(logEvents(1)(tx), undone) })
		e.Expect(err).To(gomega.MatchError(undone))
		e.change(home, logEvents(2))
		e.change(home, numberEvents)
		e.Expect(e.numbersOf(home)).To(gomega.Equal([]int64{2}))
	}},
	{name: "events that were recorded, and events that got numbers, send signals", run: func(e *env) {
		e.begin()
		signals := e.store.EventSignals(e.ctx)
		e.change(home, logEvents(1))
		e.Expect(signals).To(gomega.Receive(), "recorded")
		e.change(home, numberEvents)
		e.Expect(signals).To(gomega.Receive(), "numbered")
		e.ok(e.store.Single(e.ctx, home, logEvents(2)))
		e.Expect(signals).To(gomega.Receive(), "recorded by one statement")
	}},
	{name: "another process hears of numbers", pair: true, run: func(e *env) {
		e.begin()
		other := e.suite.second(e.t, e.store)
		signals, feed, keys := other.EventSignals(e.ctx), other.Signals(e.ctx), other.KeySignals(e.ctx)
		for _, connected := range []<-chan struct{}{signals, feed, keys} {
			e.Eventually(connected).Should(gomega.Receive(), "connected")
		}
		e.change(home, logEvents(1))
		e.change(home, numberEvents)
		e.Eventually(signals).Should(gomega.Receive(), "the commit")
		e.Expect(feed).NotTo(gomega.Receive(), "the feed of configuration")
		e.Expect(keys).NotTo(gomega.Receive(), "the feed of keys")
	}},
	{name: "events of one moment have distinct ids", run: func(e *env) {
		e.begin()
		same := make([]people.LoggedEvent, 5000)
		for i := range same {
			same[i] = logged(int64(i + 1))
			same[i].At = born
		}
		e.change(home, func(tx people.Tx) error { return tx.Records().LogEvents(same) })
		e.change(home, func(tx people.Tx) error { _, err := tx.EventLog().NumberEvents(5000); return err })
		e.Expect(e.numbersOf(home)).To(gomega.HaveLen(5000))
	}},
	{name: "old events are forgotten in batches, the oldest first, and the newest one stays so that numbers go on", run: func(e *env) {
		e.begin()
		e.change(home, logEvents(1, 2, 3, 4, 5))
		e.change(home, numberEvents)
		before := logged(4).At
		aged := func(at time.Time) []string {
			found, err := e.store.AgedEvents(e.ctx, at)
			e.ok(err)
			return found
		}
		forget := func(at time.Time, limit int) (n int64) {
			e.change(home, func(tx people.Tx) (err error) { n, err = tx.EventLog().ForgetEvents(at, limit); return err })
			return n
		}
		e.Expect(aged(logged(1).At)).To(gomega.BeEmpty())
		e.Expect(aged(before)).To(gomega.Equal([]string{home}))
		e.Expect(forget(before, 2)).To(gomega.BeEquivalentTo(2))
		e.Expect(forget(before, 2)).To(gomega.BeEquivalentTo(1))
		e.Expect(forget(before, 2)).To(gomega.BeZero())
		e.Expect(aged(before)).To(gomega.BeEmpty())
		e.Expect(e.numbersOf(home)).To(gomega.Equal([]int64{4, 5}))
		e.Expect(forget(after(24*time.Hour), 10)).To(gomega.BeEquivalentTo(1))
		e.Expect(aged(after(24 * time.Hour))).To(gomega.BeEmpty())
		e.change(home, logEvents(6))
		e.change(home, numberEvents)
		e.view(home, func(tx people.Tx) error {
			bounds, err := tx.EventLog().EventBounds()
			e.Expect(bounds).To(gomega.Equal(people.EventBounds{First: 5, Last: 6}))
			return err
		})
	}},
	{name: "what upkeep ends has events of its deployment, recorded with the end", run: func(e *env) {
		e.begin()
		open, revoked := invitation(5, 1), invitation(6, 1)
		revoked.RevokedAt = revoked.CreatedAt
		over := signIn(7, 8, 1)
		over.Upstream = people.Upstream{Connection: 1, EndsAt: after(time.Minute)}
		client := oauthClient(9)
		client.UsedAt = born
		e.insert(insertSession(session(1)), insertSignIn(signIn(3, 1, 1)), insertSignIn(signIn(4, 1, 2)), insertApproval(approval(1)),
			func(tx people.Tx) error {
				return errors.Join(tx.Organizations().InsertInvitation(open), tx.Organizations().InsertInvitation(revoked), tx.OAuthClients().InsertOAuthClient(client))
			})
		e.change("apps/other", func(tx people.Tx) error {
			s := session(8)
			s.ExpiresAt = after(10_000 * time.Hour)
			return errors.Join(tx.Sessions().InsertSession(s), tx.Sessions().InsertSignIn(over))
		})
		keep := people.Retention{Audit: 10_000 * time.Hour, ToolCalls: 10_000 * time.Hour, Events: expiry{}}
		for range 2 { // the second time, nothing is left to end
			_, err := e.store.Purge(e.ctx, after(people.IdleClientFor+time.Hour), keep, 10)
			e.ok(err)
		}
		e.change(home, numberEvents)
		e.change("apps/other", numberEvents)
		e.Expect(e.numbersOf(home)).To(gomega.ConsistOf(int64(3), int64(4), open.ID, int64(10), int64(9)))
		e.Expect(e.numbersOf("apps/other")).To(gomega.Equal([]int64{7}))
	}},
	{name: "rows that upkeep cannot end do not stop the deletion of other rows, of any deployment", run: func(e *env) {
		e.begin()
		open := invitation(5, 1)
		e.insert(insertSession(session(1)), insertSignIn(signIn(3, 1, 1)), func(tx people.Tx) error { return tx.Organizations().InsertInvitation(open) })
		e.change("apps/other", func(tx people.Tx) error {
			s := session(8)
			s.ExpiresAt = session(1).ExpiresAt.Add(time.Hour)
			return errors.Join(tx.Sessions().InsertSession(s), tx.Sessions().InsertSignIn(signIn(7, 8, 1)))
		})
		now := after(people.IdleClientFor + time.Hour)
		keep := people.Retention{Audit: 10_000 * time.Hour, ToolCalls: 10_000 * time.Hour, Events: brokenExpiry{signIn: 3}}
		_, err := e.store.Purge(e.ctx, now, keep, 10)
		e.Expect(err).To(gomega.MatchError(errNoEvent))
		e.change(home, numberEvents)
		e.change("apps/other", numberEvents)
		e.Expect(e.numbersOf(home)).To(gomega.Equal([]int64{open.ID}))
		e.Expect(e.numbersOf("apps/other")).To(gomega.Equal([]int64{7}))
		keep.Events = expiry{}
		_, err = e.store.Purge(e.ctx, now, keep, 10)
		e.ok(err)
		e.change(home, numberEvents)
		e.Expect(e.numbersOf(home)).To(gomega.Equal([]int64{open.ID, 3}))
	}},
	{name: "an API key has one event of its expiry, unless it ended before, and another one after it was prolonged", run: func(e *env) {
		e.begin()
		keys := map[int64]people.APIKey{}
		for id := int64(1); id <= 6; id++ {
			k := apiKey(id, "key-"+ids.Format(id))
			k.ExpiresAt, k.RetiresAt, k.RevokedAt = after(time.Hour), time.Time{}, time.Time{}
			keys[id] = k
		}
		alter := func(id int64, change func(k *people.APIKey)) {
			k := keys[id]
			change(&k)
			keys[id] = k
		}
		alter(2, func(k *people.APIKey) { k.RevokedAt = after(time.Minute) })
		alter(3, func(k *people.APIKey) { k.RetiresAt = after(time.Minute) })
		alter(4, func(k *people.APIKey) { k.ExpiresAt = after(3 * time.Hour) })
		alter(5, func(k *people.APIKey) { k.ExpiresAt = time.Time{} })
		alter(6, func(k *people.APIKey) { k.RevokedAt = after(2 * time.Hour) }) // after its end
		for _, k := range keys {
			e.insert(func(tx people.Tx) error { return tx.APIKeys().InsertAPIKey(k) })
		}
		expired := func(at time.Time) []int64 {
			for range 2 {
				_, err := e.store.Purge(e.ctx, at, people.Retention{Audit: 10_000 * time.Hour, ToolCalls: 10_000 * time.Hour, Events: expiry{}}, 10)
				e.ok(err)
			}
			e.change(home, numberEvents)
			return e.numbersOf(home)
		}
		e.Expect(expired(after(59 * time.Minute))).To(gomega.BeEmpty())
		e.Expect(expired(after(time.Hour))).To(gomega.ConsistOf(int64(1), int64(6)))
		e.change(home, func(tx people.Tx) error {
			alter(1, func(k *people.APIKey) { k.Name = "another name" })
			return tx.APIKeys().UpdateAPIKey(keys[1])
		})
		e.Expect(expired(after(2 * time.Hour))).To(gomega.HaveLen(2))
		e.change(home, func(tx people.Tx) error {
			alter(1, func(k *people.APIKey) { k.ExpiresAt = after(4 * time.Hour) })
			return tx.APIKeys().UpdateAPIKey(keys[1])
		})
		e.Expect(expired(after(5 * time.Hour))).To(gomega.ConsistOf(int64(1), int64(6), int64(4), int64(1)))
	}},
}

// expiry makes events of which the subject is the row that ended.
type expiry struct{}

func (expiry) SignIn(g people.SignIn) (people.LoggedEvent, error)         { return logged(g.ID), nil }
func (expiry) Invitation(i people.Invitation) (people.LoggedEvent, error) { return logged(i.ID), nil }
func (expiry) Approval(a people.Approval) (people.LoggedEvent, error) {
	return logged(a.Agent + 9), nil
}
func (expiry) Client(people.OAuthClient) (people.LoggedEvent, error) { return logged(9), nil }
func (expiry) Key(k people.APIKey) (people.LoggedEvent, error)       { return logged(k.ID), nil }

// errNoEvent is the error of brokenExpiry.
var errNoEvent = errors.New("the event cannot be made")

// brokenExpiry cannot make the event of one sign-in.
type brokenExpiry struct {
	expiry
	signIn int64
}

func (b brokenExpiry) SignIn(g people.SignIn) (people.LoggedEvent, error) {
	if g.ID == b.signIn {
		return people.LoggedEvent{}, errNoEvent
	}
	return b.expiry.SignIn(g)
}
