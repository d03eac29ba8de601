package users

import (
	"database/sql"
	"math"
	"strings"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// containing returns the LIKE pattern, with a backslash as its escape, for text that contains the search.
func containing(search string) string {
	return "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(search) + "%"
}

func (tx txListings) ListOrganizations(search string, limit, offset int) ([]people.ListedOrganization, int64, error) {
	where, args := ` FROM organizations o WHERE o.deployment = :deployment`, []any{}
	if search != "" {
		// As with names of users, the search also compares names as written.
		where += ` AND (LOWER(o.name) LIKE ? ESCAPE '\' OR o.name LIKE ? ESCAPE '\' OR o.slug LIKE ? ESCAPE '\')`
		pattern := containing(search)
		lower := strings.ToLower(pattern)
		args = append(args, lower, pattern, lower)
	}
	var total int64
	if _, err := tx.Get([]any{&total}, `SELECT COUNT(*)`+where, args...); err != nil {
		return nil, 0, err
	}
	read := func(row *sql.Rows, o *people.ListedOrganization) error {
		return row.Scan(append(organizationFields(&o.Organization), &o.Members)...)
	}
	found, err := db.List(tx.Tx, read, `SELECT `+organizationColumns+`, (SELECT COUNT(*) FROM organization_memberships m
		WHERE m.deployment = o.deployment AND m.organization_id = o.id)`+where+` ORDER BY o.created_at DESC, o.id DESC LIMIT ? OFFSET ?`, append(args, limit, offset)...)
	return found, total, err
}

func (tx txListings) ListAudit(filter people.AuditFilter, limit int) ([]people.Audit, error) {
	if filter.OldestFirst {
		return listAuditForwards(tx.peopleTx, filter, limit)
	}
	at, id := int64(math.MaxInt64), int64(0)
	if !filter.Until.IsZero() {
		at = db.Micros(filter.Until)
	}
	if after := filter.After; !after.At.IsZero() && db.Micros(after.At) < at { // if Until is the same time, Until excludes more
		at, id = db.Micros(after.At), after.ID
	}
	// Rows are compared as a whole, so that the engine walks the primary key backwards from the place.
	return listAudit(tx.peopleTx, filter, `SELECT id, at, actor, action, object, session_id, address, detail FROM audit WHERE deployment = :deployment AND (at, id) < (?, ?) AND at >= ?`,
		` ORDER BY at DESC, id DESC LIMIT ?`, at, id, db.Micros(filter.Since), limit)
}

// listAuditForwards walks the primary key forwards.
func listAuditForwards(tx *peopleTx, filter people.AuditFilter, limit int) ([]people.Audit, error) {
	at, id, until := db.Micros(filter.Since), int64(-1), int64(math.MaxInt64)
	if after := filter.After; !after.At.IsZero() && db.Micros(after.At) >= at {
		at, id = db.Micros(after.At), after.ID
	}
	if !filter.Until.IsZero() {
		until = db.Micros(filter.Until)
	}
	return listAudit(tx, filter, `SELECT id, at, actor, action, object, session_id, address, detail FROM audit WHERE deployment = :deployment AND (at, id) > (?, ?) AND at < ?`,
		` ORDER BY at, id LIMIT ?`, at, id, until, limit)
}

// listAudit lists the records that match the filter among those that the statement begin selects. The parameters of
// begin are a place (at, id) and a bound.
func listAudit(tx *peopleTx, filter people.AuditFilter, begin, end string, at, id, bound int64, limit int) ([]people.Audit, error) {
	query, args := begin, []any{at, id, bound}
	for _, equal := range []struct{ column, value string }{{"actor", filter.Actor}, {"action", filter.Action}, {"object", filter.Object}} {
		if equal.value != "" {
			query, args = query+` AND `+equal.column+` = ?`, append(args, equal.value)
		}
	}
	var either []string
	for _, in := range []struct {
		column string
		values []string
	}{{"actor", filter.AnyActor}, {"object", filter.AnyObject}} {
		for _, value := range in.values {
			either, args = append(either, in.column+` = ?`), append(args, value)
		}
	}
	if len(either) > 0 {
		query += ` AND (` + strings.Join(either, ` OR `) + `)`
	}
	return db.List(tx.Tx, func(row *sql.Rows, a *people.Audit) error {
		return row.Scan(&a.ID, db.At{To: &a.At}, &a.Actor, &a.Action, &a.Object, &a.Session, &a.Address, &a.Detail)
	}, query+end, append(args, limit)...)
}
