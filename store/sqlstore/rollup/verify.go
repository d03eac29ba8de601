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

// VerifySeals implements people.Sealing, each day in a snapshot of its own.
func (s *Days) VerifySeals(ctx context.Context, deployment string, from time.Time, limit int) ([]people.SealCheck, error) {
	var checks []people.SealCheck
	first := max(from.UnixMicro(), 0) / MicrosADay
	for len(checks) < limit {
		var check people.SealCheck
		found := false
		err := s.db.Snapshot(ctx, func(on db.Session) (err error) {
			tx := on.ReadsOf(ctx, deployment)
			check, found, err = checkSeal(tx, first)
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

// checkSeal checks the first sealed day from a day on, and reports whether there is one.
func checkSeal(tx *db.Tx, from int64) (people.SealCheck, bool, error) {
	var day int64
	found, err := tx.Get([]any{&day}, `SELECT day FROM sealed_days WHERE deployment = :deployment AND day >= ? ORDER BY day LIMIT 1`, from)
	if err != nil || !found {
		return people.SealCheck{}, false, err
	}
	check := people.SealCheck{Day: time.UnixMicro(day * MicrosADay).UTC()}
	heads, err := SealedDays(tx, day, day+1)
	if err != nil {
		return check, false, err
	}
	events, err := pastEvents(tx, day)
	if err != nil {
		return check, false, err
	}
	check.Events = int64(events.Len())
	check.Fault, err = sealFault(tx, heads[0], events)
	return check, err == nil, err
}

// sealFault tells how a sealed day differs from its events, "" if it does not.
func sealFault(tx *db.Tx, d sealedDay, events *daylog.Day) (string, error) {
	log, err := readDayLog(tx, d)
	if errors.Is(err, errSealBroken) {
		return "its log is damaged: the checksum is another", nil
	}
	if err != nil {
		return "", err
	}
	users, err := ReadDaySet(tx, d)
	if errors.Is(err, errSealBroken) || errors.Is(err, daylog.ErrCorrupt) {
		return "its set of users is damaged", nil
	}
	if err != nil {
		return "", err
	}
	sealed, err := daylog.Decode(log)
	if err != nil {
		return "its log is damaged", nil
	}
	counts := sealed.Counts()
	if (sealedDay{d.day, d.version, int64(len(sealed.SignIns)), int64(users.GetCardinality()), counts.SignUps, counts.Organizations, counts.Workspaces, d.usersSum, d.logSum}) != d {
		return "its numbers are not those of its log", nil
	}
	if !users.Equals(sealed.Users()) {
		return "its set of users is not that of its log", nil
	}
	if events.Len() > 0 && !bytes.Equal(events.Encode(), log) {
		return "its log is not that of its events", nil
	}
	return monthFault(tx, d, users)
}

// monthFault tells how the day's month differs from its days. All of them are looked at with the last one.
func monthFault(tx *db.Tx, d sealedDay, users *daylog.Users) (string, error) {
	month := MonthOf(d.day)
	months, err := sealedMonths(tx, month, month+1)
	if err != nil {
		return "", err
	}
	if len(months) == 0 {
		return "its month is missing", nil
	}
	all, err := readMonthSet(tx, months[0])
	switch {
	case errors.Is(err, errSealBroken) || errors.Is(err, daylog.ErrCorrupt):
		return "its month's set of users is damaged", nil
	case err != nil:
		return "", err
	case users.AndCardinality(all) != users.GetCardinality():
		return "its month lacks users of it", nil
	}
	days, err := SealedDays(tx, FirstDayOf(month), FirstDayOf(month+1))
	if err != nil || days[len(days)-1].day != d.day {
		return "", err
	}
	union, err := usersOfDays(tx, month)
	if errors.Is(err, errSealBroken) || errors.Is(err, daylog.ErrCorrupt) {
		return "", nil // that day was named
	}
	if err != nil {
		return "", err
	}
	if !union.Equals(all) {
		return "its month has users that no day of it has", nil
	}
	return totalFault(tx, d)
}

// usersOfDays returns the users of all sealed days of a month.
func usersOfDays(tx *db.Tx, month int64) (*daylog.Users, error) {
	days, err := SealedDays(tx, FirstDayOf(month), FirstDayOf(month+1))
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

// totalFault reports whether the sign-ups of all time are those of the days. It is looked at with the last one.
func totalFault(tx *db.Tx, d sealedDay) (string, error) {
	var last, signUps int64
	if _, err := tx.Get([]any{&last, &signUps}, `SELECT COALESCE(MAX(day), 0), CAST(COALESCE(SUM(signups), 0) AS BIGINT) FROM sealed_days WHERE deployment = :deployment`); err != nil {
		return "", err
	}
	totals, err := sealedTotals(tx, "")
	if err == nil && last == d.day && totals.signUps != signUps {
		return "the sign-ups of all time are not those of all days", nil
	}
	return "", err
}

// pastEvents reads the sealed events of a day. Where the part of its month was dropped there are none.
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
