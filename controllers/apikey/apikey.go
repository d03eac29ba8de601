// Package apikey is the kind APIKey: one API key, delivered in a Secret.
//
// The Secret is written before the store knows the key, and the store before the status, so that a crash between two of
// these writes neither loses nor duplicates a key.
package apikey

import (
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/credential"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apikeys,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apikeys/status,verbs=patch

const (
	appField    = "spec.appRef"
	schemeField = "spec.rateLimitSchemeRef"
)

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets without a cache: foreign Secrets are never cached.
	Client client.Client
	// Secrets reports when a Secret of a namespace changed.
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

// adoptedSecret returns the reservation of the Secret key that an APIKey adopts, so that two resources cannot register
// the same key.
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
		Value:      prepared.Value,
	}
}

// manager manages APIKeys' Secrets.
type manager struct {
	Options
	credentials credential.Keeper
}

func newManager(opts Options) *manager {
	return &manager{Options: opts, credentials: credential.Keeper{Secrets: ownedsecret.Manager{Client: opts.Client}, Clock: opts.Clock, Random: opts.Random}}
}

// annotationDigest on a generated Secret is the SHA-256 of its current key: a value edited by hand no longer fits it.
const annotationDigest = "iam.cardea.dev/api-key-sha256"

// wanted is the credential that an APIKey declares.
func wanted(key *v1alpha1.APIKey) credential.Wanted {
	w := credential.Wanted{
		Form: credential.Keys,
		Owner: ownedsecret.Owner{
			Object: key, Kind: v1alpha1.KindAPIKey, Marker: v1alpha1.AnnotationAPIKey, Taken: "set spec.secretTemplate.name to another name, or delete that Secret when no program uses it",
		},
		Noun: "key", Name: secretName(key), Current: v1alpha1.SecretKeyAPIKey, Previous: v1alpha1.SecretKeyPreviousAPIKey, ID: v1alpha1.SecretKeyKeyID,
		Digest: annotationDigest, Rotation: key.Spec.Rotation, RotateAt: key.Annotations[v1alpha1.AnnotationRotateAt], ExpiresAt: key.Spec.ExpiresAt,
	}
	if template := key.Spec.SecretTemplate; template != nil {
		w.Labels, w.Annotations = template.Labels, template.Annotations
	}
	return w
}

// secretName returns the name of the Secret in which an APIKey is delivered, or from which it is adopted.
func secretName(key *v1alpha1.APIKey) string {
	switch {
	case key.Spec.ExistingSecretRef != nil:
		return key.Spec.ExistingSecretRef.Name
	case key.Spec.SecretTemplate != nil && key.Spec.SecretTemplate.Name != nil:
		return *key.Spec.SecretTemplate.Name
	}
	return key.Name
}

// secretNames returns the name of an APIKey's Secret, and of the Secret in which the key was delivered before.
func secretNames(key *v1alpha1.APIKey) []string {
	names := []string{secretName(key)}
	if old := key.Status.SecretName; old != "" && old != names[0] {
		names = append(names, old)
	}
	return names
}

// prepare issues, rotates or adopts the key in the Secret and returns the verifiers of the keys that are accepted.
func (m *manager) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.APIKey]) (engine.Prepared, error) {
	m.Secrets.Ensure(p.Object.Namespace)
	key, w := p.Object, wanted(p.Object)
	w.Known = p.Stored != nil
	w.Prefix = string(ptr.Deref(p.Refs[appField].(*v1alpha1.APIAuthApp).Spec.KeyPrefix, apikey.DefaultPrefix))
	var found credential.Delivered
	var issue credential.Issue
	var err error
	if ref := key.Spec.ExistingSecretRef; ref != nil {
		found, err = m.credentials.Adopt(ctx, key.Namespace, ref.Name, ptr.Deref(ref.Key, v1alpha1.SecretKeyAPIKey), "a key from `cardea key new`", apikey.Parse)
	} else {
		found, issue, err = m.credentials.Generate(ctx, w)
	}
	if err != nil {
		return engine.Prepared{}, err
	}
	if issue.Reason != "" {
		m.Events.Eventf(key, nil, corev1.EventTypeNormal, issue.Reason, "IssueKey", "%s", issue.Note)
	}
	return m.prepared(key, w, found), nil
}

// prepared derives verifiers, reservations and conditions from the content of the Secret.
func (m *manager) prepared(key *v1alpha1.APIKey, w credential.Wanted, d credential.Delivered) engine.Prepared {
	now := m.Clock()
	verifiers := credential.Verifiers(w, d, now)
	content := translation.APIKey(key, verifiers)
	content.Expired = w.Expired(now)
	p := engine.Prepared{Value: content, Conditions: w.Conditions(v1alpha1.KindAPIKey, now), RequeueAfter: w.NextWake(d, key.Spec.SecretTemplate != nil, now)}
	for _, v := range verifiers {
		p.Reserves = append(p.Reserves, reservation.APIKey(v.ID))
	}
	p.Committed = func(ctx context.Context) error {
		recordKey(key, w, d)
		return m.dropOldSecret(ctx, key)
	}
	return p
}

// cleanup deletes the Secret that was generated for an APIKey. It does not rely on garbage collection by the Secret's
// ownerReference.
func (m *manager) cleanup(ctx context.Context, key *v1alpha1.APIKey) error {
	return m.credentials.Remove(ctx, wanted(key).Owner, secretNames(key)...)
}

// dropOldSecret deletes the Secret of a former spec.secretTemplate.name, now that the store accepts only the new key.
func (m *manager) dropOldSecret(ctx context.Context, key *v1alpha1.APIKey) error {
	names := secretNames(key)
	if err := m.credentials.Remove(ctx, wanted(key).Owner, names[1:]...); err != nil {
		return err
	}
	key.Status.SecretName = names[0]
	return nil
}

// recordKey writes the public facts about the key into the status: its id, prefix, last four characters and times.
func recordKey(key *v1alpha1.APIKey, w credential.Wanted, d credential.Delivered) {
	status := &key.Status
	status.KeyID, status.Prefix, status.Last4 = d.Current.ID(), d.Current.Prefix(), d.Current.Last4()
	status.ExpiresAt = key.Spec.ExpiresAt.DeepCopy()
	status.LastRotatedAt, status.NextRotationAt = nil, nil
	if !d.IssuedAt.IsZero() {
		status.LastRotatedAt = ptr.To(metav1.NewTime(d.IssuedAt.Truncate(time.Second)))
	}
	if next := w.NextRotation(d); next != nil {
		status.NextRotationAt = ptr.To(metav1.NewTime(next.Truncate(time.Second)))
	}
}
