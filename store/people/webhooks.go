package people

import (
	"context"
	"time"
)

// WebhookState is how far the events of a deployment were sent to an endpoint, and how that goes.
type WebhookState struct {
	// Endpoint is the id of the WebhookEndpoint.
	Endpoint int64
	// Position is the number of an event up to which all were filtered for the endpoint, and have rows if it gets them.
	Position int64
	// Target is a digest of the URL, which enables a disabled endpoint when it changes.
	Target string
	// Paused reports that the endpoint is not sent to, because it is inactive or no longer declared.
	Paused bool
	// EndedAt is when a server found that the endpoint is no longer declared, zero if it is.
	EndedAt time.Time
	// Owner is the server that sends, until LeasedUntil. Epoch grows with each lease.
	Owner       string
	LeasedUntil time.Time
	Epoch       int64
	// NextAt is when the next open delivery is due, zero for none. Blocked reports that events after the position wait
	// until then.
	NextAt  time.Time
	Blocked bool
	// Failures counts the failures in a row, and FailingSince is the time of the first of them. Both are zero after a
	// success. Status is the last HTTP status, 0 for none, and Error says why the last request failed.
	Failures     int64
	FailingSince time.Time
	Status       int64
	Error        string
	// SucceededAt is the last success, zero for none.
	SucceededAt time.Time
	// DisabledAt is when the endpoint was disabled, zero if it is not, and Reason why.
	DisabledAt time.Time
	Reason     string
	// EnabledAt is when the endpoint was last enabled again, zero for never.
	EnabledAt time.Time
	// Reported is how many times programs learned of the present failure.
	Reported int64
}

// failsAfter is how long an endpoint has no success before it counts as failing.
const failsAfter = 10 * time.Minute

// Fails reports whether the endpoint has failed at a time for so long that people and programs learn of it.
func (w WebhookState) Fails(now time.Time) bool {
	return !w.FailingSince.IsZero() && now.Sub(w.FailingSince) >= failsAfter
}

// The values of WebhookDelivery.Status.
const (
	DeliveryPending   = "pending"
	DeliveryDelivered = "delivered"
	DeliveryFailed    = "failed"
	// DeliverySkipped is a delivery that ended without success because a person or a program wanted no more requests.
	DeliverySkipped = "skipped"
)

// WebhookDelivery is the sending of an event to an endpoint.
type WebhookDelivery struct {
	ID, Endpoint int64
	// Sequence and Event are the number and the id of the event, Type its type.
	Sequence, Event        int64
	Type                   string
	SubjectType, SubjectID string
	Status                 string
	// CreatedAt is when the delivery began, NextAt when the next request is due, and SettledAt when it ended, zero if it
	// did not.
	CreatedAt, NextAt, SettledAt time.Time
	// Attempts counts the requests. HTTPStatus and Latency are those of the last one; 0 without an answer.
	Attempts   int64
	HTTPStatus int64
	Latency    time.Duration
	// Tries is a JSON list of the requests, "" for none, at most 8 KiB.
	Tries string
	// Replay is the replay that made the delivery, 0 for none, and Source the delivery that it repeats, 0 for none.
	Replay, Source int64
	// Resent reports that a replay delivered the event of the failed delivery.
	Resent bool
}

// DeliveryFilter selects deliveries. Zero members select all.
type DeliveryFilter struct {
	Status, Type string
	// Since and Until bound the time of creation, to the millisecond; Until is exclusive.
	Since, Until time.Time
	// Before and After select deliveries with a smaller and a larger id.
	Before, After int64
	// Dead selects failed deliveries that repeat no other one, and whose events no replay delivered.
	Dead bool
	// OldestFirst orders deliveries from the oldest one on, else they begin with the newest one.
	OldestFirst bool
	// Brief leaves Tries out, which can have 8 KiB of each delivery.
	Brief bool
}

// Webhooks keeps the state of webhook endpoints, and their deliveries.
type Webhooks interface {
	WebhookState(endpoint int64) (WebhookState, bool, error)
	// LockWebhookState is WebhookState with a lock on the row.
	LockWebhookState(endpoint int64) (WebhookState, bool, error)
	// InsertWebhookState writes the state of an endpoint that has none, and reports whether it had none.
	InsertWebhookState(WebhookState) (bool, error)
	// LeaseWebhook gives the endpoint to a server, and returns its state. It reports false if the endpoint has no state,
	// is paused or disabled, or another server has it at a time.
	LeaseWebhook(endpoint int64, owner string, now, until time.Time) (WebhookState, bool, error)
	// UpdateWebhookState replaces the state that was read with an epoch, but keeps a larger position: a transaction with
	// an unknown result may still commit one. It reports false if the state has another epoch since. A writer other than
	// the server that has the lease increments the epoch: that server then stops.
	UpdateWebhookState(w WebhookState, read int64) (bool, error)
	// RemoveWebhook deletes up to limit deliveries of an endpoint that ended before a time, and its state once none is
	// left. It reports whether there is nothing to delete any more.
	RemoveWebhook(endpoint int64, before time.Time, limit int) (bool, error)
	InsertDeliveries([]WebhookDelivery) error
	// UpdateDeliveries writes what changes of deliveries: status, times and tries.
	UpdateDeliveries([]WebhookDelivery) error
	// OpenDeliveries returns up to limit pending deliveries of an endpoint without their tries, in the order of their
	// events.
	OpenDeliveries(endpoint int64, limit int) ([]WebhookDelivery, error)
	// DeliveryTries returns the tries of deliveries by their ids.
	DeliveryTries(ids []int64) (map[int64]string, error)
	// Deliveries returns up to limit deliveries of an endpoint.
	Deliveries(endpoint int64, of DeliveryFilter, limit int) ([]WebhookDelivery, error)
	Delivery(id int64) (WebhookDelivery, bool, error)
	// DeliveriesAmong returns those deliveries of an endpoint whose ids are in a list, without their tries.
	DeliveriesAmong(endpoint int64, ids []int64) ([]WebhookDelivery, error)
	// CountDeliveries counts deliveries of an endpoint, up to most.
	CountDeliveries(endpoint int64, of DeliveryFilter, most int64) (int64, error)
	// SkipDeliveries ends the pending deliveries of an endpoint at a time, those of one replay if it is not 0, and returns
	// how many.
	SkipDeliveries(endpoint, replay int64, at time.Time) (int64, error)
	// HastenDeliveries lets the pending deliveries of an endpoint be due at a time, and returns how many are pending.
	HastenDeliveries(endpoint int64, at time.Time) (int64, error)
	// MarkResent sets Resent of the failed deliveries of events to an endpoint.
	MarkResent(endpoint int64, events []int64) error
	// ForgetDeliveries deletes up to limit deliveries that ended, and began before a time to the millisecond, failed ones
	// before another time, and returns how many.
	ForgetDeliveries(before, failedBefore time.Time, limit int) (int64, error)
	// InsertReplay reports false if the endpoint has a replay that has not ended, or one with the same key.
	InsertReplay(WebhookReplay) (bool, error)
	Replay(id int64) (WebhookReplay, bool, error)
	// OpenReplay returns the replay of an endpoint that has not ended.
	OpenReplay(endpoint int64) (WebhookReplay, bool, error)
	// OpenReplayID is the id of OpenReplay.
	OpenReplayID(endpoint int64) (int64, bool, error)
	// ReplayedSince counts the replays of all endpoints that were requested since a time, and sums up their totals.
	ReplayedSince(since time.Time) (replays, events int64, err error)
	// ReplayByKey returns the replay of an endpoint that has an idempotency key.
	ReplayByKey(endpoint int64, key string) (WebhookReplay, bool, error)
	// Replays returns up to limit replays of an endpoint with ids less than before, 0 for all, the newest first.
	Replays(endpoint, before int64, limit int) ([]WebhookReplay, error)
	// UpdateReplay writes what changes of a replay, unless it has ended, and reports whether it had not. It keeps a larger
	// place, larger counts and a beginning: a transaction with an unknown result may have committed them.
	UpdateReplay(WebhookReplay) (bool, error)
	// ForgetReplays deletes the replays of an endpoint that ended and were requested before a time, except the newest
	// ones.
	ForgetReplays(endpoint int64, keep int, before time.Time) error
}

// The values of WebhookReplay.Status.
const (
	ReplayPending   = "pending"
	ReplayRunning   = "running"
	ReplayCompleted = "completed"
	ReplayCancelled = "cancelled"
)

// WebhookReplay sends events to an endpoint again.
type WebhookReplay struct {
	ID, Endpoint int64
	Status       string
	// Key is the idempotency key, "" for none.
	Key string
	// Selection is a JSON object that says which events are sent, at most 64 KiB. Place is how far it was read.
	Selection string
	Place     int64
	// Total counts the selected events, and Skipped those that need no request. Replayed and Failed count deliveries.
	Total, Skipped, Replayed, Failed int64
	// NextAt is when a server that has the endpoint continues.
	NextAt time.Time
	// StartedAt and CompletedAt are zero before the beginning and the end.
	CreatedAt, StartedAt, CompletedAt time.Time
}

// WebhookRef is an endpoint of a deployment with a part of its state.
type WebhookRef struct {
	Deployment string
	Endpoint   int64
	Target     string
	Paused     bool
	Disabled   bool
	// FailingSince and EndedAt are those of WebhookState.
	FailingSince, EndedAt time.Time
}

// WebhookUpkeep finds endpoints of all deployments.
type WebhookUpkeep interface {
	// DueWebhooks returns up to limit endpoints, at most share of each deployment, that no server has at a time, and that
	// have a due delivery or an event after their position. Those that were sent to longest ago come first, one of each
	// deployment before the second one of any.
	DueWebhooks(ctx context.Context, now time.Time, share, limit int) ([]WebhookRef, error)
	// ListWebhooks returns up to limit endpoints that have a state, after one in the order of deployment and id.
	ListWebhooks(ctx context.Context, after WebhookRef, limit int) ([]WebhookRef, error)
	// AgedDeliveries returns deployments with a delivery that ended and began before a time, or failed and began before
	// another time.
	AgedDeliveries(ctx context.Context, before, failedBefore time.Time) ([]string, error)
}
