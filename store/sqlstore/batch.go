package sqlstore

import (
	"context"
	"crypto/rand"

	"github.com/cardea-iam/cardea/store"
)

// commitBatch applies ops in their order in one transaction and answers each. A refused op leaves the others alone;
// a failure of the engine is the answer to all of them, since then nothing is known to be durable.
func commitBatch(ctx context.Context, s *documents, ops []op) []result[int64] {
	var results []result[int64]
	var changed bool
	var deleted []store.Document
	var term store.Term
	var position store.Position
	err := s.db.write(ctx, func(tx session, row storeRow) (bool, error) {
		if err := sameHistory(ctx, s, tx, row); err != nil {
			return false, err
		}
		held, err := readBatchState(ctx, tx, row, ops)
		if err != nil {
			return false, err
		}
		results, deleted = results[:0], deleted[:0]
		for _, o := range ops {
			decided := decide(held, o)
			if decided.remove {
				deleted = append(deleted, held.documents[o.put.Identity])
			}
			results = append(results, result[int64]{held.apply(decided, o.put.Identity, rand.Text), decided.err})
		}
		changed = len(held.feed) > 0
		term, position = row.term, held.position
		if !changed {
			return false, nil
		}
		if err := writeBatchState(ctx, s, tx, held); err != nil {
			return false, err
		}
		return true, s.afterDelete(ctx, tx, deleted)
	})
	if err != nil {
		results = make([]result[int64], len(ops))
		for i := range results {
			results[i].err = err
		}
		return results
	}
	if changed {
		s.history.remember(term, position)
		announce(s)
	}
	return results
}

// announce wakes this process's readers of the feed; where other processes read too, the engine notifies all.
func announce(s *documents) {
	if s.db.listen == nil {
		s.notifier.notify()
	}
}

// readBatchState reads what the ops are decided against.
func readBatchState(ctx context.Context, tx session, row storeRow, ops []op) (*batchState, error) {
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
func wanted(ops []op) (ids []store.Identity, reservations []string) {
	seenIDs, seenKeys := map[store.Identity]bool{}, map[string]bool{}
	want := func(id store.Identity) {
		if !seenIDs[id] {
			seenIDs[id] = true
			ids = append(ids, id)
		}
	}
	for _, o := range ops {
		want(o.put.Identity)
		for _, owner := range o.put.Displace {
			want(owner.Identity)
		}
		for _, key := range o.put.Reservations {
			if !seenKeys[key] {
				seenKeys[key] = true
				reservations = append(reservations, key)
			}
		}
	}
	return ids, reservations
}

// writeBatchState writes what changed in a batch state and the new head of the feed.
func writeBatchState(ctx context.Context, s *documents, tx session, held *batchState) error {
	diff := held.difference()
	if err := writeDocuments(ctx, tx, diff); err != nil {
		return err
	}
	if err := writeReservations(ctx, tx, diff); err != nil {
		return err
	}
	now := s.db.clock().UnixMicro()
	err := inChunks(tx, diff.feed, 7, func(part []feedEntry) error {
		args := make([]any, 0, 7*len(part))
		for _, e := range part {
			args = append(args, e.position.Revision, e.position.Tag,
				e.identity.Kind, e.identity.Namespace, e.identity.Name, flag(e.deleted), now)
		}
		_, err := tx.exec(ctx, `INSERT INTO feed (revision, tag, kind, namespace, name, deleted, written_at) VALUES `+
			rowsOf(len(part), 7), tx.dialect.variable(args)...)
		return err
	})
	if err != nil {
		return err
	}
	_, err = tx.exec(ctx, `UPDATE store SET revision = ?, tag = ? WHERE id = 1`+tx.dialect.publish,
		held.position.Revision, held.position.Tag)
	return err
}

func writeDocuments(ctx context.Context, tx session, diff difference) error {
	err := inChunks(tx, diff.deleted, 3, func(part []store.Identity) error {
		_, err := tx.exec(ctx, `DELETE FROM documents WHERE (kind, namespace, name) IN (VALUES `+
			rowsOf(len(part), 3)+`)`, tx.dialect.variable(identityColumns(part))...)
		return err
	})
	if err != nil {
		return err
	}
	return inChunks(tx, diff.written, 12, func(part []store.Document) error {
		args := make([]any, 0, 12*len(part))
		for _, d := range part {
			args = append(args, d.Kind, d.Namespace, d.Name, d.UID, d.Generation, d.Deployment, d.ID, d.Key, d.Hash,
				d.Payload, flag(d.Retained), d.Revision)
		}
		_, err := tx.exec(ctx, `INSERT INTO documents (`+documentColumns+`) VALUES `+rowsOf(len(part), 12)+`
			ON CONFLICT (kind, namespace, name) DO UPDATE SET uid = excluded.uid, generation = excluded.generation,
			deployment = excluded.deployment, id = excluded.id, key = excluded.key, hash = excluded.hash,
			payload = excluded.payload, retained = excluded.retained, revision = excluded.revision`,
			tx.dialect.variable(args)...)
		return err
	})
}

func writeReservations(ctx context.Context, tx session, diff difference) error {
	err := inChunks(tx, diff.released, 1, func(part []string) error {
		_, err := tx.exec(ctx, `DELETE FROM claims WHERE claim IN `+rowsOf(1, len(part)),
			tx.dialect.variable(anys(part))...)
		return err
	})
	if err != nil {
		return err
	}
	return inChunks(tx, diff.reserved, 5, func(part []reservationRow) error {
		args := make([]any, 0, 5*len(part))
		for _, c := range part {
			args = append(args, c.key, c.owner.Kind, c.owner.Namespace, c.owner.Name, c.owner.UID)
		}
		_, err := tx.exec(ctx, `INSERT INTO claims (claim, kind, namespace, name, uid) VALUES `+rowsOf(len(part), 5)+`
			ON CONFLICT (claim) DO UPDATE SET kind = excluded.kind, namespace = excluded.namespace,
			name = excluded.name, uid = excluded.uid`, tx.dialect.variable(args)...)
		return err
	})
}
