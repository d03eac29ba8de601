// Package samlkey keeps the keys of a connection of type SAML in a Secret, and seals them for the store. Identity
// providers copy certificates by hand or read them from metadata, so a key changes in steps that are overlap apart:
//
//  1. The next key is generated, and is in the metadata.
//  2. The next key signs. The key before it still decrypts.
//  3. The key before it is deleted.
package samlkey

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
)

const (
	// overlap is the time between two steps. Servers of identity providers read metadata at least once a day.
	overlap = 7 * 24 * time.Hour
	// annotationNextSignsAt (RFC 3339) on a Secret is when its next key signs.
	annotationNextSignsAt = "iam.cardea.dev/next-signs-at"
)

// slot is the place of a key in a Secret. The names of the data keys never change.
type slot struct{ key, certificate string }

var (
	current  = slot{"current-key.pem", "current-certificate.pem"}
	next     = slot{"next-key.pem", "next-certificate.pem"}
	previous = slot{"previous-key.pem", "previous-certificate.pem"}
)

// in reports whether a Secret has a key in the slot.
func (s slot) in(secret *corev1.Secret) bool { return len(secret.Data[s.key]) > 0 }

func (s slot) put(secret *corev1.Secret, p pair) {
	secret.Data[s.key], secret.Data[s.certificate] = p.key, p.certificate
}

func (s slot) take(secret *corev1.Secret) pair {
	p := pair{secret.Data[s.key], secret.Data[s.certificate]}
	delete(secret.Data, s.key)
	delete(secret.Data, s.certificate)
	return p
}

// Keeper keeps the keys of connections.
type Keeper struct {
	Secrets ownedsecret.Manager
	Keyring *seal.Keyring
	Clock   func() time.Time
	// Random is the source of keys.
	Random io.Reader
}

// Wanted describes the Secret in which a connection has its keys.
type Wanted struct {
	Owner ownedsecret.Owner
	// Name is the name of the Secret, and Subject the common name of the certificates.
	Name, Subject string
	// ID is the id of the connection, for which private keys are sealed.
	ID int64
	// RotateAt is the annotation AnnotationRotateAt of the resource: each value causes one rotation.
	RotateAt string
}

// Keep ensures that the Secret holds a current key. It returns the sealed keys: the current one, the next one and the
// previous one. It also returns the time until the next change, 0 if none is due. The Keyring must have a root key.
func (k Keeper) Keep(ctx context.Context, w Wanted) ([]document.SAMLKey, time.Duration, error) {
	now := k.Clock()
	secret, err := k.Secrets.Ensure(ctx, w.Owner, w.Name, func(secret *corev1.Secret, _ bool) error {
		return k.advance(secret, w, now)
	})
	if err != nil {
		return nil, 0, err
	}
	var keys []document.SAMLKey
	for _, s := range []slot{current, next, previous} {
		if s.in(secret) {
			sealed := k.Keyring.Seal(document.SealedConnectionSecret, ids.Format(w.ID), secret.Data[s.key])
			keys = append(keys, document.SAMLKey{Certificate: string(secret.Data[s.certificate]), Sealed: sealed})
		}
	}
	return keys, wake(secret, w, now), nil
}

// Remove deletes the Secret with the resource.
func (k Keeper) Remove(ctx context.Context, w Wanted) error {
	return k.Secrets.Remove(ctx, w.Owner, w.Name)
}

// NoRootKey returns the WaitingError for a missing root key.
func NoRootKey() error {
	return engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
		"spec.saml: the keys of the connection are stored sealed: start the operator with --root-key")
}

// advance takes the steps of a rotation that are due, and replaces a current key that is missing or was edited by hand.
func (k Keeper) advance(secret *corev1.Secret, w Wanted, now time.Time) error {
	for _, s := range []slot{current, next, previous} {
		if !valid(pair{secret.Data[s.key], secret.Data[s.certificate]}) {
			s.take(secret) // an edited value is not kept
		}
	}
	if next.in(secret) && (!now.Before(dated(secret, annotationNextSignsAt, now.Add(overlap))) || !current.in(secret)) {
		promote(secret, now)
	}
	if !current.in(secret) {
		if err := k.issue(secret, current, w, now); err != nil {
			return err
		}
		secret.Annotations[v1alpha1.AnnotationRotatedAt] = now.UTC().Format(time.RFC3339)
	}
	if previous.in(secret) && !now.Before(dated(secret, v1alpha1.AnnotationPreviousExpiresAt, now.Add(overlap))) {
		previous.take(secret)
	}
	if at, requested := requested(secret, w, now); requested && !next.in(secret) && !now.Before(at) {
		if err := k.issue(secret, next, w, now); err != nil {
			return err
		}
		secret.Annotations[v1alpha1.AnnotationRotatedFor] = w.RotateAt
		secret.Annotations[annotationNextSignsAt] = now.Add(overlap).UTC().Format(time.RFC3339)
	}
	tidy(secret)
	return nil
}

// promote makes the next key the current one, and the current key, if there is one, the previous one. The current key
// counts from when it was generated, so that a rotation that was requested since then follows.
func promote(secret *corev1.Secret, now time.Time) {
	issued := dated(secret, annotationNextSignsAt, now.Add(overlap)).Add(-overlap)
	if current.in(secret) {
		previous.put(secret, current.take(secret))
		secret.Annotations[v1alpha1.AnnotationPreviousExpiresAt] = now.Add(overlap).UTC().Format(time.RFC3339)
	}
	current.put(secret, next.take(secret))
	secret.Annotations[v1alpha1.AnnotationRotatedAt] = issued.UTC().Format(time.RFC3339)
}

// tidy removes the annotations of keys that do not exist.
func tidy(secret *corev1.Secret) {
	if !next.in(secret) {
		delete(secret.Annotations, annotationNextSignsAt)
	}
	if !previous.in(secret) {
		delete(secret.Annotations, v1alpha1.AnnotationPreviousExpiresAt)
	}
}

// issue puts a new key into a slot.
func (k Keeper) issue(secret *corev1.Secret, s slot, w Wanted, now time.Time) error {
	fresh, err := generate(k.Random, w.Subject, now)
	if err == nil {
		s.put(secret, fresh)
	}
	return err
}

// requested returns when the next rotation is requested, false if none is.
func requested(secret *corev1.Secret, w Wanted, now time.Time) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, w.RotateAt)
	return at, err == nil && w.RotateAt != secret.Annotations[v1alpha1.AnnotationRotatedFor] && at.After(dated(secret, v1alpha1.AnnotationRotatedAt, now))
}

// dated returns the time in an annotation. A missing or edited annotation gets the default.
func dated(secret *corev1.Secret, annotation string, otherwise time.Time) time.Time {
	at, err := time.Parse(time.RFC3339, secret.Annotations[annotation])
	if err != nil {
		at = otherwise
		secret.Annotations[annotation] = at.UTC().Format(time.RFC3339)
	}
	return at
}

// wake returns the time until the next step, 0 if none is due.
func wake(secret *corev1.Secret, w Wanted, now time.Time) time.Duration {
	var due []time.Time
	if next.in(secret) {
		due = append(due, dated(secret, annotationNextSignsAt, now))
	} else if at, requested := requested(secret, w, now); requested {
		due = append(due, at)
	}
	if previous.in(secret) {
		due = append(due, dated(secret, v1alpha1.AnnotationPreviousExpiresAt, now))
	}
	var soonest time.Duration
	for _, at := range due {
		if until := max(at.Sub(now), time.Second); soonest == 0 || until < soonest {
			soonest = until
		}
	}
	return soonest
}
