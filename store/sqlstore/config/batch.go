package config

import (
	"context"
	"crypto/rand"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// CommitBatch applies ops in their order in one transaction and returns a result for each. A refused op does not affect
// the others. A failure of the engine is the result of all ops, because none is known to be durable then.
func CommitBatch(ctx context.Context, s *Documents, ops []Op) []db.Result[int64] {
	var results []db.Result[int64]
	var changed bool
	var deleted []store.Document
	var happened []people.ConfigurationChange
	var term store.Term
	var position store.Position
	err := s.db.Write(ctx, func(tx db.Session, row db.StoreRow) (bool, error) {
		if err := sameHistory(ctx, s, tx, row); err != nil {
			return false, err
		}
		held, err := readBatchState(ctx, tx, row, ops)
		if err != nil {
			return false, err
		}
		results, deleted = results[:0], deleted[:0]
		happened = happened[:0]
		for _, o := range ops {
			decided := decide(held, o)
			if decided.remove {
				deleted = append(deleted, held.documents[o.Put.Identity])
			}
			happened = append(happened, changesOf(held, decided, o)...)
			results = append(results, db.Result[int64]{Value: held.apply(decided, o.Put.Identity, rand.Text), Err: decided.err})
		}
		changed = len(held.feed) > 0
		term, position = row.Term, held.position
		if !changed {
			return false, nil
		}
		if err := writeBatchState(ctx, s, tx, held); err != nil {
			return false, err
		}
		if err := s.after.Deleted(ctx, tx, deleted); err != nil {
			return false, err
		}
		return true, s.after.Changed(ctx, tx, happened)
	})
	if err != nil {
		results = make([]db.Result[int64], len(ops))
		for i := range results {
			results[i].Err = err
		}
		return results
	}
	if changed {
		s.history.remember(term, position)
		announce(s)
	}
	return results
}

// announce wakes this process's readers of the feed. If other processes read too, the engine notifies all of them.
func announce(s *Documents) {
	if s.db.Listen == nil {
		s.notifier.Notify()
	}
}

// readBatchState reads the rows against which the ops are decided.
func readBatchState(ctx context.Context, tx db.Session, row db.StoreRow, ops []Op) (*batchState, error) {
	ids, reservations := wanted(ops)
	documents, owners := map[store.Identity]store.Document{}, map[string]store.Owner{}
	if err := readDocuments(ctx, tx, ids, documents); err != nil {
		return nil, err
	}
	if err := readReservations(ctx, tx, reservations, owners); err != nil {
		return nil, err
	}
	if err := readReservationsOf(ctx, tx, ids, owners); err != nil {
		return nil, err
	}
	return newBatchState(row, documents, owners), nil
}

// wanted lists the identities and the reservations the ops touch, each once.
func wanted(ops []Op) (ids []store.Identity, reservations []string) {
	seenIDs, seenKeys := map[store.Identity]bool{}, map[string]bool{}
	want := func(id store.Identity) {
		if !seenIDs[id] {
			seenIDs[id] = true
			ids = append(ids, id)
		}
	}
	for _, o := range ops {
		want(o.Put.Identity)
		for _, owner := range o.Put.Displace {
			want(owner.Identity)
		}
		for _, key := range o.Put.Reservations {
			if !seenKeys[key] {
				seenKeys[key] = true
				reservations = append(reservations, key)
			}
		}
	}
	return ids, reservations
}

// writeBatchState writes the changed rows of a batch state and the new head of the feed.
func writeBatchState(ctx context.Context, s *Documents, tx db.Session, held *batchState) error {
	diff := held.difference()
	if err := writeDocuments(ctx, tx, diff); err != nil {
		return err
	}
	if err := writeReservations(ctx, tx, diff); err != nil {
		return err
	}
	now := s.db.Clock().UnixMicro()
	err := db.InChunks(tx, diff.feed, 7, func(part []feedEntry) error {
		args := make([]any, 0, 7*len(part))
		for _, e := range part {
			args = append(args, e.position.Revision, e.position.Tag,
				e.identity.Kind, e.identity.Namespace, e.identity.Name, db.Flag(e.deleted), now)
		}
		_, err := tx.Exec(ctx, `INSERT INTO feed (revision, tag, kind, namespace, name, deleted, written_at) VALUES `+
			db.RowsOf(len(part), 7), tx.Dialect.Variable(args)...)
		return err
	})
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `UPDATE store SET revision = ?, tag = ? WHERE id = 1`+tx.Dialect.Publish,
		held.position.Revision, held.position.Tag)
	return err
}

func writeDocuments(ctx context.Context, tx db.Session, diff difference) error {
	err := db.InChunks(tx, diff.deleted, 3, func(part []store.Identity) error {
		_, err := tx.Exec(ctx, `DELETE FROM documents WHERE (kind, namespace, name) IN (VALUES `+
			db.RowsOf(len(part), 3)+`)`, tx.Dialect.Variable(identityColumns(part))...)
		return err
	})
	if err != nil {
		return err
	}
	return db.InChunks(tx, diff.written, 12, func(part []store.Document) error {
		args := make([]any, 0, 12*len(part))
		for _, d := range part {
			args = append(args, d.Kind, d.Namespace, d.Name, d.UID, d.Generation, d.Deployment, d.ID, d.Key, d.Hash,
				d.Payload, db.Flag(d.Retained), d.Revision)
		}
		_, err := tx.Exec(ctx, `INSERT INTO documents (`+documentColumns+`) VALUES `+db.RowsOf(len(part), 12)+`
			ON CONFLICT (kind, namespace, name) DO UPDATE SET uid = excluded.uid, generation = excluded.generation,
			deployment = excluded.deployment, id = excluded.id, key = excluded.key, hash = excluded.hash,
			payload = excluded.payload, retained = excluded.retained, revision = excluded.revision`,
			tx.Dialect.Variable(args)...)
		return err
	})
}

func writeReservations(ctx context.Context, tx db.Session, diff difference) error {
	err := db.InChunks(tx, diff.released, 1, func(part []string) error {
		_, err := tx.Exec(ctx, `DELETE FROM claims WHERE claim IN `+db.RowsOf(1, len(part)),
			tx.Dialect.Variable(anys(part))...)
		return err
	})
	if err != nil {
		return err
	}
	return db.InChunks(tx, diff.reserved, 5, func(part []reservationRow) error {
		args := make([]any, 0, 5*len(part))
		for _, c := range part {
			args = append(args, c.key, c.owner.Kind, c.owner.Namespace, c.owner.Name, c.owner.UID)
		}
		_, err := tx.Exec(ctx, `INSERT INTO claims (claim, kind, namespace, name, uid) VALUES `+db.RowsOf(len(part), 5)+`
			ON CONFLICT (claim) DO UPDATE SET kind = excluded.kind, namespace = excluded.namespace,
			name = excluded.name, uid = excluded.uid`, tx.Dialect.Variable(args)...)
		return err
	})
}
