package webhooks_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

func TestPersonalDataReachOnlyEndpointsThatIncludeThem(t *testing.T) {
	t.Parallel()
	w, plain, full := newWorld(t, ""), newReceiver(t), newReceiver(t)
	w.serves("one")
	w.follows(w.endpoint("plain", plain.URL, nil))
	id := w.endpoint("full", full.URL, func(c *document.WebhookEndpoint) { c.Personal = true })
	w.follows(id)
	full.answers(func(rw http.ResponseWriter, one received) { _, _ = rw.Write(one.body) })
	w.Must(w.Store.Change(w.t.Context(), deployment, func(tx people.Tx) error {
		now, address := w.Clock.Now(), "zeb@personal.example"
		return tx.Users().InsertUser(people.User{ID: 7, FirstName: "Zebulon", Email: address, CreatedAt: now, UpdatedAt: now},
			people.Email{ID: 8, User: 7, Address: address, Primary: true, CreatedAt: now, VerifiedAt: now})
	}))
	w.happens(events.UserDisabled, 7)
	w.Eventually("both get the event", func() bool { return len(plain.all()) == 1 && len(full.all()) == 1 })
	if body := string(full.all()[0].body); !strings.Contains(body, `"personal":{"email":"zeb@personal.example","first_name":"Zebulon"}`) {
		t.Errorf("%s", body)
	}
	if body := string(plain.all()[0].body); strings.Contains(body, "Zeb") {
		t.Errorf("%s", body)
	}
	w.Eventually("the delivery has ended", func() bool {
		return len(w.deliveries(id, people.DeliveryFilter{Status: people.DeliveryDelivered})) == 1
	})
	if d := w.deliveries(id, people.DeliveryFilter{})[0]; strings.Contains(d.Tries, "Zebulon") {
		t.Errorf("the record has personal data: %s", d.Tries)
	}
}
