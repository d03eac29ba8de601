package users

import (
	"context"
	"database/sql"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const (
	// grantsAtOnce is how many grants one transaction deletes: each may have a hundred token families with all their
	// tokens.
	grantsAtOnce = 10
	// endingKept is the least time for which an ending is kept. It is longer than any request that creates a grant with
	// a time before the ending.
	endingKept = time.Hour
)

// purgeIdleClients deletes runtime clients that were not used for people.IdleClientFor.
func purgeIdleClients(ctx context.Context, s *Rows, log people.ExpiryEvents, now time.Time, limit int) (int64, error) {
	type idle struct {
		deployment, client string
		app                int64
	}
	var all []idle
	before := now.Add(-people.IdleClientFor)
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var c idle
		err := row.Scan(&c.deployment, &c.app, &c.client)
		all = append(all, c)
		return err
	}, `SELECT deployment, app_id, client FROM oauth_clients WHERE used_at > 0 AND by_backend = 0 AND used_at < ? ORDER BY used_at LIMIT ?`, db.Micros(before), limit)
	if err != nil {
		return 0, err
	}
	return forEach(ctx, all, func(c idle) (purged int64, err error) {
		err = s.Change(ctx, c.deployment, func(tx people.Tx) error {
			purged = 0
			row, found, err := tx.OAuthClients().LockOAuthClient(c.app, c.client)
			if err != nil || !found || !row.UsedAt.Before(before) { // it was used concurrently
				return err
			}
			deleted, err := tx.OAuthClients().DeleteOAuthClient(c.app, c.client, now)
			if err != nil || !deleted {
				return err
			}
			if purged = 1; log == nil {
				return nil
			}
			e, err := log.Client(row)
			if err != nil {
				return err
			}
			return tx.Records().LogEvents([]people.LoggedEvent{e})
		})
		return purged, err
	})
}

// ending marks an app, or a client of it, whose grants have ended.
type ending struct {
	deployment, client string
	app, endedAt       int64
}

// lastGrants is how long a server that has not yet seen the deletion of a client or an app may still accept grants:
// servers follow within 1 s.
const lastGrants = 2 * time.Second

// WriteEndings ends the grants of clients and apps whose documents are deleted for good: a resource that is created
// again under the name has the same id. A document that only yields to another ends nothing: its resource still exists,
// or will be swept.
func (s *Rows) WriteEndings(ctx context.Context, on db.Session, deleted []store.Document) error {
	until := s.db.Clock().Add(lastGrants)
	for _, d := range deleted {
		app, client := d.ID, ""
		switch d.Kind {
		case document.KindOAuthApp:
		case document.KindOAuthClient:
			var content document.OAuthClient
			if _, err := document.Decode(d.Payload, &content); err != nil {
				continue // a newer operator wrote this payload; the deletion must not fail
			}
			client = ids.Format(d.ID)
			found, err := on.Row(ctx, []any{&app}, `SELECT id FROM documents WHERE kind = ? AND namespace = ? AND name = ?`, document.KindOAuthApp, d.Namespace, content.App)
			if err != nil {
				return err
			}
			if !found { // all grants ended with the app
				continue
			}
		default:
			continue
		}
		if err := endGrants((&peopleTx{Tx: on.Of(ctx, d.Deployment)}), app, client, until); err != nil {
			return err
		}
	}
	return nil
}

// purgeEndings deletes up to limit rows of each kind that ended with their clients or apps, and endings with no rows
// left.
func purgeEndings(ctx context.Context, s *Rows, now time.Time, limit int) (int64, error) {
	var all []ending
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var e ending
		err := row.Scan(&e.deployment, &e.app, &e.client, &e.endedAt)
		all = append(all, e)
		return err
	}, `SELECT deployment, app_id, client, ended_at FROM oauth_endings WHERE emptied = 0 OR ended_at < ? ORDER BY ended_at LIMIT ?`,
		db.Micros(now.Add(-endingKept)), limit)
	if err != nil {
		return 0, err
	}
	purged := int64(0)
	for _, e := range all {
		rest := limit - int(purged)
		if rest <= 0 {
			break
		}
		n, err := purgeEnding(ctx, s, e, rest)
		purged += n
		if err != nil {
			return purged, err
		}
		if int(n) >= rest {
			continue
		}
		forget := e.endedAt < db.Micros(now.Add(-endingKept))
		if err := change(ctx, s, e.deployment, func(tx *peopleTx) error { return empty(tx, e, forget) }); err != nil {
			return purged, err
		}
	}
	return purged, nil
}

// empty marks an ending as having no rows left, or deletes it, unless the ending was renewed concurrently.
func empty(tx *peopleTx, e ending, forget bool) error {
	if forget {
		return tx.Exec(`DELETE FROM oauth_endings WHERE app_id = ? AND client = ? AND ended_at = ? AND deployment = :deployment`, e.app, e.client, e.endedAt)
	}
	return tx.Exec(`UPDATE oauth_endings SET emptied = 1 WHERE app_id = ? AND client = ? AND ended_at = ? AND deployment = :deployment`, e.app, e.client, e.endedAt)
}

// purgeEnding deletes up to limit grants of an ending with everything that depends on them. For an app it also deletes
// up to limit clients.
func purgeEnding(ctx context.Context, s *Rows, e ending, limit int) (int64, error) {
	which, args := ``, []any{e.app}
	if e.client != "" {
		which, args = ` AND client = ?`, append(args, e.client)
	}
	grants, err := db.List(s.db.Reads().ReadsOf(ctx, e.deployment), readID,
		`SELECT id FROM oauth_grants WHERE deployment = :deployment AND app_id = ?`+which+` AND created_at <= ? LIMIT ?`,
		append(args, e.endedAt, limit)...)
	if err != nil {
		return 0, err
	}
	purged := int64(0)
	for some := range slices.Chunk(grants, grantsAtOnce) {
		err := s.Change(ctx, e.deployment, func(tx people.Tx) error {
			for _, id := range some {
				if _, err := tx.OAuth().DeleteGrant(id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return purged, err
		}
		purged += int64(len(some))
	}
	if e.client != "" || len(grants) == limit {
		return purged, nil
	}
	var clients int64
	err = change(ctx, s, e.deployment, func(tx *peopleTx) (err error) {
		clients, err = tx.Affected(`DELETE FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND created_at <= ? AND client IN (
			SELECT c.client FROM oauth_clients c WHERE c.deployment = :deployment AND c.app_id = ? AND c.created_at <= ? LIMIT ?)`,
			e.app, e.endedAt, e.app, e.endedAt, limit)
		return err
	})
	return purged + clients, err
}
