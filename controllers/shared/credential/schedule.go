package credential

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
)

// defaultOverlap is how long a previous credential is accepted by default.
const defaultOverlap = 24 * time.Hour

// rotationDue reports whether a credential is to be rotated now: the interval has passed, or the annotation rotate-at
// requests a rotation that is due. An annotation that is not a time is ignored.
func (w WantedOf[V]) rotationDue(d DeliveredOf[V], now time.Time) bool {
	if next := w.NextRotation(d); next != nil && !now.Before(*next) {
		return true
	}
	at, asked := w.requestedRotation(d)
	return asked && !now.Before(at)
}

// NextRotation returns when the declared interval ends, nil if none is declared.
func (w WantedOf[V]) NextRotation(d DeliveredOf[V]) *time.Time {
	if w.Rotation == nil {
		return nil
	}
	next := d.IssuedAt.Add(time.Duration(w.Rotation.EverySeconds) * time.Second)
	return &next
}

// requestedRotation returns the time in the annotation rotate-at, and whether it requests a rotation that was not made
// yet: the time is later than the issue. Each value causes one rotation, even if a clock is set back.
func (w WantedOf[V]) requestedRotation(d DeliveredOf[V]) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, w.RotateAt)
	return at, err == nil && at.After(d.IssuedAt) && w.RotateAt != d.RotatedFor
}

// overlap is how long the previous credential is accepted after a rotation.
func (w WantedOf[V]) overlap() time.Duration {
	if w.Rotation == nil || w.Rotation.OverlapSeconds == nil {
		return defaultOverlap
	}
	return time.Duration(*w.Rotation.OverlapSeconds) * time.Second
}

// expiry returns the earlier of the declared expiry and a limit; the zero limit is none.
func (w WantedOf[V]) expiry(limit time.Time) *time.Time {
	switch {
	case w.ExpiresAt != nil && (limit.IsZero() || w.ExpiresAt.Time.Before(limit)):
		return ptr.To(w.ExpiresAt.UTC())
	case !limit.IsZero():
		return ptr.To(limit.UTC())
	}
	return nil
}

// NextWake returns the time until the credential next changes by the passage of time alone; 0: it will not. generated
// reports that Cardea generated the credential and did not adopt it.
func (w WantedOf[V]) NextWake(d DeliveredOf[V], generated bool, now time.Time) time.Duration {
	var times []time.Time
	if generated {
		if next := w.NextRotation(d); next != nil {
			times = append(times, *next)
		}
		if at, asked := w.requestedRotation(d); asked {
			times = append(times, at)
		}
	}
	if d.Previous != nil {
		times = append(times, d.PreviousUntil)
	}
	if w.ExpiresAt != nil && now.Before(w.ExpiresAt.Time) {
		times = append(times, w.ExpiresAt.Time)
	}
	var wake time.Duration
	for _, t := range times {
		// Wake a little late: a wake that is a little early would find nothing due.
		if wait := max(t.Sub(now), 0) + 10*time.Millisecond; wake == 0 || wait < wake {
			wake = wait
		}
	}
	return wake
}

// Expired reports whether the credential's lifetime is over.
func (w WantedOf[V]) Expired(now time.Time) bool {
	return w.ExpiresAt != nil && !now.Before(w.ExpiresAt.Time)
}

// Conditions report whether the credential can be used.
func (w WantedOf[V]) Conditions(kind string, now time.Time) []metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionCredentialsReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonIssued,
		Message: "the " + w.Noun + " is in its Secret and registered"}
	if w.Expired(now) {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonExpired
		c.Message = "expiresAt is past and the " + w.Noun + " is refused: set a later expiresAt or delete this " + kind
	}
	return []metav1.Condition{c}
}

// Verifiers returns the verifiers of the accepted credentials, that of the current credential first.
func Verifiers(w Wanted, d Delivered, now time.Time) []document.Verifier {
	verifiers := []document.Verifier{verifier(d.Current, w.expiry(time.Time{}))}
	if d.Previous != nil && now.Before(d.PreviousUntil) {
		verifiers = append(verifiers, verifier(*d.Previous, w.expiry(d.PreviousUntil)))
	}
	return verifiers
}

func verifier(key apikey.Key, expiresAt *time.Time) document.Verifier {
	return document.Verifier{ID: key.ID(), Digest: key.Digest(), Last4: key.Last4(), ExpiresAt: expiresAt}
}
