// Package apikey is the kind APIKey: one API key, delivered in a Secret.
//
// The Secret is written before the store knows the key, and the store before the status, so that a crash between any
// two neither loses a key nor doubles it.
package apikey

import (
	"context"
	"io"
	"time"

	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/objectwatch"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/store/document"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apikeys,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apikeys/status,verbs=patch

const (
	appField    = "spec.appRef"
	schemeField = "spec.rateLimitSchemeRef"
)

// Options are what the kind needs beside the engine.
type Options struct {
	// Client reads and writes Secrets past every cache: foreign Secrets are never cached.
	Client client.Client
	// Secrets tells when a Secret of a namespace changed.
	Secrets *objectwatch.Watch
	Events  recorder.EventRecorder
	Clock   func() time.Time
	// Random is the source of keys.
	Random io.Reader
}

// Kind returns how an APIKey is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.APIKey] {
	k := &keeper{Options: opts}
	return engine.Kind[*v1alpha1.APIKey]{
		Name:       v1alpha1.KindAPIKey,
		RefersTo:   []string{v1alpha1.KindAPIAuthApp, v1alpha1.KindRateLimitScheme},
		References: references,
		Reserves:   adoptedSecret,
		Check:      check,
		Translate:  translate,
		Retention:  engine.RetainNothing,
		Prepare:    k.prepare,
		Cleanup:    k.cleanup,
		Sources:    []source.TypedSource[reconcile.Request]{opts.Secrets.Source()},
		Indexes:    map[string]func(*v1alpha1.APIKey) []string{objectwatch.Index: secretNames},
	}
}

func references(key *v1alpha1.APIKey) []engine.Reference {
	app := engine.Reference{Field: appField, Kind: v1alpha1.KindAPIAuthApp, Name: key.Spec.AppRef.Name, Protects: true}
	return append([]engine.Reference{app}, engine.SchemeReference(schemeField, key.Spec.RateLimitSchemeRef)...)
}

func check(key *v1alpha1.APIKey, refs engine.ResolvedRefs) error {
	app, found := refs[appField].(*v1alpha1.APIAuthApp)
	if !found {
		return nil
	}
	return engine.CheckScheme(schemeField, app.Spec.DeploymentRef.Name, refs)
}

// adoptedSecret reserves the Secret key an APIKey adopts: two resources cannot register one key.
func adoptedSecret(key *v1alpha1.APIKey) []string {
	if ref := key.Spec.ExistingSecretRef; ref != nil {
		return []string{reservation.AdoptedSecret(key.Namespace, ref.Name, ptr.Deref(ref.Key, v1alpha1.SecretKeyAPIKey))}
	}
	return nil
}

func translate(key *v1alpha1.APIKey, refs engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
	app := refs[appField].(*v1alpha1.APIAuthApp)
	return engine.Content{
		Deployment: engine.DeploymentOf(key, app.Spec.DeploymentRef),
		Value:      translation.APIKey(key, prepared.Value.([]document.Verifier)),
	}
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

func secretNames(key *v1alpha1.APIKey) []string {
	names := []string{secretName(key)}
	if old := key.Status.SecretName; old != "" && old != names[0] {
		names = append(names, old)
	}
	return names
}

// keeper keeps an APIKey's Secret.
type keeper struct{ Options }

// prepare brings the Secret into shape and returns the verifiers of the keys that are accepted.
func (k *keeper) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.APIKey]) (engine.Prepared, error) {
	k.Secrets.Ensure(p.Object.Namespace)
	var found delivered
	var err error
	if p.Object.Spec.ExistingSecretRef != nil {
		found, err = k.adopt(ctx, p.Object)
	} else {
		found, err = k.generate(ctx, p.Object, p.Refs[appField].(*v1alpha1.APIAuthApp), p.Stored != nil)
	}
	if err != nil {
		return engine.Prepared{}, err
	}
	return k.material(p.Object, found), nil
}

// delivered is what a Secret delivers.
type delivered struct {
	keys keys
	// issuedAt is when the current key was issued; zero if it was brought.
	issuedAt time.Time
	// rotatedFor is the value of the annotation rotate-at that was answered last, "" if none was.
	rotatedFor string
	// previousUntil is when the previous key stops being accepted.
	previousUntil time.Time
}

// material turns what the Secret delivers into verifiers, reservations and conditions.
func (k *keeper) material(key *v1alpha1.APIKey, d delivered) engine.Prepared {
	now := k.Clock()
	verifiers := []document.Verifier{verifier(d.keys.current, expiry(key, time.Time{}))}
	if d.keys.previous != nil && now.Before(d.previousUntil) {
		verifiers = append(verifiers, verifier(*d.keys.previous, expiry(key, d.previousUntil)))
	}
	m := engine.Prepared{Value: verifiers, Conditions: credentialConditions(key, now)}
	for _, v := range verifiers {
		m.Reserves = append(m.Reserves, reservation.APIKey(v.ID))
	}
	m.RequeueAfter = nextWake(key, d, now)
	m.Committed = func(ctx context.Context) error {
		recordKey(key, d)
		return k.dropOldSecret(ctx, key)
	}
	return m
}
