package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// ever is before every event. As linkedSince, it makes a roll-up keep the user and the address of every event.
var ever = time.UnixMicro(0)

// rollUpAll rolls up the waiting events of the home deployment, at most limit of a kind at once, and returns how many.
func (e *env) rollUpAll(linkedSince time.Time, limit int) (rolledUp int64) {
	e.t.Helper()
	waiting, err := e.store.Waiting(e.ctx)
	e.ok(err)
	for _, w := range waiting {
		for of := int64(0); w.Deployment == home && of < w.Events; {
			n, err := e.store.RollUpDay(e.ctx, w, linkedSince, limit)
			e.ok(err)
			e.Expect(n).To(gomega.BeNumerically(">", 0), "events wait, and none was rolled up")
			of += n
			rolledUp += n
		}
	}
	return rolledUp
}

// records records events of home's users in one transaction, and inserts the users that do not exist.
func (e *env) records(events ...people.Event) {
	e.t.Helper()
	e.change(home, func(tx people.Tx) error {
		for _, event := range events {
			_, there, err := tx.Users().User(event.User)
			if err != nil {
				return err
			}
			if !there {
				if err := insertUser(event.User)(tx); err != nil {
					return err
				}
			}
			if err := tx.Records().RecordEvent(event); err != nil {
				return err
			}
		}
		return nil
	})
}

func (e *env) summary(recent int) people.Summary {
	e.t.Helper()
	s, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(365 * day)}, people.Period{From: after(-365 * day), To: born}, recent)
	e.ok(err)
	return s
}

// signedInFrom lists the newest sign-ins of home: user, address and user agent.
func (e *env) signedInFrom(recent int) (list []string) {
	e.t.Helper()
	for _, r := range e.summary(recent).RecentSignIns {
		list = append(list, fmt.Sprintf("%d %s%s", r.User, r.Address, r.UserAgent))
	}
	return list
}

var rollUpStories = []story{
	{name: "the roll-up ends with any step size, and changes no summary", run: func(e *env) {
		e.begin()
		for n := range int64(20) {
			at := after(time.Duration(n/4) * 11 * time.Hour) // four events of each kind at the same time
			e.records(
				people.Event{ID: 100 + n, Kind: people.EventSignUp, At: at, User: n%7 + 1, Method: people.MethodPassword},
				people.Event{ID: 200 + n, Kind: people.EventSignIn, At: at, User: n%7 + 1, Method: people.MethodPassword, Address: "192.0.2.1"},
				people.Event{ID: 300 + n, Kind: people.EventOrganization, At: at, User: n%7 + 1},
			)
		}
		before := e.summary(10)
		e.Expect(e.rollUpAll(ever, 1)).To(gomega.BeEquivalentTo(60))
		e.Expect(e.summary(10)).To(gomega.Equal(before))
		e.Expect(e.rollUpAll(ever, 1)).To(gomega.BeZero())
		checks, err := e.store.VerifyRollUps(e.ctx, home, born, 1)
		e.ok(err)
		e.Expect(checks).To(gomega.HaveLen(1), "as many as were asked for")
		checks, err = e.store.VerifyRollUps(e.ctx, home, born.Truncate(day), 10)
		e.ok(err)
		for _, check := range checks {
			e.Expect(check.Fault).To(gomega.BeEmpty())
			e.Expect(check.Events).To(gomega.BeNumerically(">", 0))
		}
		e.Expect(checks).To(gomega.HaveLen(len(before.Days)))
	}},
	{name: "late events of a rolled-up day count at once, and are added to its roll-up", run: func(e *env) {
		e.begin()
		e.records(event(1, people.EventSignIn, 1), event(3, people.EventSignIn, 2))
		e.rollUpAll(ever, 100)
		e.records(event(2, people.EventSignIn, 2), event(4, people.EventSignIn, 3), event(5, people.EventSignUp, 3))
		for range 2 {
			s := e.summary(10)
			e.Expect(s.Period).To(gomega.Equal(people.Counts{SignInUsers: 3, SignUps: 1}))
			e.Expect(s.Days).To(gomega.Equal([]people.Day{{Start: born.Truncate(day), SignInUsers: 3, SignUps: 1}}))
			e.Expect(e.signedInFrom(10)).To(gomega.Equal([]string{"3 192.0.2.1agent", "2 192.0.2.1agent", "2 192.0.2.1agent", "1 192.0.2.1agent"}))
			e.rollUpAll(ever, 100)
		}
		waiting, err := e.store.Waiting(e.ctx)
		e.ok(err)
		e.Expect(waiting).To(gomega.BeEmpty())
	}},
	{name: "waiting events are listed by deployment and day, with the count of those rolled up", run: func(e *env) {
		e.begin()
		e.records(event(1, people.EventSignIn, 1), event(2, people.EventSignUp, 1))
		e.rollUpAll(ever, 100)
		late := event(3, people.EventWorkspace, 1)
		tomorrow := event(4, people.EventSignIn, 1)
		tomorrow.At = tomorrow.At.Add(day)
		e.records(late, tomorrow)
		e.change("apps/other", func(tx people.Tx) error { return tx.Records().RecordEvent(event(5, people.EventSignIn, 1)) })
		waiting, err := e.store.Waiting(e.ctx)
		e.ok(err)
		today := born.Truncate(day)
		e.Expect(waiting).To(gomega.Equal([]people.WaitingEvents{
			{Deployment: home, Day: today, Events: 1, RolledUp: 2}, {Deployment: home, Day: today.Add(day), Events: 1}, {Deployment: "apps/other", Day: today, Events: 1},
		}))
	}},
	{name: "addresses are kept for the retention; users of events are kept for the retention or among the newest hundred", run: func(e *env) {
		e.begin()
		var events []people.Event
		for n := range int64(people.KeepsNewest + 20) {
			events = append(events, event(n+1, people.EventSignIn, n%3+1))
		}
		e.records(events...)
		before := e.summary(1000)
		// The newest ten are within the retention.
		young := events[len(events)-10].At
		e.rollUpAll(young, 1000)
		list := e.signedInFrom(1000)
		e.Expect(list).To(gomega.HaveLen(people.KeepsNewest+10), "those within the retention, and a hundred of the others")
		for i, from := range list {
			e.Expect(from[2:] != "").To(gomega.Equal(i < 10), "%d: %s", i, from)
		}
		for e.unlink(events[len(events)-4].At, 7) > 0 {
		}
		list = e.signedInFrom(1000)
		e.Expect(list).To(gomega.HaveLen(people.KeepsNewest))
		for i, from := range list {
			e.Expect(from[2:] != "").To(gomega.Equal(i < 4), "%d: %s", i, from)
		}
		after := e.summary(1000)
		after.RecentSignIns, before.RecentSignIns = nil, nil
		e.Expect(after).To(gomega.Equal(before), "the counts stay")
	}},
	{name: "addresses of events that wait past the retention are forgotten too", run: func(e *env) {
		e.begin()
		e.records(event(1, people.EventSignIn, 1), event(2, people.EventSignIn, 2))
		e.Expect(e.unlink(event(2, "", 0).At, 100)).To(gomega.BeEquivalentTo(1))
		e.Expect(e.signedInFrom(10)).To(gomega.Equal([]string{"2 192.0.2.1agent", "1 "}))
		e.Expect(e.unlink(event(2, "", 0).At, 100)).To(gomega.BeZero())
	}},
	{name: "deployments with events that are linked to users are listed once each, rolled up or not", run: func(e *env) {
		e.begin()
		linked := func() []string {
			all, err := e.store.Linked(e.ctx)
			e.ok(err)
			return all
		}
		e.Expect(linked()).To(gomega.BeEmpty())
		for _, deployment := range []string{"apps/c", "apps/a", "apps/b"} {
			e.change(deployment, func(tx people.Tx) error { return furnish(tx, deployment) })
			e.change(deployment, func(tx people.Tx) error { return tx.Records().RecordEvent(event(2, people.EventSignIn, 1)) })
		}
		for _, deployment := range []string{"apps/c", "apps/a"} {
			_, err := e.store.RollUpDay(e.ctx, people.WaitingEvents{Deployment: deployment, Day: born.Truncate(day)}, ever, 10)
			e.ok(err)
		}
		e.Expect(linked()).To(gomega.Equal([]string{"apps/a", "apps/b", "apps/c"}))
	}},
	{name: "a deleted user is no longer listed and stays counted once, also by waiting events", run: func(e *env) {
		e.begin()
		e.records(event(1, people.EventSignIn, 1), event(2, people.EventSignIn, 2))
		e.rollUpAll(ever, 100)
		e.records(event(3, people.EventSignIn, 1))
		e.change(home, func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		for range 2 {
			e.Expect(e.summary(10).Period.SignInUsers).To(gomega.BeEquivalentTo(2))
			e.Expect(e.signedInFrom(10)).To(gomega.Equal([]string{"2 192.0.2.1agent"}))
			e.rollUpAll(ever, 100)
		}
	}},
	{name: "a deployment with roll-ups is erased completely, and another is not", run: func(e *env) {
		e.begin()
		e.records(event(1, people.EventSignIn, 1), event(2, people.EventSignUp, 2))
		e.change("apps/other", func(tx people.Tx) error { return furnish(tx, "other") })
		w := people.WaitingEvents{Deployment: "apps/other", Day: born.Truncate(day)}
		n, err := e.store.RollUpDay(e.ctx, w, ever, 10)
		e.ok(err)
		e.Expect(n).To(gomega.BeEquivalentTo(1))
		e.rollUpAll(ever, 100)
		for {
			n, err := e.store.Erase(e.ctx, e.term, home, 2)
			e.ok(err)
			if n == 0 {
				break
			}
		}
		e.Expect(e.summary(10)).To(gomega.Equal(people.Summary{}))
		other, err := e.store.Summarize(e.ctx, "apps/other", people.Period{From: born, To: after(day)}, people.Period{}, 10)
		e.ok(err)
		e.Expect(other.Period.SignInUsers).To(gomega.BeEquivalentTo(1))
		e.Expect(other.RecentSignIns).To(gomega.HaveLen(1))
		// After the erasure, new events of the deployment are counted from zero.
		e.records(event(9, people.EventSignIn, 9))
		e.rollUpAll(ever, 100)
		e.Expect(e.summary(0).Period.SignInUsers).To(gomega.BeEquivalentTo(1))
	}},
	{name: "with concurrent sign-ins and two roll-ups, totals never decrease and end exact", run: func(e *env) {
		e.begin()
		const writers, each = 2, 60
		var done atomic.Int32
		// ended reports whether all writers are done. It is called before a last pass.
		ended := func() bool { return done.Load() == writers }
		together(writers+3, func(i int) {
			switch {
			case i < writers:
				defer done.Add(1)
				recordsEach(e, int64(i), each)
			case i == writers:
				watchTotals(e, ended)
			default:
				for last := false; !last; {
					last = ended()
					rollUpOnce(e)
				}
			}
		})
		s := e.summary(0)
		e.Expect(s.Period.SignUps).To(gomega.BeEquivalentTo(writers * each))
		e.Expect(s.Period.SignInUsers).To(gomega.BeEquivalentTo(writers * each))
		checks, err := e.store.VerifyRollUps(e.ctx, home, ever, 100)
		e.ok(err)
		e.Expect(slices.IndexFunc(checks, func(c people.RollUpCheck) bool { return c.Fault != "" })).To(gomega.Equal(-1), "%+v", checks)
		e.Expect(checks).NotTo(gomega.BeEmpty())
	}},
}

// unlink deletes the links of events before a time, and returns how many it changed.
func (e *env) unlink(before time.Time, limit int) int64 {
	e.t.Helper()
	n, err := e.store.Unlink(e.ctx, home, before, limit)
	e.ok(err)
	return n
}

// recordsEach records a sign-up and a sign-in of each user, one after the other, over three days.
func recordsEach(e *env, writer int64, each int) {
	for n := range int64(each) {
		id := 1000*writer + n + 1
		err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
			up, in := event(id, people.EventSignUp, id), event(id, people.EventSignIn, id)
			up.At, in.At = after(time.Duration(n%3)*day), after(time.Duration((n+1)%3)*day)
			return errors.Join(insertUser(id)(tx), tx.Records().RecordEvent(up), tx.Records().RecordEvent(in))
		})
		if err != nil {
			e.t.Error(err)
		}
	}
}

// watchTotals reads summaries until everything is recorded, and expects that no total decreases.
func watchTotals(e *env, ended func() bool) {
	var last people.Counts
	for end := false; !end; {
		end = ended()
		s, err := e.store.Summarize(e.ctx, home, people.Period{From: born.Add(-day), To: after(10 * day)}, people.Period{}, 10)
		if err != nil {
			e.t.Error(err)
			return
		}
		if s.Period.SignInUsers != s.Period.SignUps || s.SignUps != s.Period.SignUps || s.Period.SignUps < last.SignUps {
			e.t.Errorf("%+v of %d, after %+v", s.Period, s.SignUps, last)
		}
		last = s.Period
	}
}

// rollUpOnce rolls up the events waiting at a moment. Another goroutine may do the same.
func rollUpOnce(e *env) {
	waiting, err := e.store.Waiting(e.ctx)
	for _, w := range waiting {
		if err == nil {
			_, err = e.store.RollUpDay(e.ctx, w, ever, 1000)
		}
	}
	if err != nil && !errors.Is(err, store.ErrUnavailable) {
		e.t.Error(err)
	}
}
