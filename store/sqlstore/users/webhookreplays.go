package users

import (
	"cmp"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// selected returns what a filter adds to the condition of the endpoint, with all arguments.
func selected(endpoint int64, of people.DeliveryFilter) (condition string, args []any) {
	args = []any{endpoint}
	add := func(more string, value any) { condition, args = condition+" AND "+more, append(args, value) }
	if of.Before != 0 {
		add("id < ?", of.Before)
	}
	if of.After != 0 {
		add("id > ?", of.After)
	}
	if !of.Since.IsZero() {
		add("id >= ?", ids.From(of.Since))
	}
	if !of.Until.IsZero() {
		add("id < ?", ids.From(of.Until))
	}
	if of.Type != "" {
		add("type = ?", of.Type)
	}
	switch {
	case of.Dead:
		condition += " AND status = 'failed' AND source_id = 0 AND resent = 0"
	case of.Status == people.DeliveryFailed: // the text lets the engine use the index of failed ones
		condition += " AND status = 'failed'"
	case of.Status == people.DeliveryPending:
		condition += " AND settled_at = 0"
	case of.Status != "":
		add("status = ?", of.Status)
	}
	return condition, args
}

func (tx txWebhooks) Deliveries(endpoint int64, of people.DeliveryFilter, limit int) ([]people.WebhookDelivery, error) {
	condition, args := selected(endpoint, of)
	order := " DESC"
	if of.OldestFirst {
		order = ""
	}
	columns := deliveryColumns
	if of.Brief {
		columns = openColumns + `, ''`
	}
	return db.List(tx.Tx, readDelivery, `SELECT `+columns+` FROM webhook_deliveries WHERE deployment = :deployment AND endpoint_id = ?`+condition+` ORDER BY id`+order+` LIMIT ?`, append(args, limit)...)
}

func (tx txWebhooks) DeliveriesAmong(endpoint int64, of []int64) ([]people.WebhookDelivery, error) {
	found, err := db.Among(tx.Tx, readDelivery, `SELECT `+openColumns+`, '' FROM webhook_deliveries WHERE deployment = :deployment AND endpoint_id = ? AND id`, of, endpoint)
	slices.SortFunc(found, func(a, b people.WebhookDelivery) int { return cmp.Compare(a.ID, b.ID) })
	return found, err
}

func (tx txWebhooks) CountDeliveries(endpoint int64, of people.DeliveryFilter, most int64) (n int64, err error) {
	condition, args := selected(endpoint, of)
	_, err = tx.Get([]any{&n}, `SELECT COUNT(*) FROM (SELECT 1 FROM webhook_deliveries WHERE deployment = :deployment AND endpoint_id = ?`+condition+` LIMIT ?) c`, append(args, most)...)
	return n, err
}

func (tx txWebhooks) SkipDeliveries(endpoint, replay int64, at time.Time) (int64, error) {
	query, args := `UPDATE webhook_deliveries SET status = 'skipped', settled_at = ?, next_at = 0 WHERE deployment = :deployment AND endpoint_id = ? AND settled_at = 0`, []any{db.Micros(at), endpoint}
	if replay != 0 {
		query, args = query+` AND replay_id = ?`, append(args, replay)
	}
	return tx.Affected(query, args...)
}

func (tx txWebhooks) HastenDeliveries(endpoint int64, at time.Time) (int64, error) {
	return tx.Affected(`UPDATE webhook_deliveries SET next_at = ? WHERE deployment = :deployment AND endpoint_id = ? AND settled_at = 0`, db.Micros(at), endpoint)
}

func (tx txWebhooks) MarkResent(endpoint int64, events []int64) error {
	if len(events) == 0 {
		return tx.Writable()
	}
	type row struct{ id int64 }
	rows, err := db.Among(tx.Tx, func(scanned *sql.Rows, r *row) error { return scanned.Scan(&r.id) },
		`SELECT id FROM webhook_deliveries WHERE deployment = :deployment AND endpoint_id = ? AND status = 'failed' AND resent = 0 AND event_id`, events, endpoint)
	if err != nil || len(rows) == 0 {
		return errors.Join(err, tx.Writable())
	}
	_, err = db.UpdateEach(tx.Tx, "webhook_deliveries", `resent = 1`, "t.id = l.id", rows, db.Numbers("id", func(r *row) int64 { return r.id }))
	return err
}

func (tx txWebhooks) ForgetDeliveries(before, failedBefore time.Time, limit int) (int64, error) {
	n, err := tx.Affected(`DELETE FROM webhook_deliveries WHERE deployment = :deployment AND id IN (
		SELECT id FROM webhook_deliveries WHERE deployment = :deployment AND id < ? AND settled_at > 0 AND status <> 'failed' ORDER BY id LIMIT ?)`, ids.From(before), limit)
	if err != nil || n == int64(limit) {
		return n, err
	}
	failed, err := tx.Affected(`DELETE FROM webhook_deliveries WHERE deployment = :deployment AND id IN (
		SELECT id FROM webhook_deliveries WHERE deployment = :deployment AND id < ? AND status = 'failed' ORDER BY id LIMIT ?)`, ids.From(failedBefore), int64(limit)-n)
	return n + failed, err
}

const replayColumns = `id, endpoint_id, status, idempotency_key, selection, place, total, skipped, replayed, failed, next_at, created_at, started_at, completed_at`

func readReplay(row *sql.Rows, r *people.WebhookReplay) error {
	return row.Scan(&r.ID, &r.Endpoint, &r.Status, &r.Key, &r.Selection, &r.Place, &r.Total, &r.Skipped, &r.Replayed, &r.Failed, db.At{To: &r.NextAt}, db.At{To: &r.CreatedAt},
		db.At{To: &r.StartedAt}, db.At{To: &r.CompletedAt})
}

func (tx txWebhooks) InsertReplay(r people.WebhookReplay) (bool, error) {
	n, err := tx.Affected(`INSERT INTO webhook_replays (deployment, `+replayColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		r.ID, r.Endpoint, r.Status, r.Key, r.Selection, r.Place, r.Total, r.Skipped, r.Replayed, r.Failed, db.Micros(r.NextAt), db.Micros(r.CreatedAt), db.Micros(r.StartedAt), db.Micros(r.CompletedAt))
	return n == 1, err
}

func (tx txWebhooks) Replay(id int64) (people.WebhookReplay, bool, error) {
	return db.First(tx.Tx, readReplay, `SELECT `+replayColumns+` FROM webhook_replays WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txWebhooks) OpenReplay(endpoint int64) (people.WebhookReplay, bool, error) {
	return db.First(tx.Tx, readReplay, `SELECT `+replayColumns+` FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ? AND completed_at = 0`, endpoint)
}

func (tx txWebhooks) ReplayByKey(endpoint int64, key string) (people.WebhookReplay, bool, error) {
	return db.First(tx.Tx, readReplay, `SELECT `+replayColumns+` FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ? AND idempotency_key = ? AND idempotency_key <> ''`, endpoint, key)
}

func (tx txWebhooks) Replays(endpoint, before int64, limit int) ([]people.WebhookReplay, error) {
	query, args := `SELECT `+replayColumns+` FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ?`, []any{endpoint}
	if before != 0 {
		query, args = query+` AND id < ?`, append(args, before)
	}
	return db.List(tx.Tx, readReplay, query+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
}

func (tx txWebhooks) UpdateReplay(r people.WebhookReplay) (bool, error) {
	larger := func(column string) string {
		return column + ` = CASE WHEN ` + column + ` > ? THEN ` + column + ` ELSE ? END, `
	}
	started := db.Micros(r.StartedAt)
	n, err := tx.Affected(`UPDATE webhook_replays SET `+larger("place")+larger("skipped")+larger("replayed")+larger("failed")+larger("started_at")+`
		status = CASE WHEN ? = 'pending' THEN status ELSE ? END, next_at = ?, completed_at = ? WHERE deployment = :deployment AND id = ? AND completed_at = 0`,
		r.Place, r.Place, r.Skipped, r.Skipped, r.Replayed, r.Replayed, r.Failed, r.Failed, started, started, r.Status, r.Status, db.Micros(r.NextAt), db.Micros(r.CompletedAt), r.ID)
	return n == 1, err
}

func (tx txWebhooks) OpenReplayID(endpoint int64) (id int64, found bool, err error) {
	found, err = tx.Get([]any{&id}, `SELECT id FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ? AND completed_at = 0`, endpoint)
	return id, found, err
}

func (tx txWebhooks) ReplayedSince(since time.Time) (replays, events int64, err error) {
	_, err = tx.Get([]any{&replays, &events}, `SELECT COUNT(*), CAST(COALESCE(SUM(total), 0) AS BIGINT) FROM webhook_replays WHERE deployment = :deployment AND id >= ?`, ids.From(since))
	return replays, events, err
}

func (tx txWebhooks) ForgetReplays(endpoint int64, keep int, before time.Time) error {
	return tx.Exec(`DELETE FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ? AND completed_at > 0 AND id < ? AND id NOT IN (
		SELECT id FROM webhook_replays WHERE deployment = :deployment AND endpoint_id = ? ORDER BY id DESC LIMIT ?)`, endpoint, ids.From(before), endpoint, keep)
}
