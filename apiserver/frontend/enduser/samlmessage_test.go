package enduser

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// While a message of a deployment is evaluated, its others wait, from whatever network, and one of another deployment
// does not. An ended context makes a wait a refusal.
func TestOneSAMLMessageOfADeploymentIsEvaluatedAtOnce(t *testing.T) {
	t.Parallel()
	slots := NewEvaluations(time.Now)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	evaluate := func(deployment, network string, inside func()) bool {
		ran, err := inTurn(ended, slots, egress.Asker{Deployment: deployment, Source: network}, func() (bool, error) {
			inside()
			return true, nil
		})
		if err != nil && (apierror.Of(err).Status != http.StatusServiceUnavailable || !errors.Is(err, errNoTurn)) {
			t.Errorf("a message without a turn is answered with %v", err)
		}
		return ran
	}
	nothing := func() {}
	first := evaluate("acme/main", "192.0.2.0", func() {
		for _, network := range []string{"192.0.2.0", "198.51.100.0"} {
			if evaluate("acme/main", network, nothing) {
				t.Errorf("another message of the deployment is evaluated, from %s", network)
			}
		}
		second := evaluate("globex/main", "192.0.2.0", func() {
			if evaluate("initech/main", "192.0.2.0", nothing) {
				t.Error("a third message is evaluated")
			}
		})
		if !second {
			t.Error("the message of another deployment waits")
		}
	})
	if !first || !evaluate("acme/main", "198.51.100.0", nothing) {
		t.Error("a message with a free slot is not evaluated")
	}
}
