package webhookendpoint

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// countEvery is the least time between two counts of the events that wait for an endpoint.
	countEvery = time.Minute
	// countedFor is how long a count is in the metrics: an endpoint that cannot be read has none.
	countedFor = 5 * time.Minute
	// openMost is how many open deliveries are counted at most, and openRead how many are read to find the oldest one:
	// more than a replay has.
	openMost, openRead = 100_000, 200
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
	at time.Time
}

// labels identify an endpoint in metrics.
type labels struct{ deployment, endpoint string }

func labelsOf(e *v1alpha1.WebhookEndpoint) labels {
	return labels{engine.DeploymentOf(e, e.Spec.DeploymentRef), e.Name}
}

// counts has the last count of each endpoint, and its metrics. It is safe for concurrent use.
type counts struct {
	clock func() time.Time
	mu    sync.Mutex
	of    map[labels]count
}

func newCounts(clock func() time.Time) *counts {
	return &counts{clock: clock, of: map[labels]count{}}
}

// due reports whether the events that wait for an endpoint may be counted.
func (c *counts) due(e *v1alpha1.WebhookEndpoint) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, counted := c.of[labelsOf(e)]
	return !counted || c.clock().Sub(last.at) >= countEvery
}

// note notes what was counted.
func (c *counts) note(e *v1alpha1.WebhookEndpoint, b backlog) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of[labelsOf(e)] = count{b, c.clock()}
}

// last returns what was counted last, and reports whether there is a count.
func (c *counts) last(e *v1alpha1.WebhookEndpoint) (backlog, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, counted := c.of[labelsOf(e)]
	return last.backlog, counted
}

// forget forgets an endpoint.
func (c *counts) forget(e *v1alpha1.WebhookEndpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.of, labelsOf(e))
}

// Describe implements prometheus.Collector.
func (c *counts) Describe(to chan<- *prometheus.Desc) { to <- backlogEvents; to <- oldestSeconds }

// Collect implements prometheus.Collector.
func (c *counts) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	for of, one := range c.of {
		if now.Sub(one.at) > countedFor {
			delete(c.of, of)
			continue
		}
		age := 0.0
		if !one.oldest.IsZero() {
			age = max(0, now.Sub(one.oldest).Seconds())
		}
		to <- prometheus.MustNewConstMetric(backlogEvents, prometheus.GaugeValue, float64(one.events), of.deployment, of.endpoint)
		to <- prometheus.MustNewConstMetric(oldestSeconds, prometheus.GaugeValue, age, of.deployment, of.endpoint)
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
	if b.events = later + open; b.events > 0 {
		b.oldest, err = oldestOf(tx, s)
	}
	return b, err
}

// oldestOf returns when the oldest event happened that waits for an endpoint, zero for none. It leaves out those of
// replays.
func oldestOf(tx people.Tx, s people.WebhookState) (oldest time.Time, err error) {
	next, err := tx.EventLog().EventsAfter(s.Position, 1)
	if err != nil {
		return oldest, err
	}
	for _, e := range next {
		oldest = e.At
	}
	open, err := tx.Webhooks().OpenDeliveries(s.Endpoint, openRead)
	if err != nil {
		return oldest, err
	}
	for _, d := range open {
		if d.Replay != 0 {
			continue
		}
		at := d.CreatedAt // unless the event is there
		e, found, err := tx.EventLog().LoggedEvent(d.Event)
		if err != nil {
			return oldest, err
		}
		if found {
			at = e.At
		}
		if oldest.IsZero() || at.Before(oldest) {
			oldest = at
		}
		break
	}
	return oldest, nil
}

// waiting returns how many events of a log have larger numbers than a position.
func waiting(bounds people.EventBounds, position int64) int64 {
	return max(0, bounds.Last-max(position, bounds.First-1))
}
