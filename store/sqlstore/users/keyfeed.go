package users

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// keyLogAge is how long entries of the feed of changed keys are kept.
const keyLogAge = time.Hour

// pendingKeys are the entries that a transaction adds to the feed of changed keys. They are written directly before the
// commit: the feed's only row is locked after every other lock, and as briefly as possible.
type pendingKeys struct {
	changed []apikey.Digest
	// all: any key may have changed.
	all bool
	// imported: a key without a public id was written.
	imported bool
}

// mark adds keys by their digests.
func (p *pendingKeys) mark(digests [][]byte) {
	for _, digest := range digests {
		var d apikey.Digest
		copy(d[:], digest)
		p.changed = append(p.changed, d)
	}
}

// publish writes the pending entries.
func (p *pendingKeys) publish(ctx context.Context, on db.Session, now time.Time) error {
	if p.imported {
		if _, err := on.Exec(ctx, `UPDATE api_key_feed SET imported = 1 WHERE id = 1 AND imported = 0`); err != nil {
			return err
		}
	}
	if len(p.changed) == 0 && !p.all {
		return nil
	}
	digests := make([][]byte, len(p.changed))
	for i := range p.changed {
		digests[i] = p.changed[i][:]
	}
	if p.all {
		digests = [][]byte{{}}
	}
	tag := rand.Text()
	var revision int64
	if _, err := on.Row(ctx, []any{&revision}, `UPDATE api_key_feed SET revision = revision + 1, tag = ? WHERE id = 1 RETURNING revision`, tag); err != nil {
		return err
	}
	ordinal := 0
	err := db.InChunks(on, digests, 5, func(part [][]byte) error {
		args := make([]any, 0, 5*len(part))
		for _, digest := range part {
			args = append(args, revision, ordinal, tag, digest, now.UnixMicro())
			ordinal++
		}
		_, err := on.Exec(ctx, `INSERT INTO api_key_log (revision, ordinal, tag, digest, written_at) VALUES `+db.RowsOf(len(part), 5), on.Dialect.Variable(args)...)
		return err
	})
	if err != nil || on.Dialect.PublishKeys == "" {
		return err
	}
	_, err = on.Exec(ctx, on.Dialect.PublishKeys)
	return err
}

// wake wakes this process's readers after a commit. If other processes read too, the engine notifies all of them.
func wake(s *Rows, p *pendingKeys) {
	if (len(p.changed) > 0 || p.all) && s.db.Listen == nil {
		s.notifier.Notify()
	}
}

// APIKeyByDigest implements people.Keys.
func (s *Rows) APIKeyByDigest(ctx context.Context, digest apikey.Digest) (people.BoundKey, bool, error) {
	var bound people.BoundKey
	found := false
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var scanned apiKeyRow
		var owned, member, inWorkspace int64
		var role, workspaceRole int64
		var owner, ownsWorkspace bool
		err := row.Scan(append(scanned.fields(), &bound.Deployment, &owned, &member, &role, &owner, &inWorkspace, &workspaceRole, &ownsWorkspace)...)
		if err != nil {
			return err
		}
		found = true
		if bound.APIKey, err = scanned.read(); err != nil {
			return err
		}
		bound.Role, bound.OwnsIt = role, owner
		if bound.Workspace != 0 {
			bound.Role, bound.OwnsIt = workspaceRole, ownsWorkspace
		}
		bound.Orphaned = bound.Owner != 0 && owned == 0 || bound.Organization != 0 && member == 0 || bound.Workspace != 0 && inWorkspace == 0
		return nil
	}, `SELECT `+apiKeyColumns+`, k.deployment, CASE WHEN u.id IS NULL OR u.disabled = 1 THEN 0 ELSE 1 END,
		COALESCE(m.id, 0), COALESCE(m.role_id, 0), COALESCE(m.owner, 0), COALESCE(w.id, 0), COALESCE(w.role_id, 0), COALESCE(w.owner, 0)
		FROM api_keys k
		LEFT JOIN users u ON u.deployment = k.deployment AND u.id = k.owner_user_id AND k.owner_user_id > 0
		LEFT JOIN organization_memberships m ON m.deployment = k.deployment AND m.organization_id = k.organization_id
			AND m.user_id = k.owner_user_id AND k.organization_id > 0
		LEFT JOIN workspace_memberships w ON w.deployment = k.deployment AND w.workspace_id = k.workspace_id
			AND w.user_id = k.owner_user_id AND k.workspace_id > 0
		WHERE k.digest = ?`, digest[:])
	if err != nil {
		return people.BoundKey{}, false, fmt.Errorf("look up an API key: %w", err)
	}
	return bound, found, nil
}

// KeyPosition implements people.Keys.
func (s *Rows) KeyPosition(ctx context.Context) (people.KeyPosition, error) {
	position, _, err := readKeyFeed(ctx, s.db.Reads())
	if err != nil {
		return people.KeyPosition{}, fmt.Errorf("read the feed of API keys: %w", err)
	}
	return position, nil
}

func readKeyFeed(ctx context.Context, on db.Session) (position people.KeyPosition, imported bool, err error) {
	found, err := on.Row(ctx, []any{&position.Revision, &position.Tag, &imported}, `SELECT revision, tag, imported FROM api_key_feed WHERE id = 1`)
	if err == nil && !found {
		err = store.ErrSchema
	}
	return position, imported, err
}

// KeyChanges implements people.Keys. If nothing changed, which is the usual case, it costs one read of one row.
func (s *Rows) KeyChanges(ctx context.Context, after people.KeyPosition) (changes people.KeyChanges, err error) {
	changes.Position, changes.Imported, err = readKeyFeed(ctx, s.db.Reads())
	if err == nil && changes.Position != after {
		err = s.db.Snapshot(ctx, func(tx db.Session) error { return readKeyChanges(ctx, tx, after, &changes) })
	}
	if err != nil {
		return people.KeyChanges{}, fmt.Errorf("read the changed API keys: %w", err)
	}
	return changes, nil
}

// readKeyChanges reads the changes after a position of the log.
func readKeyChanges(ctx context.Context, tx db.Session, after people.KeyPosition, into *people.KeyChanges) (err error) {
	*into = people.KeyChanges{}
	if into.Position, into.Imported, err = readKeyFeed(ctx, tx); err != nil {
		return err
	}
	var one int
	known, err := tx.Row(ctx, []any{&one}, `SELECT 1 FROM api_key_log WHERE revision = ? AND tag = ? LIMIT 1`, after.Revision, after.Tag)
	if err != nil {
		return err
	}
	if !known {
		return people.ErrKeyFeedLost
	}
	return tx.Query(ctx, func(row *sql.Rows) error {
		var digest []byte
		if err := row.Scan(&digest); err != nil {
			return err
		}
		if len(digest) == 0 {
			into.All = true
			return nil
		}
		into.Digests = append(into.Digests, apikey.Digest(digest))
		return nil
	}, `SELECT digest FROM api_key_log WHERE revision > ? ORDER BY revision, ordinal`, after.Revision)
}

// pruneKeyLog deletes entries of the feed that are older than keyLogAge, never the newest ones. As in Prune, it cuts
// the log at one revision.
func pruneKeyLog(ctx context.Context, s *Rows, now time.Time) error {
	position, err := s.KeyPosition(ctx)
	if err != nil {
		return err
	}
	on := s.db.Writes()
	_, err = on.Exec(ctx, `DELETE FROM api_key_log WHERE revision < (SELECT COALESCE(MIN(revision), ?) FROM api_key_log WHERE written_at >= ?) AND revision < ?`,
		position.Revision, now.Add(-keyLogAge).UnixMicro(), position.Revision)
	return err
}

// KeySignals implements people.Keys.
func (s *Rows) KeySignals(ctx context.Context) <-chan struct{} { return s.notifier.Subscribe(ctx) }

// RecordKeyUses implements people.Keys.
func (s *Rows) RecordKeyUses(ctx context.Context, uses []people.KeyUse) error {
	on := s.db.Writes()
	// All servers write in the same order, so that no two servers deadlock.
	uses = slices.SortedFunc(slices.Values(uses), func(a, b people.KeyUse) int {
		if order := strings.Compare(a.Deployment, b.Deployment); order != 0 {
			return order
		}
		return int(min(max(a.ID-b.ID, -1), 1))
	})
	return db.InChunks(on, uses, 3, func(part []people.KeyUse) error {
		args := make([]any, 0, 3*len(part))
		for _, use := range part {
			args = append(args, use.Deployment, use.ID, db.Micros(use.At))
		}
		rows := strings.TrimSuffix(strings.Repeat(`(CAST(? AS TEXT), CAST(? AS BIGINT), CAST(? AS BIGINT)),`, len(part)), ",")
		args = append(args, people.KeyUseEvery.Microseconds())
		_, err := on.Exec(ctx, `WITH used (deployment, id, at) AS (VALUES `+rows+`)
			UPDATE api_keys SET last_used_at = used.at FROM used
			WHERE api_keys.deployment = used.deployment AND api_keys.id = used.id AND api_keys.last_used_at <= used.at - CAST(? AS BIGINT)`,
			on.Dialect.Variable(args)...)
		return err
	})
}
