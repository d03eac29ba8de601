package ownedsecret

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

func owner(uid types.UID) Owner {
	key := &v1alpha1.APIKey{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "k", UID: uid}}
	return Owner{Object: key, Kind: v1alpha1.KindAPIKey, Marker: v1alpha1.AnnotationAPIKey, Taken: "choose another name"}
}

// counting returns a Manager over the objects, and the number of its writes.
func counting(objects ...client.Object) (Manager, *int) {
	writes := new(int)
	return Manager{fake.NewClientBuilder().WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			*writes++
			return c.Create(ctx, obj, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			*writes++
			return c.Update(ctx, obj, opts...)
		},
	}).Build()}, writes
}

func put(value string, fresh *bool) func(*corev1.Secret, bool) error {
	return func(s *corev1.Secret, isFresh bool) error {
		s.Data["v"], s.Labels["app.kubernetes.io/managed-by"] = []byte(value), "a template"
		*fresh = isFresh
		return nil
	}
}

func TestASecretIsCreatedOnceChangedWhenItDiffersAndRemoved(t *testing.T) {
	m, writes := counting()
	var fresh bool
	for i, step := range []struct {
		value  string
		uid    types.UID
		fresh  bool
		writes int
	}{{"a", "first", true, 1}, {"a", "first", false, 1}, {"b", "first", false, 2}, {"b", "restored", false, 3}, {"b", "restored", false, 3}} {
		secret, err := m.Ensure(t.Context(), owner(step.uid), "s", put(step.value, &fresh))
		if err != nil {
			t.Fatal(err)
		}
		if fresh != step.fresh || *writes != step.writes || string(secret.Data["v"]) != step.value {
			t.Errorf("step %d: fresh %v, %d writes, %q", i, fresh, *writes, secret.Data["v"])
		}
		if secret.Labels[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByOperator || secret.OwnerReferences[0].UID != owner(step.uid).Object.GetUID() {
			t.Errorf("step %d: it is not marked: %v", i, secret.ObjectMeta)
		}
	}
	for range 2 {
		if err := m.Remove(t.Context(), owner("first"), "s"); err != nil {
			t.Fatal(err)
		}
		if secret, err := m.Read(t.Context(), "ns", "s"); secret != nil || err != nil {
			t.Errorf("still there: %v, %v", secret, err)
		}
	}
}

func TestSomebodyElsesSecretIsLeftAlone(t *testing.T) {
	for name, meta := range map[string]metav1.ObjectMeta{
		"unmarked":       {Namespace: "ns", Name: "s"},
		"another's":      {Namespace: "ns", Name: "s", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}, Annotations: map[string]string{v1alpha1.AnnotationAPIKey: "other"}},
		"without label":  {Namespace: "ns", Name: "s", Annotations: map[string]string{v1alpha1.AnnotationAPIKey: "k"}},
		"of another use": {Namespace: "ns", Name: "s", Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByOperator}, Annotations: map[string]string{"iam.cardea.dev/signing-key-of": "k"}},
	} {
		m, writes := counting(&corev1.Secret{ObjectMeta: meta})
		var fresh bool
		_, err := m.Ensure(t.Context(), owner("first"), "s", put("a", &fresh))
		var terminal *engine.TerminalError
		if !errors.As(err, &terminal) || terminal.Reason != v1alpha1.ReasonSecretNotOwned || *writes > 0 {
			t.Errorf("%s: %v, %d writes", name, err, *writes)
		}
		if err := m.Remove(t.Context(), owner("first"), "s"); err != nil {
			t.Error(err)
		}
		if secret, _ := m.Read(t.Context(), "ns", "s"); secret == nil {
			t.Errorf("%s: it was deleted", name)
		}
	}
}

func TestRefusals(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	ending := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "s", errors.New("no"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for reason, answer := range map[string]error{v1alpha1.ReasonSecretForbidden: forbidden, v1alpha1.ReasonBeingDeleted: ending} {
		m := Manager{fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return answer },
		}).Build()}
		var fresh bool
		_, err := m.Ensure(t.Context(), owner("first"), "s", put("a", &fresh))
		var waiting *engine.WaitingError
		if !errors.As(err, &waiting) || waiting.Reason != reason {
			t.Errorf("got %v, want %s", err, reason)
		}
	}
	m := Manager{fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		},
	}).Build()}
	if err := m.Remove(t.Context(), owner("first"), "s"); err != nil {
		t.Errorf("a deletion fails because of rights that it does not need: %v", err)
	}

	rightsGo := interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return forbidden }}
	m = Manager{fake.NewClientBuilder().WithInterceptorFuncs(rightsGo).Build()}
	var fresh bool
	if _, err := m.Ensure(t.Context(), owner("first"), "s", put("a", &fresh)); err != nil {
		t.Fatal(err)
	}
	if err := m.Remove(t.Context(), owner("first"), "s"); !apierrors.IsForbidden(err) {
		t.Errorf("Remove returned no error although the Secret of an existing owner could not be deleted: %v", err)
	}
	deleted := owner("first")
	now := metav1.Now()
	deleted.Object.SetDeletionTimestamp(&now)
	if err := m.Remove(t.Context(), deleted, "s"); err != nil {
		t.Errorf("a deletion fails because rights were removed between read and delete: %v", err)
	}
}
