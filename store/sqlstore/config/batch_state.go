package config

import (
	"maps"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// batchState holds the stored rows that matter to one batch. Each op of the batch is decided against it and then
// applied to it, so that the next op sees its effect. At the end the difference is written.
type batchState struct {
	term store.Term
	// position is the newest position of the feed.
	position store.Position
	// documents and reservations hold, if they exist: (1) the documents of every identity that a put, delete or
	// displacement of the batch names, with all their reservations; (2) each reservation that a put of the batch names.
	documents    map[store.Identity]store.Document
	reservations map[string]store.Owner

	// owned is reservations by identity.
	owned map[store.Identity]map[string]struct{}
	// feed lists the changes applied since.
	feed []feedEntry
	// documentsBefore and reservationsBefore are the rows as they were read.
	documentsBefore    map[store.Identity]store.Document
	reservationsBefore map[string]store.Owner
}

// feedEntry is one row of the feed's log.
type feedEntry struct {
	position store.Position
	identity store.Identity
	deleted  bool
}

func newBatchState(row db.StoreRow, documents map[store.Identity]store.Document, reservations map[string]store.Owner) *batchState {
	p := &batchState{
		term: row.Term, position: row.Position, documents: documents, reservations: reservations,
		owned:           map[store.Identity]map[string]struct{}{},
		documentsBefore: maps.Clone(documents), reservationsBefore: maps.Clone(reservations),
	}
	for key, owner := range reservations {
		p.own(key, owner)
	}
	return p
}

// ownsExactly reports whether a document holds exactly these reservations, which are sorted and without duplicates.
func (p *batchState) ownsExactly(id store.Identity, reservations []string) bool {
	owned := p.owned[id]
	for _, key := range reservations {
		if _, ok := owned[key]; !ok {
			return false
		}
	}
	return len(owned) == len(reservations)
}

// apply applies a decision and returns the revision that holds the op's content. Each new revision gets the next tag.
func (p *batchState) apply(d decision, id store.Identity, nextTag func() string) int64 {
	if d.err != nil || !d.changes() {
		return d.revision
	}
	for _, displaced := range d.displace {
		p.erase(displaced, nextTag())
	}
	if d.remove {
		p.erase(id, nextTag())
	}
	if d.write != nil {
		if !d.keepReservations {
			p.disown(id)
			for _, key := range d.reservations {
				p.own(key, d.write.Owner)
			}
		}
		p.advance(id, false, nextTag())
		document := *d.write
		document.Revision = p.position.Revision
		p.documents[id] = document
	}
	return p.position.Revision
}

// erase removes a document with its reservations.
func (p *batchState) erase(id store.Identity, tag string) {
	p.disown(id)
	delete(p.documents, id)
	p.advance(id, true, tag)
}

func (p *batchState) advance(id store.Identity, deleted bool, tag string) {
	p.position = store.Position{Revision: p.position.Revision + 1, Tag: tag}
	p.feed = append(p.feed, feedEntry{position: p.position, identity: id, deleted: deleted})
}

func (p *batchState) own(key string, owner store.Owner) {
	p.reservations[key] = owner
	if p.owned[owner.Identity] == nil {
		p.owned[owner.Identity] = map[string]struct{}{}
	}
	p.owned[owner.Identity][key] = struct{}{}
}

func (p *batchState) disown(id store.Identity) {
	for key := range p.owned[id] {
		delete(p.reservations, key)
	}
	delete(p.owned, id)
}

// difference holds the rows that a batch must write, each row once.
type difference struct {
	written  []store.Document
	deleted  []store.Identity
	reserved []reservationRow
	released []string
	feed     []feedEntry
}

type reservationRow struct {
	key   string
	owner store.Owner
}

func (p *batchState) difference() difference {
	diff := difference{feed: p.feed}
	seen := map[store.Identity]bool{}
	for _, entry := range p.feed {
		if seen[entry.identity] {
			continue
		}
		seen[entry.identity] = true
		if document, exists := p.documents[entry.identity]; exists {
			diff.written = append(diff.written, document)
		} else if _, existed := p.documentsBefore[entry.identity]; existed {
			diff.deleted = append(diff.deleted, entry.identity)
		}
	}
	for key := range p.reservationsBefore {
		if _, still := p.reservations[key]; !still {
			diff.released = append(diff.released, key)
		}
	}
	for key, owner := range p.reservations {
		if before, was := p.reservationsBefore[key]; !was || before != owner {
			diff.reserved = append(diff.reserved, reservationRow{key, owner})
		}
	}
	return diff
}
