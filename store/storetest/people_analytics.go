package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/store/people"
)

const day = 24 * time.Hour

// signedIn records sign-ins of user 1 at times after a midnight, and returns the midnight.
func (e *env) signedIn(times ...time.Duration) time.Time {
	e.t.Helper()
	midnight := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	for i, after := range times {
		e.insert(func(tx people.Tx) error {
			return tx.Records().RecordEvent(people.Event{ID: int64(i + 1), Kind: people.EventSignIn, At: midnight.Add(after), User: 1, Method: people.MethodPassword})
		})
	}
	return midnight
}

// users returns the number of users that signed in during a period, and on each day of it that has events.
func (e *env) users(from time.Time, length time.Duration) (in int64, daily []int64) {
	e.t.Helper()
	summary, err := e.store.Summarize(e.ctx, home, people.Period{From: from, To: from.Add(length)}, people.Period{}, 0)
	e.ok(err)
	for _, d := range summary.Days {
		daily = append(daily, d.SignInUsers)
	}
	return summary.Period.SignInUsers, daily
}

var analyticsStories = []story{
	{name: "a user in, out and in again on a day is one of the day and one of the month", run: func(e *env) {
		e.begin()
		midnight := e.signedIn(9*time.Hour, 9*time.Hour+time.Minute, 17*time.Hour)
		month, daily := e.users(midnight, 30*day)
		e.Expect(month).To(gomega.BeEquivalentTo(1))
		e.Expect(daily).To(gomega.Equal([]int64{1}))
	}},
	{name: "a user in again after 24 hours is one of each day and one of the month", run: func(e *env) {
		e.begin()
		midnight := e.signedIn(9*time.Hour, 33*time.Hour)
		month, daily := e.users(midnight, 30*day)
		e.Expect(month).To(gomega.BeEquivalentTo(1))
		e.Expect(daily).To(gomega.Equal([]int64{1, 1}))
	}},
	{name: "a user in again after 32 days is one of each month", run: func(e *env) {
		e.begin()
		midnight := e.signedIn(9*time.Hour, 32*day+9*time.Hour)
		for _, from := range []time.Time{midnight, midnight.AddDate(0, 1, 0)} {
			month, daily := e.users(from, 30*day)
			e.Expect(month).To(gomega.BeEquivalentTo(1))
			e.Expect(daily).To(gomega.Equal([]int64{1}))
		}
		both, _ := e.users(midnight, 61*day)
		e.Expect(both).To(gomega.BeEquivalentTo(1))
	}},
	{name: "a deployment without events has zeros and empty lists", run: func(e *env) {
		e.begin()
		e.change("apps/other", func(tx people.Tx) error { return furnish(tx, "other") })
		summary, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(1100 * day)}, people.Period{From: after(-1100 * day), To: born}, 10)
		e.ok(err)
		e.Expect(summary).To(gomega.Equal(people.Summary{}))
	}},
	{name: "two periods within a day and month are counted separately, rolled up or not", run: func(e *env) {
		e.begin()
		midnight := born.Truncate(day)
		e.records(
			people.Event{ID: 1, Kind: people.EventSignUp, At: midnight.Add(time.Hour), User: 1}, people.Event{ID: 2, Kind: people.EventSignIn, At: midnight.Add(time.Hour), User: 1},
			people.Event{ID: 3, Kind: people.EventSignUp, At: midnight.Add(5 * time.Hour), User: 2}, people.Event{ID: 4, Kind: people.EventSignUp, At: midnight.Add(9 * time.Hour), User: 3},
			people.Event{ID: 5, Kind: people.EventSignIn, At: midnight.Add(9 * time.Hour), User: 1},
		)
		for range 2 {
			s, err := e.store.Summarize(e.ctx, home, people.Period{From: midnight.Add(8 * time.Hour), To: midnight.Add(10 * time.Hour)}, people.Period{From: midnight, To: midnight.Add(2 * time.Hour)}, 0)
			e.ok(err)
			e.Expect(s.Period).To(gomega.Equal(people.Counts{SignInUsers: 1, SignUps: 1}))
			e.Expect(s.Before).To(gomega.Equal(people.Counts{SignInUsers: 1, SignUps: 1}))
			e.rollUpAll(ever, 100)
		}
	}},
	{name: "a summary is of one moment, whatever is recorded meanwhile", run: func(e *env) {
		e.begin()
		var done atomic.Bool
		together(2, func(i int) {
			if i == 0 {
				defer done.Store(true)
				for n := range int64(60) {
					err := e.store.Change(e.ctx, home, func(tx people.Tx) error {
						if err := tx.Users().InsertUser(user(n + 1)); err != nil {
							return err
						}
						if err := tx.Records().RecordEvent(event(n+1, people.EventSignUp, n+1)); err != nil {
							return err
						}
						return tx.Records().RecordEvent(event(n+1, people.EventSignIn, n+1))
					})
					if err != nil {
						e.t.Error(err)
					}
				}
				return
			}
			for last := int64(0); ; {
				ended := done.Load()
				s, err := e.store.Summarize(e.ctx, home, people.Period{From: born, To: after(time.Hour)}, people.Period{From: born, To: after(time.Hour)}, 1000)
				if err != nil {
					e.t.Error(err)
					return
				}
				var daily people.Day
				for _, d := range s.Days {
					daily.SignInUsers, daily.SignUps = daily.SignInUsers+d.SignInUsers, daily.SignUps+d.SignUps
				}
				for name, n := range map[string]int64{
					"sign-ups": s.Period.SignUps, "sign-ins": s.Period.SignInUsers, "before": s.Before.SignUps, "daily sign-ups": daily.SignUps, "daily sign-ins": daily.SignInUsers,
					"recent sign-ups": int64(len(s.RecentSignUps)), "recent sign-ins": int64(len(s.RecentSignIns)),
				} {
					if n != s.SignUps || n < last {
						e.t.Errorf("%d %s, %d of all time, %d before", n, name, s.SignUps, last)
					}
				}
				if last = s.SignUps; ended {
					return
				}
			}
		})
	}},
	{name: "any summary equals counting the events one by one, whatever is rolled up", run: func(e *env) {
		e.begin()
		var runs atomic.Int64
		rapid.Check(e.t, func(rt *rapid.T) {
			run := runs.Add(1)
			histories := map[string]*history{}
			for _, name := range []string{"a", "b"} {
				histories[fmt.Sprintf("run%d/%s", run, name)] = newHistory(e, rt, fmt.Sprintf("run%d/%s", run, name))
			}
			for range 2 {
				for deployment, h := range histories {
					h.goOn(e, rt, deployment)
				}
				rollUpSome(e, rt, histories)
				from := drawTime(rt, "from")
				period := people.Period{From: from, To: drawEnd(rt, from)}
				before := people.Period{From: from.Add(from.Sub(period.To)), To: from}
				recent := rapid.IntRange(0, 12).Draw(rt, "recent")
				for deployment, h := range histories {
					got, err := e.store.Summarize(e.ctx, deployment, period, before, recent)
					if err != nil {
						rt.Fatal(err)
					}
					if want := h.summarize(period, before, recent); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
						rt.Fatalf("%s, %v:\n got %+v\nwant %+v", deployment, period, got, want)
					}
				}
			}
			for deployment := range histories {
				checks, err := e.store.VerifyRollUps(e.ctx, deployment, time.UnixMicro(0), 1000)
				if err != nil {
					rt.Fatal(err)
				}
				for _, check := range checks {
					if check.Fault != "" {
						rt.Fatalf("%s: %+v", deployment, check)
					}
				}
			}
		})
	}},
}

// anchors are times around which days, years and a month of 29 days begin.
var anchors = []time.Time{
	time.Date(2024, 2, 28, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC),
	time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1970, 1, 2, 0, 0, 0, 0, time.UTC),
	time.Date(9999, 12, 30, 0, 0, 0, 0, time.UTC),
}

func drawTime(rt *rapid.T, label string) time.Time {
	anchor := rapid.SampledFrom(anchors).Draw(rt, label)
	return anchor.Add(rapid.SampledFrom([]time.Duration{
		0, 0, -time.Microsecond, time.Microsecond, day - time.Microsecond, 12 * time.Hour, time.Duration(rapid.Int64Range(0, 86_400_000_000).Draw(rt, label+" within")) * time.Microsecond,
	}).Draw(rt, label+" after"))
}

// drawEnd draws the end of a period: after a microsecond, after up to three days, after the longest period, or at any
// time. The period may be empty.
func drawEnd(rt *rapid.T, from time.Time) time.Time {
	switch rapid.IntRange(0, 4).Draw(rt, "how long") {
	case 0:
		return from.Add(time.Microsecond)
	case 1:
		return from.Add(1100 * day)
	case 2:
		return from.Add(time.Duration(rapid.IntRange(0, 3).Draw(rt, "days")) * day)
	}
	return drawTime(rt, "to")
}

// history is a simple model of a deployment: its events, and the users that exist.
type history struct {
	events []people.Event
	users  map[int64]people.User
}

// newHistory begins a history with five users. The fifth is never inserted.
func newHistory(e *env, rt *rapid.T, deployment string) *history {
	h := &history{users: map[int64]people.User{}}
	err := e.store.Change(e.ctx, deployment, func(tx people.Tx) error {
		for n := range int64(4) {
			u, address := user(n + 1)
			u.FirstName = deployment
			h.users[u.ID] = u
			if err := tx.Users().InsertUser(u, address); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	return h
}

// goOn records events with random times, and sometimes deletes a user.
func (h *history) goOn(e *env, rt *rapid.T, deployment string) {
	var fresh []people.Event
	for range rapid.IntRange(0, 15).Draw(rt, "events") {
		n := len(h.events) + len(fresh)
		fresh = append(fresh, people.Event{
			ID: int64(n + 1), At: drawTime(rt, "at"), User: rapid.Int64Range(1, 5).Draw(rt, "user"), Method: rapid.SampledFrom([]string{people.MethodPassword, people.MethodEmailOTP}).Draw(rt, "method"),
			Kind:    rapid.SampledFrom([]string{people.EventSignIn, people.EventSignIn, people.EventSignUp, people.EventOrganization, people.EventWorkspace}).Draw(rt, "kind"),
			Address: fmt.Sprintf("192.0.2.%d", n), UserAgent: deployment,
		})
	}
	gone := rapid.Int64Range(1, 12).Draw(rt, "deleted")
	err := e.store.Change(e.ctx, deployment, func(tx people.Tx) error {
		for _, event := range fresh {
			if err := tx.Records().RecordEvent(event); err != nil {
				return err
			}
		}
		if h.users[gone].ID == 0 {
			return nil
		}
		return tx.Users().DeleteUser(gone)
	})
	if err != nil {
		rt.Fatal(err)
	}
	h.events = append(h.events, fresh...)
	delete(h.users, gone)
}

// rollUpSome rolls up some of the waiting days of the deployments, some of them in part.
func rollUpSome(e *env, rt *rapid.T, of map[string]*history) {
	waiting, err := e.store.Waiting(e.ctx)
	if err != nil {
		rt.Fatal(err)
	}
	waiting = slices.DeleteFunc(waiting, func(w people.WaitingEvents) bool { return of[w.Deployment] == nil })
	for range min(4, len(waiting)) {
		w := rapid.SampledFrom(waiting).Draw(rt, "rolled up")
		if _, err := e.store.RollUpDay(e.ctx, w, ever, rapid.IntRange(1, 6).Draw(rt, "limit")); err != nil {
			rt.Fatal(err)
		}
	}
}

func (h *history) summarize(period, before people.Period, recent int) people.Summary {
	s := people.Summary{
		Period: h.count(period), Before: h.count(before), RecentSignUps: h.recent(people.EventSignUp, recent), RecentSignIns: h.recent(people.EventSignIn, recent),
	}
	days := map[time.Time]bool{}
	for _, event := range h.events {
		if event.Kind == people.EventSignUp {
			s.SignUps++
		}
		if within(period, event.At) {
			days[event.At.Truncate(day)] = true
		}
	}
	for start := range days {
		part := people.Period{From: start, To: start.Add(day)}
		if part.From.Before(period.From) {
			part.From = period.From
		}
		if part.To.After(period.To) {
			part.To = period.To
		}
		c := h.count(part)
		s.Days = append(s.Days, people.Day{Start: start, SignInUsers: c.SignInUsers, SignUps: c.SignUps, Organizations: c.Organizations, Workspaces: c.Workspaces})
	}
	slices.SortFunc(s.Days, func(a, b people.Day) int { return a.Start.Compare(b.Start) })
	return s
}

func within(p people.Period, at time.Time) bool { return !at.Before(p.From) && at.Before(p.To) }

func (h *history) count(p people.Period) people.Counts {
	var c people.Counts
	signedIn := map[int64]bool{}
	for _, event := range h.events {
		if !within(p, event.At) {
			continue
		}
		switch event.Kind {
		case people.EventSignIn:
			signedIn[event.User] = true
		case people.EventSignUp:
			c.SignUps++
		case people.EventOrganization:
			c.Organizations++
		case people.EventWorkspace:
			c.Workspaces++
		}
	}
	c.SignInUsers = int64(len(signedIn))
	return c
}

func (h *history) recent(kind string, most int) []people.Recent {
	events := slices.Clone(h.events)
	slices.SortFunc(events, func(a, b people.Event) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.ID, a.ID)) })
	var recent []people.Recent
	for _, event := range events {
		u, there := h.users[event.User]
		if event.Kind != kind || !there || len(recent) == most {
			continue
		}
		recent = append(recent, people.Recent{
			User: u.ID, Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, At: event.At, Method: event.Method, Address: event.Address, UserAgent: event.UserAgent,
		})
	}
	return recent
}
