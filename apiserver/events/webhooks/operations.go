package webhooks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// ReplayFailed is the status of Wanted that selects deliveries that failed.
	ReplayFailed = "failed"
	// ReplayAll is the status of Wanted that selects all events.
	ReplayAll = "all"
	// ReplayMost bounds the events of a replay.
	ReplayMost = 100_000
	// ReplayListMost bounds the listed ids of a replay.
	ReplayListMost = 1000
	// ReplayedADay bounds the replayed events of a deployment in a day.
	ReplayedADay = 1_000_000
	// replaysADay bounds the replays of a deployment in a day, and replaysKept the replays of an endpoint that are kept
	// longer.
	replaysADay, replaysKept = 1000, 100
	// EnableAfter is the least time between two times at which an endpoint is enabled again by a request.
	EnableAfter = time.Minute
	// testWait is how long a test waits for its turn.
	testWait = 2 * time.Second
	// testPrefix begins the ids of test events.
	testPrefix = "evt_test_"
)

// testBounds bound the tests of endpoints on one server.
var testBounds = egress.Bounds{AtOnce: 16, DeploymentAtOnce: 2, DeploymentPerMinute: 30, DeploymentWaiting: 4}

// Errors of the operations on endpoints.
var (
	// ErrNotSeen: no server has sent to the endpoint yet.
	ErrNotSeen = errors.New("no server has seen the endpoint yet")
	// ErrDisabled: the endpoint is disabled.
	ErrDisabled = errors.New("the endpoint is disabled")
	// ErrReplayOpen: the endpoint has a replay that has not ended.
	ErrReplayOpen = errors.New("the endpoint has a replay that has not ended")
	// ErrKeyReused: the idempotency key belongs to another request.
	ErrKeyReused = errors.New("the idempotency key belongs to another request")
	// ErrTooMany: the range has more than ReplayMost events.
	ErrTooMany = errors.New("the range has too many events")
	// ErrManyReplays: the deployment has replayed as many events today as it may.
	ErrManyReplays = errors.New("the deployment has replayed as many events today as it may")
	// ErrChanged: the state changed meanwhile.
	ErrChanged = errors.New("the endpoint changed meanwhile")
	// ErrIncomplete: the endpoint has a value that may not be used.
	ErrIncomplete = errors.New("the endpoint cannot be sent to")
)

// TooSoonError means that an endpoint was enabled again a short time ago.
type TooSoonError struct{ RetryAfter time.Duration }

func (e *TooSoonError) Error() string { return "the endpoint was enabled again a short time ago" }

// UnknownIDError means that an id of a replay is unknown. Index is its place in the list.
type UnknownIDError struct {
	Index int
	// Unselected reports that the event exists, and that the endpoint does not get it, and Waiting that the endpoint gets
	// it later.
	Unselected, Waiting bool
}

func (e *UnknownIDError) Error() string { return fmt.Sprintf("the id at index %d is unknown", e.Index) }

// Wanted are the events of a replay: the deliveries or events of a list, or those of a range of time.
type Wanted struct {
	Deliveries []int64 `json:"deliveries,omitempty"`
	Events     []int64 `json:"events,omitempty"`
	// Status is ReplayFailed or ReplayAll.
	Status string `json:"status,omitempty"`
	// Type selects a type, "" for all. Since and Until bound the time: of the beginning of a failed delivery, or of an
	// event. Until is exclusive; zero: now.
	Type         string `json:"type,omitempty"`
	Since, Until time.Time
	// Key is the idempotency key, "" for none.
	Key string `json:"-"`
}

// StartReplay begins to send events to an endpoint again, as a replay with a new id. A request with the key of an
// earlier one returns that replay. Errors: ErrNotSeen, ErrDisabled, ErrReplayOpen, ErrKeyReused, ErrTooMany,
// ErrManyReplays, an UnknownIDError.
func StartReplay(tx people.Tx, endpoint int64, content *document.WebhookEndpoint, want Wanted, id int64, now time.Time) (people.WebhookReplay, error) {
	state, found, err := tx.Webhooks().LockWebhookState(endpoint)
	if err != nil {
		return people.WebhookReplay{}, err
	}
	raw, err := json.Marshal(want)
	if err != nil {
		return people.WebhookReplay{}, err
	}
	sum := sha256.Sum256(raw)
	digest := hex.EncodeToString(sum[:16])
	if want.Key != "" {
		earlier, found, err := replayOfKey(tx, endpoint, want.Key, digest)
		if err != nil || found {
			return earlier, err
		}
	}
	switch {
	case !found:
		return people.WebhookReplay{}, ErrNotSeen
	case !state.DisabledAt.IsZero():
		return people.WebhookReplay{}, ErrDisabled
	}
	row := people.WebhookReplay{ID: id, Endpoint: endpoint, Status: people.ReplayPending, Key: want.Key, NextAt: now, CreatedAt: now}
	chosen, err := choose(tx, &state, content, want, now, &row)
	if err != nil {
		return people.WebhookReplay{}, err
	}
	chosen.Digest = digest
	text, err := json.Marshal(chosen)
	if err != nil {
		return people.WebhookReplay{}, err
	}
	if row.Selection = string(text); row.Total == 0 {
		row.Status, row.CompletedAt = people.ReplayCompleted, now
	}
	today := now.Add(-24 * time.Hour)
	replays, replayed, err := tx.Webhooks().ReplayedSince(today)
	if err != nil {
		return people.WebhookReplay{}, err
	}
	if replays >= replaysADay || replayed+row.Total > ReplayedADay {
		return people.WebhookReplay{}, ErrManyReplays
	}
	if err := tx.Webhooks().ForgetReplays(endpoint, replaysKept, today); err != nil {
		return people.WebhookReplay{}, err
	}
	fresh, err := tx.Webhooks().InsertReplay(row)
	if err == nil && !fresh {
		err = ErrReplayOpen
	}
	return row, err
}

// replayOfKey returns the replay that has an idempotency key.
func replayOfKey(tx people.Tx, endpoint int64, key, digest string) (people.WebhookReplay, bool, error) {
	row, found, err := tx.Webhooks().ReplayByKey(endpoint, key)
	if err != nil || !found {
		return row, false, err
	}
	var chosen selection
	if err := json.Unmarshal([]byte(row.Selection), &chosen); err != nil {
		return row, false, err
	}
	if chosen.Digest != digest {
		return people.WebhookReplay{}, false, ErrKeyReused
	}
	return row, true, nil
}

// choose returns the selection of a replay, and writes its beginning and its number of events to row.
func choose(tx people.Tx, state *people.WebhookState, content *document.WebhookEndpoint, want Wanted, now time.Time, row *people.WebhookReplay) (chosen selection, err error) {
	switch {
	case len(want.Deliveries) > 0:
		row.Total = int64(len(want.Deliveries))
		chosen.Deliveries, err = knownDeliveries(tx, state.Endpoint, want.Deliveries)
		return chosen, err
	case len(want.Events) > 0:
		row.Total = int64(len(want.Events))
		chosen.Events, err = knownEvents(tx, state, content, want.Events)
		return chosen, err
	}
	until := want.Until
	if until.IsZero() || until.After(now) {
		until = now
	}
	if chosen.Status, chosen.Type = want.Status, want.Type; want.Status == ReplayAll {
		bounds, err := tx.EventLog().EventBounds()
		if err != nil {
			return chosen, err
		}
		first, err := events.FirstSince(tx.EventLog(), bounds, want.Since)
		if err != nil {
			return chosen, err
		}
		after, err := events.FirstSince(tx.EventLog(), bounds, until)
		if err != nil {
			return chosen, err
		}
		// The endpoint gets later events anyway.
		chosen.From, chosen.To = first-1, max(min(after-1, state.Position), first-1)
		row.Total = chosen.To - chosen.From
	} else {
		chosen.From, chosen.To = max(ids.From(want.Since)-1, 0), ids.From(until)
		all := chosen.dead(chosen.From)
		all.Type = "" // a type does not make the query longer
		row.Total, err = tx.Webhooks().CountDeliveries(state.Endpoint, all, ReplayMost+1)
		if err == nil && row.Total <= ReplayMost && want.Type != "" {
			row.Total, err = tx.Webhooks().CountDeliveries(state.Endpoint, chosen.dead(chosen.From), ReplayMost+1)
		}
	}
	row.Place = chosen.From
	if row.Total > ReplayMost {
		return chosen, ErrTooMany
	}
	return chosen, err
}

// knownDeliveries returns ids of deliveries of an endpoint in the order in which they began. Errors: an UnknownIDError.
func knownDeliveries(tx people.Tx, endpoint int64, wanted []int64) ([]int64, error) {
	found, err := tx.Webhooks().DeliveriesAmong(endpoint, wanted)
	if err != nil {
		return nil, err
	}
	known := map[int64]bool{}
	for _, d := range found {
		known[d.ID] = true
	}
	for i, id := range wanted {
		if !known[id] {
			return nil, &UnknownIDError{Index: i}
		}
	}
	return slices.Sorted(slices.Values(wanted)), nil
}

// knownEvents returns ids of events that an endpoint gets, and that are not after its position, in the order of the
// events. Errors: an UnknownIDError.
func knownEvents(tx people.Tx, state *people.WebhookState, content *document.WebhookEndpoint, wanted []int64) ([]int64, error) {
	found, err := tx.EventLog().LoggedEvents(wanted)
	if err != nil {
		return nil, err
	}
	known, ordered := map[int64]*people.LoggedEvent{}, make([]int64, 0, len(found))
	for i := range found {
		known[found[i].ID] = &found[i]
		ordered = append(ordered, found[i].ID)
	}
	for i, id := range wanted {
		switch e := known[id]; {
		case e == nil || !sends(content.Types, state.Endpoint, e):
			return nil, &UnknownIDError{Index: i, Unselected: e != nil}
		case e.Sequence > state.Position:
			return nil, &UnknownIDError{Index: i, Waiting: true}
		}
	}
	return ordered, nil
}

// CancelReplay ends a replay, and reports whether it had not ended: requests that are open go on, and no other one
// begins.
func CancelReplay(tx people.Tx, row people.WebhookReplay, now time.Time) (bool, error) {
	if !row.CompletedAt.IsZero() {
		return false, nil
	}
	row.Status, row.CompletedAt = people.ReplayCancelled, now
	open, err := tx.Webhooks().UpdateReplay(row)
	if err != nil || !open {
		return false, err
	}
	_, err = tx.Webhooks().SkipDeliveries(row.Endpoint, row.ID, now)
	return true, err
}

// Reactivate enables a disabled endpoint, and reports whether it was disabled. It continues where it was disabled, or
// with the next event if skip is set: open deliveries and replays then end. Errors: ErrNotSeen, ErrChanged, a
// TooSoonError.
func Reactivate(tx people.Tx, endpoint int64, skip bool, now time.Time) (changed bool, err error) {
	state, found, err := tx.Webhooks().LockWebhookState(endpoint)
	switch {
	case err != nil:
		return false, err
	case !found:
		return false, ErrNotSeen
	case state.DisabledAt.IsZero():
		return false, nil
	}
	if wait := EnableAfter - now.Sub(state.EnabledAt); wait > 0 {
		return false, &TooSoonError{wait}
	}
	if skip {
		if err := skipAll(tx, &state, now); err != nil {
			return false, err
		}
	}
	read := state.Epoch
	state.Epoch, state.LeasedUntil = read+1, time.Time{}
	if state, err = enable(tx, state, now); err != nil {
		return false, err
	}
	held, err := tx.Webhooks().UpdateWebhookState(state, read)
	if err == nil && !held {
		err = ErrChanged
	}
	return true, err
}

// skipAll ends the open deliveries and the replay of an endpoint, and moves its position to the last event.
func skipAll(tx people.Tx, state *people.WebhookState, now time.Time) error {
	bounds, err := tx.EventLog().EventBounds()
	if err != nil {
		return err
	}
	state.Position = max(state.Position, bounds.Last)
	if _, err := tx.Webhooks().SkipDeliveries(state.Endpoint, 0, now); err != nil {
		return err
	}
	row, found, err := tx.Webhooks().OpenReplay(state.Endpoint)
	if err != nil || !found {
		return err
	}
	_, err = CancelReplay(tx, row, now)
	return err
}

// Tested is what became of a test.
type Tested struct {
	// Status is the HTTP status, 0 without a response. Failure says why it is no success, "" for a success.
	Status  int
	Failure string
	Latency time.Duration
}

// Test sends the example of a type to an endpoint once. It is no delivery. Errors: ErrIncomplete, those of
// egress.Slots.Begin, of secrets.
func (d *Dispatcher) Test(ctx context.Context, deployment string, endpoint int64, entry events.Entry) (Tested, error) {
	e, found := d.Snapshots.Current().ByID(v1alpha1.KindWebhookEndpoint, deployment, endpoint)
	if !found || snapshot.ContentOf[document.WebhookEndpoint](e).Incomplete {
		return Tested{}, ErrIncomplete
	}
	waiting, cancel := context.WithTimeout(ctx, testWait)
	defer cancel()
	leave, err := d.tests.Begin(waiting, egress.Asker{Deployment: deployment})
	if errors.Is(err, context.DeadlineExceeded) {
		err = egress.ErrTooManyWaiting
	}
	if err != nil {
		return Tested{}, err
	}
	defer leave()
	t, err := d.target(key{deployment, endpoint}, snapshot.ContentOf[document.WebhookEndpoint](e))
	if err != nil {
		return Tested{}, err
	}
	example, now := entry.Example(), d.Clock().UTC().Truncate(time.Microsecond)
	example.At, example.ID = now, firstID(now)
	done := d.client.send(ctx, t, &example, testPrefix, http.Header{"Cardea-Test": {"true"}, "Cardea-Attempt": {"1"}}, d.Clock)
	return Tested{done.status, done.failure, done.latency}, nil
}
