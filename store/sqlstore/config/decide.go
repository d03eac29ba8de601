package config

import (
	"slices"

	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/store"
)

// Verb is what an op does.
type Verb string

const (
	VerbPut    Verb = "put"
	VerbDelete Verb = "delete"
	VerbRetain Verb = "retain"
)

// Op is one write as a caller asked for it. Delete and Retain use the owner of the put alone.
type Op struct {
	Verb Verb
	Term store.Term
	Put  store.Put
}

// decision is what becomes of an op. The zero decision changes nothing and is a success.
type decision struct {
	// err refuses the op.
	err error
	// revision is that of the content a put found as it wants it.
	revision int64
	// displace lists the documents that are deleted to free their reservations, in order.
	displace []store.Identity
	// remove deletes the op's own document.
	remove bool
	// write is the document to keep, nil for none. It holds the reservations and no other then; with keepReservations, those it
	// held before.
	write            *store.Document
	reservations     []string
	keepReservations bool
}

// changes reports whether the decision leads to a new revision.
func (d decision) changes() bool { return d.remove || d.write != nil || len(d.displace) > 0 }

// decide says what becomes of an op over what is held. It changes nothing.
func decide(held *batchState, o Op) decision {
	if o.Term != held.term {
		return decision{err: store.ErrFenced}
	}
	document, found := held.documents[o.Put.Identity]
	if o.Verb == VerbPut {
		return decidePut(held, o.Put, document)
	}
	if !found || document.UID != o.Put.UID {
		return decision{}
	}
	switch {
	case o.Verb == VerbDelete:
		return decision{remove: true}
	case document.Retained:
		return decision{}
	default:
		document.Retained = true
		return decision{write: &document, keepReservations: true}
	}
}

// decidePut decides about a put; the recorded document is the zero document if there is none.
func decidePut(held *batchState, put store.Put, recorded store.Document) decision {
	if recorded.UID != put.SeenUID {
		return decision{err: store.ErrStale}
	}
	if recorded.UID == put.UID && recorded.Generation > put.Generation {
		return decision{err: store.ErrStale}
	}
	if sameContent(recorded, put.Document) && held.ownsExactly(put.Identity, put.Reservations) {
		return decision{revision: recorded.Revision}
	}
	refused := map[string]store.Owner{}
	var displace []store.Identity
	for _, key := range put.Reservations {
		holder, taken := held.reservations[key]
		switch {
		case !taken || holder.Identity == put.Identity:
			// Free, or held by the document this put replaces.
		case !slices.Contains(put.Displace, holder) || !mayDisplace(put.Identity, holder.Identity, key):
			refused[key] = holder
		case !slices.Contains(displace, holder.Identity):
			displace = append(displace, holder.Identity)
		}
	}
	if len(refused) > 0 {
		return decision{err: &store.ReservedError{Reservations: refused}}
	}
	return decision{displace: displace, write: &put.Document, reservations: put.Reservations}
}

// mayDisplace reports whether a document may take a reservation over from another at all. A document of another kind is never
// displaced, and nothing crosses namespaces except a reservation that belongs to the taker by its name alone: the writer's proof
// that the holder yields is no proof across kinds or tenants.
func mayDisplace(taker, holder store.Identity, key string) bool {
	return taker.Kind == holder.Kind &&
		(taker.Namespace == holder.Namespace || reservation.Innate(key, taker.Kind, taker.Namespace, taker.Name))
}

// sameContent reports whether a put would leave the recorded document as it is, its reservations aside.
func sameContent(recorded, put store.Document) bool {
	return recorded.Owner == put.Owner && recorded.Generation == put.Generation &&
		recorded.Deployment == put.Deployment && recorded.ID == put.ID && recorded.Key == put.Key &&
		recorded.Hash == put.Hash && string(recorded.Payload) == string(put.Payload) && !recorded.Retained
}
