package webhooks

import (
	"sync"

	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// heldMost bounds the events that wait in a server's memory for their requests, in bytes, and heldOfDeployment those
	// of one deployment. The last quarter is for deployments with less than heldFew. Other events are read again.
	heldMost, heldOfDeployment, heldFew = 8 << 20, 2 << 20, 128 << 10
	// eventBytes is about what an event takes without its texts.
	eventBytes = 256
)

// holder counts the events that a runner holds, in bytes.
type holder struct {
	deployment string
	bytes      int
}

// holdings count the events that all runners hold. It is safe for concurrent use.
type holdings struct {
	most, ofDeployment, few int

	mu    sync.Mutex
	total int
	of    map[string]int
}

func newHoldings() *holdings {
	return &holdings{most: heldMost, ofDeployment: heldOfDeployment, few: heldFew, of: map[string]int{}}
}

// take counts n bytes for a holder, and reports whether there is room for them.
func (h *holdings) take(by *holder, n int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	own := h.of[by.deployment]
	if own+n > h.ofDeployment || h.total+n > shares.WithoutReserve(h.most, own+n, h.few) {
		return false
	}
	h.add(by, n)
	return true
}

// give gives back n bytes of a holder.
func (h *holdings) give(by *holder, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(by, -n)
}

// end gives back all that a holder has.
func (h *holdings) end(by *holder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.add(by, -by.bytes)
}

func (h *holdings) add(by *holder, n int) {
	by.bytes += n
	h.total += n
	if h.of[by.deployment] += n; h.of[by.deployment] == 0 {
		delete(h.of, by.deployment)
	}
}

// hold keeps a copy of the event of a delivery if there is room for it: the event may be one of a large batch.
func (p *pending) hold(e *people.LoggedEvent, all *holdings, by *holder) {
	n := eventBytes + len(e.Type) + len(e.Actor) + len(e.SubjectType) + len(e.SubjectID) + len(e.Data)
	if all.take(by, n) {
		one := *e
		p.event, p.held = &one, n
	}
}

// drop drops the event of a delivery: it has ended, or its event is read again.
func (p *pending) drop(all *holdings, by *holder) {
	all.give(by, p.held)
	p.event, p.held = nil, 0
}

// dropAll drops the events of deliveries that do not exist. It returns nil.
func dropAll(list []*pending, all *holdings, by *holder) error {
	for _, p := range list {
		p.drop(all, by)
	}
	return nil
}
