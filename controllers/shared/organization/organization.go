// Package organization reports whether the organization exists that a resource names by its slug. Organizations are
// rows of the store, not resources. A missing one does not hold back the resource: servers look the organization up at
// each request.
package organization

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// CheckEvery is how often the rows of a resource are read: an organization is created without an event.
	CheckEvery = time.Minute
	// ReadWithin bounds one read. A slow store must not hold up the document.
	ReadWithin = 2 * time.Second
)

// Rows reads the rows of a deployment ("namespace/name").
type Rows interface {
	View(ctx context.Context, deployment string, do func(people.Tx) error) error
}

// Exists reports whether the deployment of a transaction has an organization with a slug.
func Exists(tx people.Tx, slug string) (bool, error) {
	_, found, err := tx.Organizations().OrganizationBySlug(slug)
	return found, err
}

// NotFound returns the condition of a resource whose spec.organization does not exist. noun is the resource's name in
// the message, such as "connection". The condition replaces the engine's but does not count into Ready, because the
// document is committed.
func NotFound(slug, noun string) metav1.Condition {
	return metav1.Condition{
		Type: v1alpha1.ConditionReferencesResolved, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonOrganizationNotFound,
		Message: "spec.organization.slug: no organization of the deployment has the slug \"" + slug + "\"; the " + noun + " counts from its creation on",
	}
}

// Kept returns the condition NotFound of an earlier read from the conditions of a resource, none if there is none.
func Kept(have []metav1.Condition) []metav1.Condition {
	last := meta.FindStatusCondition(have, v1alpha1.ConditionReferencesResolved)
	if last == nil || last.Reason != v1alpha1.ReasonOrganizationNotFound {
		return nil
	}
	return []metav1.Condition{*last}
}

// Check reads whether an organization of a deployment exists, and returns NotFound if it does not. If the rows cannot
// be read, Check returns the condition of the earlier read from have, the conditions of the resource.
func Check(ctx context.Context, rows Rows, deployment, slug, noun string, have []metav1.Condition) []metav1.Condition {
	ctx, cancel := context.WithTimeout(ctx, ReadWithin)
	defer cancel()
	var found bool
	err := rows.View(ctx, deployment, func(tx people.Tx) (err error) {
		found, err = Exists(tx, slug)
		return err
	})
	switch {
	case err != nil:
		log.FromContext(ctx).V(1).Info("The organization was not read; the condition stays", "error", err.Error())
		return Kept(have)
	case !found:
		return []metav1.Condition{NotFound(slug, noun)}
	}
	return nil
}
