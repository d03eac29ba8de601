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
	"github.com/cardea-iam/cardea/controllers/ownedsecret"
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
	m := newManager(opts)
	return engine.Kind[*v1alpha1.APIKey]{
		Name:       v1alpha1.KindAPIKey,
		RefersTo:   []string{v1alpha1.KindAPIAuthApp, v1alpha1.KindRateLimitScheme},
		References: references,
		Reserves:   adoptedSecret,
		Check:      check,
		Translate:  translate,
		Retention:  engine.RetainNothing,
		Prepare:    m.prepare,
		Cleanup:    m.cleanup,
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

// manager manages APIKeys' Secrets.
type manager struct {
	Options
	secrets ownedsecret.Manager
}

func newManager(opts Options) *manager {
	return &manager{Options: opts, secrets: ownedsecret.Manager{Client: opts.Client}}
}

// prepare brings the Secret into shape and returns the verifiers of the keys that are accepted.
func (m *manager) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.APIKey]) (engine.Prepared, error) {
	m.Secrets.Ensure(p.Object.Namespace)
	var found delivered
	var err error
	if p.Object.Spec.ExistingSecretRef != nil {
		found, err = m.adopt(ctx, p.Object)
	} else {
		found, err = m.generate(ctx, p.Object, p.Refs[appField].(*v1alpha1.APIAuthApp), p.Stored != nil)
	}
	if err != nil {
		return engine.Prepared{}, err
	}
	return m.prepared(p.Object, found), nil
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

// prepared turns what the Secret delivers into verifiers, reservations and conditions.
func (m *manager) prepared(key *v1alpha1.APIKey, d delivered) engine.Prepared {
	now := m.Clock()
	verifiers := []document.Verifier{verifier(d.keys.current, expiry(key, time.Time{}))}
	if d.keys.previous != nil && now.Before(d.previousUntil) {
		verifiers = append(verifiers, verifier(*d.keys.previous, expiry(key, d.previousUntil)))
	}
	p := engine.Prepared{Value: verifiers, Conditions: credentialConditions(key, now), RequeueAfter: nextWake(key, d, now)}
	for _, v := range verifiers {
		p.Reserves = append(p.Reserves, reservation.APIKey(v.ID))
	}
	p.Committed = func(ctx context.Context) error {
		recordKey(key, d)
		return m.dropOldSecret(ctx, key)
	}
	return p
}
