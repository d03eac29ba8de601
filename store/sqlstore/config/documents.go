// Package config is the part of the SQL store that holds config documents: reservations, terms, the feed, and the
// commit that concurrent writes share.
package config

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// documentColumns are the columns scanDocument reads.
const documentColumns = `kind, namespace, name, uid, generation, deployment, id, key, hash, payload, retained, revision`

// scanDocument reads documentColumns and the columns after them.
func scanDocument(row *sql.Rows, more ...any) (store.Document, error) {
	var d store.Document
	err := row.Scan(append([]any{
		&d.Kind, &d.Namespace, &d.Name, &d.UID, &d.Generation, &d.Deployment, &d.ID, &d.Key, &d.Hash, &d.Payload,
		&d.Retained, &d.Revision,
	}, more...)...)
	return d, err
}

// Documents are the config documents of a store, its terms and its feed. Their methods may be called from any number of
// goroutines.
type Documents struct {
	db *db.DB
	// notifier wakes the readers of the feed.
	notifier  *db.Notifier
	committer *db.Committer[Op, int64]
	// history is the position of the last write of this process.
	history history
	after   After
}

// After writes the rows that follow from writes of documents, in the same transaction.
type After struct {
	// Deleted writes those of deletions, without documents that were displaced.
	Deleted func(ctx context.Context, on db.Session, deleted []store.Document) error
	// Changed writes the events of changes, in their order.
	Changed func(ctx context.Context, on db.Session, changes []people.ConfigurationChange) error
}

// NewDocuments returns the documents of a database and commits writes until the context ends. The notifier feed wakes
// subscribers of the feed.
func NewDocuments(ctx context.Context, on *db.DB, feed *db.Notifier, after After) *Documents {
	s := &Documents{db: on, notifier: feed, after: after}
	s.committer = db.NewCommitter(on, func(ctx context.Context, ops []Op) []db.Result[int64] { return CommitBatch(ctx, s, ops) },
		func(o Op) int { return len(o.Put.Payload) })
	go s.committer.Run(ctx)
	return s
}

// WaitStopped waits until no write is in progress. The context of NewDocuments must have ended.
func (s *Documents) WaitStopped() { s.committer.WaitStopped() }

// Stored returns the stored document of an identity. One statement reads both tables, so that the reservations are
// those of the returned document.
func (s *Documents) Stored(ctx context.Context, id store.Identity) (store.Stored, error) {
	var held store.Stored
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var reservations string
		document, err := scanDocument(row, &reservations)
		if err != nil {
			return err
		}
		held.Document, held.Found = document, true
		return json.Unmarshal([]byte(reservations), &held.Reservations)
	}, `SELECT `+documentColumns+`, COALESCE(CAST((
			SELECT `+s.db.Dialect.JSONList+`(c.claim) FROM claims c
			WHERE c.kind = d.kind AND c.namespace = d.namespace AND c.name = d.name
		) AS TEXT), '[]')
		FROM documents d WHERE kind = ? AND namespace = ? AND name = ?`, id.Kind, id.Namespace, id.Name)
	if err != nil {
		return store.Stored{}, fmt.Errorf("read %s: %w", id, err)
	}
	slices.Sort(held.Reservations)
	return held, nil
}

// ReservationOwners returns the owners of the reservations; reservations without an owner are absent.
func (s *Documents) ReservationOwners(ctx context.Context, reservations []string) (map[string]store.Owner, error) {
	if err := checkText(store.Identity{}, reservations...); err != nil {
		return nil, err
	}
	holders := map[string]store.Owner{}
	if err := readReservations(ctx, s.db.Reads(), reservations, holders); err != nil {
		return nil, fmt.Errorf("read the holders of reservations: %w", err)
	}
	return holders, nil
}

// Owners returns the owner of every document that is not retained.
func (s *Documents) Owners(ctx context.Context) ([]store.Owner, error) {
	var owners []store.Owner
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var o store.Owner
		err := row.Scan(&o.Kind, &o.Namespace, &o.Name, &o.UID)
		owners = append(owners, o)
		return err
	}, `SELECT kind, namespace, name, uid FROM documents WHERE retained = 0`)
	if err != nil {
		return nil, fmt.Errorf("read the owners of documents: %w", err)
	}
	return owners, nil
}

// Usage returns the number and the bytes of the documents of a namespace, by deployment.
func (s *Documents) Usage(ctx context.Context, namespace string) (map[string]store.Usage, error) {
	if err := checkText(store.Identity{}, namespace); err != nil {
		return nil, err
	}
	used := map[string]store.Usage{}
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var deployment string
		var u store.Usage
		err := row.Scan(&deployment, &u.Documents, &u.Bytes)
		used[deployment] = u
		return err
	}, `SELECT deployment, COUNT(*), CAST(SUM(LENGTH(payload)) AS BIGINT) FROM documents WHERE namespace = ? GROUP BY deployment`, namespace)
	if err != nil {
		return nil, fmt.Errorf("read the usage of namespace %s: %w", namespace, err)
	}
	return used, nil
}

// Put writes a document and its reservations; see store.Documents.
func (s *Documents) Put(ctx context.Context, term store.Term, put store.Put) (int64, error) {
	checked, err := Checked(put)
	if err != nil {
		return 0, err
	}
	revision, err := s.committer.Submit(ctx, Op{Verb: VerbPut, Term: term, Put: checked})
	if err != nil {
		return 0, fmt.Errorf("put %s: %w", put.Identity, err)
	}
	return revision, nil
}

// Delete removes the document of an owner with its reservations; see store.Documents.
func (s *Documents) Delete(ctx context.Context, term store.Term, owner store.Owner) error {
	return submitOwner(ctx, s, VerbDelete, term, owner)
}

// Retain marks the document of an owner as retained; see store.Documents.
func (s *Documents) Retain(ctx context.Context, term store.Term, owner store.Owner) error {
	return submitOwner(ctx, s, VerbRetain, term, owner)
}

func submitOwner(ctx context.Context, s *Documents, verb Verb, term store.Term, owner store.Owner) error {
	if err := checkOwner(owner); err != nil {
		return err
	}
	_, err := s.committer.Submit(ctx, Op{
		Verb: verb, Term: term, Put: store.Put{Document: store.Document{Owner: owner}},
	})
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, owner.Identity, err)
	}
	return nil
}

// readReservations adds the owners of the reservations that have one.
func readReservations(ctx context.Context, on db.Session, reservations []string, into map[string]store.Owner) error {
	return db.InChunks(on, reservations, 1, func(part []string) error {
		return on.Query(ctx, reservationInto(into),
			`SELECT claim, kind, namespace, name, uid FROM claims WHERE claim IN `+db.RowsOf(1, len(part)),
			on.Dialect.Variable(anys(part))...)
	})
}

// readReservationsOf adds every reservation of the identities.
func readReservationsOf(ctx context.Context, on db.Session, ids []store.Identity, into map[string]store.Owner) error {
	return db.InChunks(on, ids, 3, func(part []store.Identity) error {
		return on.Query(ctx, reservationInto(into),
			`SELECT claim, kind, namespace, name, uid FROM claims
			WHERE (kind, namespace, name) IN (VALUES `+db.RowsOf(len(part), 3)+`)`,
			on.Dialect.Variable(identityColumns(part))...)
	})
}

func reservationInto(into map[string]store.Owner) func(*sql.Rows) error {
	return func(row *sql.Rows) error {
		var key string
		var o store.Owner
		err := row.Scan(&key, &o.Kind, &o.Namespace, &o.Name, &o.UID)
		into[key] = o
		return err
	}
}

// readDocuments adds the documents of the identities that have one.
func readDocuments(ctx context.Context, on db.Session, ids []store.Identity, into map[store.Identity]store.Document) error {
	return db.InChunks(on, ids, 3, func(part []store.Identity) error {
		return on.Query(ctx, func(row *sql.Rows) error {
			document, err := scanDocument(row)
			into[document.Identity] = document
			return err
		}, `SELECT `+documentColumns+` FROM documents
			WHERE (kind, namespace, name) IN (VALUES `+db.RowsOf(len(part), 3)+`)`,
			on.Dialect.Variable(identityColumns(part))...)
	})
}

func identityColumns(ids []store.Identity) []any {
	columns := make([]any, 0, 3*len(ids))
	for _, id := range ids {
		columns = append(columns, id.Kind, id.Namespace, id.Name)
	}
	return columns
}

func anys[T any](values []T) []any {
	list := make([]any, len(values))
	for i, value := range values {
		list[i] = value
	}
	return list
}
