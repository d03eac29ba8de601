package backend

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// maxIdempotencyKey is the largest number of characters of an idempotency key.
const maxIdempotencyKey = 128

// replayWebhookDeliveries begins to send events to an endpoint again.
func replayWebhookDeliveries(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	var want webhooks.Wanted
	if err := p.parse(func(o *body.Object) { want = wantedReplay(o) }); err != nil {
		return reply{}, err
	}
	var row people.WebhookReplay
	err = p.change(func(u *account.Unit) error {
		id, err := u.NewID()
		if err != nil {
			return err
		}
		row, err = webhooks.StartReplay(u, e.ID, snapshot.ContentOf[documentEndpoint](e), want, id, u.Now)
		if err != nil {
			return replayError(err, want)
		}
		if row.ID != id { // the replay of an earlier request with this key
			return nil
		}
		return p.audit(u, "webhook_endpoint.replay", "webhook_endpoint", e.ID)
	})
	if err == nil && c.api.WakeWebhooks != nil {
		c.api.WakeWebhooks(c.tenant())
	}
	return object(backendapi.WebhookReplayStarted{
		Status: backendapi.WebhookReplayStartedStatus(row.Status), Message: fmt.Sprintf("%d events are sent again", row.Total), TaskId: ids.Format(row.ID),
	}), err
}

// wantedReplay reads which events are sent again.
func wantedReplay(o *body.Object) (want webhooks.Wanted) {
	want.Deliveries = listedIDs(o, "delivery_ids", "")
	want.Events = listedIDs(o, "event_ids", events.IDPrefix)
	kinds := 0
	for _, member := range []string{"delivery_ids", "event_ids", "start_date"} {
		if o.Has(member) {
			kinds++
		}
	}
	if kinds != 1 {
		o.Fault("start_date", "or delivery_ids or event_ids is required, and only one of them can be sent")
	}
	want.Since, want.Until = input.Time(o, "start_date"), input.Time(o, "end_date")
	want.Type, _ = o.String("event_name")
	if want.Type != "" {
		if _, found := events.Find(events.Type(want.Type)); !found {
			o.Fault("event_name", "is no type of events: GET /events/types lists the types")
		}
	}
	status, sent := o.String("status")
	if want.Status = status; !sent {
		want.Status = webhooks.ReplayFailed
	}
	if want.Status != webhooks.ReplayFailed && want.Status != webhooks.ReplayAll {
		o.Fault("status", "must be %s or %s", webhooks.ReplayFailed, webhooks.ReplayAll)
	}
	if o.Has("start_date") && want.Since.IsZero() {
		o.Fault("start_date", "must be a time")
	}
	if !o.Has("start_date") {
		for _, member := range []string{"end_date", "status", "event_name"} {
			if o.Has(member) {
				o.Fault(member, "can be used with start_date only")
			}
		}
		want.Status = ""
	} else if !want.Until.IsZero() && !want.Since.Before(want.Until) {
		o.Fault("end_date", "must be after start_date")
	}
	if want.Key, _ = o.String("idempotency_key"); utf8.RuneCountInString(want.Key) > maxIdempotencyKey || strings.ContainsFunc(want.Key, unicode.IsControl) {
		o.Fault("idempotency_key", "must have at most %d characters, without control characters", maxIdempotencyKey)
	}
	return want
}

// listedIDs reads a list of different ids that begin with a prefix.
func listedIDs(o *body.Object, member, prefix string) (found []int64) {
	sent, ok := o.Strings(member)
	if !ok {
		return nil
	}
	if len(sent) == 0 || len(sent) > webhooks.ReplayListMost {
		o.Fault(member, "must have 1 to %d entries", webhooks.ReplayListMost)
		return nil
	}
	known := map[int64]bool{}
	for i, text := range sent {
		rest, prefixed := strings.CutPrefix(text, prefix)
		id, err := ids.Parse(rest)
		switch {
		case !prefixed || err != nil:
			o.Fault(fmt.Sprintf("%s/%d", member, i), "must be an id")
		case known[id]:
			o.Fault(fmt.Sprintf("%s/%d", member, i), "is in the list twice")
		}
		known[id] = true
		found = append(found, id)
	}
	return found
}

// replayError turns a refusal of a replay into an error of this API.
func replayError(err error, want webhooks.Wanted) error {
	var unknown *webhooks.UnknownIDError
	if errors.As(err, &unknown) {
		fault := apierror.Fault{Pointer: fmt.Sprintf("/event_ids/%d", unknown.Index), Message: "is the id of no event of the deployment, or of one that was deleted because of its age"}
		if len(want.Deliveries) > 0 {
			fault = apierror.Fault{Pointer: fmt.Sprintf("/delivery_ids/%d", unknown.Index), Message: "is the id of no delivery of the endpoint, or of one that was deleted because of its age"}
		} else if unknown.Unselected {
			fault.Message = "is the id of an event that spec.types of the endpoint does not select, or that is about the endpoint"
		} else if unknown.Waiting {
			fault.Message = "is the id of an event that the endpoint has not read yet: it is sent without a replay"
		}
		return apierror.Invalid(fault)
	}
	if errors.Is(err, webhooks.ErrTooMany) {
		return apierror.Invalid(apierror.Fault{Pointer: "/start_date", Message: fmt.Sprintf("begins a range with more than %d events: choose shorter ranges, one after the other", webhooks.ReplayMost)})
	}
	if errors.Is(err, webhooks.ErrManyReplays) {
		return &apierror.Error{Status: http.StatusTooManyRequests, RetryAfter: time.Hour, Message: fmt.Sprintf("the deployment requested too many replays in the last 24 hours (1,000 replays, %d events): wait, or choose fewer events", webhooks.ReplayedADay)}
	}
	return webhookError(err)
}

// replayOf calls do with the replay of the path.
func replayOf(c *call, e *snapshot.Entry, u *account.Unit, do func(people.WebhookReplay) error) error {
	unknown := &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":task_id", Message: "is the id of no replay of the endpoint: list its replays to see which there are",
	}}}
	id, err := ids.Parse(c.r.PathValue("task_id"))
	if err != nil {
		return unknown
	}
	row, found, err := u.Webhooks().Replay(id)
	if err != nil {
		return err
	}
	if !found || row.Endpoint != e.ID {
		return unknown
	}
	return do(row)
}

// listWebhookReplays serves a page of the replays of an endpoint, the newest first.
func listWebhookReplays(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	q := c.query()
	limit, before := q.Limit(defaultLimit, maxLimit), q.ID("cursor")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.WebhookReplayList{}
	err = c.people().view(func(u *account.Unit) error {
		list = backendapi.WebhookReplayList{Data: []backendapi.WebhookReplay{}}
		rows, err := u.Webhooks().Replays(e.ID, before, limit+1)
		for _, row := range rows[:min(len(rows), limit)] {
			list.Data = append(list.Data, viewReplay(row))
		}
		if len(rows) > limit {
			list.HasMore, list.NextCursor = true, optionalID(rows[limit-1].ID)
		}
		return err
	})
	return object(list), err
}

// getWebhookReplay serves a replay.
func getWebhookReplay(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	var view backendapi.WebhookReplay
	err = c.people().view(func(u *account.Unit) error {
		return replayOf(c, e, u, func(row people.WebhookReplay) error { view = viewReplay(row); return nil })
	})
	return object(view), err
}

// cancelWebhookReplay ends a replay.
func cancelWebhookReplay(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	p := c.people()
	return reply{}, p.change(func(u *account.Unit) error {
		return replayOf(c, e, u, func(row people.WebhookReplay) error {
			ended, err := webhooks.CancelReplay(u, row, u.Now)
			if err != nil || !ended {
				return err
			}
			return p.audit(u, "webhook_endpoint.replay_cancelled", "webhook_endpoint", e.ID)
		})
	})
}
