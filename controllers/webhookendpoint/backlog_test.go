package webhookendpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/people"
)

func TestEventsAfterThePositionWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bounds         people.EventBounds
		position, want int64
	}{
		"an empty log":                  {people.EventBounds{}, 0, 0},
		"nothing was filtered yet":      {people.EventBounds{First: 1, Last: 12}, 0, 12},
		"some were":                     {people.EventBounds{First: 1, Last: 12}, 7, 5},
		"all were":                      {people.EventBounds{First: 1, Last: 12}, 12, 0},
		"the oldest are deleted":        {people.EventBounds{First: 10, Last: 12}, 2, 3},
		"a store of an earlier restore": {people.EventBounds{First: 1, Last: 12}, 20, 0},
	} {
		if got := waiting(tt.bounds, tt.position); got != tt.want {
			t.Errorf("%s: %d events wait, want %d", name, got, tt.want)
		}
	}
}

func TestEventsAreCountedAtMostOnceAMinute(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	c := newCounts(func() time.Time { return now })
	a, b := &v1alpha1.WebhookEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, &v1alpha1.WebhookEndpoint{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	expect := func(e *v1alpha1.WebhookEndpoint, want bool) {
		t.Helper()
		if got := c.due(e); got != want {
			t.Errorf("%s at %s: %t", e.Name, now, got)
		}
	}
	expect(a, true)
	c.note(a, backlog{})
	now = now.Add(time.Minute - time.Second)
	expect(a, false)
	expect(b, true)
	now = now.Add(time.Second)
	expect(a, true)
	c.note(a, backlog{})
	c.forget(a)
	expect(a, true)
}

func TestWaitingEventsAreMetrics(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	c := newCounts(func() time.Time { return now })
	endpoint := func(name string) *v1alpha1.WebhookEndpoint {
		e := &v1alpha1.WebhookEndpoint{ObjectMeta: metav1.ObjectMeta{Namespace: "acme", Name: name}}
		e.Spec.DeploymentRef.Name = "home"
		return e
	}
	c.note(endpoint("crm"), backlog{events: 12, oldest: now.Add(-time.Minute)})
	c.note(endpoint("siem"), backlog{})
	c.note(endpoint("gone"), backlog{events: 1, oldest: now})
	now = now.Add(30 * time.Second)
	c.forget(endpoint("gone"))
	if err := testutil.CollectAndCompare(c, strings.NewReader(`
# HELP cardea_webhook_backlog Events that waited for a webhook endpoint when they were counted last.
# TYPE cardea_webhook_backlog gauge
cardea_webhook_backlog{deployment="acme/home",endpoint="crm"} 12
cardea_webhook_backlog{deployment="acme/home",endpoint="siem"} 0
# HELP cardea_webhook_oldest_seconds Age of the oldest event that waited for a webhook endpoint when they were counted last, 0 if none did.
# TYPE cardea_webhook_oldest_seconds gauge
cardea_webhook_oldest_seconds{deployment="acme/home",endpoint="crm"} 90
cardea_webhook_oldest_seconds{deployment="acme/home",endpoint="siem"} 0
`)); err != nil {
		t.Error(err)
	}
	now = now.Add(countedFor)
	if err := testutil.CollectAndCompare(c, strings.NewReader("")); err != nil {
		t.Errorf("counts that are too old: %v", err)
	}
}
