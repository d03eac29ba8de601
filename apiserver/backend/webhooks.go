package backend

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// The operations on webhook endpoints. Resources declare them; requests read how they go, and send events again.

// scannedDeliveries is how many deliveries one request reads.
const scannedDeliveries = 5000

// endpointOf returns the endpoint of the path.
func endpointOf(c *call) (*snapshot.Entry, error) {
	id, err := ids.Parse(c.r.PathValue("endpoint_id"))
	e, found := c.snapshot.ByID(v1alpha1.KindWebhookEndpoint, c.tenant(), id)
	if err != nil || !found {
		return nil, &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
			Pointer: ":endpoint_id", Message: "is the id of no WebhookEndpoint of the deployment: list them to see which there are",
		}}}
	}
	return e, nil
}

// listWebhookEndpoints serves a page of the declared endpoints with their states.
func listWebhookEndpoints(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.WebhookEndpointList{Limit: int64(limit), Offset: int64(offset), Total: int64(c.snapshot.Count(v1alpha1.KindWebhookEndpoint, c.tenant()))}
	err := c.people().view(func(u *account.Unit) (err error) {
		list.Data = []backendapi.WebhookEndpoint{}
		bounds, err := u.EventLog().EventBounds()
		seen := 0
		c.snapshot.List(v1alpha1.KindWebhookEndpoint, c.tenant(), func(e *snapshot.Entry) bool {
			if seen++; seen <= offset || err != nil {
				return err == nil
			}
			var view backendapi.WebhookEndpoint
			view, err = viewEndpoint(c, u, e, bounds.Last)
			list.Data = append(list.Data, view)
			return len(list.Data) < limit && err == nil
		})
		return err
	})
	list.HasMore = int64(offset+len(list.Data)) < list.Total
	return object(list), err
}

// getWebhookEndpoint serves an endpoint with its state.
func getWebhookEndpoint(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	var view backendapi.WebhookEndpoint
	err = c.people().view(func(u *account.Unit) (err error) { view, err = readEndpoint(c, u, e); return err })
	return object(view), err
}

// listWebhookDeliveries serves a page of the deliveries of an endpoint, the newest first.
func listWebhookDeliveries(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	q := c.query()
	limit := q.Limit(defaultLimit, maxLimit)
	filter := people.DeliveryFilter{
		Before: q.ID("cursor"), Since: q.Time("since"), Until: q.Time("until"), Brief: true,
		Status: q.OneOf("status", "", people.DeliveryPending, people.DeliveryDelivered, people.DeliveryFailed, people.DeliverySkipped),
	}
	wanted, _ := q.Text("event_name")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.WebhookDeliveryList{}
	err = c.people().view(func(u *account.Unit) error {
		page := deliveryPage{of: filter, wanted: wanted, limit: limit, list: backendapi.WebhookDeliveryList{Data: []backendapi.WebhookDelivery{}}}
		err := page.read(u, e.ID, func(d people.WebhookDelivery) backendapi.WebhookDelivery { return viewDelivery(c, e, d) })
		list = page.list
		return err
	})
	return object(list), err
}

// deliveryPage reads a page of deliveries, the newest first.
type deliveryPage struct {
	of people.DeliveryFilter
	// wanted is the type of the listed ones, "" for all.
	wanted string
	limit  int
	list   backendapi.WebhookDeliveryList
}

// read reads rows until the page is full, or scannedDeliveries were read. Delivered and skipped ones have no index of
// their own: they are selected here, so that the bound counts the rows that are read.
func (p *deliveryPage) read(u *account.Unit, endpoint int64, view func(people.WebhookDelivery) backendapi.WebhookDelivery) error {
	status, before := p.of.Status, p.of.Before
	switch status {
	case people.DeliveryPending:
		rows, err := u.Webhooks().OpenDeliveries(endpoint, scannedDeliveries)
		slices.SortFunc(rows, func(a, b people.WebhookDelivery) int { return cmp.Compare(b.ID, a.ID) })
		p.take(rows, func(d *people.WebhookDelivery) bool {
			return (before == 0 || d.ID < before) && (p.of.Since.IsZero() || d.ID >= ids.From(p.of.Since)) && (p.of.Until.IsZero() || d.ID < ids.From(p.of.Until))
		}, view)
		return err
	case people.DeliveryDelivered, people.DeliverySkipped:
		p.of.Status = ""
	default:
		status = ""
	}
	asked := p.limit + 1
	for scanned := 0; scanned < scannedDeliveries; asked = min(4*asked, 1000) {
		rows, err := u.Webhooks().Deliveries(endpoint, p.of, asked)
		if err != nil {
			return err
		}
		if p.take(rows, func(d *people.WebhookDelivery) bool { return status == "" || d.Status == status }, view) || len(rows) < asked {
			return nil
		}
		scanned += len(rows)
	}
	p.list.HasMore, p.list.NextCursor = true, optionalID(p.of.Before)
	return nil
}

// take adds the wanted ones of rows, and reports whether the page is full and more follow.
func (p *deliveryPage) take(rows []people.WebhookDelivery, selects func(*people.WebhookDelivery) bool, view func(people.WebhookDelivery) backendapi.WebhookDelivery) bool {
	for _, d := range rows {
		if selects(&d) && (p.wanted == "" || d.Type == p.wanted) {
			if len(p.list.Data) == p.limit {
				p.list.HasMore, p.list.NextCursor = true, optionalID(p.of.Before)
				return true
			}
			p.list.Data = append(p.list.Data, view(d))
		}
		p.of.Before = d.ID
	}
	return false
}

// getWebhookDelivery serves a delivery with its event and its requests.
func getWebhookDelivery(c *call) (reply, error) {
	id, err := ids.Parse(c.r.PathValue("delivery_id"))
	unknown := &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":delivery_id", Message: "is the id of no delivery of the deployment, or of one that was deleted because of its age: list the deliveries of an endpoint to see which there are",
	}}}
	if err != nil {
		return reply{}, unknown
	}
	var view backendapi.WebhookDeliveryDetail
	p := c.people()
	err = p.view(func(u *account.Unit) error {
		d, found, err := u.Webhooks().Delivery(id)
		if err != nil {
			return err
		}
		e, declared := c.snapshot.ByID(v1alpha1.KindWebhookEndpoint, c.tenant(), d.Endpoint)
		if !found || !declared {
			return unknown
		}
		event, found, err := u.EventLog().LoggedEvent(d.Event)
		view = viewDeliveryDetail(viewDelivery(c, e, d), d)
		if found {
			served := p.event(event)
			view.Payload = &served
		}
		return err
	})
	return object(view), err
}

// testWebhookEndpoint sends an example to an endpoint once.
func testWebhookEndpoint(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	var name string
	err = c.people().parse(func(o *body.Object) {
		if o.Require("event_name") {
			name, _ = o.String("event_name")
		}
	})
	if err != nil {
		return reply{}, err
	}
	entry, found := events.Find(events.Type(name))
	if !found {
		return reply{}, apierror.Invalid(apierror.Fault{Pointer: "/event_name", Message: "is no type of events: GET /events/types lists the types"})
	}
	content := snapshot.ContentOf[documentEndpoint](e)
	if err := c.AllowTime(time.Duration(content.TimeoutSeconds)*time.Second + respondWithin); err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), time.Duration(content.TimeoutSeconds)*time.Second+respondWithin/2)
	defer cancel()
	done, err := c.api.TestWebhook(ctx, c.tenant(), e.ID, entry)
	switch {
	case errors.Is(err, egress.ErrTooManyFetches), errors.Is(err, egress.ErrTooManyWaiting):
		return reply{}, &apierror.Error{Status: http.StatusTooManyRequests, RetryAfter: 10 * time.Second, Message: "too many webhooks of the deployment are tested: wait before you test another"}
	case errors.Is(err, webhooks.ErrIncomplete):
		return reply{}, webhookError(err)
	case err != nil:
		return reply{}, apierror.Unavailable(err, "the request cannot be signed now: see the condition CredentialsReady of the WebhookEndpoint")
	}
	view := backendapi.WebhookTest{Success: done.Failure == "", StatusCode: optionalCount(int64(done.Status)), ResponseTimeMs: done.Latency.Milliseconds()}
	if done.Failure != "" {
		view.Error = &done.Failure
	}
	return object(view), nil
}

// reactivateWebhookEndpoint enables a disabled endpoint.
func reactivateWebhookEndpoint(c *call) (reply, error) {
	e, err := endpointOf(c)
	if err != nil {
		return reply{}, err
	}
	skip := false
	p := c.people()
	if err := p.parse(func(o *body.Object) { skip, _ = o.Bool("skip_backlog") }); err != nil {
		return reply{}, err
	}
	var view backendapi.WebhookEndpoint
	err = p.change(func(u *account.Unit) error {
		changed, err := webhooks.Reactivate(u, e.ID, skip, u.Now)
		if err != nil {
			return webhookError(err)
		}
		if changed {
			u.Log(events.OfEndpoint(events.EndpointEnabled, e.ID, "", time.Time{}))
			if err := p.audit(u, "webhook_endpoint.enabled", "webhook_endpoint", e.ID); err != nil {
				return err
			}
		}
		view, err = readEndpoint(c, u, e)
		return err
	})
	return object(view), err
}

// webhookWordings map refusals to errors of the backend API.
var webhookWordings = []struct {
	refused error
	fault   apierror.Fault
}{
	{webhooks.ErrNotSeen, apierror.Fault{Pointer: ":endpoint_id", Message: "is the id of an endpoint that no server has sent to yet: try again in a few seconds"}},
	{webhooks.ErrDisabled, apierror.Fault{Pointer: ":endpoint_id", Message: "is the id of a disabled endpoint: reactivate it first"}},
	{webhooks.ErrReplayOpen, apierror.Fault{Pointer: ":endpoint_id", Message: "is the id of an endpoint with a replay that has not ended: wait for its end, or delete it"}},
	{webhooks.ErrKeyReused, apierror.Fault{Pointer: "/idempotency_key", Message: "belongs to a replay of other events: use another key"}},
	{webhooks.ErrChanged, apierror.Fault{Pointer: ":endpoint_id", Message: "is the id of an endpoint that changed meanwhile: try again"}},
	{webhooks.ErrIncomplete, apierror.Fault{Pointer: ":endpoint_id", Message: "is the id of an endpoint that has a value that may not be used: see its condition CredentialsReady"}},
}

// webhookError turns a refusal of an operation on an endpoint into an error of this API.
func webhookError(err error) error {
	var soon *webhooks.TooSoonError
	if errors.As(err, &soon) {
		return &apierror.Error{Status: http.StatusTooManyRequests, RetryAfter: soon.RetryAfter, Message: "the endpoint was reactivated less than a minute ago: correct its receiver first"}
	}
	for _, wording := range webhookWordings {
		if errors.Is(err, wording.refused) {
			return &apierror.Error{Status: http.StatusConflict, Faults: []apierror.Fault{wording.fault}}
		}
	}
	return err
}
