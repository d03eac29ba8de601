// Package credential keeps the credential of a resource in a Secret. The credential is generated there and rotated with
// an overlap, or adopted from a Secret that a user wrote. It is written to its Secret before the store knows its
// digest, so that a crash between the two writes neither loses nor duplicates it.
package credential

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/apikey"
)

// Value is a credential.
type Value interface {
	// Plain is the credential itself, and ID its public id, "" for a kind of credential without ids.
	Plain() string
	ID() string
}

// Form parses and makes the credentials of a kind.
type Form[V Value] struct {
	Parse func(plain string) (V, error)
	// Mint makes a credential from random bytes, with the prefix if the kind has prefixes.
	Mint func(random io.Reader, prefix string) (V, error)
}

// Keys are API keys, and the tokens and secrets that have their form.
var Keys = Form[apikey.Key]{apikey.Parse, apikey.Mint}

// Keeper keeps credentials that have the form of API keys.
type Keeper = KeeperOf[apikey.Key]

// Wanted is such a credential that a resource declares.
type Wanted = WantedOf[apikey.Key]

// Delivered is the content of a Secret with such a credential.
type Delivered = DeliveredOf[apikey.Key]

// KeeperOf keeps credentials.
type KeeperOf[V Value] struct {
	Secrets ownedsecret.Manager
	Clock   func() time.Time
	// Random is the source of credentials.
	Random io.Reader
}

// WantedOf is the credential that a resource declares.
type WantedOf[V Value] struct {
	Owner ownedsecret.Owner
	Form  Form[V]
	// Noun is the credential's name in messages, such as "key".
	Noun string
	// Name is the name of the Secret. Labels and Annotations are set in addition to Cardea's own.
	Name        string
	Labels      map[string]v1alpha1.LabelValue
	Annotations map[string]v1alpha1.AnnotationValue
	// Current, Previous and ID are keys of the Secret's data: for the credential, for the one before it, and for the
	// credential's public id. ID is "" if the Secret has no id.
	Current, Previous, ID string
	// Fixed is further data of the Secret, which does not depend on the credential. A key with the value "" is removed.
	Fixed map[string]string
	// Digest is the annotation with the SHA-256 of the credential: a value edited by hand no longer fits it.
	Digest string
	// Prefix begins a generated credential.
	Prefix string
	// Rotation is the declared interval, nil for none, and RotateAt the resource's annotation AnnotationRotateAt.
	Rotation *v1alpha1.KeyRotation
	RotateAt string
	// ExpiresAt is when the credential ends, nil for never.
	ExpiresAt *metav1.Time
	// Known reports that the store has a credential of the resource.
	Known bool
}

// DeliveredOf is the content of a Secret.
type DeliveredOf[V Value] struct {
	Current  V
	Previous *V
	// IssuedAt is when the current credential was issued; zero if it was adopted.
	IssuedAt time.Time
	// RotatedFor is the value of the annotation rotate-at for which the last requested rotation was made, "" if none
	// was made.
	RotatedFor string
	// PreviousUntil is when the previous one stops being accepted.
	PreviousUntil time.Time
}

// Issue is the event of a new credential. If Reason is empty, no credential was issued.
type Issue struct{ Reason, Note string }

// Adopt returns the credential that a user wrote under a key of a Secret, parsed by read. It returns a WaitingError if
// the key is missing, and never generates a credential. mint says in messages how to make one.
func (k KeeperOf[V]) Adopt(ctx context.Context, namespace, name, key, mint string, read func(string) (V, error)) (DeliveredOf[V], error) {
	secret, err := k.Secrets.Read(ctx, namespace, name)
	if err != nil {
		return DeliveredOf[V]{}, err
	}
	if secret == nil || secret.Data[key] == nil {
		return DeliveredOf[V]{}, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound,
			"there is no Secret %q with key %q: create it, for instance with %s", name, key, mint)
	}
	// Editors and `kubectl create secret --from-file` end a file with a line break, which is no part of it.
	current, err := read(strings.TrimRight(string(secret.Data[key]), "\r\n"))
	if err != nil {
		return DeliveredOf[V]{}, engine.Terminal(v1alpha1.ReasonInvalidKey, "Secret %q, key %q: %v: use %s", name, key, err, mint)
	}
	return DeliveredOf[V]{Current: current}, nil
}

// Generate ensures that the Secret exists, belongs to the resource, has a credential, and is rotated when due.
func (k KeeperOf[V]) Generate(ctx context.Context, w WantedOf[V]) (DeliveredOf[V], Issue, error) {
	var done Issue
	secret, err := k.Secrets.Ensure(ctx, w.Owner, w.Name, func(secret *corev1.Secret, fresh bool) (err error) {
		w.template(secret)
		if fresh {
			done = w.firstIssue()
			err = k.replace(secret, w, nil)
		} else {
			done, err = k.renew(secret, w)
		}
		w.fix(secret)
		return err
	})
	if apierrors.IsInvalid(err) {
		return DeliveredOf[V]{}, Issue{}, engine.Terminal(v1alpha1.ReasonInvalid, "spec.secretTemplate: the API server refuses the Secret: %v", err)
	}
	if err != nil {
		return DeliveredOf[V]{}, Issue{}, err
	}
	d, err := w.read(secret)
	return d, done, err
}

// Remove deletes those of the named Secrets that were generated for the owner.
func (k KeeperOf[V]) Remove(ctx context.Context, o ownedsecret.Owner, names ...string) error {
	for _, name := range names {
		if err := k.Secrets.Remove(ctx, o, name); err != nil {
			return err
		}
	}
	return nil
}

func (w WantedOf[V]) firstIssue() Issue {
	if w.Known {
		return Issue{v1alpha1.EventReasonKeyReplaced, "the Secret was gone: a new " + w.Noun + " was issued, the old one is revoked"}
	}
	return Issue{v1alpha1.EventReasonKeyIssued, "a " + w.Noun + " was issued"}
}

// renew replaces the credential if the Secret was edited by hand or a rotation is due. It removes the previous
// credential when its overlap has ended.
func (k KeeperOf[V]) renew(secret *corev1.Secret, w WantedOf[V]) (Issue, error) {
	now := k.Clock()
	w.rename(secret)
	found, err := w.read(secret)
	switch {
	case err != nil: // edited by hand: it is unknown which value was handed out, so the old one becomes invalid
		return Issue{v1alpha1.EventReasonKeyReplaced, "the Secret was edited by hand: a new " + w.Noun + " was issued, the old one is revoked"}, k.replace(secret, w, nil)
	case w.rotationDue(found, now):
		if at, asked := w.requestedRotation(found); asked && !now.Before(at) {
			secret.Annotations[v1alpha1.AnnotationRotatedFor] = w.RotateAt
		}
		return Issue{v1alpha1.EventReasonKeyRotated, "a new " + w.Noun + " was issued; the previous one is accepted until the overlap ends"}, k.replace(secret, w, &found.Current)
	case found.Previous != nil && !now.Before(found.PreviousUntil):
		delete(secret.Data, w.Previous)
		delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	}
	return Issue{}, nil
}

// rename moves a credential to the data key Current, if it is under another key. It recognizes the credential by its
// digest.
func (w WantedOf[V]) rename(secret *corev1.Secret) {
	if secret.Data[w.Current] != nil {
		return
	}
	for key, value := range secret.Data {
		if current, err := w.Form.Parse(string(value)); err == nil && secret.Annotations[w.Digest] == digestOf(current) {
			delete(secret.Data, key)
			secret.Data[w.Current] = value
			if before, there := secret.Data[PreviousOf(key)]; there {
				delete(secret.Data, PreviousOf(key))
				secret.Data[w.Previous] = before
			}
			return
		}
	}
}

// PreviousOf returns the data key of the previous credential, from the data key of the current one.
func PreviousOf(key string) string { return "previous-" + key }

// fix writes the Fixed data, and removes the same values under other keys, because a key may have been renamed.
func (w WantedOf[V]) fix(secret *corev1.Secret) {
	for key, value := range w.Fixed {
		if value == "" {
			delete(secret.Data, key)
			continue
		}
		maps.DeleteFunc(secret.Data, func(_ string, held []byte) bool { return string(held) == value })
		secret.Data[key] = []byte(value)
	}
}

// replace puts a new credential into a Secret, keeping a previous one for the overlap.
func (k KeeperOf[V]) replace(secret *corev1.Secret, w WantedOf[V], previous *V) error {
	minted, err := w.Form.Mint(k.Random, w.Prefix)
	if err != nil {
		return err
	}
	now := k.Clock()
	secret.Data = map[string][]byte{w.Current: []byte(minted.Plain())}
	if w.ID != "" {
		secret.Data[w.ID] = []byte(minted.ID())
	}
	secret.Annotations[w.Digest] = digestOf(minted)
	// The time has fractions of a second, because it is compared with annotations that may have them.
	secret.Annotations[v1alpha1.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339Nano)
	delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	if previous != nil {
		secret.Data[w.Previous] = []byte((*previous).Plain())
		secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt] = now.Add(w.overlap()).UTC().Format(time.RFC3339)
	}
	return nil
}

// template gives a Secret the declared labels and annotations, except annotations with Cardea's prefix.
func (w WantedOf[V]) template(secret *corev1.Secret) {
	for name, value := range w.Labels {
		secret.Labels[name] = string(value)
	}
	for name, value := range w.Annotations {
		if !strings.HasPrefix(name, v1alpha1.GroupVersion.Group+"/") {
			secret.Annotations[name] = string(value)
		}
	}
}

// read reads a generated Secret. An error means that the Secret was edited by hand.
func (w WantedOf[V]) read(secret *corev1.Secret) (DeliveredOf[V], error) {
	current, err := w.Form.Parse(string(secret.Data[w.Current]))
	if err != nil {
		return DeliveredOf[V]{}, err
	}
	if secret.Annotations[w.Digest] != digestOf(current) || w.ID != "" && string(secret.Data[w.ID]) != current.ID() {
		return DeliveredOf[V]{}, fmt.Errorf("the %s does not match its digest and id", w.Noun)
	}
	issuedAt, err := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationRotatedAt])
	if err != nil {
		return DeliveredOf[V]{}, fmt.Errorf("annotation %s: %w", v1alpha1.AnnotationRotatedAt, err)
	}
	d := DeliveredOf[V]{Current: current, IssuedAt: issuedAt, RotatedFor: secret.Annotations[v1alpha1.AnnotationRotatedFor]}
	if plain := secret.Data[w.Previous]; plain != nil {
		previous, err := w.Form.Parse(string(plain))
		until, timeErr := time.Parse(time.RFC3339, secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt])
		if err != nil || timeErr != nil {
			return DeliveredOf[V]{}, errors.New("the previous " + w.Noun + " or its expiry is invalid")
		}
		d.Previous, d.PreviousUntil = &previous, until
	}
	return d, nil
}

func digestOf(key Value) string {
	digest := sha256.Sum256([]byte(key.Plain()))
	return hex.EncodeToString(digest[:])
}
