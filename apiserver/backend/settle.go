package backend

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store"
)

// settle waits until the snapshot holds a resource's generation. It returns false if that takes too long, and a
// *refusal if the operator does not accept that generation.
func (w *writer) settle(ctx context.Context, kind string, obj v1alpha1.Resource) (bool, error) {
	id := store.Identity{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	uid, generation := string(obj.GetUID()), obj.GetGeneration()
	return w.await(ctx, obj, func(s *snapshot.Snapshot) bool {
		entry, found := s.Get(id)
		return found && entry.UID == uid && entry.Generation >= generation
	}, func(live v1alpha1.Resource) error {
		accepted := meta.FindStatusCondition(live.CommonStatus().Conditions, v1alpha1.ConditionAccepted)
		if accepted != nil && accepted.Status == metav1.ConditionFalse && accepted.ObservedGeneration >= generation {
			return &refusal{reason: accepted.Reason, message: accepted.Message}
		}
		return nil
	})
}

// await waits for a condition of the snapshot. Meanwhile it polls the live resource, after pauses that double, so that
// many waiting writes of a deployment do not load the Kubernetes API with reads.
func (w *writer) await(ctx context.Context, obj v1alpha1.Resource, done func(*snapshot.Snapshot) bool, refused func(v1alpha1.Resource) error) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, w.patience, outage.ErrPatience)
	defer cancel()
	for poll := firstPoll; ; poll *= 2 {
		glance, stop := context.WithTimeout(ctx, poll)
		err := w.snapshots.Wait(glance, done)
		stop()
		if err == nil {
			return true, nil
		}
		if ctx.Err() != nil {
			return false, nil
		}
		live := obj.DeepCopyObject().(v1alpha1.Resource)
		// A failed read proves nothing: the write itself was acknowledged.
		if w.kubernetes.Get(ctx, client.ObjectKeyFromObject(obj), live) == nil && live.GetUID() == obj.GetUID() {
			if err := refused(live); err != nil {
				return false, err
			}
		}
	}
}
