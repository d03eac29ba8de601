package cause

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Finding is a fault of an object, or a note about it.
type Finding struct {
	Condition string `json:"condition"`
	// Status is the condition's status, or "" for a finding without a condition.
	Status  string `json:"status,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Fix says what to do.
	Fix string `json:"fix"`
	// Harmless is true for a note that does not make the object unready.
	Harmless bool `json:"harmless,omitempty"`
}

// find returns the faults that the conditions of a resource report, causes before their consequences.
func find(obj v1alpha1.Resource, kind string) []Finding {
	if !obj.GetDeletionTimestamp().IsZero() {
		return findDeletion(obj, kind)
	}
	status := obj.CommonStatus()
	var found []Finding
	for _, c := range status.Conditions {
		if counts, harmless := evaluate(c); counts {
			finding := conditionFinding(obj, kind, c)
			finding.Harmless = harmless
			found = append(found, finding)
		}
	}
	found = withoutSummary(found)
	if status.ObservedGeneration < obj.GetGeneration() || len(status.Conditions) == 0 {
		found = append(found, own(obj, kind, ReasonNotSeen, "the operator has not seen the present generation"))
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return rank(a) - rank(b) })
	return found
}

// findDeletion returns only what a deletion waits for, because the other conditions describe the time before it. The
// start of a deletion increments the generation, and only the condition Deleting observes the new generation. That
// condition does not change after the operator removed its finalizer, so the finalizer is checked first.
func findDeletion(obj v1alpha1.Resource, kind string) []Finding {
	begun := Finding{
		Condition: v1alpha1.ConditionDeleting, Reason: v1alpha1.ReasonBeingDeleted, Message: "it is being deleted",
		Fix: fixOf(obj, kind, v1alpha1.ConditionDeleting, v1alpha1.ReasonBeingDeleted),
	}
	finalizers := obj.GetFinalizers()
	if !slices.Contains(finalizers, v1alpha1.Finalizer) {
		if len(finalizers) > 0 {
			begun.Message = "it is being deleted, and Cardea has finished; it is deleted when these finalizers are removed: " + strings.Join(finalizers, ", ")
			begun.Fix = "wait for the programs that set these finalizers; if they stay, check whether the programs still run"
		}
		return []Finding{begun}
	}
	waits := meta.FindStatusCondition(obj.CommonStatus().Conditions, v1alpha1.ConditionDeleting)
	if waits != nil && waits.Status == metav1.ConditionTrue {
		begun = conditionFinding(obj, kind, *waits)
		if waits.ObservedGeneration >= obj.GetGeneration() {
			return []Finding{begun}
		}
	}
	return []Finding{begun, own(obj, kind, ReasonNotSeen, "the operator has not seen the deletion")}
}

// conditionFinding returns the finding of a condition.
func conditionFinding(obj metav1.Object, kind string, c metav1.Condition) Finding {
	return Finding{Condition: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message, Fix: fixOf(obj, kind, c.Type, c.Reason)}
}

// own returns a finding without a condition.
func own(obj metav1.Object, kind, reason, message string) Finding {
	return Finding{Condition: v1alpha1.ConditionReady, Reason: reason, Message: message, Fix: fixOf(obj, kind, v1alpha1.ConditionReady, reason)}
}

// evaluate reports whether a condition is a finding, and whether that finding is harmless. Reconciling and Stalled
// repeat other conditions.
func evaluate(c metav1.Condition) (counts, harmless bool) {
	switch c.Type {
	case v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled:
		return false, false
	case v1alpha1.ConditionDeleting:
		return c.Status == metav1.ConditionTrue, false
	case v1alpha1.ConditionFormerPeople, v1alpha1.ConditionIssuerChanged, v1alpha1.ConditionNamedAsPermission, v1alpha1.ConditionRelyingPartyChanged,
		v1alpha1.ConditionCertificateExpiring, v1alpha1.ConditionMetadataChanged:
		return c.Status == metav1.ConditionTrue, true
	case v1alpha1.ConditionPasskeysReady, v1alpha1.ConditionCallable, v1alpha1.ConditionServed, v1alpha1.ConditionReachable:
		return c.Status != metav1.ConditionTrue, true // the resource is Ready: only some passkeys, calls by agents, or sign-ins by a provider do not work
	case v1alpha1.ConditionDelivering:
		return c.Status != metav1.ConditionTrue, c.Reason != v1alpha1.ReasonDisabled
	case v1alpha1.ConditionReferencesResolved:
		return c.Status != metav1.ConditionTrue, c.Reason == v1alpha1.ReasonOrganizationNotFound
	}
	if c.Reason == v1alpha1.ReasonSuspended {
		return true, c.Status == metav1.ConditionTrue
	}
	return c.Status != metav1.ConditionTrue, false
}

// withoutSummary drops Ready if another condition has the same reason.
func withoutSummary(found []Finding) []Finding {
	return slices.DeleteFunc(found, func(f Finding) bool {
		return f.Condition == v1alpha1.ConditionReady && slices.ContainsFunc(found, func(other Finding) bool {
			return other.Condition != v1alpha1.ConditionReady && other.Reason == f.Reason
		})
	})
}

// rank orders causes before consequences, and harmless findings last.
func rank(f Finding) int {
	switch {
	case f.Harmless:
		return 2
	case f.Reason == v1alpha1.ReasonPending:
		return 1
	}
	return 0
}
