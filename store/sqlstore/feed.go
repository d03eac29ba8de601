package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store"
)

// Load returns every document and the position they are true at.
func (s *Store) Load(ctx context.Context) ([]store.Document, store.Position, error) {
	var documents []store.Document
	var row storeRow
	err := s.snapshot(ctx, func(tx session) error {
		var err error
		if row, err = readStoreRow(ctx, tx, ""); err != nil {
			return err
		}
		return tx.query(ctx, func(row *sql.Rows) error {
			document, err := scanDocument(row)
			documents = append(documents, document)
			return err
		}, `SELECT `+documentColumns+` FROM documents`)
	})
	if err != nil {
		return nil, store.Position{}, fmt.Errorf("load the documents: %w", err)
	}
	return documents, row.position, nil
}

// Changes returns what changed after a position. If nothing did, which is nearly always so, it costs one read of one
// row.
func (s *Store) Changes(ctx context.Context, after store.Position) ([]store.Change, store.Position, error) {
	row, err := readStoreRow(ctx, s.reads(), "")
	if err == nil && row.position == after {
		return nil, after, nil
	}
	var changes []store.Change
	if err == nil {
		err = s.snapshot(ctx, func(tx session) error {
			if row, err = readStoreRow(ctx, tx, ""); err != nil {
				return err
			}
			changes, err = readChanges(ctx, tx, after)
			return err
		})
	}
	if err != nil {
		return nil, store.Position{}, fmt.Errorf("read the changes: %w", err)
	}
	return changes, row.position, nil
}

// readChanges reads what changed after a position of the log. The documents themselves tell their newest revision, so
// the log is asked for deletions alone, of what was not created again.
func readChanges(ctx context.Context, tx session, after store.Position) ([]store.Change, error) {
	var one int
	known, err := tx.row(ctx, []any{&one}, `SELECT 1 FROM feed WHERE revision = ? AND tag = ?`, after.Revision, after.Tag)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, store.ErrFeedLost
	}
	var changes []store.Change
	err = tx.query(ctx, func(row *sql.Rows) error {
		document, err := scanDocument(row)
		changes = append(changes, store.Change{Document: document})
		return err
	}, `SELECT `+documentColumns+` FROM documents WHERE revision > ?`, after.Revision)
	if err != nil {
		return nil, err
	}
	deletedAt := map[store.Identity]int64{}
	err = tx.query(ctx, func(row *sql.Rows) error {
		var id store.Identity
		var revision int64
		err := row.Scan(&id.Kind, &id.Namespace, &id.Name, &revision)
		changes = append(changes, store.Change{
			Document: store.Document{Owner: store.Owner{Identity: id}}, Deleted: true,
		})
		deletedAt[id] = revision
		return err
	}, `SELECT f.kind, f.namespace, f.name, MAX(f.revision) FROM feed f
		WHERE f.revision > ? AND f.deleted = 1 AND NOT EXISTS (
			SELECT 1 FROM documents d WHERE d.kind = f.kind AND d.namespace = f.namespace AND d.name = f.name)
		GROUP BY f.kind, f.namespace, f.name`, after.Revision)
	if err != nil {
		return nil, err
	}
	revisionOf := func(c store.Change) int64 {
		if c.Deleted {
			return deletedAt[c.Document.Identity]
		}
		return c.Document.Revision
	}
	slices.SortFunc(changes, func(a, b store.Change) int { return cmp.Compare(revisionOf(a), revisionOf(b)) })
	return changes, nil
}

// Prune forgets feed entries older than the age, never the newest one. It cuts the log at one revision, whatever the
// clocks of the writers said: a log with a hole would lose changes for a reader before the hole.
func (s *Store) Prune(ctx context.Context, term store.Term, age time.Duration) error {
	err := s.write(ctx, func(tx session, row storeRow) (bool, error) {
		if row.term != term {
			return false, store.ErrFenced
		}
		pruned, err := tx.exec(ctx, `DELETE FROM feed WHERE revision <
			(SELECT COALESCE(MIN(revision), ?) FROM feed WHERE written_at >= ?)`,
			row.position.Revision, s.clock().Add(-age).UnixMicro())
		return pruned > 0, err
	})
	if err != nil {
		return fmt.Errorf("prune the feed: %w", err)
	}
	return nil
}
