package users

import (
	"cmp"
	"context"
	"database/sql"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const loggedColumns = `id, type, version, at, actor, subject_type, subject_id, organization_id, workspace_id, data`

// loggedTargets are where the columns of an event are read to.
func loggedTargets(e *people.LoggedEvent) []any {
	return []any{&e.ID, &e.Type, &e.Version, db.At{To: &e.At}, &e.Actor, &e.SubjectType, &e.SubjectID, &e.Organization, &e.Workspace, &e.Data}
}

func readNumbered(row *sql.Rows, e *people.LoggedEvent) error {
	return row.Scan(append(loggedTargets(e), &e.Sequence)...)
}

// loggedFields are the columns of an event without its number.
var loggedFields = []db.Field[people.LoggedEvent]{
	db.Numbers("id", func(e *people.LoggedEvent) int64 { return e.ID }),
	db.Texts("type", func(e *people.LoggedEvent) string { return e.Type }),
	db.Numbers("version", func(e *people.LoggedEvent) int64 { return e.Version }),
	db.Numbers("at", func(e *people.LoggedEvent) int64 { return db.Micros(e.At) }),
	db.Texts("actor", func(e *people.LoggedEvent) string { return e.Actor }),
	db.Texts("subject_type", func(e *people.LoggedEvent) string { return e.SubjectType }),
	db.Texts("subject_id", func(e *people.LoggedEvent) string { return e.SubjectID }),
	db.Numbers("organization_id", func(e *people.LoggedEvent) int64 { return e.Organization }),
	db.Numbers("workspace_id", func(e *people.LoggedEvent) int64 { return e.Workspace }),
	db.Texts("data", func(e *people.LoggedEvent) string { return e.Data }),
}

func (tx txRecords) LogEvents(events []people.LoggedEvent) error {
	tx.logged = tx.logged || len(events) > 0
	events = slices.Clone(events)
	for i := range events {
		events[i].ID = rand.Int64() // until the event has its number
	}
	return db.InsertMany(tx.Tx, "event_log_new", events, loggedFields...)
}

func (tx txEventLog) EventsAfter(sequence int64, limit int) ([]people.LoggedEvent, error) {
	return db.List(tx.Tx, readNumbered, `SELECT `+loggedColumns+`, sequence FROM event_log
		WHERE deployment = :deployment AND sequence > ? ORDER BY sequence LIMIT ?`, sequence, limit)
}

func (tx txEventLog) LoggedEvent(id int64) (people.LoggedEvent, bool, error) {
	return db.First(tx.Tx, readNumbered, `SELECT `+loggedColumns+`, sequence FROM event_log WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txEventLog) LoggedEvents(ids []int64) ([]people.LoggedEvent, error) {
	found, err := db.Among(tx.Tx, readNumbered, `SELECT `+loggedColumns+`, sequence FROM event_log WHERE deployment = :deployment AND id`, ids)
	slices.SortFunc(found, func(a, b people.LoggedEvent) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return found, err
}

func (tx txEventLog) EventBounds() (bounds people.EventBounds, err error) {
	// Two subqueries: for one query with both, SQLite reads all rows.
	_, err = tx.Get([]any{&bounds.First, &bounds.Last}, `SELECT COALESCE((SELECT MIN(sequence) FROM event_log WHERE deployment = :deployment), 0),
		COALESCE((SELECT MAX(sequence) FROM event_log WHERE deployment = :deployment), 0)`)
	return bounds, err
}

func (tx txEventLog) EventNumbered(sequence int64) (id int64, at time.Time, found bool, err error) {
	found, err = tx.Get([]any{&id, db.At{To: &at}}, `SELECT id, at FROM event_log WHERE deployment = :deployment AND sequence = ?`, sequence)
	return id, at, found, err
}

// numberEvents copies events, which have an order and numbers after a number. The id of an event is its time, as in
// every id of a runtime row, and the last bits of its number: it is unique unless two million events of a deployment
// happened in one millisecond.
func numberEvents(order, chosen string) string {
	return `INSERT INTO event_log (deployment, sequence, ` + loggedColumns + `)
		SELECT m.deployment, m.sequence, CASE WHEN m.at / 1000 > ? THEN (m.at / 1000 - ?) * 2097152 ELSE 0 END | (m.sequence & 2097151), m.type, m.version, m.at, m.actor, m.subject_type, m.subject_id,
			m.organization_id, m.workspace_id, m.data
		FROM (SELECT n.*, ? + ROW_NUMBER() OVER (ORDER BY n.` + order + `) AS sequence FROM event_log_new n WHERE n.deployment = :deployment AND n.` + order + chosen + `) m`
}

func (tx txEventLog) NumberEvents(limit int) ([]people.NumberedEvent, error) {
	if err := tx.Writable(); err != nil {
		return nil, err
	}
	turn := fnv.New64a()
	turn.Write([]byte("event_log\x00" + tx.Deployment))
	if err := tx.LockNamed(int64(turn.Sum64())); err != nil {
		return nil, err
	}
	bounds, err := tx.EventBounds()
	if err != nil {
		return nil, err
	}
	order := tx.Dialect.EventOrder
	var orders []int64
	events, err := db.List(tx.Tx, func(row *sql.Rows, e *people.NumberedEvent) error {
		var at int64
		err := row.Scan(&e.Type, db.At{To: &e.At}, &at)
		orders = append(orders, at)
		return err
	}, `SELECT type, at, `+order+` FROM event_log_new WHERE deployment = :deployment ORDER BY `+order+` LIMIT ?`, limit)
	if err != nil || len(events) == 0 {
		return nil, err
	}
	list, err := tx.Dialect.ListOf(orders)
	if err != nil {
		return nil, err
	}
	epoch := ids.CreatedAt(0).UnixMilli()
	if err := tx.Exec(numberEvents(order, tx.Dialect.OneOf), tx.Dialect.Planned(epoch, epoch, bounds.Last, list)...); err != nil {
		return nil, err
	}
	if tx.logged = true; tx.Dialect.PublishEvents != "" {
		if _, err := tx.Session.Exec(tx.Context(), tx.Dialect.PublishEvents); err != nil {
			return nil, err
		}
	}
	return events, tx.Exec(`DELETE FROM event_log_new WHERE deployment = :deployment AND `+order+tx.Dialect.OneOf, tx.Dialect.Planned(list)...)
}

func (tx txEventLog) EventPeople(of people.EventSubjects) (found people.EventPeople, err error) {
	rows, err := db.Among(tx.Tx, readUser, `SELECT `+userColumns+` FROM users u WHERE u.deployment = :deployment AND u.id`, of.Users)
	if err != nil {
		return people.EventPeople{}, err
	}
	found.Users = make(map[int64]people.EventPerson, len(rows))
	for _, u := range rows {
		found.Users[u.ID] = people.EventPerson{Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, Phone: u.Phone}
	}
	for _, texts := range []struct {
		into  *map[int64]string
		query string
		ids   []int64
	}{
		{&found.Emails, `SELECT id, address FROM emails WHERE deployment = :deployment AND id`, of.Emails},
		{&found.Phones, `SELECT id, number FROM phones WHERE deployment = :deployment AND id`, of.Phones},
		{&found.Invitations, `SELECT id, email FROM invitations WHERE deployment = :deployment AND accepted_at = 0 AND id`, of.Invitations},
	} {
		if *texts.into, err = db.MapOf[int64, string](tx.Tx, texts.query, texts.ids); err != nil {
			return people.EventPeople{}, err
		}
	}
	found.SignIns = map[int64]people.EventClient{}
	// A session can have sign-ins of several users: the client is that of a user whose sign-in is still there.
	_, err = db.Among(tx.Tx, func(row *sql.Rows, client *people.EventClient) error {
		var id int64
		err := row.Scan(&id, &client.Address, &client.UserAgent)
		found.SignIns[id] = *client
		return err
	}, `SELECT g.id, s.address, s.user_agent FROM signins g JOIN sessions s ON s.deployment = g.deployment AND s.id = g.session_id
		WHERE g.deployment = :deployment AND g.id`, of.SignIns)
	return found, err
}

func (tx txEventLog) ForgetEvents(before time.Time, limit int) (int64, error) {
	if err := tx.Writable(); err != nil {
		return 0, err
	}
	bounds, err := tx.EventBounds()
	if err != nil {
		return 0, err
	}
	oldest, err := tx.EventsAfter(0, limit)
	if err != nil {
		return 0, err
	}
	last := int64(0)
	for _, e := range oldest {
		if e.Sequence == bounds.Last || !e.At.Before(before) {
			break
		}
		last = e.Sequence
	}
	if last == 0 {
		return 0, nil
	}
	return tx.Affected(`DELETE FROM event_log WHERE deployment = :deployment AND sequence <= ?`, last)
}

// UnnumberedEvents implements people.EventUpkeep. It steps from one deployment to the next, however many events they
// have.
func (s *Rows) UnnumberedEvents(ctx context.Context) (all []people.Unnumbered, err error) {
	err = s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var u people.Unnumbered
		err := row.Scan(&u.Deployment, db.At{To: &u.Oldest})
		all = append(all, u)
		return err
	}, `WITH RECURSIVE d(deployment) AS (
			SELECT MIN(deployment) FROM event_log_new
			UNION ALL SELECT (SELECT MIN(c.deployment) FROM event_log_new c WHERE c.deployment > d.deployment) FROM d WHERE d.deployment IS NOT NULL
		) SELECT deployment, (SELECT c.at FROM event_log_new c WHERE c.deployment = d.deployment ORDER BY c.`+s.db.Dialect.EventOrder+` LIMIT 1)
		FROM d WHERE deployment IS NOT NULL`)
	return all, err
}

// EventSignals implements people.EventUpkeep.
func (s *Rows) EventSignals(ctx context.Context) <-chan struct{} { return s.events.Subscribe(ctx) }

// AgedEvents implements people.EventUpkeep.
func (s *Rows) AgedEvents(ctx context.Context, before time.Time) ([]string, error) {
	return s.deployments(ctx, `WITH RECURSIVE d(deployment) AS (
			SELECT MIN(deployment) FROM event_log
			UNION ALL SELECT (SELECT MIN(c.deployment) FROM event_log c WHERE c.deployment > d.deployment) FROM d WHERE d.deployment IS NOT NULL
		) SELECT deployment FROM d WHERE (SELECT c.at FROM event_log c WHERE c.deployment = d.deployment ORDER BY c.sequence LIMIT 1) < ?
			AND (SELECT MIN(c.sequence) FROM event_log c WHERE c.deployment = d.deployment) < (SELECT MAX(c.sequence) FROM event_log c WHERE c.deployment = d.deployment)`,
		db.Micros(before))
}

// deployments runs a query that returns deployments.
func (s *Rows) deployments(ctx context.Context, query string, args ...any) (all []string, err error) {
	err = s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var deployment string
		err := row.Scan(&deployment)
		all = append(all, deployment)
		return err
	}, query, args...)
	return all, err
}
