package engine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// outcome is the result of a reconcile, as far as conditions show it.
type outcome struct {
	// err is the error that ended the reconcile, nil if every step succeeded.
	err error
	// unresolved is why references do not resolve, nil if they do.
	unresolved error
	// leftOut is the reference that was left out, nil if none was.
	leftOut *WaitingError
	// lacks is the part that the kind left out of the content, nil if it is complete.
	lacks *WaitingError
	// synced reports that the store holds this generation of this resource.
	synced bool
	// own are the kind's own conditions.
	own []metav1.Condition
}

// report writes the status, once and only if it changed, and returns the reconcile's error. If the status cannot be
// written, report returns that error instead. The reconcile is then repeated soon, even if its own result was to wait,
// because that result was not reported.
func (r *reconciler) report(ctx context.Context, s *state, failed error) error {
	status := s.obj.CommonStatus()
	generation := s.obj.GetGeneration()
	result := outcome{err: failed, unresolved: s.unresolved, leftOut: s.leftOut, lacks: s.prepared.LeftOut, own: s.prepared.Conditions, synced: s.stored.Found &&
		s.stored.Document.UID == string(s.obj.GetUID()) && s.stored.Document.Generation == generation}
	if transient(failed) && !isStoreError(failed) {
		return failed // no result that a user could act on; the retry will report
	}
	if s.obj.GetDeletionTimestamp().IsZero() {
		status.Conditions = merge(status.Conditions, summarize(result), generation, r.clock())
		status.ObservedGeneration = generation
		status.LastHandledReconcileAt = s.obj.GetAnnotations()[v1alpha1.AnnotationReconcileRequestedAt]
		recordContent(status, s, failed)
	} else {
		status.Conditions = withDeleting(status.Conditions, failed, generation, r.clock())
	}
	if equality.Semantic.DeepEqual(s.base, s.obj) {
		return failed
	}
	if err := r.patchStatus(ctx, s); err != nil {
		return err
	}
	logTransition(ctx, s)
	return failed
}

func (r *reconciler) patchStatus(ctx context.Context, s *state) error {
	patch := client.MergeFromWithOptions(s.base, client.MergeFromWithOptimisticLock{})
	err := r.client.Status().Patch(ctx, s.obj, patch, client.FieldOwner(v1alpha1.FieldManagerOperator))
	return client.IgnoreNotFound(err)
}

// reportSuspended reports that the resource is not reconciled as it is declared now, so that no client waits for it.
func (r *reconciler) reportSuspended(ctx context.Context, s *state) error {
	status := s.obj.CommonStatus()
	status.Conditions = whileSuspended(status.Conditions, s.obj.GetGeneration(), r.clock())
	status.ObservedGeneration = s.obj.GetGeneration()
	if equality.Semantic.DeepEqual(s.base, s.obj) {
		return nil
	}
	return r.patchStatus(ctx, s)
}

// whileSuspended keeps the status of Ready, sets its reason to Suspended, and removes Reconciling, because no work is
// under way. The other conditions stay and describe the state before the suspension.
func whileSuspended(have []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonSuspended, "suspended before it was ever active: remove spec.suspend")
	switch was := meta.FindStatusCondition(have, v1alpha1.ConditionReady); {
	case was == nil:
	case was.Reason == v1alpha1.ReasonSuspended:
		ready.Status, ready.Message = was.Status, was.Message
	default:
		ready.Status, ready.Message = was.Status, "suspended: the active state stays, and edits wait until spec.suspend is removed"
	}
	others := slices.DeleteFunc(slices.Clone(have), func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionReady || c.Type == v1alpha1.ConditionReconciling
	})
	return sorted(append(others, merge(have, []metav1.Condition{ready}, generation, now)...))
}

// recordContent notes in the status what the store holds, so that a lost store can be filled again with the same ids
// and times, and reservations with the same owners.
func recordContent(status *v1alpha1.CommonStatus, s *state, failed error) {
	var terminal *TerminalError
	if errors.As(failed, &terminal) && !s.stored.Found {
		status.Claims = nil // it lost its reservations, or never had them
	}
	if failed != nil || s.document.Hash == "" {
		return
	}
	status.ID = ids.Format(s.id)
	status.Claims = s.reservations
	status.ContentHash = s.document.Hash
	updated := metav1.NewMicroTime(s.updatedAt)
	if status.UpdatedAt == nil || !status.UpdatedAt.Time.Equal(updated.Time) {
		status.UpdatedAt = &updated
	}
}

// summarize turns an outcome into conditions. Reconciling and Stalled are never both present.
func summarize(o outcome) []metav1.Condition {
	accepted := condition(v1alpha1.ConditionAccepted, metav1.ConditionTrue, v1alpha1.ReasonAccepted, "valid, and not in conflict with another resource")
	resolved := condition(v1alpha1.ConditionReferencesResolved, metav1.ConditionTrue, v1alpha1.ReasonResolved, "every reference was found")
	synced := condition(v1alpha1.ConditionSynced, metav1.ConditionTrue, v1alpha1.ReasonSynced, "the store has this generation")
	if !o.synced {
		synced = condition(v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonPending, "the store does not have this generation yet")
	}
	own := slices.Clone(o.own)

	var waiting *WaitingError
	var terminal *TerminalError
	if o.leftOut != nil {
		resolved = condition(v1alpha1.ConditionReferencesResolved, metav1.ConditionFalse, o.leftOut.Reason, o.leftOut.Message)
	}
	if o.lacks != nil {
		own = append(own, condition(o.lacks.Condition, metav1.ConditionFalse, o.lacks.Reason, o.lacks.Message))
	}
	if errors.As(o.unresolved, &waiting) {
		resolved = condition(v1alpha1.ConditionReferencesResolved, metav1.ConditionFalse, waiting.Reason, waiting.Message)
		accepted = condition(v1alpha1.ConditionAccepted, metav1.ConditionUnknown, v1alpha1.ReasonPending, "not checked until the references resolve")
	}
	switch {
	case errors.As(o.err, &terminal):
		accepted = condition(v1alpha1.ConditionAccepted, metav1.ConditionFalse, terminal.Reason, terminal.Message)
	case errors.As(o.err, &waiting) && waiting.Condition != v1alpha1.ConditionReferencesResolved:
		own = append(own, condition(waiting.Condition, metav1.ConditionFalse, waiting.Reason, waiting.Message))
	case isStoreError(o.err):
		synced = condition(v1alpha1.ConditionSynced, metav1.ConditionFalse, v1alpha1.ReasonStoreUnavailable, storeMessage(o.err))
		if accepted.Status == metav1.ConditionTrue {
			accepted = condition(v1alpha1.ConditionAccepted, metav1.ConditionUnknown, v1alpha1.ReasonPending, "not checked while the runtime store is unreachable")
		}
	}

	conditions := append([]metav1.Condition{accepted, resolved, synced}, own...)
	ready := condition(v1alpha1.ConditionReady, metav1.ConditionTrue, v1alpha1.ReasonReady, "the declared state is active")
	for _, c := range []metav1.Condition{accepted, resolved, ownFault(own, o), synced} {
		if c.Status == metav1.ConditionFalse {
			ready = condition(v1alpha1.ConditionReady, metav1.ConditionFalse, c.Reason, c.Message)
			break
		}
	}
	conditions = append(conditions, ready)
	switch {
	case accepted.Status == metav1.ConditionFalse:
		conditions = append(conditions, condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, accepted.Reason, accepted.Message))
	case ready.Status != metav1.ConditionTrue:
		conditions = append(conditions, condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, ready.Reason, ready.Message))
	}
	return conditions
}

// ownFault returns the kind's own condition that ended the reconcile, or for which the content lacks a part.
func ownFault(own []metav1.Condition, o outcome) metav1.Condition {
	waiting := o.lacks
	if errors.As(o.err, &waiting) || waiting != nil {
		for _, c := range own {
			if c.Type == waiting.Condition && c.Status == metav1.ConditionFalse {
				return c
			}
		}
	}
	return metav1.Condition{}
}

// withDeleting adds what a deletion waits for; the other conditions describe the state before and stay.
func withDeleting(have []metav1.Condition, err error, generation int64, now time.Time) []metav1.Condition {
	deleting := condition(v1alpha1.ConditionDeleting, metav1.ConditionTrue, v1alpha1.ReasonProgressing, "an attempt failed and is retried")
	var waiting *WaitingError
	switch {
	case errors.As(err, &waiting):
		deleting.Reason, deleting.Message = waiting.Reason, waiting.Message
	case isStoreError(err):
		deleting.Reason, deleting.Message = v1alpha1.ReasonStoreUnavailable, "waiting for the runtime store, from which this resource must be removed first"
	}
	others := slices.DeleteFunc(slices.Clone(have), func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionDeleting })
	return sorted(append(others, merge(have, []metav1.Condition{deleting}, generation, now)...))
}

// merge returns the wanted conditions in the order of their types, keeping the transition time of those whose status
// did not change. The last of several of one type counts.
func merge(have, wanted []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	byType := map[string]metav1.Condition{}
	for _, c := range wanted {
		old := meta.FindStatusCondition(have, c.Type)
		c.ObservedGeneration = generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		if old != nil && old.Status == c.Status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		byType[c.Type] = c
	}
	merged := make([]metav1.Condition, 0, len(byType))
	for _, c := range byType {
		merged = append(merged, c)
	}
	return sorted(merged)
}

func sorted(conditions []metav1.Condition) []metav1.Condition {
	slices.SortFunc(conditions, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
	return conditions
}

func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	const longest = 1024 // of 32768 allowed: enough for a sentence, little for etcd
	if runes := []rune(message); len(runes) > longest {
		message = string(runes[:longest-1]) + "…"
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

func isStoreError(err error) bool {
	var failed *storeError
	return errors.As(err, &failed)
}

// transient reports whether an error is neither caused by the user nor a wait.
func transient(err error) bool {
	var waiting *WaitingError
	var terminal *TerminalError
	return err != nil && !errors.As(err, &waiting) && !errors.As(err, &terminal)
}

// storeMessage returns a message about the store's fault. The message is the same at each attempt: a changing message
// would cause a status write each time. The log has the cause.
func storeMessage(err error) string {
	switch {
	case errors.Is(err, store.ErrForeignInstall):
		return store.ErrForeignInstall.Error()
	case errors.Is(err, store.ErrSchema):
		return store.ErrSchema.Error()
	case errors.Is(err, store.ErrPooled):
		return store.ErrPooled.Error()
	}
	return "the runtime store does not answer: the operator retries, and servers continue with the state that they have cached"
}

func logTransition(ctx context.Context, s *state) {
	was := meta.FindStatusCondition(s.base.CommonStatus().Conditions, v1alpha1.ConditionReady)
	is := meta.FindStatusCondition(s.obj.CommonStatus().Conditions, v1alpha1.ConditionReady)
	if is != nil && (was == nil || was.Status != is.Status) && is.Status != metav1.ConditionTrue {
		log.FromContext(ctx).Info("Resource is not ready", "reason", is.Reason, "message", is.Message)
	}
}
