package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
)

// translate turns the resource into the document it should be, and decides when its content last changed.
func (r *reconciler) translate(_ context.Context, p *pass) error {
	content := r.kind.translate(p.obj, p.referents, p.material)
	hash, err := document.Hash(r.kind.name, content.Value)
	if err != nil {
		return err
	}
	meta := document.Meta{
		CreatedAt: p.obj.GetCreationTimestamp().Time,
		UpdatedAt: updatedAt(hash, p.held, p.obj.CommonStatus(), r.clock()),
	}
	payload, err := document.Encode(meta, content.Value)
	if err != nil {
		return err
	}
	slices.Sort(p.claims)
	p.claims = slices.Compact(p.claims)
	p.updatedAt = meta.UpdatedAt
	p.document = store.Document{
		Owner:      store.Owner{Identity: p.identity(r.kind.name), UID: string(p.obj.GetUID())},
		Generation: p.obj.GetGeneration(),
		Deployment: content.Deployment,
		ID:         p.id,
		Key:        content.Key,
		Hash:       hash,
		Payload:    payload,
	}
	return nil
}

// updatedAt returns when the content with this hash came into being: what the store says of the same content, else what
// the status says, so that neither a lost store nor a lost status changes it; else now.
func updatedAt(hash string, held store.Held, status *v1alpha1.CommonStatus, now time.Time) time.Time {
	if held.Found && held.Document.Hash == hash {
		if meta, err := document.DecodeMeta(held.Document.Payload); err == nil {
			return meta.UpdatedAt
		}
	}
	if status.ContentHash == hash && status.UpdatedAt != nil {
		return status.UpdatedAt.UTC()
	}
	return now.UTC().Truncate(time.Microsecond)
}

// put writes the document if the store holds anything else.
func (r *reconciler) put(ctx context.Context, p *pass) error {
	if len(p.material.Claims) > 0 {
		if err := r.contest(ctx, p, p.material.Claims); err != nil {
			return err
		}
	}
	if holds(p.held, p.document, p.claims) {
		return nil
	}
	tenure, err := r.tenure.Current(ctx)
	if err != nil {
		return &storeError{err}
	}
	put := store.Put{Document: p.document, Claims: p.claims, Displace: p.displace}
	if p.held.Found {
		put.SeenUID = p.held.Document.UID
	}
	revision, err := r.documents.Put(ctx, tenure, put)
	if err != nil {
		return r.refusedWrite(tenure, err)
	}
	p.document.Revision = revision
	p.held = store.Held{Document: p.document, Found: true, Claims: p.claims}
	return nil
}

// refusedWrite sorts the store's refusals: a lost race is looked at again, a lost tenure is told to its keeper.
func (r *reconciler) refusedWrite(tenure store.Tenure, err error) error {
	var taken *store.ClaimHeldError
	switch {
	case errors.As(err, &taken), errors.Is(err, store.ErrStale):
		return errAgain
	case errors.Is(err, store.ErrFenced):
		r.tenure.Lost(tenure)
		return err // no condition: the operator that took over tells the story now
	}
	return &storeError{err}
}

// holds tells whether the store holds exactly this document with exactly these claims.
func holds(held store.Held, doc store.Document, claims []string) bool {
	have := held.Document
	return held.Found && !have.Retained && have.UID == doc.UID && have.Generation == doc.Generation && have.Hash == doc.Hash &&
		have.Deployment == doc.Deployment && have.ID == doc.ID && have.Key == doc.Key && string(have.Payload) == string(doc.Payload) &&
		slices.Equal(held.Claims, claims)
}
