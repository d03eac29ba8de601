package webhookendpoint

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/organization"
	"github.com/cardea-iam/cardea/store/people"
)

// observeEvery is how often the state of an endpoint is read.
const observeEvery = organization.CheckEvery

// observe reads what servers noted about the endpoint, and returns the condition Delivering. It writes
// status.lastDeliveredAt and, at most once a minute, status.backlog. If the state cannot be read, all stay as they
// were.
func (m *manager) observe(ctx context.Context, p engine.Preparation[*v1alpha1.WebhookEndpoint], active bool) []metav1.Condition {
	ctx, cancel := context.WithTimeout(ctx, organization.ReadWithin)
	defer cancel()
	e := p.Object
	last := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionDelivering)
	var state people.WebhookState
	var found bool
	var counted *backlog
	err := m.Rows.View(ctx, engine.DeploymentOf(e, e.Spec.DeploymentRef), func(tx people.Tx) (err error) {
		if state, found, err = tx.Webhooks().WebhookState(p.ID); err != nil || !found || !m.counts.due(e) {
			return err
		}
		b, err := backlogOf(tx, state)
		counted = &b
		return err
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("The state of the endpoint was not read; its condition stays", "error", err.Error())
		if last == nil {
			return nil
		}
		return []metav1.Condition{*last}
	}
	if counted != nil {
		m.counts.note(e, *counted)
	}
	if b, known := m.counts.last(e); known { // also if the status with it was not written
		e.Status.Backlog = &b.events
	}
	c := delivering(active, found, state, e.Status.Backlog, m.Clock())
	if (c.Reason == v1alpha1.ReasonFailing || c.Reason == v1alpha1.ReasonDisabled) && (last == nil || last.Reason != c.Reason) {
		m.Events.Eventf(e, nil, corev1.EventTypeWarning, c.Reason, "DeliverEvents", "%s", c.Message)
	}
	if e.Status.LastDeliveredAt = nil; !state.SucceededAt.IsZero() {
		e.Status.LastDeliveredAt = ptr.To(metav1.NewTime(state.SucceededAt.Truncate(time.Minute)))
	}
	return []metav1.Condition{c}
}

// delivering returns the condition Delivering of an endpoint. waiting is how many events wait for it, nil if that is
// not known.
func delivering(active, found bool, s people.WebhookState, waiting *int64, now time.Time) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDelivering, Status: metav1.ConditionFalse}
	lastTry := "the last request ended without a response: " + s.Error
	if s.Status != 0 {
		lastTry = "the last request ended with " + s.Error
	}
	switch {
	case !active:
		c.Reason, c.Message = v1alpha1.ReasonInactive, "no events are sent: spec.active is false, or CredentialsReady is False; they wait within their retention"
	case !found:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonPending, "no server has seen the endpoint yet"
	case !s.DisabledAt.IsZero():
		c.Reason, c.Message = v1alpha1.ReasonDisabled, fmt.Sprintf("disabled at %s (%s), after event %d; %s. Events wait within their retention: correct the receiver, then reactivate the endpoint (POST /webhooks/endpoints/{id}/reactivate, kubectl cardea webhooks reactivate), or set spec.active to false and to true again",
			s.DisabledAt.UTC().Format(time.RFC3339), s.Reason, s.Position, lastTry)
	case s.Fails(now):
		c.Reason, c.Message = v1alpha1.ReasonFailing, fmt.Sprintf("no request has succeeded since %s; %s", s.FailingSince.UTC().Format(time.RFC3339), lastTry)
		if waiting != nil {
			c.Message += fmt.Sprintf("; events that wait: %d", *waiting)
		}
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonDelivering, "events are sent"
	}
	return c
}
