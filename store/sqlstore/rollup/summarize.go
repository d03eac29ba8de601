package rollup

import (
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// Days are the analytics of a store: waiting events, and days and months that are rolled up. Their methods may be
// called from any number of goroutines.
type Days struct {
	db *db.DB
	// sets are the sets of users that summaries read last. Parts are the months whose partition exists or was refused.
	sets  setCache
	Parts sync.Map
}

// NewDays returns the analytics of a database.
func NewDays(on *db.DB) *Days { return &Days{db: on} }

// Summarize implements people.Analytics. It counts days and months that lie completely in a period by their sets of
// users, the days at its edges by their logs, and waiting events by their rows. It reads all of it in one snapshot, in
// which an event is either rolled up or waiting.
func (s *Days) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	var summary people.Summary
	err := s.db.Snapshot(ctx, func(on db.Session) error {
		if err := on.ByKeys(ctx); err != nil {
			return err
		}
		tx := on.ReadsOf(ctx, deployment)
		count := &summing{tx: tx, sets: &s.sets, days: map[int64]*dayRow{}, late: map[int64]*lateDay{}, logs: map[int64][]byte{}}
		err := count.run(period, before, &summary)
		if err == nil {
			summary.RecentSignUps, summary.RecentSignIns, err = recents(tx, recent)
		}
		return err
	})
	if err != nil {
		return people.Summary{}, err
	}
	return summary, nil
}

// span is a period in microseconds since 1970.
type span struct{ from, to int64 }

func spanOf(p people.Period) span {
	return span{max(p.From.UnixMicro(), 0), max(p.To.UnixMicro(), 0)}
}

func (s span) has(at int64) bool { return at >= s.from && at < s.to }

// days returns the first day that the span touches, and the day after the last one.
func (s span) days() (first, behind int64) {
	if s.from >= s.to {
		return 0, 0
	}
	return s.from / MicrosADay, (s.to-1)/MicrosADay + 1
}

// covers reports whether all of a day is in the span.
func (s span) covers(day int64) bool { return s.from <= day*MicrosADay && s.to >= (day+1)*MicrosADay }

// summing is one run of Summarize.
type summing struct {
	tx    *db.Tx
	sets  *setCache
	spans []span
	// days are the rolled-up days that a span touches, late the waiting events of each day, and months the rolled-up
	// months.
	days   map[int64]*dayRow
	late   map[int64]*lateDay
	months []MonthRow
	// reading is held while the transaction is read: the spans are counted concurrently, and one transaction runs one
	// query at a time.
	reading sync.Mutex
	// logs are the logs of the days at the edges: a day can be the end of one span and the beginning of the other.
	logs map[int64][]byte
	// unnumbered holds numbers for users that have none yet. These numbers are higher than all assigned ones; next is
	// the next one.
	unnumbered map[int64]uint32
	next       int64
}

// lateDay is the waiting events of a day, with times of day. For a day that no span cuts, it keeps only the users of
// sign-ins.
type lateDay struct {
	signIns []daylog.SignIn
	users   *daylog.Users
	rest    daylog.Day
}

func (c *summing) run(period, before people.Period, to *people.Summary) error {
	now, then := spanOf(period), spanOf(before)
	c.spans = []span{now, then}
	if err := c.readTotals(to); err != nil {
		return err
	}
	for _, days := range apart(now, then) {
		if err := c.readDays(days.from, days.to); err != nil {
			return err
		}
	}
	var both errgroup.Group
	both.Go(func() (err error) {
		to.Period, to.Days, err = c.count(now, true)
		return err
	})
	both.Go(func() (err error) {
		to.Before, _, err = c.count(then, false)
		return err
	})
	return both.Wait()
}

// daySet returns the users of a rolled-up day, which must not be changed.
func (c *summing) daySet(d dayRow) (*daylog.Users, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.sets.day(c.tx, d)
}

// monthSet returns the users of a rolled-up month, which must not be changed.
func (c *summing) monthSet(m MonthRow) (*daylog.Users, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.sets.month(c.tx, m)
}

// log returns the log of a day. Each log is read from the store once.
func (c *summing) log(d dayRow) (log []byte, err error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	log, read := c.logs[d.day]
	if !read {
		if log, err = readDayLog(c.tx, d); err == nil {
			c.logs[d.day] = log
		}
	}
	return log, err
}

// apart returns the days that two spans touch, as disjoint ranges from the first day to the day after the last one.
func apart(a, b span) []span {
	var days []span
	for _, s := range []span{a, b} {
		if first, behind := s.days(); first < behind {
			days = append(days, span{first, behind})
		}
	}
	if len(days) < 2 || max(days[0].from, days[1].from) > min(days[0].to, days[1].to) {
		return days
	}
	return []span{{min(days[0].from, days[1].from), max(days[0].to, days[1].to)}}
}

// readTotals reads how many user numbers are assigned, and how many sign-ups there were in all time.
func (c *summing) readTotals(to *people.Summary) error {
	var waiting int64
	totals, err := totalsOf(c.tx, "")
	if err != nil {
		return err
	}
	c.next = totals.ordinals
	_, err = c.tx.Get([]any{&waiting}, `SELECT COUNT(*) FROM events WHERE deployment = :deployment AND kind = '`+people.EventSignUp+`'`)
	to.SignUps = totals.signUps + waiting
	return err
}

// readDays reads the rows of rolled-up days and of their months, and the waiting events.
func (c *summing) readDays(first, behind int64) error {
	days, err := DayRows(c.tx, first, behind)
	if err != nil {
		return err
	}
	for i := range days {
		c.days[days[i].day] = &days[i]
	}
	months, err := monthRows(c.tx, MonthOf(first), MonthOf(behind-1)+1)
	if err != nil {
		return err
	}
	c.months = append(c.months, months...)
	return c.readLate(first*MicrosADay, behind*MicrosADay)
}

// readLate reads the waiting events of whole days: the number of users of a day needs all of them.
func (c *summing) readLate(from, to int64) error {
	return c.tx.Each(func(row *sql.Rows) error {
		var kind string
		var at, user, ordinal int64
		if err := row.Scan(&kind, &at, &user, &ordinal); err != nil {
			return err
		}
		c.addLate(kind, at, c.number(kind, user, ordinal))
		return nil
	}, `SELECT e.kind, e.at, e.user_id, `+ordinalOf+` FROM events e
		WHERE e.deployment = :deployment AND e.kind IN (`+kindList+`) AND e.at >= ? AND e.at < ?`, from, to)
}

func (c *summing) addLate(kind string, at int64, user uint32) {
	day := at / MicrosADay
	late := c.late[day]
	if late == nil {
		late = &lateDay{users: daylog.NewUsers()}
		c.late[day] = late
	}
	at %= MicrosADay
	switch {
	case kind != people.EventSignIn:
		addEvent(&late.rest, kind, at, 0)
	case c.isEdge(day):
		late.signIns = append(late.signIns, daylog.SignIn{At: at, User: user})
	default:
		late.users.Add(user)
	}
}

// isEdge reports whether a span touches a day but does not cover it.
func (c *summing) isEdge(day int64) bool {
	for _, s := range c.spans {
		if first, behind := s.days(); day >= first && day < behind && !s.covers(day) {
			return true
		}
	}
	return false
}

// number returns the number of a user that signed in. A user without a number gets one for this run only.
func (c *summing) number(kind string, user, ordinal int64) uint32 {
	if ordinal >= 0 || kind != people.EventSignIn {
		return uint32(max(ordinal, 0))
	}
	number, known := c.unnumbered[user]
	if !known {
		if c.unnumbered == nil {
			c.unnumbered = map[int64]uint32{}
		}
		number = uint32(c.next)
		c.next++
		c.unnumbered[user] = number
	}
	return number
}

// count counts a span, and each of its days if daily is set.
func (c *summing) count(s span, daily bool) (people.Counts, []people.Day, error) {
	var counts people.Counts
	var days []people.Day
	var users daylog.Uniting
	whole, err := c.addMonths(s, &users)
	if err != nil {
		return counts, nil, err
	}
	for _, day := range c.touched(s) {
		one, err := c.countDay(s, day, &users, whole[MonthOf(day)], daily)
		if err != nil {
			return counts, nil, err
		}
		counts.SignUps += one.SignUps
		counts.Organizations += one.Organizations
		counts.Workspaces += one.Workspaces
		if daily && one != (people.Day{}) { // the part of a day at an edge may have no event
			one.Start = time.UnixMicro(day * MicrosADay).UTC()
			days = append(days, one)
		}
	}
	counts.SignInUsers = int64(users.Users().GetCardinality())
	return counts, days, nil
}

// touched returns the days with events that a span touches, in order.
func (c *summing) touched(s span) []int64 {
	first, behind := s.days()
	var days []int64
	for day := range c.days {
		days = append(days, day)
	}
	for day := range c.late {
		if c.days[day] == nil {
			days = append(days, day)
		}
	}
	days = slices.DeleteFunc(days, func(day int64) bool { return day < first || day >= behind })
	slices.Sort(days)
	return days
}

// addMonths adds the users of the months that lie completely in a span, and returns these months.
func (c *summing) addMonths(s span, users *daylog.Uniting) (map[int64]bool, error) {
	whole := map[int64]bool{}
	for _, m := range c.months {
		if first := FirstDayOf(m.Month); s.from > first*MicrosADay || s.to < FirstDayOf(m.Month+1)*MicrosADay {
			continue
		}
		set, err := c.monthSet(m)
		if err != nil {
			return nil, err
		}
		users.Add(set)
		whole[m.Month] = true
	}
	return whole, nil
}

// countDay counts the part of a day that is in a span and adds its users. If in is true, the rolled-up users are
// already added with their month.
func (c *summing) countDay(s span, day int64, users *daylog.Uniting, in, daily bool) (people.Day, error) {
	var one people.Day
	rolledUp, late := c.days[day], c.late[day]
	here := daylog.NewUsers() // users of the rolled-up sign-ins
	switch {
	case rolledUp == nil:
	case s.covers(day):
		one = people.Day{SignInUsers: rolledUp.users, SignUps: rolledUp.signUps, Organizations: rolledUp.organizations, Workspaces: rolledUp.workspaces}
		if !in || daily && late != nil {
			set, err := c.daySet(*rolledUp)
			if err != nil {
				return one, err
			}
			here = set
		}
	default:
		log, err := c.log(*rolledUp)
		if err != nil {
			return one, err
		}
		var seen daylog.Gathering
		counts, err := daylog.Between(log, s.from-day*MicrosADay, s.to-day*MicrosADay, seen.Add)
		if err != nil {
			return one, err
		}
		here = seen.Users()
		one = people.Day{SignInUsers: int64(here.GetCardinality()), SignUps: counts.SignUps, Organizations: counts.Organizations, Workspaces: counts.Workspaces}
	}
	if !in {
		users.Add(here)
	}
	if late != nil {
		late.count(s, day, &one, here, users)
	}
	return one, nil
}

// count adds the waiting events in the part of a day that is in a span.
func (l *lateDay) count(s span, day int64, to *people.Day, rolledUp *daylog.Users, users *daylog.Uniting) {
	var at daylog.Gathering
	for _, signIn := range l.signIns {
		if s.has(day*MicrosADay + signIn.At) {
			at.Add(signIn.User)
		}
	}
	fresh := at.Users()
	fresh.Or(l.users) // empty at an edge
	users.Add(fresh)
	to.SignInUsers += int64(fresh.GetCardinality() - fresh.AndCardinality(rolledUp))
	for _, of := range []struct {
		times []int64
		to    *int64
	}{{l.rest.SignUps, &to.SignUps}, {l.rest.Organizations, &to.Organizations}, {l.rest.Workspaces, &to.Workspaces}} {
		for _, at := range of.times {
			if s.has(day*MicrosADay + at) {
				*of.to++
			}
		}
	}
}
