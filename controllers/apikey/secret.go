package apikey

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/ownedsecret"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// annotationDigest on a generated Secret is the SHA-256 of its current key: a value edited by hand no longer fits it.
const annotationDigest = "iam.cardea.dev/api-key-sha256"

// keys are the keys of one Secret.
type keys struct {
	current  apikey.Key
	previous *apikey.Key
}

// secretName is the Secret an APIKey is delivered in or adopted from.
func secretName(key *v1alpha1.APIKey) string {
	switch {
	case key.Spec.ExistingSecretRef != nil:
		return key.Spec.ExistingSecretRef.Name
	case key.Spec.SecretTemplate != nil && key.Spec.SecretTemplate.Name != nil:
		return *key.Spec.SecretTemplate.Name
	}
	return key.Name
}

// secretNames are the Secret of an APIKey, and the one that it was delivered in before.
func secretNames(key *v1alpha1.APIKey) []string {
	names := []string{secretName(key)}
	if old := key.Status.SecretName; old != "" && old != names[0] {
		names = append(names, old)
	}
	return names
}

// adopt reads a key that was brought. It waits for a missing one and never invents it.
func (m *manager) adopt(ctx context.Context, key *v1alpha1.APIKey) (delivered, error) {
	ref := key.Spec.ExistingSecretRef
	name := ptr.Deref(ref.Key, v1alpha1.SecretKeyAPIKey)
	secret, err := m.secrets.Read(ctx, key.Namespace, ref.Name)
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

// generate makes sure that the Secret exists, is ours, holds a key, and is rotated when due. Known tells that the store has a key.
func (m *manager) generate(ctx context.Context, key *v1alpha1.APIKey, app *v1alpha1.APIAuthApp, known bool) (delivered, error) {
	var done issue
	secret, err := m.secrets.Ensure(ctx, ownerOf(key), secretName(key), func(secret *corev1.Secret, fresh bool) (err error) {
		fromTemplate(secret, key)
		if fresh {
			done = firstIssue(known)
			return m.replace(secret, prefixOf(app), m.Clock(), nil, 0)
		}
		done, err = m.renew(secret, key, app)
		return err
	})
	if apierrors.IsInvalid(err) {
		return delivered{}, engine.Terminal(v1alpha1.ReasonInvalid, "spec.secretTemplate: the API server does not take the Secret: %v", err)
	}
	if err != nil {
		return delivered{}, err
	}
	if done.reason != "" {
		m.Events.Eventf(key, nil, corev1.EventTypeNormal, done.reason, "IssueKey", "%s", done.note)
	}
	return readKeys(secret)
}

// issue is what an event tells of a new key; no reason: there is none.
type issue struct{ reason, note string }

func firstIssue(known bool) issue {
	if known {
		return issue{v1alpha1.EventReasonKeyReplaced, "the Secret was gone: a new key was issued, the old one is revoked"}
	}
	return issue{v1alpha1.EventReasonKeyIssued, "a key was issued"}
}

// renew replaces the key of a Secret that was edited or is due, and drops a previous key that is over.
func (m *manager) renew(secret *corev1.Secret, key *v1alpha1.APIKey, app *v1alpha1.APIAuthApp) (issue, error) {
	now := m.Clock()
	found, err := readKeys(secret)
	switch {
	case err != nil: // edited by hand: nobody can say what was handed out, so the old key dies
		return issue{v1alpha1.EventReasonKeyReplaced, "the Secret was edited by hand: a new key was issued, the old one is revoked"},
			m.replace(secret, prefixOf(app), now, nil, 0)
	case rotationDue(key, found, now):
		if at, asked := requestedRotation(key, found); asked && !now.Before(at) {
			secret.Annotations[v1alpha1.AnnotationRotatedFor] = key.Annotations[v1alpha1.AnnotationRotateAt]
		}
		return issue{v1alpha1.EventReasonKeyRotated, "a new key was issued; the previous one is accepted until the overlap ends"},
			m.replace(secret, prefixOf(app), now, &found.keys.current, overlap(key))
	case found.keys.previous != nil && !now.Before(found.previousUntil):
		delete(secret.Data, v1alpha1.SecretKeyPreviousAPIKey)
		delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	}
	return issue{}, nil
}

// replace puts a new key into a Secret, keeping a previous one for the overlap.
func (m *manager) replace(secret *corev1.Secret, prefix string, now time.Time, previous *apikey.Key, overlap time.Duration) error {
	minted, err := apikey.Mint(m.Random, prefix)
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

// cleanup deletes the Secret that was generated for an APIKey. The ownerReference only helps.
func (m *manager) cleanup(ctx context.Context, key *v1alpha1.APIKey) error {
	for _, name := range secretNames(key) {
		if err := m.secrets.Remove(ctx, ownerOf(key), name); err != nil {
			return err
		}
	}
	return nil
}

// dropOldSecret deletes the Secret of a former spec.secretTemplate.name, now that the store accepts only the new key.
func (m *manager) dropOldSecret(ctx context.Context, key *v1alpha1.APIKey) error {
	names := secretNames(key)
	for _, old := range names[1:] {
		if err := m.secrets.Remove(ctx, ownerOf(key), old); err != nil {
			return err
		}
	}
	key.Status.SecretName = names[0]
	return nil
}

func ownerOf(key *v1alpha1.APIKey) ownedsecret.Owner {
	return ownedsecret.Owner{
		Object: key, Kind: v1alpha1.KindAPIKey, Marker: v1alpha1.AnnotationAPIKey,
		Taken: "delete it or set spec.secretTemplate.name to another name",
	}
}

// fromTemplate gives a Secret the template's labels and annotations, but for annotations in our name.
func fromTemplate(secret *corev1.Secret, key *v1alpha1.APIKey) {
	template := key.Spec.SecretTemplate
	if template == nil {
		return
	}
	for name, value := range template.Labels {
		secret.Labels[name] = string(value)
	}
	for name, value := range template.Annotations {
		if !strings.HasPrefix(name, v1alpha1.GroupVersion.Group+"/") {
			secret.Annotations[name] = string(value)
		}
	}
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

func prefixOf(app *v1alpha1.APIAuthApp) string {
	return string(ptr.Deref(app.Spec.KeyPrefix, apikey.DefaultPrefix))
}
