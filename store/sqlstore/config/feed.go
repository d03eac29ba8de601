package config

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// Signals returns a channel that receives after commits that changed the feed; see store.Feed.
func (s *Documents) Signals(ctx context.Context) <-chan struct{} { return s.notifier.Subscribe(ctx) }

// Load returns every document and the feed's position at the same moment.
func (s *Documents) Load(ctx context.Context) ([]store.Document, store.Position, error) {
	var documents []store.Document
	var row db.StoreRow
	err := s.db.Snapshot(ctx, func(tx db.Session) error {
		var err error
		if row, err = db.ReadStoreRow(ctx, tx, ""); err != nil {
			return err
		}
		return tx.Query(ctx, func(row *sql.Rows) error {
			document, err := scanDocument(row)
			documents = append(documents, document)
			return err
		}, `SELECT `+documentColumns+` FROM documents`)
	})
	if err != nil {
		return nil, store.Position{}, fmt.Errorf("load the documents: %w", err)
	}
	return documents, row.Position, nil
}

// Changes returns the changes after a position. If there are none, which is the usual case, it costs one read of one
// row.
func (s *Documents) Changes(ctx context.Context, after store.Position) ([]store.Change, store.Position, error) {
	row, err := db.ReadStoreRow(ctx, s.db.Reads(), "")
	if err == nil && row.Position == after {
		return nil, after, nil
	}
	var changes []store.Change
	position := row.Position
	if err == nil {
		changes, position, err = readChanges(ctx, s.db.Reads(), after)
	}
	if err != nil {
		return nil, store.Position{}, fmt.Errorf("read the changes: %w", err)
	}
	return changes, position, nil
}

// The kinds of rows of selectChanges.
const (
	rowWritten = iota
	rowDeleted
	rowPosition
)

// selectChanges reads the changes after a position of the log, and the newest position, in one statement: one moment
// and one round trip. Documents contain their newest revision, so the log is read only for deletions of identities that
// were not created again. If the log does not contain the position, there are no changes. Parameters: the position, and
// its revision twice.
const selectChanges = `WITH known AS (SELECT 1 FROM feed WHERE revision = ? AND tag = ?)
	SELECT ` + documentColumns + `, 0 AS what FROM documents WHERE revision > ? AND EXISTS (SELECT 1 FROM known)
	UNION ALL SELECT f.kind, f.namespace, f.name, '', 0, '', 0, '', '', '', 0, MAX(f.revision), 1 FROM feed f
	WHERE f.revision > ? AND f.deleted = 1 AND EXISTS (SELECT 1 FROM known) AND NOT EXISTS (
		SELECT 1 FROM documents d WHERE d.kind = f.kind AND d.namespace = f.namespace AND d.name = f.name)
	GROUP BY f.kind, f.namespace, f.name
	UNION ALL SELECT '', '', tag, '', 0, '', 0, '', '', '', CASE WHEN EXISTS (SELECT 1 FROM known) THEN 1 ELSE 0 END, revision, 2
	FROM store WHERE id = 1`

// readChanges reads the changes after a position of the log, in the order of revisions, and the newest position.
func readChanges(ctx context.Context, on db.Session, after store.Position) ([]store.Change, store.Position, error) {
	var changes []store.Change
	var newest store.Position
	initialized, known := false, false
	err := on.Query(ctx, func(row *sql.Rows) error {
		var what int
		document, err := scanDocument(row, &what)
		switch what {
		case rowPosition:
			newest = store.Position{Revision: document.Revision, Tag: document.Name}
			initialized, known = true, document.Retained
		case rowDeleted:
			gone := store.Document{Owner: store.Owner{Identity: document.Identity}, Revision: document.Revision}
			changes = append(changes, store.Change{Document: gone, Deleted: true})
		default:
			changes = append(changes, store.Change{Document: document})
		}
		return err
	}, selectChanges, after.Revision, after.Tag, after.Revision, after.Revision)
	switch {
	case err != nil:
		return nil, store.Position{}, err
	case !initialized:
		return nil, store.Position{}, store.ErrSchema
	case !known:
		return nil, store.Position{}, store.ErrFeedLost
	}
	slices.SortFunc(changes, func(a, b store.Change) int { return cmp.Compare(a.Document.Revision, b.Document.Revision) })
	for i := range changes {
		if changes[i].Deleted {
			changes[i].Document.Revision = 0 // a deletion has no content
		}
	}
	return changes, newest, nil
}

// Prune deletes feed entries older than the age, never the newest one. It cuts the log at one revision, whatever the
// clocks of the writers said: a reader before a hole in the log would lose changes.
func (s *Documents) Prune(ctx context.Context, term store.Term, age time.Duration) error {
	err := s.db.Write(ctx, func(tx db.Session, row db.StoreRow) (bool, error) {
		if row.Term != term {
			return false, store.ErrFenced
		}
		pruned, err := tx.Exec(ctx, `DELETE FROM feed WHERE revision <
			(SELECT COALESCE(MIN(revision), ?) FROM feed WHERE written_at >= ?)`,
			row.Position.Revision, s.db.Clock().Add(-age).UnixMicro())
		return pruned > 0, err
	})
	if err != nil {
		return fmt.Errorf("prune the feed: %w", err)
	}
	return nil
}
