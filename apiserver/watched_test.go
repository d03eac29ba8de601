package apiserver

import (
	"context"
	"testing"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/backend"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
)

// slowKubernetes does not respond to Get before its context ends.
type slowKubernetes struct{ backend.Kubernetes }

func (slowKubernetes) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCanceledCallIsNoKubernetesOutage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause error
		want  int
	}{
		"the caller's patience ended": {outage.ErrPatience, 0},
		"the calls' own time ended":   {nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines := 0
			w := watched{slowKubernetes{}, outage.New("the Kubernetes API", funcr.New(func(_, _ string) { lines++ }, funcr.Options{}))}
			ctx, cancel := context.WithTimeoutCause(t.Context(), 1, tc.cause)
			defer cancel()
			for range 2 { // one slow call is not an outage either
				if w.Get(ctx, client.ObjectKey{}, &corev1.Secret{}) == nil {
					t.Error("a Get without an answer has no error")
				}
			}
			if lines != tc.want {
				t.Errorf("%d lines in the log, want %d", lines, tc.want)
			}
		})
	}
}
