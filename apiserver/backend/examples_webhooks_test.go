package backend

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The ids of a webhook endpoint, and of what it has.
var (
	crmDelivery = exampleID(exampleDay(10, 11), 11)
	crmReplay   = exampleID(exampleDay(10, 12), 21) - 30*60*1000<<21
)

const (
	crmEndpoint = 7306112409600000007
	erpEndpoint = 7306112409600000008
)

// webhooks declares two webhook endpoints.
func (d *exampleDocuments) webhooks(ref v1alpha1.DeploymentReference) {
	for _, one := range []struct {
		id              int64
		name, named, to string
		types           []string
	}{
		{crmEndpoint, "crm", "CRM", "https://crm.acme.example/hooks/identity", []string{"user.*", "membership.*"}},
		{erpEndpoint, "erp", "ERP", "https://erp.acme.example/hooks", []string{"*"}},
	} {
		resource := &v1alpha1.WebhookEndpoint{Spec: v1alpha1.WebhookEndpointSpec{DeploymentRef: ref, URL: v1alpha1.URL(one.to)}}
		resource.TypeMeta, resource.ObjectMeta = resourceNamed(v1alpha1.KindWebhookEndpoint, one.name)
		d.declares(one.id, one.name, document.WebhookEndpoint{
			Name: one.named, URL: one.to, Types: one.types, Format: document.WebhookStandard, Scheme: document.WebhookHMAC, Ordering: document.WebhookByEntity,
			TimeoutSeconds: 15, MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
		}, resource)
	}
}

// exampleWebhooks writes the states of the endpoints: one is disabled, and has a delivery that failed and a replay that
// ended.
func exampleWebhooks(tx people.Tx) error {
	at := exampleDay(10, 11)
	list, err := tx.EventLog().EventsAfter(1, 1)
	if err != nil {
		return err
	}
	e := list[0]
	return firstError(
		func() error {
			_, err := tx.Webhooks().InsertWebhookState(people.WebhookState{
				Endpoint: crmEndpoint, Position: 1, Failures: 40, FailingSince: exampleDay(5, 11), Status: 500, Error: "HTTP status 500", SucceededAt: exampleDay(5, 10),
				DisabledAt: at, Reason: "SustainedFailure", Reported: 2,
			})
			return err
		},
		func() error {
			_, err := tx.Webhooks().InsertWebhookState(people.WebhookState{Endpoint: erpEndpoint, Position: 2, SucceededAt: at})
			return err
		},
		func() error {
			return tx.Webhooks().InsertDeliveries([]people.WebhookDelivery{{
				ID: crmDelivery, Endpoint: crmEndpoint, Sequence: e.Sequence, Event: e.ID, Type: e.Type, SubjectType: e.SubjectType, SubjectID: e.SubjectID, Status: people.DeliveryFailed,
				CreatedAt: at, SettledAt: at.Add(5 * time.Second), Attempts: 2, HTTPStatus: 500, Latency: 41 * time.Millisecond,
				Tries: `[{"at":"2026-05-10T11:00:00.041Z","status":500,"ms":41,"error":"HTTP status 500","excerpt":"internal error"},` +
					`{"at":"2026-05-10T11:00:05Z","status":500,"ms":41,"error":"HTTP status 500","excerpt":"internal error"}]`,
			}})
		},
		func() error {
			begins := at.Add(30 * time.Minute)
			_, err := tx.Webhooks().InsertReplay(people.WebhookReplay{
				ID: crmReplay, Endpoint: crmEndpoint, Status: people.ReplayCompleted, Selection: `{"status":"all","from":1,"to":4}`, Place: 4, Total: 3, Replayed: 2, Failed: 1,
				CreatedAt: begins, StartedAt: begins.Add(time.Second), CompletedAt: begins.Add(time.Minute),
			})
			return err
		},
	)
}

// testsWebhook stands for the dispatcher, whose own tests send requests.
func testsWebhook(context.Context, string, int64, events.Entry) (webhooks.Tested, error) {
	return webhooks.Tested{Status: 204, Latency: 12 * time.Millisecond}, nil
}
