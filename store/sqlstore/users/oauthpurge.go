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
	// grantsAtOnce is how many grants one transaction deletes: each may have a hundred families, with all their tokens.
	grantsAtOnce = 10
	// endingKept is how long an ending is remembered at least: longer than a request takes whose grant counts as made before it.
	endingKept = time.Hour
)

// purgeIdleClients deletes clients of run time that nobody used for long.
func purgeIdleClients(ctx context.Context, s *Rows, now time.Time, limit int) (int64, error) {
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
	purged := int64(0)
	for _, c := range all {
		deleted := false
		err := s.Change(ctx, c.deployment, func(tx people.Tx) (err error) {
			deleted = false
			row, found, err := tx.OAuthClients().LockOAuthClient(c.app, c.client)
			if err != nil || !found || !row.UsedAt.Before(before) { // it was used meanwhile
				return err
			}
			deleted, err = tx.OAuthClients().DeleteOAuthClient(c.app, c.client, now)
			return err
		})
		if err != nil {
			return purged, err
		}
		if deleted {
			purged++
		}
	}
	return purged, nil
}

// ending is what of an app, or of a client of it, is over.
type ending struct {
	deployment, client string
	app, endedAt       int64
}

// lastGrants is how long a server that has not yet seen a client or an app go may still let people grant it something: it follows within 1 s.
const lastGrants = 2 * time.Second

// WriteEndings ends for good what people granted the clients and apps whose documents are deleted: one that is created again under its name has
// the same id. A document that only gives way to another ends nothing: its resource is still there, or will be swept.
func (s *Rows) WriteEndings(ctx context.Context, on db.Session, deleted []store.Document) error {
	until := s.db.Clock().Add(lastGrants)
	for _, d := range deleted {
		app, client := d.ID, ""
		switch d.Kind {
		case document.KindOAuthApp:
		case document.KindOAuthClient:
			var content document.OAuthClient
			if _, err := document.Decode(d.Payload, &content); err != nil {
				continue // a newer operator's: its deletion must go on
			}
			client = ids.Format(d.ID)
			found, err := on.Row(ctx, []any{&app}, `SELECT id FROM documents WHERE kind = ? AND namespace = ? AND name = ?`, document.KindOAuthApp, d.Namespace, content.App)
			if err != nil {
				return err
			}
			if !found { // all that was granted ended with the app
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

// purgeEndings deletes up to limit rows of each kind that ended with their clients or apps, and endings that nothing is left of.
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

// empty notes that nothing is left of an ending, or forgets it, unless it ended more meanwhile.
func empty(tx *peopleTx, e ending, forget bool) error {
	if forget {
		return tx.Exec(`DELETE FROM oauth_endings WHERE app_id = ? AND client = ? AND ended_at = ? AND deployment = :deployment`, e.app, e.client, e.endedAt)
	}
	return tx.Exec(`UPDATE oauth_endings SET emptied = 1 WHERE app_id = ? AND client = ? AND ended_at = ? AND deployment = :deployment`, e.app, e.client, e.endedAt)
}

// purgeEnding deletes up to limit grants that an ending is about, each with all that lives on it, or as many clients.
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
