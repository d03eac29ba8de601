package management

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store"
)

const (
	// writeDeadline bounds all calls to the Kubernetes API of one request.
	writeDeadline = 5 * time.Second
	// syncPatience is how long a write waits to be in force here before it is answered from the API server's word.
	syncPatience = 2 * time.Second
	// statusPoll is the time between two looks at the resource while waiting.
	statusPoll = 100 * time.Millisecond
	// patchAttempts bounds the retries against other writers.
	patchAttempts = 5
)

// writer changes resources through the Kubernetes API and waits until servers answer with the change.
type writer struct {
	kubernetes Kubernetes
	snapshots  *snapshot.Follower
}

// patch brings the fields that differ to a live resource, in one merge patch locked on the version that was looked at.
// plan looks at it and returns the changes that are still needed, or why there is nothing to change here. obj is filled with the
// result; changed tells whether anything was written.
func (w *writer) patch(ctx context.Context, key client.ObjectKey, obj v1alpha1.Resource, override bool, plan func() ([]change, error)) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	for range patchAttempts {
		blank(obj, key)
		if err := w.kubernetes.Get(ctx, key, obj); err != nil {
			return false, err
		}
		changes, err := plan()
		if err != nil || len(changes) == 0 {
			return false, err
		}
		if !override {
			items, err := conflicts(obj, changes)
			if err != nil {
				return false, err
			}
			if len(items) > 0 {
				return false, &apierror.Error{Status: http.StatusConflict, Faults: items}
			}
		}
		raw, err := mergePatch(obj, changes)
		if err != nil {
			return false, err
		}
		blank(obj, key)
		err = w.kubernetes.Patch(ctx, obj, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(v1alpha1.FieldManagerHTTP))
		if !apierrors.IsConflict(err) {
			return err == nil, err
		}
	}
	return false, apierror.New(http.StatusConflict, "others changed the resource %d times meanwhile: read it and try again", patchAttempts)
}

// blank empties an object but for its name. The client decodes into what is there: a field that an answer does not carry
// would keep the value of an earlier answer.
func blank(obj v1alpha1.Resource, key client.ObjectKey) {
	reflect.ValueOf(obj).Elem().SetZero()
	obj.SetNamespace(key.Namespace)
	obj.SetName(key.Name)
}

func mergePatch(obj v1alpha1.Resource, changes []change) ([]byte, error) {
	spec := map[string]any{}
	for _, c := range changes {
		spec[c.path] = c.value
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": obj.GetResourceVersion(), "uid": obj.GetUID()},
		"spec":     spec,
	})
}

// refusal is the operator's word that it will not put a resource into force.
type refusal struct {
	reason, message string
}

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// problem turns a refusal into an answer: a lost contest is a 409, anything else the sender's fault.
func (r *refusal) problem() *apierror.Error {
	if r.reason == v1alpha1.ReasonConflict || r.reason == v1alpha1.ReasonSuperseded {
		return apierror.New(http.StatusConflict, "%s", r.message)
	}
	return apierror.New(http.StatusBadRequest, "%s", r.message)
}

// settle waits until the snapshot holds a resource's generation. It returns false when that took too long, and a *refusal
// when the operator does not accept that generation.
func (w *writer) settle(ctx context.Context, kind string, obj v1alpha1.Resource) (bool, error) {
	id := store.Identity{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	uid, generation := string(obj.GetUID()), obj.GetGeneration()
	return w.await(ctx, obj, func(s *snapshot.Snapshot) bool {
		entry, found := s.Get(id)
		return found && entry.UID == uid && entry.Generation >= generation
	}, func(live v1alpha1.Resource) error {
		accepted := meta.FindStatusCondition(live.CommonStatus().Conditions, v1alpha1.ConditionAccepted)
		if accepted != nil && accepted.Status == "False" && accepted.ObservedGeneration >= generation {
			return &refusal{reason: accepted.Reason, message: accepted.Message}
		}
		return nil
	})
}

// await waits for a condition of the snapshot, looking at the live resource meanwhile.
func (w *writer) await(ctx context.Context, obj v1alpha1.Resource, done func(*snapshot.Snapshot) bool, judge func(v1alpha1.Resource) error) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, syncPatience)
	defer cancel()
	for {
		glance, stop := context.WithTimeout(ctx, statusPoll)
		err := w.snapshots.Wait(glance, done)
		stop()
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, nil
		}
		live := obj.DeepCopyObject().(v1alpha1.Resource)
		// A look that fails proves nothing: the write itself was acknowledged.
		if w.kubernetes.Get(ctx, client.ObjectKeyFromObject(obj), live) == nil && live.GetUID() == obj.GetUID() {
			if err := judge(live); err != nil {
				return false, err
			}
		}
	}
}

// remove deletes a live resource that permit allows to delete and waits until it is gone here. A deletion that turns out
// to wait for a user is a 409. The deletion is locked on the version that was permitted, so that nobody's declaration
// slips in between; a writer in between, such as the operator with its status, is looked at again.
func (w *writer) remove(ctx context.Context, kind string, key client.ObjectKey, obj v1alpha1.Resource, permit func() error) (bool, error) {
	bounded, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	for attempt := 1; ; attempt++ {
		blank(obj, key)
		if err := w.kubernetes.Get(bounded, key, obj); err != nil {
			return false, err
		}
		if err := permit(); err != nil {
			return false, err
		}
		uid, version := obj.GetUID(), obj.GetResourceVersion()
		err := w.kubernetes.Delete(bounded, obj, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err == nil || apierrors.IsNotFound(err) {
			return w.gone(ctx, kind, obj)
		}
		if !apierrors.IsConflict(err) || attempt == patchAttempts {
			return false, err
		}
	}
}

// gone waits until a deleted resource is gone from the snapshot.
func (w *writer) gone(ctx context.Context, kind string, obj v1alpha1.Resource) (bool, error) {
	uid := obj.GetUID()
	id := store.Identity{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return w.await(ctx, obj, func(s *snapshot.Snapshot) bool {
		entry, found := s.Get(id)
		return !found || entry.UID != string(uid)
	}, func(live v1alpha1.Resource) error {
		deleting := meta.FindStatusCondition(live.CommonStatus().Conditions, v1alpha1.ConditionDeleting)
		if deleting != nil && deleting.Reason == v1alpha1.ReasonInUse {
			return apierror.New(http.StatusConflict, "the deletion waits: %s", deleting.Message)
		}
		return nil
	})
}

// kubernetesProblem turns an error of the Kubernetes API into an answer. Problems pass through.
func kubernetesProblem(err error) error {
	var p *apierror.Error
	var refused *refusal
	switch {
	case err == nil || errors.As(err, &p):
		return err
	case errors.As(err, &refused):
		return refused.problem()
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return apierror.New(http.StatusBadRequest, "the Kubernetes API refuses the change: %s", statusMessage(err))
	case apierrors.IsConflict(err):
		return apierror.New(http.StatusConflict, "others changed the resource meanwhile: read it and try again")
	case apierrors.IsForbidden(err):
		return apierror.Unavailable(err, "the server may not change this resource in Kubernetes: its rights or the namespace stand in the way; read before retrying")
	}
	return apierror.Unavailable(err, "the Kubernetes API is out of reach: the change may still be applied, so read before retrying")
}

func statusMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return fmt.Sprint(err)
}
