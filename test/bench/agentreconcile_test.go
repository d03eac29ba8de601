package bench

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

const reconciledTools = 1000

// TestBenchAgentResources measures how long the tools of 50 agents take from their creation until all can be called.
func TestBenchAgentResources(t *testing.T) {
	w := newWorld(t)
	url := pgtest.ForTest(t)
	operator := w.start(t, testkit.Launch{Role: "operator", Store: url})
	w.tenant(t)
	begin := time.Now()
	each(t, reconciledTools, func(ctx context.Context, i int) error {
		tool := testkit.Tool(w.namespace, deployment, fmt.Sprintf("tool-%05d", i))
		tool.Spec.Method, tool.Spec.Endpoint = ptr.To(v1alpha1.HTTPMethod("POST")), ptr.To(v1alpha1.URL("https://api.acme.example/v1/visits"))
		tool.Spec.RequestBodySchema = []v1alpha1.SchemaField{{Name: "day", FieldType: "STRING"}}
		if err := w.Client.Create(ctx, tool); err != nil || i%agentTools != 0 {
			return err
		}
		agent := testkit.Agent(w.namespace, deployment, fmt.Sprintf("agent-%05d", i))
		for n := range agentTools {
			agent.Spec.ToolRefs = append(agent.Spec.ToolRefs, v1alpha1.AIToolReference{Name: fmt.Sprintf("tool-%05d", i+n)})
		}
		return w.Client.Create(ctx, agent)
	})
	created := time.Since(begin)
	await(t, time.Minute, 20*time.Millisecond, func() bool {
		return idle(t, operator) && w.countCallable(t) == reconciledTools
	})
	row(fmt.Sprintf("%d AITools and their agents created by 8 workers, until all tools can be called, PostgreSQL", reconciledTools), "<= 10 s",
		"%.1f s (the creates took %.1f s)", time.Since(begin).Seconds(), created.Seconds())
	row("load average then", "-", "%s", loadAverage())
}

// countCallable counts the tools that can be called.
func (w *world) countCallable(t *testing.T) (count int) {
	t.Helper()
	var list v1alpha1.AIToolList
	check(t, w.Client.List(t.Context(), &list, client.InNamespace(w.namespace)))
	for i := range list.Items {
		if slices.ContainsFunc(list.Items[i].Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == v1alpha1.ConditionCallable && c.Status == metav1.ConditionTrue && c.ObservedGeneration == list.Items[i].Generation
		}) {
			count++
		}
	}
	return count
}
