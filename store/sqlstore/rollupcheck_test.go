package sqlstore

import (
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/sqlstore/rollup"
)

// TestAnalyticsDaysViewMatchesSummary: the SQL view for charts has the same numbers as Summarize.
func TestAnalyticsDaysViewMatchesSummary(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, newURL(t), Options{})
			record(t, s, 1, 200, 20)
			rollUpAll(t, s)
			record(t, s, 2, 5, 30) // some days are rolled up in part
			var days []people.Day
			err := s.db.Reads().Query(t.Context(), func(row *sql.Rows) error {
				var d people.Day
				var day int64
				err := row.Scan(&day, &d.SignInUsers, &d.SignUps, &d.Organizations, &d.Workspaces)
				d.Start = time.UnixMicro(day * rollup.MicrosADay).UTC()
				days = append(days, d)
				return err
			}, `SELECT day, signins, signups, organizations, workspaces FROM analytics_days WHERE deployment = ? ORDER BY day`, analyzed)
			if err != nil {
				t.Fatal(err)
			}
			if want := summaryOf(t, s, people.Period{From: firstDay, To: firstDay.AddDate(0, 0, 9)}).Days; !reflect.DeepEqual(days, want) {
				t.Errorf("%+v, want %+v", days, want)
			}
		})
	}
}

// TestRollUpCreatesMonthPartitions tests PostgreSQL. A roll-up continues even if a partition cannot be created.
func TestRollUpCreatesMonthPartitions(t *testing.T) {
	t.Parallel()
	s := migrated(t, tabled["postgres"](t), Options{})
	record(t, s, 1, 100, 9)
	// Mark February's partition as refused, so that the roll-up does not create it.
	s.Days.Parts.Store(rollup.MonthOf(firstDay.UnixMicro()/rollup.MicrosADay), true)
	rollUpAll(t, s)
	counts := map[string]int64{}
	err := s.db.Reads().Query(t.Context(), func(row *sql.Rows) error {
		var part string
		var n int64
		err := row.Scan(&part, &n)
		counts[part] = n
		return err
	}, `SELECT CAST(tableoid::regclass AS TEXT), COUNT(*) FROM past_events GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	if len(counts) != 2 || counts["past_events_others"] == 0 || counts["past_events_2024_03"] == 0 {
		t.Errorf("%v", counts)
	}
}

// TestVerifyRollUpsChecksMonthAndTotalWithLastDay: users of a month, and sign-ups of the total, that no day has are
// found only by the check of the last day.
func TestVerifyRollUpsChecksMonthAndTotalWithLastDay(t *testing.T) {
	t.Parallel()
	s := migrated(t, newSQLite(t), Options{})
	record(t, s, 1, 200, 20)
	rollUpAll(t, s)
	fault := func() string {
		t.Helper()
		checks, err := s.VerifyRollUps(t.Context(), analyzed, longAgo, 100)
		if err != nil {
			t.Fatal(err)
		}
		var faults []string
		for _, check := range checks {
			if check.Fault != "" {
				faults = append(faults, check.Day.Format(time.DateOnly)+" "+check.Fault)
			}
		}
		return strings.Join(faults, ", ")
	}
	change := func(do func(tx *db.Tx) error) {
		t.Helper()
		if err := s.db.Change(t.Context(), analyzed, nil, do); err != nil {
			t.Fatal(err)
		}
	}
	february := rollup.MonthRow{Month: rollup.MonthOf(firstDay.UnixMicro() / rollup.MicrosADay), Version: 9}
	change(func(tx *db.Tx) error {
		all := daylog.NewUsers()
		all.AddRange(0, 1000)
		return rollup.PutMonthRow(tx, february, all)
	})
	if got := fault(); got != "2024-02-29 its month has users that none of its days has" {
		t.Error(got)
	}
	change(func(tx *db.Tx) error { return rollup.PutMonthRow(tx, february, daylog.NewUsers()) })
	if got := fault(); strings.Count(got, "its month lacks users of the day") != 4 {
		t.Error(got)
	}
	change(func(tx *db.Tx) error {
		all := daylog.NewUsers()
		days, err := rollup.DayRows(tx, 0, rollup.FirstDayOf(february.Month+1))
		for _, day := range days {
			set, failed := rollup.ReadDaySet(tx, day)
			err = errors.Join(err, failed)
			all.Or(set)
		}
		return errors.Join(err, rollup.PutMonthRow(tx, february, all), tx.Exec(`UPDATE sealed_totals SET total = total + 1 WHERE deployment = :deployment AND what = 'signups'`))
	})
	if got := fault(); got != "2024-03-03 the total of sign-ups differs from the sum of all days" {
		t.Error(got)
	}
}

// TestVerifyRollUpsReportsDamage changes rolled-up rows directly in the database.
func TestVerifyRollUpsReportsDamage(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"its log is damaged: the checksum differs": `UPDATE sealed_days SET log = user_set WHERE deployment = ? AND day = ?`,
		"its set of users is damaged":              `UPDATE sealed_days SET user_set = log WHERE deployment = ? AND day = ?`,
		"its numbers differ from its log":          `UPDATE sealed_days SET organizations = organizations + 1 WHERE deployment = ? AND day = ?`,
		"its log differs from its events": `UPDATE past_events SET at = at + 1 WHERE deployment = ? AND kind = 'signup' AND at = (
			SELECT MIN(p.at) FROM past_events p WHERE p.deployment = past_events.deployment AND p.kind = 'signup' AND p.at / 86400000000 = ?)`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, newSQLite(t), Options{})
			record(t, s, 1, 200, 20)
			rollUpAll(t, s)
			day := firstDay.UnixMicro()/rollup.MicrosADay + 2
			changed, err := s.db.Writes().Exec(t.Context(), damage, analyzed, day)
			if err != nil || changed != 1 {
				t.Fatal(changed, err)
			}
			checks, err := s.VerifyRollUps(t.Context(), analyzed, longAgo, 100)
			if err != nil || len(checks) != 7 {
				t.Fatal(checks, err)
			}
			for _, check := range checks {
				want := ""
				if check.Day.UnixMicro()/rollup.MicrosADay == day {
					want = name
				}
				if check.Fault != want {
					t.Errorf("%s: %q, want %q", check.Day.Format(time.DateOnly), check.Fault, want)
				}
			}
		})
	}
}

// TestRollUpRebuildsDamagedRows: the next event of the day rebuilds a day from the rolled-up events, and a month from
// its days.
func TestRollUpRebuildsDamagedRows(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{
		"a log":   `UPDATE sealed_days SET log = user_set WHERE deployment = ? AND day = ?`,
		"a month": `UPDATE sealed_months SET user_set = x'00' WHERE deployment = ? AND month * 0 + 1 = ? * 0 + 1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, newSQLite(t), Options{})
			record(t, s, 1, 200, 20)
			rollUpAll(t, s)
			want := rollUpRows(t, s)
			if _, err := s.db.Writes().Exec(t.Context(), damage, analyzed, firstDay.UnixMicro()/rollup.MicrosADay+2); err != nil {
				t.Fatal(err)
			}
			if reflect.DeepEqual(rollUpRows(t, s), want) {
				t.Fatal("nothing was damaged")
			}
			record(t, s, 2, 200, 20)
			rollUpAll(t, s)
			checks, err := s.VerifyRollUps(t.Context(), analyzed, longAgo, 100)
			if err != nil || len(checks) != 7 {
				t.Fatal(checks, err)
			}
			for _, check := range checks {
				if check.Fault != "" {
					t.Errorf("%+v", check)
				}
			}
		})
	}
}
