// Package ownedsecret keeps the Secrets that Cardea generates for its resources. A Secret is created once and only by
// Cardea, updated only at the version that was read, and deleted with its resource. The resource's kind decides about
// its content.
package ownedsecret

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

// Owner is the resource that a Secret is generated for.
type Owner struct {
	// Object is the resource, Kind its kind.
	Object metav1.Object
	Kind   string
	// Marker is the annotation that names the resource on its Secrets. It holds the name, not the UID, because a
	// cluster that is restored from a backup gives the resource a new UID.
	Marker string
	// Taken says in a message what to do if the Secret exists and has another owner.
	Taken string
}

// owns reports whether a Secret was generated for the owner.
func (o Owner) owns(secret *corev1.Secret) bool {
	return secret.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByOperator && secret.Annotations[o.Marker] == o.Object.GetName()
}

// mark marks a Secret as generated for the owner.
func (o Owner) mark(secret *corev1.Secret) {
	secret.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedByOperator
	secret.Annotations[o.Marker] = o.Object.GetName()
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: o.Kind, Name: o.Object.GetName(), UID: o.Object.GetUID(),
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}}
}

// Manager reads and writes Secrets without a cache.
type Manager struct{ Client client.Client }

// Read returns a Secret, nil if there is none.
func (m Manager) Read(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := m.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, refused(err, "read", namespace, name)
	}
	return secret, nil
}

// Ensure creates or updates the owner's Secret as change requires, and returns it. change gets a new Secret or a copy
// of the existing one, with maps that are never nil. Ensure marks the Secret itself. It never writes a new Secret over
// an existing one: if another writer creates the Secret first, the next reconcile reads that Secret.
func (m Manager) Ensure(ctx context.Context, o Owner, name string, change func(secret *corev1.Secret, fresh bool) error) (*corev1.Secret, error) {
	namespace := o.Object.GetNamespace()
	have, err := m.Read(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	fresh := have == nil
	wanted := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeOpaque}
	if !fresh {
		if !o.owns(have) {
			return nil, engine.Terminal(v1alpha1.ReasonSecretNotOwned, "Secret %q exists and was not generated for this %s: %s", name, o.Kind, o.Taken)
		}
		wanted = have.DeepCopy()
	}
	wanted.Labels, wanted.Annotations, wanted.Data = orEmpty(wanted.Labels), orEmpty(wanted.Annotations), orEmpty(wanted.Data)
	if err := change(wanted, fresh); err != nil {
		return nil, err
	}
	o.mark(wanted)
	switch {
	case fresh:
		err = m.Client.Create(ctx, wanted, client.FieldOwner(v1alpha1.FieldManagerOperator))
	case !same(have, wanted):
		err = m.Client.Update(ctx, wanted, client.FieldOwner(v1alpha1.FieldManagerOperator))
	}
	if err != nil {
		return nil, refused(err, "write", namespace, name)
	}
	return wanted, nil
}

// Remove deletes the owner's Secret of a name. Success is also: no Secret, a Secret of another owner, and a namespace
// without rights (no Secret there can be ours, and no deletion may depend on it). If the Secret may be read but not
// deleted, Remove returns an error, unless the owner is being deleted.
func (m Manager) Remove(ctx context.Context, o Owner, name string) error {
	namespace := o.Object.GetNamespace()
	secret, err := m.Read(ctx, namespace, name)
	var waiting *engine.WaitingError
	if errors.As(err, &waiting) {
		return nil
	}
	if err != nil || secret == nil || !o.owns(secret) {
		return err
	}
	err = m.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if apierrors.IsForbidden(err) && !o.Object.GetDeletionTimestamp().IsZero() {
		// The rights were removed since the read, as in a namespace that is being deleted. The Secret is deleted with
		// its owner.
		return nil
	}
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("delete Secret %q: %w", name, err)
	}
	return nil
}

// refused classifies an error of the API server: missing rights, which an administrator can grant; a namespace that is
// being deleted, and the resource with it; any other error.
func refused(err error, verb, namespace, name string) error {
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonBeingDeleted,
			"namespace %q is being deleted: no key is issued there any more", namespace)
	case apierrors.IsForbidden(err):
		return engine.SecretsForbidden(v1alpha1.ConditionCredentialsReady, namespace)
	}
	return fmt.Errorf("%s Secret %q: %w", verb, name, err)
}

func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

func same(a, b *corev1.Secret) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		maps.EqualFunc(a.Data, b.Data, func(x, y []byte) bool { return string(x) == string(y) }) &&
		len(a.OwnerReferences) == 1 && a.OwnerReferences[0].UID == b.OwnerReferences[0].UID
}
