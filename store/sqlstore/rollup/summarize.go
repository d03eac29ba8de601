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

// Days are the analytics of a store: events that wait, and days and months that are rolled up. Their methods may be called from any number
// of goroutines.
type Days struct {
	db *db.DB
	// sets are the users that summaries read last, parts the months of events that have a partition.
	sets  setCache
	Parts sync.Map
}

// NewDays returns the analytics of a database.
func NewDays(on *db.DB) *Days { return &Days{db: on} }

// Summarize implements people.Analytics: days and months that lie in a period whole by their sets of users, the days at its edges by
// their logs, and what is not sealed yet by its rows. All of it is read in one snapshot, in which an event is sealed or waits.
func (s *Days) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	var summary people.Summary
	err := s.db.Snapshot(ctx, func(on db.Session) error {
		if err := on.ByKeys(ctx); err != nil {
			return err
		}
		tx := on.ReadsOf(ctx, deployment)
		count := &summing{tx: tx, sets: &s.sets, days: map[int64]*sealedDay{}, late: map[int64]*lateDay{}, logs: map[int64][]byte{}}
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

// days returns the first day that is touched, and the one behind the last.
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
	// days are the sealed days that a span touches, late what is not sealed of a day, and months the sealed months.
	days   map[int64]*sealedDay
	late   map[int64]*lateDay
	months []SealedMonth
	// reading is held by whoever reads: the spans are counted side by side, and one transaction reads one thing at a time.
	reading sync.Mutex
	// logs are of the days at the edges: one can be the end of a span and the beginning of the other.
	logs map[int64][]byte
	// strangers are numbers for users who have none yet, beyond all that were given.
	strangers map[int64]uint32
	next      int64
}

// lateDay is the events of a day that are not sealed, with times of day. Of a day that lies in the spans whole, the users are enough.
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

// daySet returns the users of a sealed day, to be read only.
func (c *summing) daySet(d sealedDay) (*daylog.Users, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.sets.day(c.tx, d)
}

// monthSet returns the users of a sealed month, to be read only.
func (c *summing) monthSet(m SealedMonth) (*daylog.Users, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	return c.sets.month(c.tx, m)
}

// log returns the log of a day, which is read once.
func (c *summing) log(d sealedDay) (log []byte, err error) {
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

// apart returns the days that two spans touch, from the first to the one behind the last, none of them twice.
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

// readTotals reads how many numbers users have, and how many sign-ups there were ever.
func (c *summing) readTotals(to *people.Summary) error {
	var waiting int64
	totals, err := sealedTotals(c.tx, "")
	if err != nil {
		return err
	}
	c.next = totals.ordinals
	_, err = c.tx.Get([]any{&waiting}, `SELECT COUNT(*) FROM events WHERE deployment = :deployment AND kind = '`+people.EventSignUp+`'`)
	to.SignUps = totals.signUps + waiting
	return err
}

// readDays reads the heads of sealed days and of their months, and the events that wait.
func (c *summing) readDays(first, behind int64) error {
	days, err := SealedDays(c.tx, first, behind)
	if err != nil {
		return err
	}
	for i := range days {
		c.days[days[i].day] = &days[i]
	}
	months, err := sealedMonths(c.tx, MonthOf(first), MonthOf(behind-1)+1)
	if err != nil {
		return err
	}
	c.months = append(c.months, months...)
	return c.readLate(first*MicrosADay, behind*MicrosADay)
}

// readLate reads the events that wait, of whole days: a day's number of users needs them all.
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

// isEdge reports whether a span touches a day and does not cover it.
func (c *summing) isEdge(day int64) bool {
	for _, s := range c.spans {
		if first, behind := s.days(); day >= first && day < behind && !s.covers(day) {
			return true
		}
	}
	return false
}

// number returns the number of a user who signed in, one for this run alone where none was given.
func (c *summing) number(kind string, user, ordinal int64) uint32 {
	if ordinal >= 0 || kind != people.EventSignIn {
		return uint32(max(ordinal, 0))
	}
	number, known := c.strangers[user]
	if !known {
		if c.strangers == nil {
			c.strangers = map[int64]uint32{}
		}
		number = uint32(c.next)
		c.next++
		c.strangers[user] = number
	}
	return number
}

// count counts a span, and its days one by one if they are asked for.
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
		if daily && one != (people.Day{}) { // an edge may have nothing
			one.Start = time.UnixMicro(day * MicrosADay).UTC()
			days = append(days, one)
		}
	}
	counts.SignInUsers = int64(users.Users().GetCardinality())
	return counts, days, nil
}

// touched returns the days a span touches that have an event, in order.
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

// addMonths adds the users of months that lie in a span whole, and returns which those are.
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

// countDay counts the part of a day that is in a span and adds its users, but for the sealed ones where they are in already.
func (c *summing) countDay(s span, day int64, users *daylog.Uniting, in, daily bool) (people.Day, error) {
	var one people.Day
	sealed, late := c.days[day], c.late[day]
	here := daylog.NewUsers() // who signed in, of what is sealed
	switch {
	case sealed == nil:
	case s.covers(day):
		one = people.Day{SignInUsers: sealed.users, SignUps: sealed.signUps, Organizations: sealed.organizations, Workspaces: sealed.workspaces}
		if !in || daily && late != nil {
			set, err := c.daySet(*sealed)
			if err != nil {
				return one, err
			}
			here = set
		}
	default:
		log, err := c.log(*sealed)
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

// count adds what is not sealed of the part of a day that is in a span.
func (l *lateDay) count(s span, day int64, to *people.Day, sealed *daylog.Users, users *daylog.Uniting) {
	var at daylog.Gathering
	for _, signIn := range l.signIns {
		if s.has(day*MicrosADay + signIn.At) {
			at.Add(signIn.User)
		}
	}
	fresh := at.Users()
	fresh.Or(l.users) // empty at an edge
	users.Add(fresh)
	to.SignInUsers += int64(fresh.GetCardinality() - fresh.AndCardinality(sealed))
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
