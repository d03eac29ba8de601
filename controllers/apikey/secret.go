package apikey

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// annotationDigest on a generated Secret is the SHA-256 of its current key: a value edited by hand no longer fits it.
const annotationDigest = "iam.cardea.dev/api-key-sha256"

// keys are the keys of one Secret.
type keys struct {
	current  apikey.Key
	previous *apikey.Key
}

// adopt reads a key that was brought. It waits for a missing one and never invents it.
func (k *keeper) adopt(ctx context.Context, key *v1alpha1.APIKey) (delivered, error) {
	ref := key.Spec.ExistingSecretRef
	name := ptr.Deref(ref.Key, v1alpha1.SecretKeyAPIKey)
	secret, err := k.read(ctx, key.Namespace, ref.Name)
	if err != nil {
		return delivered{}, err
	}
	if secret == nil || secret.Data[name] == nil {
		return delivered{}, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound,
			"there is no Secret %q with key %q: create it, for instance with a key from `cardea key new`", ref.Name, name)
	}
	// Editors and `kubectl create secret --from-file` end a file with a line break, which is no part of the key.
	current, err := apikey.Parse(strings.TrimRight(string(secret.Data[name]), "\r\n"))
	if err != nil {
		return delivered{}, engine.Terminal(v1alpha1.ReasonInvalidKey,
			"Secret %q, key %q: %v: mint one with `cardea key new`", ref.Name, name, apikey.ErrForm)
	}
	return delivered{keys: keys{current: current}}, nil
}

// generate makes sure that the Secret exists, is ours, holds a key, and is rotated when due.
func (k *keeper) generate(ctx context.Context, key *v1alpha1.APIKey, app *v1alpha1.APIAuthApp, known bool) (delivered, error) {
	secret, err := k.read(ctx, key.Namespace, secretName(key))
	if err != nil {
		return delivered{}, err
	}
	if secret == nil {
		return k.create(ctx, key, app, known)
	}
	if !ours(secret, key) {
		return delivered{}, engine.Terminal(v1alpha1.ReasonSecretNotOwned,
			"Secret %q exists and was not generated for this APIKey: delete it or set spec.secretTemplate.name to another name", secret.Name)
	}
	now := k.Clock()
	wanted := secret.DeepCopy()
	decorate(wanted, key)
	found, err := readKeys(secret)
	var reason, note string
	switch {
	case err != nil: // edited by hand: nobody can say what was handed out, so the old key dies
		reason, note = v1alpha1.EventReasonKeyReplaced, "the Secret was edited by hand: a new key was issued, the old one is revoked"
		err = k.replace(wanted, prefixOf(app), now, nil, 0)
	case rotationDue(key, found, now):
		reason, note = v1alpha1.EventReasonKeyRotated, "a new key was issued; the previous one is accepted until the overlap ends"
		err = k.replace(wanted, prefixOf(app), now, &found.keys.current, overlap(key))
		if at, asked := requestedRotation(key, found); asked && !now.Before(at) {
			wanted.Annotations[v1alpha1.AnnotationRotatedFor] = key.Annotations[v1alpha1.AnnotationRotateAt]
		}
	case found.keys.previous != nil && !now.Before(found.previousUntil):
		delete(wanted.Data, v1alpha1.SecretKeyPreviousAPIKey)
		delete(wanted.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	}
	if err != nil {
		return delivered{}, err
	}
	if err := k.update(ctx, key, secret, wanted); err != nil {
		return delivered{}, err
	}
	if reason != "" {
		k.event(key, reason, note)
	}
	return readKeys(wanted)
}

// create writes a new Secret, and only ever a new one: if another was first, the next pass reads that.
func (k *keeper) create(ctx context.Context, key *v1alpha1.APIKey, app *v1alpha1.APIAuthApp, known bool) (delivered, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: secretName(key)},
		Type:       corev1.SecretTypeOpaque,
	}
	decorate(secret, key)
	if err := k.replace(secret, prefixOf(app), k.Clock(), nil, 0); err != nil {
		return delivered{}, err
	}
	err := k.Client.Create(ctx, secret, client.FieldOwner(v1alpha1.FieldManagerOperator))
	if err != nil {
		return delivered{}, refusedSecret(err, key, secret.Name)
	}
	if known {
		k.event(key, v1alpha1.EventReasonKeyReplaced, "the Secret was gone: a new key was issued, the old one is revoked")
	} else {
		k.event(key, v1alpha1.EventReasonKeyIssued, "a key was issued")
	}
	return readKeys(secret)
}

// replace puts a new key into a Secret, keeping a previous one for the overlap.
func (k *keeper) replace(secret *corev1.Secret, prefix string, now time.Time, previous *apikey.Key, overlap time.Duration) error {
	minted, err := apikey.Mint(k.Random, prefix)
	if err != nil {
		return err
	}
	secret.Data = map[string][]byte{
		v1alpha1.SecretKeyAPIKey: []byte(minted.Plain()),
		v1alpha1.SecretKeyKeyID:  []byte(minted.ID()),
	}
	digest := minted.Digest()
	secret.Annotations[annotationDigest] = hex.EncodeToString(digest[:])
	secret.Annotations[v1alpha1.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339Nano) // compared with annotations that may have fractions
	delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	if previous != nil {
		secret.Data[v1alpha1.SecretKeyPreviousAPIKey] = []byte(previous.Plain())
		secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt] = now.Add(overlap).UTC().Format(time.RFC3339)
	}
	return nil
}

// update writes a Secret of ours if it changed, locked on the version that was read.
func (k *keeper) update(ctx context.Context, key *v1alpha1.APIKey, have, wanted *corev1.Secret) error {
	if sameSecret(have, wanted) {
		return nil
	}
	if err := k.Client.Update(ctx, wanted, client.FieldOwner(v1alpha1.FieldManagerOperator)); err != nil {
		return refusedSecret(err, key, wanted.Name)
	}
	return nil
}

// refusedSecret sorts the API server's refusals: what the template asks for may be impossible, rights may be missing.
func refusedSecret(err error, key *v1alpha1.APIKey, name string) error {
	switch {
	case apierrors.IsInvalid(err):
		return engine.Terminal(v1alpha1.ReasonInvalid, "spec.secretTemplate: the API server does not take the Secret: %v", err)
	case apierrors.IsForbidden(err):
		return forbidden(err, key.Namespace)
	}
	return fmt.Errorf("write Secret %q: %w", name, err)
}

// read reads a Secret past every cache: nil if there is none.
func (k *keeper) read(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case apierrors.IsForbidden(err):
		return nil, forbidden(err, namespace)
	case err != nil:
		return nil, fmt.Errorf("read Secret %q: %w", name, err)
	}
	return secret, nil
}

// forbidden tells missing rights, which an administrator can grant, from a namespace that is ending, which the APIKey's
// own deletion ends.
func forbidden(err error, namespace string) error {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonBeingDeleted, "namespace %q is being deleted: no key is issued there any more", namespace)
	}
	return engine.SecretsForbidden(v1alpha1.ConditionCredentialsReady, namespace)
}

// cleanup deletes the Secret that was generated for an APIKey. The ownerReference only helps.
func (k *keeper) cleanup(ctx context.Context, key *v1alpha1.APIKey) error {
	for _, name := range secretNames(key) {
		if err := k.deleteSecret(ctx, key, name); err != nil {
			return err
		}
	}
	return nil
}

// dropOldSecret deletes the Secret of a former spec.secretTemplate.name, now that the store accepts only the new key.
func (k *keeper) dropOldSecret(ctx context.Context, key *v1alpha1.APIKey) error {
	name := secretName(key)
	if old := key.Status.SecretName; old != "" && old != name {
		if err := k.deleteSecret(ctx, key, old); err != nil {
			return err
		}
	}
	key.Status.SecretName = name
	return nil
}

func (k *keeper) deleteSecret(ctx context.Context, key *v1alpha1.APIKey, name string) error {
	secret, err := k.read(ctx, key.Namespace, name)
	var waiting *engine.WaitingError
	switch {
	case errors.As(err, &waiting): // without rights there is nothing of ours to delete, and a deletion must not hang on it
		return nil
	case err != nil:
		return err
	case secret == nil || !ours(secret, key):
		return nil
	}
	err = k.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID, ResourceVersion: &secret.ResourceVersion})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Secret %q: %w", name, err)
	}
	return nil
}

func (k *keeper) event(key *v1alpha1.APIKey, reason, note string) {
	k.Events.Eventf(key, nil, corev1.EventTypeNormal, reason, "IssueKey", "%s", note)
}

// ours tells whether a Secret was generated for an APIKey. It goes by name, not UID: in a cluster restored from a backup
// the Secret outlives the UID.
func ours(secret *corev1.Secret, key *v1alpha1.APIKey) bool {
	return secret.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByOperator &&
		secret.Annotations[v1alpha1.AnnotationAPIKey] == key.Name
}

// decorate gives a Secret the template's and our own labels and annotations, and its owner.
func decorate(secret *corev1.Secret, key *v1alpha1.APIKey) {
	if secret.Labels == nil {
		secret.Labels = map[string]string{}
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	if template := key.Spec.SecretTemplate; template != nil {
		for name, value := range template.Labels {
			secret.Labels[name] = string(value)
		}
		for name, value := range template.Annotations {
			if !strings.HasPrefix(name, v1alpha1.GroupVersion.Group+"/") {
				secret.Annotations[name] = string(value)
			}
		}
	}
	secret.Labels[v1alpha1.LabelManagedBy] = v1alpha1.ManagedByOperator
	secret.Annotations[v1alpha1.AnnotationAPIKey] = key.Name
	secret.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindAPIKey, Name: key.Name, UID: key.UID,
		Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(false),
	}}
}

// readKeys reads a Secret of ours. The error says that it was edited by hand.
func readKeys(secret *corev1.Secret) (delivered, error) {
	current, err := apikey.Parse(string(secret.Data[v1alpha1.SecretKeyAPIKey]))
	if err != nil {
		return delivered{}, err
	}
	digest := current.Digest()
	if secret.Annotations[annotationDigest] != hex.EncodeToString(digest[:]) || string(secret.Data[v1alpha1.SecretKeyKeyID]) != current.ID() {
		return delivered{}, errors.New("the key does not fit its digest and id")
	}
	issuedAt, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationRotatedAt])
	if err != nil {
		return delivered{}, fmt.Errorf("annotation %s: %w", v1alpha1.AnnotationRotatedAt, err)
	}
	d := delivered{keys: keys{current: current}, issuedAt: issuedAt, rotatedFor: secret.Annotations[v1alpha1.AnnotationRotatedFor]}
	if plain := secret.Data[v1alpha1.SecretKeyPreviousAPIKey]; plain != nil {
		previous, err := apikey.Parse(string(plain))
		until, timeErr := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt])
		if err != nil || timeErr != nil {
			return delivered{}, errors.New("the previous key or its expiry is garbled")
		}
		d.keys.previous, d.previousUntil = &previous, until
	}
	return d, nil
}

func sameSecret(a, b *corev1.Secret) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		maps.EqualFunc(a.Data, b.Data, func(x, y []byte) bool { return string(x) == string(y) }) &&
		len(a.OwnerReferences) == len(b.OwnerReferences) && (len(a.OwnerReferences) == 0 || a.OwnerReferences[0].UID == b.OwnerReferences[0].UID)
}

func prefixOf(app *v1alpha1.APIAuthApp) string {
	return string(ptr.Deref(app.Spec.KeyPrefix, apikey.DefaultPrefix))
}
