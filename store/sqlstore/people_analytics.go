package sqlstore

import (
	"context"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// dayOf is which UTC day since 1970 an event is of. Stored times are not negative: both engines divide them alike.
	dayOf      = `at / 86400000000`
	microsADay = 86400000000
)

// Summarize implements people.Analytics by counting the events themselves, each kind along its primary key.
func (s *Store) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	var summary people.Summary
	err := s.snapshot(ctx, func(on session) (err error) {
		tx := &peopleTx{ctx: ctx, session: on, deployment: deployment, readOnly: true}
		if summary.Period, err = tx.countEvents(period); err != nil {
			return err
		}
		if summary.Before, err = tx.countEvents(before); err != nil {
			return err
		}
		if _, err = tx.get([]any{&summary.SignUps}, `SELECT COUNT(*) FROM events WHERE deployment = :deployment AND kind = '`+people.EventSignUp+`'`); err != nil {
			return err
		}
		if summary.Days, err = tx.countDays(period); err != nil {
			return err
		}
		if summary.RecentSignUps, err = tx.recentEvents(people.EventSignUp, recent); err != nil {
			return err
		}
		summary.RecentSignIns, err = tx.recentEvents(people.EventSignIn, recent)
		return err
	})
	if err != nil {
		return people.Summary{}, err
	}
	return summary, nil
}

func (tx *peopleTx) countEvents(period people.Period) (people.Counts, error) {
	var c people.Counts
	for _, of := range []struct {
		to         *int64
		what, kind string
	}{
		{&c.SignInUsers, "DISTINCT user_id", people.EventSignIn}, {&c.SignUps, "*", people.EventSignUp},
		{&c.Organizations, "*", people.EventOrganization}, {&c.Workspaces, "*", people.EventWorkspace},
	} {
		_, err := tx.get([]any{of.to}, `SELECT COUNT(`+of.what+`) FROM events WHERE deployment = :deployment AND kind = ? AND at >= ? AND at < ?`,
			of.kind, period.From.UnixMicro(), period.To.UnixMicro())
		if err != nil {
			return people.Counts{}, err
		}
	}
	return c, nil
}

func (tx *peopleTx) countDays(period people.Period) ([]people.Day, error) {
	return list(tx, func(row *sql.Rows, d *people.Day) error {
		var day int64
		err := row.Scan(&day, &d.SignInUsers, &d.SignUps)
		d.Start = time.UnixMicro(day * microsADay).UTC()
		return err
	}, `SELECT `+dayOf+`, COUNT(DISTINCT CASE WHEN kind = '`+people.EventSignIn+`' THEN user_id END),
			COUNT(CASE WHEN kind = '`+people.EventSignUp+`' THEN 1 END)
		FROM events WHERE deployment = :deployment AND kind IN ('`+people.EventSignIn+`', '`+people.EventSignUp+`') AND at >= ? AND at < ?
		GROUP BY 1 ORDER BY 1`, period.From.UnixMicro(), period.To.UnixMicro())
}

func (tx *peopleTx) recentEvents(kind string, most int) ([]people.Recent, error) {
	return list(tx, func(row *sql.Rows, r *people.Recent) error {
		return row.Scan(&r.User, &r.Email, &r.FirstName, &r.LastName, moment{&r.At}, &r.Method, &r.Address, &r.UserAgent)
	}, `SELECT u.id, COALESCE((SELECT e.address FROM emails e WHERE e.deployment = u.deployment AND e.user_id = u.id AND e.is_primary = 1), ''),
			u.first_name, u.last_name, v.at, v.method, v.address, v.user_agent
		FROM events v JOIN users u ON u.deployment = v.deployment AND u.id = v.user_id
		WHERE v.deployment = :deployment AND v.kind = ? ORDER BY v.at DESC, v.id DESC LIMIT ?`, kind, most)
}
