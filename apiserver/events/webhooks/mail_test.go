package webhooks_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/outbound/delivery"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// supported declares the deployment with mail, and with an address of its support unless it is "".
func (w *world) supported(address string) {
	w.Put(v1alpha1.KindIdentityDeployment, "acme", deployment, "acme", document.Deployment{
		DisplayName: "Acme", Pages: &document.Pages{SupportEmail: address},
		Email: &document.Email{From: "no-reply@acme.example", SMTP: &document.SMTP{Host: "127.0.0.1", Port: 25, Security: "None"}},
	})
	w.Eventually("the deployment sends mail", func() bool {
		entry, found := w.follower.Current().Deployment(deployment)
		return found && entry.Content.(*document.Deployment).Email != nil
	})
}

// mails takes the mails of the outbox.
func (w *world) mails() (all []delivery.Content, to []string) {
	leased, err := w.Store.LeaseMessages(w.t.Context(), w.Clock.Now(), 1000*time.Hour, people.Claim{Limit: 100})
	w.Must(err)
	for _, m := range leased {
		plain, err := w.Keyring.Open(people.SealedMessage, m.SealedFor(), m.Sealed)
		w.Must(err)
		var content delivery.Content
		w.Must(json.Unmarshal(plain, &content))
		all, to = append(all, content), append(to, m.Recipient)
	}
	return all, to
}

// isGone lets an endpoint get an event at a receiver that responds with 410, and waits until it is disabled.
func (w *world) isGone(id int64, user int64) {
	w.happens(events.UserCreated, user)
	w.Eventually("the endpoint is disabled", func() bool {
		w.Clock.Advance(time.Second)
		return !w.state(id).DisabledAt.IsZero()
	})
}

func gone(rw http.ResponseWriter, _ received) { rw.WriteHeader(http.StatusGone) }

func TestSupportGetsOneMailWhenAnEndpointIsDisabled(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w, r := newWorld(t, url), newReceiver(t)
		w.supported("help@acme.example")
		r.answers(gone)
		w.serves("one")
		id := w.endpoint("crm", r.URL+"/hooks?token=hush-canary", nil)
		w.follows(id)
		w.isGone(id, 1)
		mails, to := w.mails()
		if len(mails) != 1 || to[0] != "help@acme.example" {
			t.Fatalf("%d mails to %v", len(mails), to)
		}
		for _, part := range []string{"“crm”", "Acme", ids.Format(id), "HTTP status 410", "spec.active"} {
			if !strings.Contains(mails[0].Body, part) {
				t.Errorf("%q is not in %s", part, mails[0].Body)
			}
		}
		if text := mails[0].Subject + mails[0].Body; strings.Contains(text, "hush-canary") || strings.Contains(text, "://") || strings.Contains(text, r.URL) {
			t.Error(text)
		}
		w.happens(events.UserCreated, 2, 3)
		if more, _ := w.mails(); len(more) != 0 {
			t.Errorf("%d further mails", len(more))
		}
	})
}

func TestDeploymentWithoutSupportOrMailGetsNoMail(t *testing.T) {
	t.Parallel()
	for name, declare := range map[string]func(*world){
		"no address": func(w *world) { w.supported("") },
		"no mail": func(w *world) {
			w.Put(v1alpha1.KindIdentityDeployment, "acme", deployment, "acme", document.Deployment{DisplayName: "Acme", Pages: &document.Pages{SupportEmail: "help@acme.example"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, r := newWorld(t, ""), newReceiver(t)
			declare(w)
			r.answers(gone)
			w.serves("one")
			id := w.endpoint("crm", r.URL, nil)
			w.follows(id)
			w.isGone(id, 1)
			if mails, _ := w.mails(); len(mails) != 0 {
				t.Errorf("%d mails", len(mails))
			}
		})
	}
}

// The owner of a deployment cannot send mail without end by endpoints that are disabled and enabled again.
func TestMailsAboutDisabledEndpointsAreBounded(t *testing.T) {
	t.Parallel()
	w, r := newWorld(t, ""), newReceiver(t)
	w.supported("victim@other.example")
	r.answers(gone)
	w.serves("one")
	disable := func(name string, times int) {
		for n := range times {
			before := w.state(ids.Derive(v1alpha1.KindWebhookEndpoint, "acme", name)).DisabledAt
			w.Clock.Advance(time.Second) // it may be enabled and disabled at once
			id := w.endpoint(name, fmt.Sprint(r.URL, "/", n), nil)
			if n == 0 {
				w.follows(id)
			}
			w.happens(events.UserCreated, int64(n+1))
			w.Eventually("it is enabled and disabled", func() bool {
				w.Clock.Advance(time.Second)
				s := w.state(id)
				return !s.DisabledAt.IsZero() && s.DisabledAt.After(before)
			})
		}
	}
	disable("crm", 4)
	if mails, _ := w.mails(); len(mails) != 2 {
		t.Errorf("%d mails about one endpoint", len(mails))
	}
	for n := range 10 {
		disable(fmt.Sprint("crm-", n), 1)
	}
	if mails, _ := w.mails(); len(mails) != 8 {
		t.Errorf("%d mails about further endpoints of the deployment", len(mails))
	}
}
