package connection

import (
	"crypto/x509"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// expiringWithin is how long before a certificate expires the condition CertificateExpiring begins.
	expiringWithin = 30 * 24 * time.Hour
	// changedFor is how long the condition MetadataChanged is true after a change.
	changedFor = 24 * time.Hour
)

// concludeSAML returns the conditions of a connection of type SAML from the row of its metadata, and what servers
// fetched; nil: nothing yet. The messages contain times, not durations, so that they stay the same.
func concludeSAML(d people.UpstreamDocument, now time.Time) (conditions []metav1.Condition, upstream *v1alpha1.ConnectionUpstream) {
	conditions = append(conditions, reachable([]people.UpstreamDocument{d}))
	if d.FetchedAt.IsZero() {
		return conditions, nil
	}
	upstream = &v1alpha1.ConnectionUpstream{FetchedAt: stamp(d.FetchedAt), SHA256: d.SHA256}
	if expires := firstExpiry(d.Body); !expires.IsZero() {
		upstream.CertificateExpiresAt = stamp(expires)
		switch {
		case !now.Before(expires):
			conditions = append(conditions, isTrue(v1alpha1.ConditionCertificateExpiring, v1alpha1.ReasonExpired,
				"a certificate of the identity provider expired at "+stamp(expires)+"; signatures with its key are still accepted"))
		case expires.Sub(now) < expiringWithin:
			conditions = append(conditions, isTrue(v1alpha1.ConditionCertificateExpiring, v1alpha1.ReasonExpiring,
				"a certificate of the identity provider expires at "+stamp(expires)))
		}
	}
	if !d.ChangedAt.IsZero() && now.Sub(d.ChangedAt) < changedFor {
		conditions = append(conditions, isTrue(v1alpha1.ConditionMetadataChanged, v1alpha1.ReasonChanged,
			"the identity provider's metadata changed at "+stamp(d.ChangedAt)+": a certificate, an endpoint or the entity ID"))
	}
	return conditions, upstream
}

// stamp returns a time in UTC (RFC 3339).
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339) }

func isTrue(name, reason, message string) metav1.Condition {
	return metav1.Condition{Type: name, Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

// firstExpiry returns when the first certificate of stored metadata expires, zero if there is none.
func firstExpiry(body string) (first time.Time) {
	_, text, _ := strings.Cut(body, "\n")
	var metadata document.SAMLMetadata
	if json.Unmarshal([]byte(text), &metadata) != nil {
		return time.Time{} // of newer servers
	}
	for _, der := range metadata.Certificates {
		certificate, err := x509.ParseCertificate(der)
		if err == nil && (first.IsZero() || certificate.NotAfter.Before(first)) {
			first = certificate.NotAfter
		}
	}
	return first
}

// announce emits an event for a change of the metadata that the status does not report yet.
func (opts Options) announce(c *v1alpha1.Connection, conditions []metav1.Condition) {
	changed := meta.FindStatusCondition(conditions, v1alpha1.ConditionMetadataChanged)
	if changed == nil {
		return
	}
	if known := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionMetadataChanged); known == nil || known.Message != changed.Message {
		opts.Events.Eventf(c, nil, corev1.EventTypeNormal, v1alpha1.EventReasonMetadataChanged, "FetchMetadata", "%s", changed.Message)
	}
}
