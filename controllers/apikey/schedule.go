package apikey

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store/document"
)

// defaultOverlap is how long a previous key is accepted when nothing else is declared.
const defaultOverlap = 24 * time.Hour

// rotationDue tells whether a key is to be rotated now: the interval has passed, or the annotation rotate-at is past, later than
// the issue, and not answered yet. A garbled annotation asks for nothing.
func rotationDue(key *v1alpha1.APIKey, d delivered, now time.Time) bool {
	if next := nextRotation(key, d.issuedAt); next != nil && !now.Before(*next) {
		return true
	}
	at, asked := requestedRotation(key, d)
	return asked && !now.Before(at)
}

// nextRotation returns when the declared interval ends, nil if none is declared.
func nextRotation(key *v1alpha1.APIKey, issuedAt time.Time) *time.Time {
	if key.Spec.Rotation == nil {
		return nil
	}
	next := issuedAt.Add(time.Duration(key.Spec.Rotation.EverySeconds) * time.Second)
	return &next
}

// requestedRotation returns when the annotation asks for a rotation that has not been made. One value is answered once, whatever
// the clocks say.
func requestedRotation(key *v1alpha1.APIKey, d delivered) (time.Time, bool) {
	value := key.Annotations[v1alpha1.AnnotationRotateAt]
	at, err := time.Parse(time.RFC3339, value)
	return at, err == nil && at.After(d.issuedAt) && value != d.rotatedFor
}

// overlap is how long the previous key is accepted after a rotation.
func overlap(key *v1alpha1.APIKey) time.Duration {
	if key.Spec.Rotation == nil || key.Spec.Rotation.OverlapSeconds == nil {
		return defaultOverlap
	}
	return time.Duration(*key.Spec.Rotation.OverlapSeconds) * time.Second
}

// expiry returns the earlier of the declared expiry and a limit; the zero limit is none.
func expiry(key *v1alpha1.APIKey, limit time.Time) *time.Time {
	switch {
	case key.Spec.ExpiresAt != nil && (limit.IsZero() || key.Spec.ExpiresAt.Time.Before(limit)):
		return ptr.To(key.Spec.ExpiresAt.UTC())
	case !limit.IsZero():
		return ptr.To(limit.UTC())
	}
	return nil
}

// nextWake returns how long until something about the key changes by time alone; 0: nothing will.
func nextWake(key *v1alpha1.APIKey, d delivered, now time.Time) time.Duration {
	var times []time.Time
	if key.Spec.SecretTemplate != nil {
		if next := nextRotation(key, d.issuedAt); next != nil {
			times = append(times, *next)
		}
		if at, asked := requestedRotation(key, d); asked {
			times = append(times, at)
		}
	}
	if d.keys.previous != nil {
		times = append(times, d.previousUntil)
	}
	if key.Spec.ExpiresAt != nil && now.Before(key.Spec.ExpiresAt.Time) {
		times = append(times, key.Spec.ExpiresAt.Time)
	}
	var wake time.Duration
	for _, t := range times {
		// A little late rather than a little early: at the instant itself nothing would be due.
		if wait := max(t.Sub(now), 0) + 10*time.Millisecond; wake == 0 || wait < wake {
			wake = wait
		}
	}
	return wake
}

// credentialConditions tells whether the key can be used.
func credentialConditions(key *v1alpha1.APIKey, now time.Time) []metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionCredentialsReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonIssued,
		Message: "the key is in its Secret and registered"}
	if key.Spec.ExpiresAt != nil && !now.Before(key.Spec.ExpiresAt.Time) {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonExpired
		c.Message = "expiresAt is past and the key is refused: set a later expiresAt or delete this APIKey"
	}
	return []metav1.Condition{c}
}

func verifier(key apikey.Key, expiresAt *time.Time) document.Verifier {
	return document.Verifier{ID: key.ID(), Digest: key.Digest(), Last4: key.Last4(), ExpiresAt: expiresAt}
}

// recordKey writes what may be known of the key into the status.
func recordKey(key *v1alpha1.APIKey, d delivered) {
	status := &key.Status
	status.KeyID, status.Prefix, status.Last4 = d.keys.current.ID(), d.keys.current.Prefix(), d.keys.current.Last4()
	status.ExpiresAt = key.Spec.ExpiresAt.DeepCopy()
	status.LastRotatedAt, status.NextRotationAt = nil, nil
	if !d.issuedAt.IsZero() {
		status.LastRotatedAt = ptr.To(metav1.NewTime(d.issuedAt.Truncate(time.Second)))
	}
	if next := nextRotation(key, d.issuedAt); next != nil {
		status.NextRotationAt = ptr.To(metav1.NewTime(next.Truncate(time.Second)))
	}
}
