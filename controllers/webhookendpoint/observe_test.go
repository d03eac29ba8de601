package webhookendpoint

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

func TestConditionSaysHowDeliveriesGo(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	failing := people.WebhookState{Failures: 9, FailingSince: now.Add(-time.Hour)}
	disabled := failing
	disabled.DisabledAt, disabled.Reason = now, "SustainedFailure"
	for name, test := range map[string]struct {
		active, found bool
		state         people.WebhookState
		want          string
	}{
		"no server has seen it":    {true, false, people.WebhookState{}, "Unknown/Pending"},
		"a server has seen it":     {true, true, people.WebhookState{}, "True/Delivering"},
		"a failure of a minute":    {true, true, people.WebhookState{Failures: 2, FailingSince: now.Add(-time.Minute)}, "True/Delivering"},
		"a failure of an hour":     {true, true, failing, "False/Failing"},
		"disabled":                 {true, true, disabled, "False/Disabled"},
		"inactive":                 {false, true, disabled, "False/Inactive"},
		"inactive, and never seen": {false, false, people.WebhookState{}, "False/Inactive"},
	} {
		if c := delivering(test.active, test.found, test.state, nil, now); string(c.Status)+"/"+c.Reason != test.want || c.Message == "" {
			t.Errorf("%s: %+v, want %s", name, c, test.want)
		}
	}
	waiting := int64(12)
	if c := delivering(true, true, failing, &waiting, now); !strings.Contains(c.Message, "events that wait: 12") {
		t.Errorf("the message of a failing endpoint does not say how many events wait: %s", c.Message)
	}
}
