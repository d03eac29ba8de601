package backend

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// stuck is a Kubernetes API that does not respond to reads in one namespace.
type stuck struct {
	Kubernetes
	asked chan struct{}
}

func (s stuck) Get(ctx context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	if key.Namespace != "flood" {
		return nil
	}
	s.asked <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func TestWritesOfOneNamespaceDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	api := stuck{asked: make(chan struct{}, 100)}
	p := patient{api: api, slots: egress.NewSlots(writeBounds, time.Now)}
	flooding, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 100)
	for range cap(ended) {
		go func() {
			ended <- p.Get(flooding, client.ObjectKey{Namespace: "flood", Name: "x"}, &v1alpha1.RateLimitScheme{})
		}()
	}
	for range writeBounds.DeploymentAtOnce {
		<-api.asked
	}
	if err := p.Get(t.Context(), client.ObjectKey{Namespace: "other", Name: "x"}, &v1alpha1.RateLimitScheme{}); err != nil {
		t.Error(err)
	}
	late, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	err := p.Get(late, client.ObjectKey{Namespace: "flood", Name: "x"}, &v1alpha1.RateLimitScheme{})
	var refused *apierror.Error
	if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || !strings.Contains(refused.Message, "too many changes in the namespace") {
		t.Errorf("a write that had no turn in time got %v", err)
	}
	if len(api.asked) > 0 {
		t.Error("more requests of one namespace are open than may be")
	}
	end()
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	}
}
