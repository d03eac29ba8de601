package webhookendpoint

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// countEvery is the least time between two counts of the events that wait for an endpoint.
	countEvery = time.Minute
	// openMost is how many open deliveries are counted at most.
	openMost = 100_000
)

var (
	backlogEvents = prometheus.NewDesc("cardea_webhook_backlog",
		"Events that waited for a webhook endpoint when they were counted last.", []string{"deployment", "endpoint"}, nil)
	oldestSeconds = prometheus.NewDesc("cardea_webhook_oldest_seconds",
		"Age of the oldest event that waited for a webhook endpoint when they were counted last, 0 if none did.", []string{"deployment", "endpoint"}, nil)
)

// backlog is what waits for an endpoint.
type backlog struct {
	// events is how many events wait, and oldest is when the oldest one happened, zero for none.
	events int64
	oldest time.Time
}

// count is the last count of what waits for an endpoint.
type count struct {
	backlog
	deployment, endpoint string
	at                   time.Time
}

// counts has the last count of each endpoint, and its metrics. It is safe for concurrent use.
type counts struct {
	clock func() time.Time
	mu    sync.Mutex
	of    map[types.UID]count
}

func newCounts(clock func() time.Time) *counts {
	return &counts{clock: clock, of: map[types.UID]count{}}
}

// due reports whether the events that wait for an endpoint may be counted.
func (c *counts) due(endpoint types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, counted := c.of[endpoint]
	return !counted || c.clock().Sub(last.at) >= countEvery
}

// note notes what was counted.
func (c *counts) note(e *v1alpha1.WebhookEndpoint, b backlog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[e.UID] = count{b, engine.DeploymentOf(e, e.Spec.DeploymentRef), e.Name, c.clock()}
}

// forget forgets an endpoint.
func (c *counts) forget(endpoint types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, endpoint)
}

// Describe implements prometheus.Collector.
func (c *counts) Describe(to chan<- *prometheus.Desc) { to <- backlogEvents; to <- oldestSeconds }

// Collect implements prometheus.Collector.
func (c *counts) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	for _, one := range c.of {
		age := 0.0
		if !one.oldest.IsZero() {
			age = max(0, now.Sub(one.oldest).Seconds())
		}
		to <- prometheus.MustNewConstMetric(backlogEvents, prometheus.GaugeValue, float64(one.events), one.deployment, one.endpoint)
		to <- prometheus.MustNewConstMetric(oldestSeconds, prometheus.GaugeValue, age, one.deployment, one.endpoint)
	}
}

// backlogOf counts the events that wait for an endpoint: those of the log after its position, by their numbers, and the
// open deliveries.
func backlogOf(tx people.Tx, s people.WebhookState) (b backlog, err error) {
	bounds, err := tx.EventLog().EventBounds()
	if err != nil {
		return b, err
	}
	open, err := tx.Webhooks().CountDeliveries(s.Endpoint, people.DeliveryFilter{Status: people.DeliveryPending}, openMost)
	if err != nil {
		return b, err
	}
	later := waiting(bounds, s.Position)
	if b.events = later + open; open > 0 {
		first, err := tx.Webhooks().OpenDeliveries(s.Endpoint, 1)
		if err != nil || len(first) == 0 {
			return b, err
		}
		b.oldest = first[0].CreatedAt
	} else if later > 0 {
		next, err := tx.EventLog().EventsAfter(s.Position, 1)
		if err != nil || len(next) == 0 {
			return b, err
		}
		b.oldest = next[0].At
	}
	return b, nil
}

// waiting returns how many events of a log have larger numbers than a position.
func waiting(bounds people.EventBounds, position int64) int64 {
	return max(0, bounds.Last-max(position, bounds.First-1))
}
