package engine

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

func TestReadyResourceWithoutDocumentIsReconciled(t *testing.T) {
	scheme := func(name string, ready metav1.ConditionStatus) *v1alpha1.RateLimitScheme {
		s := &v1alpha1.RateLimitScheme{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}}
		s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
		return s
	}
	types := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(types); err != nil {
		t.Fatal(err)
	}
	e := &Engine{
		client: fake.NewClientBuilder().WithScheme(types).WithObjects(
			scheme("held", metav1.ConditionTrue), scheme("vanished", metav1.ConditionTrue),
			scheme("recreated", metav1.ConditionTrue), scheme("refused", metav1.ConditionFalse)).Build(),
		kinds: map[string]kind{}, wake: map[string]chan event.GenericEvent{},
	}
	Add(e, Kind[*v1alpha1.RateLimitScheme]{Name: v1alpha1.KindRateLimitScheme})
	e.wake[v1alpha1.KindRateLimitScheme] = make(chan event.GenericEvent, 10)

	owner := func(name, uid string) store.Owner {
		return store.Owner{Identity: store.Identity{Kind: v1alpha1.KindRateLimitScheme, Namespace: "ns", Name: name}, UID: uid}
	}
	held := []store.Owner{owner("held", "uid-held"), owner("recreated", "uid-of-an-earlier-one")}
	if err := newSweeper(e).restore(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	close(e.wake[v1alpha1.KindRateLimitScheme])
	var asked []string
	for ev := range e.wake[v1alpha1.KindRateLimitScheme] {
		asked = append(asked, ev.Object.GetName())
	}
	if want := []string{"recreated", "vanished"}; !slices.Equal(asked, want) {
		t.Errorf("reconciled %v, want %v", asked, want)
	}
}
