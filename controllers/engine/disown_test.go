package engine

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

// adoption is a cluster with one adopted resource. The cluster refuses writes with fault, if it is set.
type adoption struct {
	*reconciler
	t      *testing.T
	writes int
	fault  error
}

func newAdoption(t *testing.T) *adoption {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	a := &adoption{reconciler: testReconciler(), t: t}
	a.client = fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			a.writes++
			if a.fault != nil {
				return a.fault
			}
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	a.create("1")
	return a
}

var adopted = types.NamespacedName{Namespace: "acme", Name: "free"}

// nothingStored is an empty store.
type nothingStored struct{ store.Documents }

func (nothingStored) Stored(context.Context, store.Identity) (store.Stored, error) {
	return store.Stored{}, nil
}

// create creates the resource as if the management API had created it and kubectl then declared it.
func (a *adoption) create(uid types.UID) {
	a.t.Helper()
	obj := &v1alpha1.RateLimitScheme{ObjectMeta: metav1.ObjectMeta{
		Namespace: adopted.Namespace, Name: adopted.Name, UID: uid, Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP},
		Annotations:     map[string]string{"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"slug":"free"}}`},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindIdentityDeployment, Name: "acme", UID: "9"}},
	}}
	if err := a.client.Create(a.t.Context(), obj); err != nil {
		a.t.Fatal(err)
	}
}

// reconcileOnce reads the resource, runs the step disown as a reconcile does, and returns the number of remaining
// owners.
func (a *adoption) reconcileOnce(ctx context.Context, change func(*v1alpha1.RateLimitScheme)) (owners int, err error) {
	a.t.Helper()
	obj := &v1alpha1.RateLimitScheme{}
	if err := a.client.Get(ctx, adopted, obj); err != nil {
		a.t.Fatal(err)
	}
	if change != nil {
		change(obj)
	}
	err = a.disown(ctx, &state{obj: obj, base: obj.DeepCopy()})
	return len(obj.OwnerReferences), err
}

func TestAnOwnerThatTheClusterKeepsIsAskedForAndToldOnce(t *testing.T) {
	for name, refused := range map[string]error{
		"a lack of rights":         apierrors.NewForbidden(resource, "free", errors.New("cannot set an ownerRef on a resource you can't delete")),
		"an admission policy":      apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind(v1alpha1.KindRateLimitScheme).GroupKind(), "free", nil),
		"an admission webhook":     &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 400, Message: "admission webhook denied the request"}},
		"a webhook without reason": &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 403}},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdoption(t)
			ctx, lines := logged(t)
			a.fault = refused
			for range 5 {
				if owners, err := a.reconcileOnce(ctx, nil); err != nil || owners != 1 {
					t.Fatalf("%d owners, %v", owners, err)
				}
			}
			if a.writes != 1 || len(lines) != 1 {
				t.Errorf("%d requests and %d lines", a.writes, len(lines))
			}
			if line := <-lines; !strings.Contains(line, "metadata.ownerReferences") || !strings.Contains(line, strconv.Quote(refused.Error())) {
				t.Errorf("logged %s", line)
			}

			// The cluster now allows the removal, and a user requests a reconcile.
			a.fault = nil
			if owners, err := a.reconcileOnce(ctx, func(s *v1alpha1.RateLimitScheme) { s.Annotations[v1alpha1.AnnotationReconcileRequestedAt] = "now" }); err != nil || owners != 0 || a.writes != 2 {
				t.Errorf("after the requested reconcile: %d owners, %d requests, %v", owners, a.writes, err)
			}
		})
	}
}

// A later resource of the same name is a different resource: the operator tries again, and nothing is kept about the
// deleted one.
func TestAnOwnerThatIsKeptIsForgottenWithItsResource(t *testing.T) {
	a := newAdoption(t)
	ctx, lines := logged(t)
	a.fault = apierrors.NewForbidden(resource, "free", nil)
	for _, uid := range []types.UID{"1", "2"} {
		if owners, err := a.reconcileOnce(ctx, nil); err != nil || owners != 1 {
			t.Fatalf("%s: %d owners, %v", uid, owners, err)
		}
		if err := a.client.Delete(ctx, &v1alpha1.RateLimitScheme{ObjectMeta: metav1.ObjectMeta{Namespace: adopted.Namespace, Name: adopted.Name}}); err != nil {
			t.Fatal(err)
		}
		if uid == "1" {
			a.create("2")
		}
	}
	if a.writes != 2 || len(lines) != 2 {
		t.Errorf("%d requests and %d lines for two resources", a.writes, len(lines))
	}
	a.documents = nothingStored{}
	info, _ := v1alpha1.InfoOf(v1alpha1.KindRateLimitScheme)
	a.kind = Kind[*v1alpha1.RateLimitScheme]{Name: info.Kind, info: info}
	if _, err := a.Reconcile(ctx, reconcile.Request{NamespacedName: adopted}); err != nil {
		t.Fatal(err)
	}
	if len(a.keptOwners.set) != 0 {
		t.Errorf("kept %v", a.keptOwners.set)
	}
}

// Errors that do not concern the request itself end the reconcile with an error, and the next reconcile tries again.
func TestAnOwnerIsAskedForAgainWhereNobodyRefusedIt(t *testing.T) {
	for name, fault := range map[string]error{
		"a conflict": apierrors.NewConflict(resource, "free", errors.New("changed")), "unavailable": apierrors.NewServiceUnavailable("starting"),
		"too many": apierrors.NewTooManyRequests("later", 1), "unauthorized": apierrors.NewUnauthorized("expired"), "deleted": apierrors.NewNotFound(resource, "free"),
	} {
		t.Run(name, func(t *testing.T) {
			a := newAdoption(t)
			ctx, lines := logged(t)
			a.fault = fault
			for range 2 {
				if _, err := a.reconcileOnce(ctx, nil); err == nil {
					t.Error("no error")
				}
			}
			if a.writes != 2 || len(lines) != 0 {
				t.Errorf("%d requests and %d lines", a.writes, len(lines))
			}
		})
	}
	t.Run("an API server that has just started", func(t *testing.T) {
		a := newAdoption(t)
		ctx, lines := logged(t)
		a.fault, a.api.ended = apierrors.NewForbidden(resource, "free", nil), time.Now()
		for range 2 {
			if owners, err := a.reconcileOnce(ctx, nil); err != nil || owners != 1 {
				t.Errorf("%d owners, %v", owners, err)
			}
		}
		if a.writes != 2 || len(lines) != 0 {
			t.Errorf("%d requests and %d lines", a.writes, len(lines))
		}
		if result, err := a.result(ctx, reconcile.Request{NamespacedName: adopted}, nil, 0); err != nil || result.RequeueAfter < time.Minute {
			t.Errorf("it is tried again at once: %v, %v", result, err)
		}
	})
}
