package users

import (
	"context"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

type txWebhooks struct{ *peopleTx }

const webhookColumns = `endpoint_id, position, target, paused, ended_at, owner, leased_until, epoch, next_at, blocked, failures, failing_since, status, error, succeeded_at,
	disabled_at, reason, enabled_at, reported`

func readWebhookState(row *sql.Rows, w *people.WebhookState) error {
	var paused, blocked int64
	err := row.Scan(&w.Endpoint, &w.Position, &w.Target, &paused, db.At{To: &w.EndedAt}, &w.Owner, db.At{To: &w.LeasedUntil}, &w.Epoch, db.At{To: &w.NextAt}, &blocked, &w.Failures,
		db.At{To: &w.FailingSince}, &w.Status, &w.Error, db.At{To: &w.SucceededAt}, db.At{To: &w.DisabledAt}, &w.Reason, db.At{To: &w.EnabledAt}, &w.Reported)
	w.Paused, w.Blocked = paused != 0, blocked != 0
	return err
}

func number(is bool) int64 {
	if is {
		return 1
	}
	return 0
}

func (tx txWebhooks) WebhookState(endpoint int64) (people.WebhookState, bool, error) {
	return db.First(tx.Tx, readWebhookState, `SELECT `+webhookColumns+` FROM webhook_states WHERE deployment = :deployment AND endpoint_id = ?`, endpoint)
}

func (tx txWebhooks) LockWebhookState(endpoint int64) (people.WebhookState, bool, error) {
	return db.First(tx.Tx, readWebhookState, `SELECT `+webhookColumns+` FROM webhook_states WHERE deployment = :deployment AND endpoint_id = ?`+tx.Lock(), endpoint)
}

func (tx txWebhooks) InsertWebhookState(w people.WebhookState) (bool, error) {
	n, err := tx.Affected(`INSERT INTO webhook_states (deployment, `+webhookColumns+`)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		w.Endpoint, w.Position, w.Target, number(w.Paused), db.Micros(w.EndedAt), w.Owner, db.Micros(w.LeasedUntil), w.Epoch, db.Micros(w.NextAt), number(w.Blocked), w.Failures,
		db.Micros(w.FailingSince), w.Status, w.Error, db.Micros(w.SucceededAt), db.Micros(w.DisabledAt), w.Reason, db.Micros(w.EnabledAt), w.Reported)
	return n == 1, err
}

func (tx txWebhooks) LeaseWebhook(endpoint int64, owner string, now, until time.Time) (people.WebhookState, bool, error) {
	n, err := tx.Affected(`UPDATE webhook_states SET owner = ?, leased_until = ?, epoch = epoch + 1
		WHERE deployment = :deployment AND endpoint_id = ? AND leased_until <= ? AND paused = 0 AND disabled_at = 0`,
		owner, db.Micros(until), endpoint, db.Micros(now))
	if err != nil || n == 0 {
		return people.WebhookState{}, false, err
	}
	return tx.WebhookState(endpoint)
}

func (tx txWebhooks) UpdateWebhookState(w people.WebhookState, read int64) (bool, error) {
	n, err := tx.Affected(`UPDATE webhook_states SET position = CASE WHEN position > ? THEN position ELSE ? END, target = ?, paused = ?, ended_at = ?, leased_until = ?, next_at = ?, blocked = ?, failures = ?, failing_since = ?,
		status = ?, error = ?, succeeded_at = ?, disabled_at = ?, reason = ?, enabled_at = ?, reported = ?,
		epoch = ? WHERE deployment = :deployment AND endpoint_id = ? AND epoch = ?`,
		w.Position, w.Position, w.Target, number(w.Paused), db.Micros(w.EndedAt), db.Micros(w.LeasedUntil), db.Micros(w.NextAt), number(w.Blocked), w.Failures, db.Micros(w.FailingSince),
		w.Status, w.Error, db.Micros(w.SucceededAt), db.Micros(w.DisabledAt), w.Reason, db.Micros(w.EnabledAt), w.Reported, w.Epoch, w.Endpoint, read)
	return n == 1, err
}

func (tx txWebhooks) RemoveWebhook(endpoint int64, before time.Time, limit int) (bool, error) {
	state, found, err := tx.LockWebhookState(endpoint)
	if err != nil || !found || state.EndedAt.IsZero() || !state.EndedAt.Before(before) {
		return true, err
	}
	n, err := tx.Affected(`DELETE FROM webhook_deliveries WHERE deployment = :deployment AND id IN (
		SELECT id FROM webhook_deliveries WHERE deployment = :deployment AND endpoint_id = ? ORDER BY id LIMIT ?)`, endpoint, limit)
	if err != nil || n == int64(limit) {
		return false, err
	}
	if err := tx.Exec(`DELETE FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ?`, endpoint); err != nil {
		return false, err
	}
	return true, tx.Exec(`DELETE FROM webhook_states WHERE deployment = :deployment AND endpoint_id = ?`, endpoint)
}

const (
	openColumns     = `id, endpoint_id, sequence, event_id, type, subject_type, subject_id, status, created_at, next_at, settled_at, attempts, http_status, latency_ms, replay_id, source_id, resent`
	deliveryColumns = openColumns + `, tries`
)

func readDelivery(row *sql.Rows, d *people.WebhookDelivery) error {
	var latency, resent int64
	err := row.Scan(&d.ID, &d.Endpoint, &d.Sequence, &d.Event, &d.Type, &d.SubjectType, &d.SubjectID, &d.Status, db.At{To: &d.CreatedAt}, db.At{To: &d.NextAt},
		db.At{To: &d.SettledAt}, &d.Attempts, &d.HTTPStatus, &latency, &d.Replay, &d.Source, &resent, &d.Tries)
	d.Resent = resent != 0
	d.Latency = time.Duration(latency) * time.Millisecond
	return err
}

// settledFields are the columns of a delivery that change.
var settledFields = []db.Field[people.WebhookDelivery]{
	db.Numbers("id", func(d *people.WebhookDelivery) int64 { return d.ID }),
	db.Texts("status", func(d *people.WebhookDelivery) string { return d.Status }),
	db.Numbers("next_at", func(d *people.WebhookDelivery) int64 { return db.Micros(d.NextAt) }),
	db.Numbers("settled_at", func(d *people.WebhookDelivery) int64 { return db.Micros(d.SettledAt) }),
	db.Numbers("attempts", func(d *people.WebhookDelivery) int64 { return d.Attempts }),
	db.Numbers("http_status", func(d *people.WebhookDelivery) int64 { return d.HTTPStatus }),
	db.Numbers("latency_ms", func(d *people.WebhookDelivery) int64 { return d.Latency.Milliseconds() }),
	db.Texts("tries", func(d *people.WebhookDelivery) string { return d.Tries }),
}

func (tx txWebhooks) InsertDeliveries(deliveries []people.WebhookDelivery) error {
	fields := append([]db.Field[people.WebhookDelivery]{
		db.Numbers("endpoint_id", func(d *people.WebhookDelivery) int64 { return d.Endpoint }),
		db.Numbers("sequence", func(d *people.WebhookDelivery) int64 { return d.Sequence }),
		db.Numbers("event_id", func(d *people.WebhookDelivery) int64 { return d.Event }),
		db.Texts("type", func(d *people.WebhookDelivery) string { return d.Type }),
		db.Texts("subject_type", func(d *people.WebhookDelivery) string { return d.SubjectType }),
		db.Texts("subject_id", func(d *people.WebhookDelivery) string { return d.SubjectID }),
		db.Numbers("created_at", func(d *people.WebhookDelivery) int64 { return db.Micros(d.CreatedAt) }),
		db.Numbers("replay_id", func(d *people.WebhookDelivery) int64 { return d.Replay }),
		db.Numbers("source_id", func(d *people.WebhookDelivery) int64 { return d.Source }),
	}, settledFields...)
	return db.InsertMany(tx.Tx, "webhook_deliveries", deliveries, fields...)
}

func (tx txWebhooks) UpdateDeliveries(deliveries []people.WebhookDelivery) error {
	if len(deliveries) == 0 {
		return tx.Writable()
	}
	_, err := db.UpdateEach(tx.Tx, "webhook_deliveries", `status = l.status, next_at = l.next_at, settled_at = l.settled_at, attempts = l.attempts,
		http_status = l.http_status, latency_ms = l.latency_ms, tries = l.tries`, "t.id = l.id", deliveries, settledFields...)
	return err
}

func (tx txWebhooks) OpenDeliveries(endpoint int64, limit int) ([]people.WebhookDelivery, error) {
	return db.List(tx.Tx, readDelivery, `SELECT `+openColumns+`, '' FROM webhook_deliveries
		WHERE deployment = :deployment AND endpoint_id = ? AND settled_at = 0 ORDER BY sequence LIMIT ?`, endpoint, limit)
}

func (tx txWebhooks) DeliveryTries(of []int64) (map[int64]string, error) {
	tries := map[int64]string{}
	_, err := db.Among(tx.Tx, func(row *sql.Rows, d *people.WebhookDelivery) error {
		err := row.Scan(&d.ID, &d.Tries)
		tries[d.ID] = d.Tries
		return err
	}, `SELECT id, tries FROM webhook_deliveries WHERE deployment = :deployment AND id`, of)
	return tries, err
}

func (tx txWebhooks) Delivery(id int64) (people.WebhookDelivery, bool, error) {
	return db.First(tx.Tx, readDelivery, `SELECT `+deliveryColumns+` FROM webhook_deliveries WHERE deployment = :deployment AND id = ?`, id)
}

// DueWebhooks implements people.WebhookUpkeep.
func (s *Rows) DueWebhooks(ctx context.Context, now time.Time, share, limit int) ([]people.WebhookRef, error) {
	return s.webhooks(ctx, `(SELECT s.*, ROW_NUMBER() OVER (PARTITION BY s.deployment ORDER BY s.leased_until) AS turn FROM webhook_states s
			WHERE s.paused = 0 AND s.disabled_at = 0 AND s.leased_until <= ? AND (s.next_at > 0 AND s.next_at <= ?
				OR s.blocked = 0 AND EXISTS (SELECT 1 FROM event_log e WHERE e.deployment = s.deployment AND e.sequence > s.position)
				OR EXISTS (SELECT 1 FROM webhook_replays r WHERE r.deployment = s.deployment AND r.endpoint_id = s.endpoint_id AND r.completed_at = 0 AND r.next_at <= ?))) w
		WHERE w.turn <= ? ORDER BY w.turn, w.leased_until LIMIT ?`, db.Micros(now), db.Micros(now), db.Micros(now), share, limit)
}

// ListWebhooks implements people.WebhookUpkeep.
func (s *Rows) ListWebhooks(ctx context.Context, after people.WebhookRef, limit int) ([]people.WebhookRef, error) {
	return s.webhooks(ctx, `webhook_states w WHERE (w.deployment, w.endpoint_id) > (?, ?) ORDER BY w.deployment, w.endpoint_id LIMIT ?`, after.Deployment, after.Endpoint, limit)
}

func (s *Rows) webhooks(ctx context.Context, from string, args ...any) (all []people.WebhookRef, err error) {
	err = s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var w people.WebhookRef
		var paused, disabled int64
		err := row.Scan(&w.Deployment, &w.Endpoint, &w.Target, &paused, &disabled, db.At{To: &w.FailingSince}, db.At{To: &w.EndedAt})
		w.Paused, w.Disabled = paused != 0, disabled != 0
		all = append(all, w)
		return err
	}, `SELECT w.deployment, w.endpoint_id, w.target, w.paused, w.disabled_at, w.failing_since, w.ended_at FROM `+from, args...)
	return all, err
}

// AgedDeliveries implements people.WebhookUpkeep. It steps from one deployment to the next.
func (s *Rows) AgedDeliveries(ctx context.Context, before, failedBefore time.Time) ([]string, error) {
	return s.deployments(ctx, `WITH RECURSIVE d(deployment) AS (
			SELECT MIN(deployment) FROM webhook_deliveries
			UNION ALL SELECT (SELECT MIN(c.deployment) FROM webhook_deliveries c WHERE c.deployment > d.deployment) FROM d WHERE d.deployment IS NOT NULL
		) SELECT deployment FROM d WHERE EXISTS (SELECT 1 FROM webhook_deliveries c WHERE c.deployment = d.deployment AND c.id < ? AND c.settled_at > 0 AND c.status <> 'failed')
			OR EXISTS (SELECT 1 FROM webhook_deliveries c WHERE c.deployment = d.deployment AND c.id < ? AND c.status = 'failed')`,
		ids.From(before), ids.From(failedBefore))
}
