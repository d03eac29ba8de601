package webhookendpoint

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// countEvery is the least time between two counts of the events that wait for an endpoint.
	countEvery = time.Minute
	// openMost is how many open deliveries are counted at most.
	openMost = 100_000
)

// counts notes when the events that wait for each endpoint were counted. It is safe for concurrent use.
type counts struct {
	mu sync.Mutex
	at map[types.UID]time.Time
}

// due reports whether the events that wait for an endpoint may be counted.
func (c *counts) due(endpoint types.UID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, counted := c.at[endpoint]
	return !counted || now.Sub(last) >= countEvery
}

// note notes that they were counted.
func (c *counts) note(endpoint types.UID, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at[endpoint] = now
}

// forget forgets an endpoint.
func (c *counts) forget(endpoint types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.at, endpoint)
}

// backlogOf counts the events that wait for an endpoint: those of the log after its position, by their numbers, and the
// open deliveries.
func backlogOf(tx people.Tx, s people.WebhookState) (int64, error) {
	bounds, err := tx.EventLog().EventBounds()
	if err != nil {
		return 0, err
	}
	open, err := tx.Webhooks().CountDeliveries(s.Endpoint, people.DeliveryFilter{Status: people.DeliveryPending}, openMost)
	return waiting(bounds, s.Position) + open, err
}

// waiting returns how many events of a log have larger numbers than a position.
func waiting(bounds people.EventBounds, position int64) int64 {
	return max(0, bounds.Last-max(position, bounds.First-1))
}
