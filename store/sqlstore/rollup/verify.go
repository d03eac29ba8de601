package rollup

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// VerifyRollUps implements people.RollUp. It reads each day in its own snapshot.
func (s *Days) VerifyRollUps(ctx context.Context, deployment string, from time.Time, limit int) ([]people.RollUpCheck, error) {
	var checks []people.RollUpCheck
	first := max(from.UnixMicro(), 0) / MicrosADay
	for len(checks) < limit {
		var check people.RollUpCheck
		found := false
		err := s.db.Snapshot(ctx, func(on db.Session) (err error) {
			tx := on.ReadsOf(ctx, deployment)
			check, found, err = checkDay(tx, first)
			return err
		})
		if err != nil || !found {
			return checks, err
		}
		checks = append(checks, check)
		first = check.Day.UnixMicro()/MicrosADay + 1
	}
	return checks, nil
}

// checkDay checks the first rolled-up day from a day on, and reports whether there is one.
func checkDay(tx *db.Tx, from int64) (people.RollUpCheck, bool, error) {
	var day int64
	found, err := tx.Get([]any{&day}, `SELECT day FROM sealed_days WHERE deployment = :deployment AND day >= ? ORDER BY day LIMIT 1`, from)
	if err != nil || !found {
		return people.RollUpCheck{}, false, err
	}
	check := people.RollUpCheck{Day: time.UnixMicro(day * MicrosADay).UTC()}
	heads, err := DayRows(tx, day, day+1)
	if err != nil {
		return check, false, err
	}
	events, err := pastEvents(tx, day)
	if err != nil {
		return check, false, err
	}
	check.Events = int64(events.Len())
	check.Fault, err = dayFault(tx, heads[0], events)
	return check, err == nil, err
}

// dayFault returns how a rolled-up day differs from its events, "" if it does not.
func dayFault(tx *db.Tx, d dayRow, events *daylog.Day) (string, error) {
	log, err := readDayLog(tx, d)
	if errors.Is(err, errDayDamaged) {
		return "its log is damaged: the checksum differs", nil
	}
	if err != nil {
		return "", err
	}
	users, err := ReadDaySet(tx, d)
	if errors.Is(err, errDayDamaged) || errors.Is(err, daylog.ErrCorrupt) {
		return "its set of users is damaged", nil
	}
	if err != nil {
		return "", err
	}
	rolledUp, err := daylog.Decode(log)
	if err != nil {
		return "its log is damaged", nil
	}
	counts := rolledUp.Counts()
	if (dayRow{d.day, d.version, int64(len(rolledUp.SignIns)), int64(users.GetCardinality()), counts.SignUps, counts.Organizations, counts.Workspaces, d.usersSum, d.logSum}) != d {
		return "its numbers differ from its log", nil
	}
	if !users.Equals(rolledUp.Users()) {
		return "its set of users differs from its log", nil
	}
	if events.Len() > 0 && !bytes.Equal(events.Encode(), log) {
		return "its log differs from its events", nil
	}
	return monthFault(tx, d, users)
}

// monthFault returns how the day's month differs from its days. It compares the whole month only with the month's last
// day.
func monthFault(tx *db.Tx, d dayRow, users *daylog.Users) (string, error) {
	month := MonthOf(d.day)
	months, err := monthRows(tx, month, month+1)
	if err != nil {
		return "", err
	}
	if len(months) == 0 {
		return "its month is missing", nil
	}
	all, err := readMonthSet(tx, months[0])
	switch {
	case errors.Is(err, errDayDamaged) || errors.Is(err, daylog.ErrCorrupt):
		return "its month's set of users is damaged", nil
	case err != nil:
		return "", err
	case users.AndCardinality(all) != users.GetCardinality():
		return "its month lacks users of the day", nil
	}
	days, err := DayRows(tx, FirstDayOf(month), FirstDayOf(month+1))
	if err != nil || days[len(days)-1].day != d.day {
		return "", err
	}
	union, err := usersOfDays(tx, month)
	if errors.Is(err, errDayDamaged) || errors.Is(err, daylog.ErrCorrupt) {
		return "", nil // the check of the damaged day reports it
	}
	if err != nil {
		return "", err
	}
	if !union.Equals(all) {
		return "its month has users that none of its days has", nil
	}
	return totalFault(tx, d)
}

// usersOfDays returns the users of all rolled-up days of a month.
func usersOfDays(tx *db.Tx, month int64) (*daylog.Users, error) {
	days, err := DayRows(tx, FirstDayOf(month), FirstDayOf(month+1))
	if err != nil {
		return nil, err
	}
	union := daylog.NewUsers()
	for _, day := range days {
		set, err := ReadDaySet(tx, day)
		if err != nil {
			return nil, err
		}
		union.Or(set)
	}
	return union, nil
}

// totalFault compares the sign-ups of all time with the sum of the days. It does so only with the last day.
func totalFault(tx *db.Tx, d dayRow) (string, error) {
	var last, signUps int64
	if _, err := tx.Get([]any{&last, &signUps}, `SELECT COALESCE(MAX(day), 0), CAST(COALESCE(SUM(signups), 0) AS BIGINT) FROM sealed_days WHERE deployment = :deployment`); err != nil {
		return "", err
	}
	totals, err := totalsOf(tx, "")
	if err == nil && last == d.day && totals.signUps != signUps {
		return "the total of sign-ups differs from the sum of all days", nil
	}
	return "", err
}

// pastEvents reads the rolled-up events of a day. There are none if the month's partition was dropped.
func pastEvents(tx *db.Tx, day int64) (*daylog.Day, error) {
	events := &daylog.Day{}
	err := tx.Each(func(row *sql.Rows) error {
		var kind string
		var at, ordinal int64
		err := row.Scan(&kind, &at, &ordinal)
		addEvent(events, kind, at%MicrosADay, uint32(ordinal))
		return err
	}, `SELECT kind, at, ordinal FROM past_events WHERE deployment = :deployment AND kind IN (`+kindList+`) AND at >= ? AND at < ?`,
		day*MicrosADay, (day+1)*MicrosADay)
	return events, err
}
