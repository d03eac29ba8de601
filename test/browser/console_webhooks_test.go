package browser

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// hookURL is at an address that no server has.
const hookURL = "https://192.0.2.1/hooks/identity"

// declareWebhook stores a webhook endpoint whose receiver does not respond.
func (w *consoleWorld) declareWebhook() {
	w.T.Helper()
	w.hook = ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", "crm")
	w.Put(v1alpha1.KindWebhookEndpoint, "crm", consoleTenant, "", document.WebhookEndpoint{
		Name: "CRM " + hostile, URL: hookURL, Types: []string{"user.*"}, Format: document.WebhookStandard, Scheme: document.WebhookHMAC,
		Ordering: document.WebhookByEntity, TimeoutSeconds: 1, MaxConcurrent: 8, RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
		Secrets: []document.SealedSecret{{Sealed: w.Keyring.Seal(document.SealedEndpointSecret, ids.Format(w.hook), []byte("whsec_YWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWFhYWE="))}},
	})
}

// recordDeliveries writes the state of the endpoint, thirty deliveries, the newest of which failed, and their events.
func (w *consoleWorld) recordDeliveries(tx people.Tx) error {
	now := w.Clock.Now()
	var logged []people.LoggedEvent
	for user := range int64(30) {
		e, err := events.OfAccount(user+1, "password").Log(now.Add(-time.Hour), "system")
		if err != nil {
			return err
		}
		logged = append(logged, e)
	}
	if err := tx.Records().LogEvents(logged); err != nil {
		return err
	}
	if _, err := tx.EventLog().NumberEvents(100); err != nil {
		return err
	}
	numbered, err := tx.EventLog().EventsAfter(0, 100)
	if err != nil {
		return err
	}
	var rows []people.WebhookDelivery
	for i, e := range numbered[:30] {
		at := now.Add(time.Duration(i-60) * time.Minute)
		d := people.WebhookDelivery{
			ID: ids.From(at) + 1, Endpoint: w.hook, Sequence: e.Sequence, Event: e.ID, Type: e.Type, SubjectType: e.SubjectType, SubjectID: e.SubjectID,
			Status: people.DeliveryDelivered, CreatedAt: at, SettledAt: at, Attempts: 1, HTTPStatus: 204, Latency: 12 * time.Millisecond,
		}
		if i == 29 {
			w.delivery = d.ID
			d.Status, d.HTTPStatus, d.Attempts = people.DeliveryFailed, 500, 2
			d.Tries = `[{"at":"2026-05-10T11:00:00Z","status":500,"ms":41,"error":"HTTP status 500","excerpt":` + quoted(hostile) + `},{"at":"2026-05-10T11:00:05Z","ms":1000,"error":"no complete response within the timeout"}]`
		}
		rows = append(rows, d)
	}
	target := sha256.Sum256([]byte(hookURL)) // another target would enable the endpoint
	_, err = tx.Webhooks().InsertWebhookState(people.WebhookState{
		Endpoint: w.hook, Target: hex.EncodeToString(target[:16]), Position: 30, Failures: 40, FailingSince: now.Add(-120 * time.Hour), Status: 500, Error: "HTTP status 500", SucceededAt: now.Add(-121 * time.Hour),
		DisabledAt: now.Add(-time.Hour), Reason: "SustainedFailure",
	})
	return errors.Join(err, tx.Webhooks().InsertDeliveries(rows))
}

func TestWebhooksAreOperatedInTheConsole(t *testing.T) {
	w := newConsoleWorld(t)
	tb := w.entered(t, look{width: 1280}, "en", w.admin)
	rows := `document.querySelectorAll("tbody tr").length`
	tb.goTo("webhooks", "Disabled")
	tb.tabTo("CRM " + hostile)
	tb.keys(kb.Enter)
	tb.sees("(it failed for too long)")
	tb.until(rows + ` === 25`)

	tb.tabTo("Reactivate")
	tb.keys(kb.Enter)
	tb.tabTo("Reactivate")
	tb.keys(kb.Enter)
	tb.sees("is enabled.")
	tb.sees("Delivering")

	tb.tabTo("Test")
	tb.keys(kb.Enter)
	tb.tabTo("Send")
	tb.keys(kb.Enter)
	tb.sees("The test failed")

	tb.tabTo("Send again")
	tb.keys(kb.Enter)
	tb.until(`document.querySelector("dialog input[type=datetime-local]") !== null`)
	tb.do(`document.querySelector("dialog input[type=datetime-local]").value = "2020-01-01T00:00:00"`)
	tb.tabTo("Send again")
	tb.keys(kb.Enter)
	tb.sees("has begun.")
	tb.sees("0 of 1")
	tb.tabTo("Cancel replay")
	tb.keys(kb.Enter)
	tb.tabTo("Cancel replay")
	tb.keys(kb.Enter)
	tb.sees("is canceled.")
	tb.until(`[...document.querySelectorAll("tbody .badge")].some((badge) => badge.textContent === "Canceled")`)

	tb.goTo(w.address("deliveries/DELIVERY"), "no complete response within the timeout")
	tb.expects("404")
	tb.goTo("webhooks/17", "is the id of no WebhookEndpoint of the deployment")
	tb.goTo("deliveries/17", "is the id of no delivery of the deployment")
}
