package rollup

import (
	"cmp"
	"database/sql"
	"slices"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// recents returns the newest sign-ups and sign-ins of users that exist.
func recents(tx *db.Tx, most int) (signUps, signIns []people.Recent, err error) {
	if signUps, err = recentEvents(tx, people.EventSignUp, most); err == nil {
		signIns, err = recentEvents(tx, people.EventSignIn, most)
	}
	return signUps, signIns, err
}

// recentEvents queries each table by itself, along its key: over the union of both, the engines would sort them
// completely.
func recentEvents(tx *db.Tx, kind string, most int) ([]people.Recent, error) {
	type dated struct {
		people.Recent
		id int64
	}
	var all []dated
	for _, query := range []string{recentsOf("events"), recentsOf("recent_events")} {
		some, err := db.List(tx, func(row *sql.Rows, r *dated) error {
			return row.Scan(&r.User, &r.Email, &r.FirstName, &r.LastName, db.At{To: &r.At}, &r.id, &r.Method, &r.Address, &r.UserAgent)
		}, query, kind, most)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b dated) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(b.id, a.id)) })
	var recent []people.Recent
	for _, one := range all[:min(most, len(all))] {
		recent = append(recent, one.Recent)
	}
	return recent, nil
}

func recentsOf(table string) string {
	return `SELECT u.id, COALESCE((SELECT e.address FROM emails e WHERE e.deployment = u.deployment AND e.user_id = u.id AND e.is_primary = 1), ''),
			u.first_name, u.last_name, v.at, v.id, v.method, v.address, v.user_agent
		FROM ` + table + ` v JOIN users u ON u.deployment = v.deployment AND u.id = v.user_id
		WHERE v.deployment = :deployment AND v.kind = ? ORDER BY v.at DESC, v.id DESC LIMIT ?`
}
