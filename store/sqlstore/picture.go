package sqlstore

import (
	"maps"

	"github.com/cardea-iam/cardea/store"
)

// picture is what the store holds of interest to one batch. Each op of the batch is decided against it and then
// drawn into it, so that the next one sees its effect; at the end the difference is written.
type picture struct {
	tenure store.Tenure
	// position is the newest of the feed.
	position store.Position
	// documents and claims hold, if they exist: the documents of every identity a put, delete or displacement of the
	// batch names, with all their claims; and each claim a put of the batch names.
	documents map[store.Identity]store.Document
	claims    map[string]store.Owner

	// owned is claims by identity.
	owned map[store.Identity]map[string]struct{}
	// feed lists the changes drawn since.
	feed []feedEntry
	// documentsBefore and claimsBefore are as they were read.
	documentsBefore map[store.Identity]store.Document
	claimsBefore    map[string]store.Owner
}

// feedEntry is one row of the feed's log.
type feedEntry struct {
	position store.Position
	identity store.Identity
	deleted  bool
}

func newPicture(row storeRow, documents map[store.Identity]store.Document, claims map[string]store.Owner) *picture {
	p := &picture{
		tenure: row.tenure, position: row.position, documents: documents, claims: claims,
		owned:           map[store.Identity]map[string]struct{}{},
		documentsBefore: maps.Clone(documents), claimsBefore: maps.Clone(claims),
	}
	for claim, owner := range claims {
		p.own(claim, owner)
	}
	return p
}

// ownsExactly tells whether a document holds these claims, which are sorted and single, and no other.
func (p *picture) ownsExactly(id store.Identity, claims []string) bool {
	owned := p.owned[id]
	for _, claim := range claims {
		if _, ok := owned[claim]; !ok {
			return false
		}
	}
	return len(owned) == len(claims)
}

// draw takes the effect of a decision in and returns the revision that holds the op's content. Each new revision
// gets the next tag.
func (p *picture) draw(d decision, id store.Identity, nextTag func() string) int64 {
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
		if !d.keepClaims {
			p.disown(id)
			for _, claim := range d.claims {
				p.own(claim, d.write.Owner)
			}
		}
		p.advance(id, false, nextTag())
		document := *d.write
		document.Revision = p.position.Revision
		p.documents[id] = document
	}
	return p.position.Revision
}

// erase removes a document with its claims.
func (p *picture) erase(id store.Identity, tag string) {
	p.disown(id)
	delete(p.documents, id)
	p.advance(id, true, tag)
}

func (p *picture) advance(id store.Identity, deleted bool, tag string) {
	p.position = store.Position{Revision: p.position.Revision + 1, Tag: tag}
	p.feed = append(p.feed, feedEntry{position: p.position, identity: id, deleted: deleted})
}

func (p *picture) own(claim string, owner store.Owner) {
	p.claims[claim] = owner
	if p.owned[owner.Identity] == nil {
		p.owned[owner.Identity] = map[string]struct{}{}
	}
	p.owned[owner.Identity][claim] = struct{}{}
}

func (p *picture) disown(id store.Identity) {
	for claim := range p.owned[id] {
		delete(p.claims, claim)
	}
	delete(p.owned, id)
}

// difference is what a batch has to write, each row once.
type difference struct {
	written  []store.Document
	deleted  []store.Identity
	claimed  []claimRow
	released []string
	feed     []feedEntry
}

type claimRow struct {
	claim string
	owner store.Owner
}

func (p *picture) difference() difference {
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
	for claim := range p.claimsBefore {
		if _, still := p.claims[claim]; !still {
			diff.released = append(diff.released, claim)
		}
	}
	for claim, owner := range p.claims {
		if before, was := p.claimsBefore[claim]; !was || before != owner {
			diff.claimed = append(diff.claimed, claimRow{claim, owner})
		}
	}
	return diff
}
