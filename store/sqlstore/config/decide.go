package config

import (
	"slices"

	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/store"
)

// Verb is what an op does.
type Verb string

// The verbs of an op.
const (
	VerbPut    Verb = "put"
	VerbDelete Verb = "delete"
	VerbRetain Verb = "retain"
)

// Op is one write as its caller requested it. Delete and Retain use only the owner of the put.
type Op struct {
	Verb Verb
	Term store.Term
	Put  store.Put
}

// decision is the effect of an op. The zero decision changes nothing and is a success.
type decision struct {
	// err refuses the op.
	err error
	// revision is the revision of the stored content, if a put does not change it.
	revision int64
	// displace lists the documents that are deleted to free their reservations, in order.
	displace []store.Identity
	// remove deletes the op's own document.
	remove bool
	// write is the document to write, nil for none. With keepReservations the document keeps its stored reservations;
	// otherwise it gets exactly reservations.
	write            *store.Document
	reservations     []string
	keepReservations bool
}

// changes reports whether the decision leads to a new revision.
func (d decision) changes() bool { return d.remove || d.write != nil || len(d.displace) > 0 }

// decide returns the effect of an op on a batch state. It changes nothing.
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

// decidePut decides a put. The recorded document is the zero document if there is none.
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

// mayDisplace reports whether a document may ever take over a reservation from another. A document of another kind is
// never displaced. A document in another namespace loses only a reservation that belongs to the taker by its name
// (reservation.Innate). Put.Displace does not override these two rules.
func mayDisplace(taker, holder store.Identity, key string) bool {
	return taker.Kind == holder.Kind &&
		(taker.Namespace == holder.Namespace || reservation.Innate(key, taker.Kind, taker.Namespace, taker.Name))
}

// sameContent reports whether a put would leave the recorded document unchanged, apart from its reservations.
func sameContent(recorded, put store.Document) bool {
	return recorded.Owner == put.Owner && recorded.Generation == put.Generation &&
		recorded.Deployment == put.Deployment && recorded.ID == put.ID && recorded.Key == put.Key &&
		recorded.Hash == put.Hash && string(recorded.Payload) == string(put.Payload) && !recorded.Retained
}
