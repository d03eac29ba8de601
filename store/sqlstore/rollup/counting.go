package rollup

import (
	"context"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const (
	// dayOf is the UTC day of an event, counted since 1970. Stored times are not negative, so both engines divide them
	// alike.
	dayOf = `at / 86400000000`
	// MicrosADay is the microseconds of a day.
	MicrosADay = 86400000000
)

// Counting implements Analytics by counting all events one by one, rolled up or waiting. Tests and benchmarks compare
// the roll-up with it. It takes minutes for a hundred million events.
type Counting struct{ days *Days }

// Counting returns the store's analytics, counted one by one.
func (s *Days) Counting() Counting { return Counting{s} }

var _ people.Analytics = Counting{}

// Summarize implements people.Analytics.
func (c Counting) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	var summary people.Summary
	err := c.days.db.Snapshot(ctx, func(on db.Session) (err error) {
		tx := on.ReadsOf(ctx, deployment)
		if summary.Period, err = countEvents(tx, period); err != nil {
			return err
		}
		if summary.Before, err = countEvents(tx, before); err != nil {
			return err
		}
		if _, err = tx.Get([]any{&summary.SignUps}, `SELECT COUNT(*) FROM analytics_events WHERE deployment = :deployment AND kind = '`+people.EventSignUp+`'`); err != nil {
			return err
		}
		if summary.Days, err = countDays(tx, period); err != nil {
			return err
		}
		summary.RecentSignUps, summary.RecentSignIns, err = recents(tx, recent)
		return err
	})
	if err != nil {
		return people.Summary{}, err
	}
	return summary, nil
}

func countEvents(tx *db.Tx, period people.Period) (people.Counts, error) {
	var c people.Counts
	for _, of := range []struct {
		to         *int64
		what, kind string
	}{
		{&c.SignInUsers, "DISTINCT who", people.EventSignIn}, {&c.SignUps, "*", people.EventSignUp},
		{&c.Organizations, "*", people.EventOrganization}, {&c.Workspaces, "*", people.EventWorkspace},
	} {
		_, err := tx.Get([]any{of.to}, `SELECT COUNT(`+of.what+`) FROM analytics_events WHERE deployment = :deployment AND kind = ? AND at >= ? AND at < ?`,
			of.kind, period.From.UnixMicro(), period.To.UnixMicro())
		if err != nil {
			return people.Counts{}, err
		}
	}
	return c, nil
}

func countDays(tx *db.Tx, period people.Period) ([]people.Day, error) {
	return db.List(tx, func(row *sql.Rows, d *people.Day) error {
		var day int64
		err := row.Scan(&day, &d.SignInUsers, &d.SignUps, &d.Organizations, &d.Workspaces)
		d.Start = time.UnixMicro(day * MicrosADay).UTC()
		return err
	}, `SELECT `+dayOf+`, COUNT(DISTINCT CASE WHEN kind = '`+people.EventSignIn+`' THEN who END), COUNT(CASE WHEN kind = '`+people.EventSignUp+`' THEN 1 END),
			COUNT(CASE WHEN kind = '`+people.EventOrganization+`' THEN 1 END), COUNT(CASE WHEN kind = '`+people.EventWorkspace+`' THEN 1 END)
		FROM analytics_events WHERE deployment = :deployment
			AND kind IN ('`+people.EventSignIn+`', '`+people.EventSignUp+`', '`+people.EventOrganization+`', '`+people.EventWorkspace+`') AND at >= ? AND at < ?
		GROUP BY 1 ORDER BY 1`, period.From.UnixMicro(), period.To.UnixMicro())
}
