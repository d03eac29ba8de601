package backend

import (
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// documentEndpoint is what a WebhookEndpoint declares.
type documentEndpoint = document.WebhookEndpoint

// readEndpoint reads the state of an endpoint and returns its view.
func readEndpoint(c *call, u *account.Unit, e *snapshot.Entry) (backendapi.WebhookEndpoint, error) {
	bounds, err := u.EventLog().EventBounds()
	if err != nil {
		return backendapi.WebhookEndpoint{}, err
	}
	return viewEndpoint(c, u, e, bounds.Last)
}

// viewEndpoint returns an endpoint with its state. last is the number of the deployment's last event.
func viewEndpoint(c *call, u *account.Unit, e *snapshot.Entry, last int64) (backendapi.WebhookEndpoint, error) {
	content := snapshot.ContentOf[documentEndpoint](e)
	state, found, err := u.Webhooks().WebhookState(e.ID)
	view := backendapi.WebhookEndpoint{
		Id: ids.Format(e.ID), DeploymentId: ids.Format(c.principal.Deployment.ID), Name: content.Name, Url: content.URL, Types: content.Types,
		Format: backendapi.WebhookEndpointFormat(content.Format), IsActive: content.Active, State: backendapi.WebhookEndpointDelivering,
		FailingSince: unlessZero(state.FailingSince), DisabledAt: unlessZero(state.DisabledAt), LastSuccessAt: unlessZero(state.SucceededAt),
		LastSequence: strconv.FormatInt(last, 10), CreatedAt: e.Meta.CreatedAt, UpdatedAt: e.Meta.UpdatedAt,
	}
	if state.Reason != "" {
		view.DisabledReason = &state.Reason
	}
	if found {
		position := strconv.FormatInt(state.Position, 10)
		view.Position = &position
	}
	switch {
	case !state.DisabledAt.IsZero():
		view.State = backendapi.WebhookEndpointDisabled
	case state.Fails(u.Now):
		view.State = backendapi.WebhookEndpointFailing
	}
	return view, err
}

// viewDelivery returns a delivery without its requests.
func viewDelivery(c *call, e *snapshot.Entry, d people.WebhookDelivery) backendapi.WebhookDelivery {
	view := backendapi.WebhookDelivery{
		DeliveryId: ids.Format(d.ID), DeploymentId: ids.Format(c.principal.Deployment.ID), EndpointId: ids.Format(d.Endpoint), EventId: events.IDPrefix + ids.Format(d.Event),
		EventName: d.Type, Sequence: strconv.FormatInt(d.Sequence, 10), Status: backendapi.WebhookDeliveryStatus(d.Status), HttpStatusCode: optionalCount(d.HTTPStatus),
		AttemptNumber: d.Attempts, MaxAttempts: webhooks.MaxAttempts(d.Replay != 0, snapshot.ContentOf[documentEndpoint](e).RetrySeconds), NextAttemptAt: unlessZero(d.NextAt),
		ReplayTaskId: optionalID(d.Replay), Timestamp: d.CreatedAt,
	}
	if d.Attempts > 0 {
		milliseconds := d.Latency.Milliseconds()
		view.ResponseTimeMs = &milliseconds
	}
	return view
}

// viewDeliveryDetail adds the requests of a delivery.
func viewDeliveryDetail(of backendapi.WebhookDelivery, d people.WebhookDelivery) backendapi.WebhookDeliveryDetail {
	tries := webhooks.TriesOf(d.Tries)
	view := backendapi.WebhookDeliveryDetail{
		DeliveryId: of.DeliveryId, DeploymentId: of.DeploymentId, EndpointId: of.EndpointId, EventId: of.EventId, EventName: of.EventName, Sequence: of.Sequence,
		Status: backendapi.WebhookDeliveryDetailStatus(of.Status), HttpStatusCode: of.HttpStatusCode, ResponseTimeMs: of.ResponseTimeMs, AttemptNumber: of.AttemptNumber, MaxAttempts: of.MaxAttempts,
		NextAttemptAt: of.NextAttemptAt, ReplayTaskId: of.ReplayTaskId, Timestamp: of.Timestamp, Attempts: make([]backendapi.WebhookAttempt, len(tries)),
	}
	for i, t := range tries {
		view.Attempts[i] = backendapi.WebhookAttempt{At: t.At, HttpStatusCode: optionalCount(int64(t.Status)), ResponseTimeMs: t.Milliseconds, Error: t.Error, ResponseExcerpt: t.Excerpt}
	}
	return view
}

func viewReplay(row people.WebhookReplay) backendapi.WebhookReplay {
	return backendapi.WebhookReplay{
		TaskId: ids.Format(row.ID), Status: backendapi.WebhookReplayStatus(row.Status), TotalCount: row.Total, Processed: row.Skipped + row.Replayed + row.Failed,
		ReplayedCount: row.Replayed, FailedCount: row.Failed, CreatedAt: row.CreatedAt, StartedAt: unlessZero(row.StartedAt), CompletedAt: unlessZero(row.CompletedAt),
	}
}

// optionalCount returns nil for 0.
func optionalCount(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
