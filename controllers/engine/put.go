package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// translate turns the resource into the document it should be, and decides when its content last changed.
func (r *reconciler) translate(_ context.Context, s *state) error {
	content := r.kind.translate(s.obj, s.refs, s.prepared)
	hash, err := document.Hash(r.kind.name(), content.Value)
	if err != nil {
		return err
	}
	meta := document.Meta{
		CreatedAt: s.obj.GetCreationTimestamp().Time,
		UpdatedAt: updatedAt(hash, s.stored, s.obj.CommonStatus(), r.clock()),
	}
	payload, err := document.Encode(meta, content.Value)
	if err != nil {
		return err
	}
	slices.Sort(s.reservations)
	s.reservations = slices.Compact(s.reservations)
	s.updatedAt = meta.UpdatedAt
	s.document = store.Document{
		Owner:      store.Owner{Identity: s.identity(r.kind.name()), UID: string(s.obj.GetUID())},
		Generation: s.obj.GetGeneration(),
		Deployment: content.Deployment,
		ID:         s.id,
		Key:        content.Key,
		Hash:       hash,
		Payload:    payload,
	}
	return nil
}

// updatedAt returns the time of the last change to the content with this hash:
//  1. the time in the store, if the store has the same content;
//  2. the time in the status, if the status records the same content;
//  3. now.
//
// The loss of the store or of the status alone does not change the time.
func updatedAt(hash string, stored store.Stored, status *v1alpha1.CommonStatus, now time.Time) time.Time {
	if stored.Found && stored.Document.Hash == hash {
		if meta, err := document.DecodeMeta(stored.Document.Payload); err == nil {
			return meta.UpdatedAt
		}
	}
	if status.ContentHash == hash && status.UpdatedAt != nil {
		return status.UpdatedAt.UTC()
	}
	return now.UTC().Truncate(time.Microsecond)
}

// put writes the document if the store has other content.
func (r *reconciler) put(ctx context.Context, s *state) error {
	if len(s.prepared.Reserves) > 0 {
		if err := r.resolveConflicts(ctx, s, s.prepared.Reserves); err != nil {
			return err
		}
	}
	if holds(s.stored, s.document, s.reservations) {
		return nil
	}
	if err := r.grow(ctx, s); err != nil {
		return err
	}
	term, err := r.term.Current(ctx)
	if err != nil {
		return &storeError{err}
	}
	put := store.Put{Document: s.document, Reservations: s.reservations, Displace: s.displace, Source: store.SourceDeclared}
	if createdByHTTP(s.obj) {
		put.Source = store.SourceHTTP
	}
	if s.stored.Found {
		put.SeenUID = s.stored.Document.UID
	}
	revision, err := r.documents.Put(ctx, term, put)
	if err != nil {
		return r.refusedWrite(term, err)
	}
	r.usages.add(s.obj.GetNamespace(), s.document.Deployment, growth(s.stored, s.document))
	s.document.Revision = revision
	s.stored = store.Stored{Document: s.document, Found: true, Reservations: s.reservations}
	return nil
}

// refusedWrite classifies a refused write. After a lost race it asks for another reconcile, which reads the resource
// again. It reports a lost term to the Term.
func (r *reconciler) refusedWrite(term store.Term, err error) error {
	var taken *store.ReservedError
	switch {
	case errors.As(err, &taken), errors.Is(err, store.ErrStale):
		return errAgain
	case errors.Is(err, store.ErrFenced):
		r.term.Lost(term)
		return err // no condition: from now on the operator that took over reports
	}
	return &storeError{err}
}

// holds reports whether the store holds exactly this document with exactly these reservations.
func holds(stored store.Stored, doc store.Document, reservations []string) bool {
	have := stored.Document
	return stored.Found && !have.Retained && have.UID == doc.UID && have.Generation == doc.Generation && have.Hash == doc.Hash &&
		have.Deployment == doc.Deployment && have.ID == doc.ID && have.Key == doc.Key && string(have.Payload) == string(doc.Payload) &&
		slices.Equal(stored.Reservations, reservations)
}
