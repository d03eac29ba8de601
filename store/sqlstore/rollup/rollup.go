// Package rollup is the part of the SQL store that counts analytics events. It rolls them up into days and months, and
// sums both with the waiting events.
package rollup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cardea-iam/cardea/internal/daylog"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// linkedKinds are the kinds of events that are linked to a user.
var linkedKinds = []string{people.EventSignIn, people.EventSignUp}

// fewestCounted is the limit of the first count of waiting events, per day and kind.
var fewestCounted = people.EnoughToRollUp(0)

// WaitingQuery steps along the key of the waiting events: from one deployment to the next, and for each kind from one
// day to the next. Each step is one index lookup, however many events lie between. It counts at most fewestCounted
// events per day and kind.
var WaitingQuery = `WITH RECURSIVE
	homes(deployment) AS (
		SELECT MIN(deployment) FROM events
		UNION ALL
		SELECT (SELECT MIN(e.deployment) FROM events e WHERE e.deployment > h.deployment) FROM homes h WHERE h.deployment IS NOT NULL
	),
	kinds(kind) AS (VALUES ('` + people.EventSignIn + `'), ('` + people.EventSignUp + `'), ('` + people.EventOrganization + `'), ('` + people.EventWorkspace + `')),
	step(deployment, kind, day) AS (
		SELECT h.deployment, k.kind, (SELECT MIN(e.at) FROM events e WHERE e.deployment = h.deployment AND e.kind = k.kind) / 86400000000
		FROM homes h CROSS JOIN kinds k WHERE h.deployment IS NOT NULL
		UNION ALL
		SELECT s.deployment, s.kind, (SELECT MIN(e.at) FROM events e
			WHERE e.deployment = s.deployment AND e.kind = s.kind AND e.at >= (s.day + 1) * 86400000000) / 86400000000
		FROM step s WHERE s.day IS NOT NULL
	),
	waits AS (
		SELECT s.deployment, s.day, (SELECT COUNT(*) FROM (SELECT 1 FROM events e WHERE e.deployment = s.deployment AND e.kind = s.kind
			AND e.at >= s.day * 86400000000 AND e.at < (s.day + 1) * 86400000000 LIMIT ` + strconv.FormatInt(fewestCounted, 10) + `) c) AS waiting
		FROM step s WHERE s.day IS NOT NULL
	)
	SELECT w.deployment, w.day, CAST(SUM(w.waiting) AS BIGINT), MAX(COALESCE(d.signins + d.signups + d.organizations + d.workspaces, 0)) FROM waits w
	LEFT JOIN sealed_days d ON d.deployment = w.deployment AND d.day = w.day GROUP BY 1, 2 ORDER BY 1, 2`

// Waiting implements people.RollUp. It counts at most fewestCounted events per day and kind, and more only for days
// that need more for a roll-up. A count of all events would exceed the statement timeout.
func (s *Days) Waiting(ctx context.Context) ([]people.WaitingEvents, error) {
	var all []people.WaitingEvents
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var w people.WaitingEvents
		var day int64
		err := row.Scan(&w.Deployment, &day, &w.Events, &w.RolledUp)
		w.Day = time.UnixMicro(day * MicrosADay).UTC()
		all = append(all, w)
		return err
	}, WaitingQuery)
	for i := range all {
		if w := &all[i]; err == nil && w.Events >= fewestCounted && w.Events < people.EnoughToRollUp(w.RolledUp) {
			err = countWaiting(ctx, s, w)
		}
	}
	return all, err
}

// countWaiting counts the waiting events of a day, at most as many as a roll-up of the day needs.
func countWaiting(ctx context.Context, s *Days, w *people.WaitingEvents) error {
	day := w.Day.UnixMicro()
	return s.db.Reads().Query(ctx, func(row *sql.Rows) error { return row.Scan(&w.Events) },
		`SELECT COUNT(*) FROM (SELECT 1 FROM events WHERE deployment = ? AND kind IN (`+kindList+`) AND at >= ? AND at < ? LIMIT ?) c`,
		w.Deployment, day, day+MicrosADay, people.EnoughToRollUp(w.RolledUp))
}

// RollUpDay implements people.RollUp.
func (s *Days) RollUpDay(ctx context.Context, w people.WaitingEvents, linkedSince time.Time, limit int) (int64, error) {
	day := w.Day.UnixMicro() / MicrosADay
	makePart(ctx, s, MonthOf(day))
	var rolledUp int64
	err := s.db.Change(ctx, w.Deployment, s.db.Dialect.RollUpTx, func(tx *db.Tx) (err error) {
		run := &dayRollUp{tx: tx, day: day, linkedSince: linkedSince.UnixMicro(), limit: limit}
		if err := run.tx.ByKeys(ctx); err != nil {
			return err
		}
		rolledUp, err = run.rollUp()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("roll up %s of %s: %w", w.Day.Format(time.DateOnly), w.Deployment, err)
	}
	return rolledUp, nil
}

// makePart creates the partition of a month. It cannot if the role lacks the privilege or the default partition has
// events of the month. The events then go into the default partition; only dropping a month at once depends on
// partitions.
func makePart(ctx context.Context, s *Days, month int64) {
	if s.db.Dialect.NewPart == "" {
		return
	}
	if _, there := s.Parts.Load(month); there {
		return
	}
	name := "past_events_" + time.Date(1970, time.January+time.Month(month), 1, 0, 0, 0, 0, time.UTC).Format("2006_01")
	statement := fmt.Sprintf(s.db.Dialect.NewPart, name, FirstDayOf(month)*MicrosADay, FirstDayOf(month+1)*MicrosADay)
	_, err := s.db.Writers.ExecContext(ctx, statement)
	if err == nil || refusedAlways(err) {
		s.Parts.Store(month, true) // otherwise the next roll-up tries again
	}
	if err != nil && ctx.Err() == nil {
		s.db.Logger.Info("No partition was created; the events of the month go into past_events_others", "partition", name, "reason", err.Error())
	}
}

// refusedAlways reports whether PostgreSQL would refuse a partition again: the role lacks the privilege, or the default
// partition has events of the month.
func refusedAlways(err error) bool {
	const insufficientPrivilege, checkViolation = "42501", "23514"
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == insufficientPrivilege || refused.Code == checkViolation)
}

// dayRollUp is one transaction of RollUpDay. All its statements see one snapshot; events recorded concurrently wait for
// the next roll-up.
type dayRollUp struct {
	tx          *db.Tx
	day         int64
	linkedSince int64
	limit       int
	totals      totals
	fresh       daylog.Day
}

func (r *dayRollUp) rollUp() (int64, error) {
	if turn, err := r.takeTurn(); err != nil || !turn {
		return 0, err
	}
	for _, kind := range []string{people.EventSignIn, people.EventSignUp, people.EventOrganization, people.EventWorkspace} {
		if err := r.moveKind(kind); err != nil {
			return 0, err
		}
	}
	if r.fresh.Len() == 0 {
		return 0, nil
	}
	users, err := r.putDay()
	if err != nil {
		return 0, err
	}
	if err := r.putMonth(users); err != nil {
		return 0, err
	}
	r.totals.signUps += int64(len(r.fresh.SignUps))
	return int64(r.fresh.Len()), r.putTotals()
}

// takeTurn locks the deployment against concurrent roll-ups, and reports whether it got the lock.
func (r *dayRollUp) takeTurn() (bool, error) {
	err := r.tx.Exec(`INSERT INTO sealed_totals (deployment, what, total) VALUES (:deployment, '` + totalOrdinals + `', 0), (:deployment, '` + totalSignUps + `', 0)
		ON CONFLICT (deployment, what) DO NOTHING`)
	if err != nil {
		return false, err
	}
	var held int64
	got, err := r.tx.Get([]any{&held}, `SELECT total FROM sealed_totals WHERE deployment = :deployment AND what = '`+totalOrdinals+`'`+r.tx.Dialect.SkipLocked)
	if err != nil || !got {
		return false, err
	}
	r.totals, err = totalsOf(r.tx, "")
	return err == nil, err
}

// moveKind moves the oldest events of a kind of the day, at most limit.
func (r *dayRollUp) moveKind(kind string) error {
	part := eventRange{kind, r.day * MicrosADay, (r.day+1)*MicrosADay - 1, math.MaxInt64}
	_, err := r.tx.Get([]any{&part.last, &part.lastID}, `SELECT e.at, e.id FROM events e WHERE e.deployment = :deployment AND `+inRange+` ORDER BY e.at, e.id LIMIT 1 OFFSET ?`, append(part.args(), r.limit-1)...)
	if err != nil {
		return err
	}
	events, err := r.read(part)
	if err != nil || len(events) == 0 {
		return err
	}
	if slices.Contains(linkedKinds, kind) {
		if err := r.numberUsers(events); err != nil {
			return err
		}
		if err := r.link(part); err != nil {
			return err
		}
	}
	err = db.InsertMany(r.tx, "past_events", events,
		db.Texts("kind", func(*waitingEvent) string { return kind }), db.Numbers("at", func(e *waitingEvent) int64 { return e.at }),
		db.Numbers("id", func(e *waitingEvent) int64 { return e.id }), db.Numbers("ordinal", func(e *waitingEvent) int64 { return e.ordinal }),
		db.Texts("method", func(e *waitingEvent) string { return e.method }))
	if err != nil {
		return err
	}
	for _, e := range events {
		addEvent(&r.fresh, kind, e.at%MicrosADay, uint32(max(e.ordinal, 0)))
	}
	return r.tx.Exec(`DELETE FROM events AS e WHERE e.deployment = :deployment AND `+inRange, part.args()...)
}

// eventRange is the events of a kind from a time to the last event (included), by time and id.
type eventRange struct {
	kind               string
	from, last, lastID int64
}

// inRange is the SQL condition for an eventRange of events, aliased e. Its parameters are args.
const inRange = `e.kind = ? AND e.at >= ? AND e.at <= ? AND (e.at < ? OR e.id <= ?)`

func (e eventRange) args() []any { return []any{e.kind, e.from, e.last, e.last, e.lastID} }

// waitingEvent is a waiting event with its user's number, -1 if the user has none yet.
type waitingEvent struct {
	at, id, user, ordinal int64
	method                string
}

// ordinalOf is the number of an event's user, -1 if the user has none. As a subquery per row it uses the key. For a
// join PostgreSQL may choose a plan that reads all numbers, because its statistics lag while numbers are being
// assigned.
const ordinalOf = `COALESCE((SELECT o.ordinal FROM user_ordinals o WHERE o.deployment = e.deployment AND o.user_id = e.user_id), -1)`

func (r *dayRollUp) read(part eventRange) ([]waitingEvent, error) {
	return db.List(r.tx, func(row *sql.Rows, e *waitingEvent) error {
		return row.Scan(&e.at, &e.id, &e.user, &e.method, &e.ordinal)
	}, `SELECT e.at, e.id, e.user_id, e.method, `+ordinalOf+` FROM events e
		WHERE e.deployment = :deployment AND `+inRange+` ORDER BY e.at, e.id`, part.args()...)
}

// numberUsers assigns numbers to users that have none yet, in the order of their ids.
func (r *dayRollUp) numberUsers(events []waitingEvent) error {
	given := map[int64]int64{}
	for _, e := range events {
		if e.ordinal < 0 {
			given[e.user] = 0
		}
	}
	fresh := slices.Sorted(maps.Keys(given))
	if r.totals.ordinals+int64(len(fresh)) > math.MaxUint32 {
		return fmt.Errorf("analytics: a deployment cannot have more than %d users", int64(math.MaxUint32))
	}
	for _, user := range fresh {
		given[user] = r.totals.ordinals
		r.totals.ordinals++
	}
	for i, e := range events {
		if e.ordinal < 0 {
			events[i].ordinal = given[e.user]
		}
	}
	return db.InsertMany(r.tx, "user_ordinals", fresh, db.Numbers("user_id", func(user *int64) int64 { return *user }),
		db.Numbers("ordinal", func(user *int64) int64 { return given[*user] }))
}

// link keeps the user of events that are young enough or among the newest. It locks the users against a concurrent
// deletion, which would not see the rows written here.
func (r *dayRollUp) link(part eventRange) error {
	const columns = `e.deployment, e.kind, e.at, e.id, e.user_id, e.method, `
	const into = `INSERT INTO recent_events (deployment, kind, at, id, user_id, method, address, user_agent) SELECT ` + columns
	const from = ` FROM events e JOIN users u ON u.deployment = e.deployment AND u.id = e.user_id WHERE e.deployment = :deployment AND ` + inRange
	young := part
	if young.from = max(part.from, r.linkedSince); young.from <= young.last {
		if err := r.tx.Exec(into+`e.address, e.user_agent`+from+r.tx.Dialect.KeyShare, young.args()...); err != nil {
			return err
		}
	}
	old := part
	if old.last >= r.linkedSince {
		old.last, old.lastID = r.linkedSince-1, math.MaxInt64
	}
	if old.from > old.last {
		return nil
	}
	var oldest int64
	_, err := r.tx.Get([]any{&oldest}, `SELECT at FROM recent_events WHERE deployment = :deployment AND kind = ? ORDER BY at DESC, id DESC LIMIT 1 OFFSET ?`,
		part.kind, people.KeepsNewest-1)
	if err != nil {
		return err
	}
	old.from = max(old.from, oldest)
	return r.tx.Exec(into+`'', ''`+from+` ORDER BY e.at DESC, e.id DESC LIMIT ?`+r.tx.Dialect.KeyShare, append(old.args(), people.KeepsNewest)...)
}

// addEvent adds an event of a kind to a day.
func addEvent(to *daylog.Day, kind string, at int64, user uint32) {
	switch kind {
	case people.EventSignIn:
		to.SignIns = append(to.SignIns, daylog.SignIn{At: at, User: user})
	case people.EventSignUp:
		to.SignUps = append(to.SignUps, at)
	case people.EventOrganization:
		to.Organizations = append(to.Organizations, at)
	case people.EventWorkspace:
		to.Workspaces = append(to.Workspaces, at)
	}
}

// putDay adds the events to the day's roll-up and returns the day's users.
func (r *dayRollUp) putDay() (*daylog.Users, error) {
	held, err := DayRows(r.tx, r.day, r.day+1)
	if err != nil {
		return nil, err
	}
	d, whole := dayRow{day: r.day}, &r.fresh
	if len(held) == 1 {
		d = held[0]
		if whole, err = r.merged(d); err != nil {
			return nil, err
		}
	}
	users := whole.Users()
	d.version++
	return users, putDayRow(r.tx, d, whole, users)
}

// merged returns the day's roll-up with the new events. If its log is damaged, merged rebuilds the day from the
// rolled-up events, provided that they are all present.
func (r *dayRollUp) merged(d dayRow) (*daylog.Day, error) {
	log, err := readDayLog(r.tx, d)
	if err == nil {
		whole, err := daylog.Decode(log)
		if err == nil {
			whole.Add(&r.fresh)
		}
		return whole, err
	}
	if !errors.Is(err, errDayDamaged) {
		return nil, err
	}
	events, failed := pastEvents(r.tx, r.day) // includes the new events, which were moved there
	if failed != nil {
		return nil, failed
	}
	if int64(events.Len()-r.fresh.Len()) != d.signIns+d.signUps+d.organizations+d.workspaces {
		return nil, err
	}
	return events, nil
}

// putMonth adds the users of the day to its month. It rebuilds a damaged month from its days.
func (r *dayRollUp) putMonth(users *daylog.Users) error {
	m := MonthRow{Month: MonthOf(r.day)}
	held, err := monthRows(r.tx, m.Month, m.Month+1)
	if err != nil {
		return err
	}
	all := users
	if len(held) == 1 {
		m = held[0]
		all, err = readMonthSet(r.tx, m)
		if errors.Is(err, errDayDamaged) || errors.Is(err, daylog.ErrCorrupt) {
			all, err = usersOfDays(r.tx, m.Month)
		}
		if err != nil {
			return err
		}
		all.Or(users)
	}
	m.Version++
	return PutMonthRow(r.tx, m, all)
}

func (r *dayRollUp) putTotals() error {
	for what, total := range map[string]int64{totalOrdinals: r.totals.ordinals, totalSignUps: r.totals.signUps} {
		if err := r.tx.Exec(`UPDATE sealed_totals SET total = ? WHERE what = ? AND deployment = :deployment`, total, what); err != nil {
			return err
		}
	}
	return nil
}
