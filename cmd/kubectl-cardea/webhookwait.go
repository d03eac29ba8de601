package main

import (
	"context"
	"fmt"
	"net/url"
	"time"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
	"github.com/cardea-iam/cardea/internal/pause"
)

// replayPause is the longest pause between two reads of a replay. The first pause is askAgain, and each is twice the
// previous one.
const replayPause = 2 * time.Second

// replayWait waits for the end of a replay, and prints how it goes on standard error.
type replayWait struct {
	server   *api
	around   surroundings
	endpoint backendapi.WebhookEndpoint
	task     string
	// last is the state that was read last, nil before the first.
	last *backendapi.WebhookReplay
	// failed reports whether the last request failed.
	failed bool
}

// run returns the replay once it has ended. After a failure that may pass, it tries again.
func (r *replayWait) run(ctx context.Context) (backendapi.WebhookReplay, error) {
	for delay := askAgain; ; delay = min(2*delay, replayPause) {
		var now backendapi.WebhookReplay
		err := r.server.get(ctx, endpointPath(r.endpoint, "replays/"+url.PathEscape(r.task)), nil, &now)
		if err == nil {
			if now.CompletedAt != nil {
				return now, nil
			}
			err = r.report(ctx, now)
		}
		switch {
		case ctx.Err() != nil:
			return now, r.goesOn(ctx.Err())
		case err != nil && !passes(err):
			return now, r.goesOn(err)
		case err != nil && !r.failed:
			_, _ = fmt.Fprintf(r.around.err, "%s; trying again\n", terminal.Clean(err.Error()))
		}
		r.failed = err != nil
		if err := pause.For(ctx, delay); err != nil {
			return now, r.goesOn(err)
		}
	}
}

// goesOn returns an error that says how to look at the replay.
func (r *replayWait) goesOn(err error) error {
	id := terminal.Clean(r.endpoint.Id)
	return fmt.Errorf("%w: the replay has not ended: kubectl cardea webhooks replays %s shows how it goes, and kubectl cardea webhooks cancel %[2]s %s ends it", err, id, terminal.Clean(r.task))
}

// report prints a state of the replay, once for each tenth of it. If the state did not change, it returns an error if
// no events are sent to the endpoint.
func (r *replayWait) report(ctx context.Context, now backendapi.WebhookReplay) error {
	before := r.last
	if r.last = &now; before == nil || now.Status != before.Status || now.Processed != before.Processed {
		if before == nil || tenth(now) != tenth(*before) {
			_, _ = fmt.Fprintf(r.around.err, "%d of %d: %d delivered, %d failed\n", now.Processed, now.TotalCount, now.ReplayedCount, now.FailedCount)
		}
		return nil
	}
	var endpoint backendapi.WebhookEndpoint
	if err := r.server.get(ctx, "webhooks/endpoints/"+url.PathEscape(r.endpoint.Id), nil, &endpoint); err != nil {
		return err
	}
	switch {
	case endpoint.State == backendapi.WebhookEndpointDisabled:
		return fmt.Errorf("the endpoint was disabled, so the replay waits: correct the receiver, then run kubectl cardea webhooks reactivate %s", terminal.Clean(r.endpoint.Id))
	case !endpoint.IsActive:
		return fmt.Errorf("the endpoint is inactive, so the replay waits: set spec.active of the WebhookEndpoint to true")
	}
	return nil
}

// tenth returns how many tenths of a replay were processed.
func tenth(r backendapi.WebhookReplay) int64 { return 10 * r.Processed / max(r.TotalCount, 1) }
