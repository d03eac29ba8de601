// Package oauthclient is the kind OAuthClient: a program that gets tokens of an OAuthApp, with its credentials in a
// Secret.
package oauthclient

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/cardea-iam/cardea/controllers/shared/configmapvalue"
	"github.com/cardea-iam/cardea/controllers/shared/credential"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/keyset"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthclients,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthclients/status,verbs=patch

const (
	appField    = "spec.oauthAppRef"
	schemeField = "spec.rateLimitSchemeRef"
	// deploymentField is the key of the app's deployment in ResolvedRefs.
	deploymentField = appField + "'s spec.deploymentRef"
	// secretPrefix begins generated secrets, so that scanners know them.
	secretPrefix = "cs"
	// annotationDigest on a generated Secret is the SHA-256 of its current secret: a value edited by hand no longer
	// fits it.
	annotationDigest = "iam.cardea.dev/client-secret-sha256"
	// minSecret is the minimum length of an adopted secret, in characters.
	minSecret = 32
)

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets and reads ConfigMaps, without a cache.
	Client client.Client
	// Secrets and ConfigMaps report changes of Secrets and ConfigMaps in watched namespaces.
	Secrets, ConfigMaps *objectwatch.Watch
	Events              recorder.EventRecorder
	Clock               func() time.Time
	// Random is the source of secrets.
	Random io.Reader
}

// Kind returns how an OAuthClient is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.OAuthClient] {
	m := &manager{Options: opts, credentials: credential.Keeper{Secrets: ownedsecret.Manager{Client: opts.Client}, Clock: opts.Clock, Random: opts.Random}}
	return engine.Kind[*v1alpha1.OAuthClient]{
		Name:       v1alpha1.KindOAuthClient,
		RefersTo:   []string{v1alpha1.KindOAuthApp, v1alpha1.KindRateLimitScheme},
		Through:    map[string]string{v1alpha1.KindIdentityDeployment: v1alpha1.KindOAuthApp},
		References: references,
		Reserves:   adoptedSecret,
		Check:      check,
		Translate:  translate,
		Retention:  engine.RetainNothing,
		Prepare:    m.prepare,
		Cleanup:    m.cleanup,
		Sources:    []source.TypedSource[reconcile.Request]{opts.Secrets.Source(), opts.ConfigMaps.Source()},
		Indexes:    map[string]func(*v1alpha1.OAuthClient) []string{objectwatch.Index: objectNames},
	}
}

// references returns the references to the app, through the app to its deployment, and to the rate-limit scheme.
func references(o *v1alpha1.OAuthClient) []engine.Reference {
	app := engine.Reference{
		Field: appField, Kind: v1alpha1.KindOAuthApp, Name: o.Spec.OAuthAppRef.Name, Protects: true, Content: true,
		Next: func(app v1alpha1.Resource) engine.Reference {
			deployment := app.(*v1alpha1.OAuthApp).Spec.DeploymentRef
			return engine.Reference{Field: deploymentField, Kind: v1alpha1.KindIdentityDeployment, Name: deployment.Name}
		},
	}
	return append([]engine.Reference{app}, engine.SchemeReference(schemeField, o.Spec.RateLimitSchemeRef)...)
}

// adoptedSecret returns the reservation of the Secret key that a client adopts, so that two resources cannot register
// the same secret.
func adoptedSecret(o *v1alpha1.OAuthClient) []string {
	if ref := o.Spec.ExistingSecretRef; ref != nil {
		return []string{reservation.AdoptedSecret(o.Namespace, ref.Name, ptr.Deref(ref.Key, v1alpha1.SecretKeyClientSecret))}
	}
	return nil
}

func translate(o *v1alpha1.OAuthClient, refs engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
	app := refs[appField].(*v1alpha1.OAuthApp)
	made := prepared.Value.(proof)
	return engine.Content{Deployment: engine.DeploymentOf(o, app.Spec.DeploymentRef), Value: translation.OAuthClient(o, made.verifiers, made.jwks)}
}

// proof is the data by which a client is authenticated: verifiers of its secrets, or its public keys.
type proof struct {
	verifiers []document.Verifier
	jwks      json.RawMessage
}

// manager manages clients' Secrets.
type manager struct {
	Options
	credentials credential.Keeper
}

// prepare issues, rotates or adopts the client's secret, or reads the client's public keys.
func (m *manager) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.OAuthClient]) (engine.Prepared, error) {
	o, clientID := p.Object, ids.Format(p.ID)
	var prepared engine.Prepared
	var made proof
	var found credential.Delivered
	w := m.wanted(o, clientID)
	w.Known = p.Stored != nil
	var err error
	switch {
	case o.Spec.JWKSConfigMapRef != nil:
		made.jwks, err = m.readKeySet(ctx, o)
	case hasSecret(o):
		m.Secrets.Ensure(o.Namespace)
		if found, err = m.secret(ctx, o, w); err == nil {
			now := m.Clock()
			made.verifiers = credential.Verifiers(w, found, now)
			prepared.Conditions, prepared.RequeueAfter = w.Conditions(v1alpha1.KindOAuthClient, now), w.NextWake(found, o.Spec.SecretTemplate != nil, now)
		}
	}
	if err != nil {
		return engine.Prepared{}, err
	}
	prepared.Value = made
	prepared.Committed = func(ctx context.Context) error {
		record(o, w, found, clientID)
		return m.dropOldSecret(ctx, o)
	}
	return prepared, nil
}

// secret returns the client's secret, adopted from an existing Secret or generated.
func (m *manager) secret(ctx context.Context, o *v1alpha1.OAuthClient, w credential.Wanted) (credential.Delivered, error) {
	if ref := o.Spec.ExistingSecretRef; ref != nil {
		return m.credentials.Adopt(ctx, o.Namespace, ref.Name, ptr.Deref(ref.Key, v1alpha1.SecretKeyClientSecret), "32 to 512 random visible ASCII characters", readSecret)
	}
	found, issue, err := m.credentials.Generate(ctx, w)
	if err == nil && issue.Reason != "" {
		m.Events.Eventf(o, nil, corev1.EventTypeNormal, issue.Reason, "IssueSecret", "%s", issue.Note)
	}
	return found, err
}

func readSecret(plain string) (apikey.Key, error) {
	if len(plain) < minSecret {
		return apikey.Key{}, errors.New("a client's secret has 32 to 512 visible ASCII characters")
	}
	return apikey.Read(plain)
}

// hasSecret reports whether a client authenticates by a secret.
func hasSecret(o *v1alpha1.OAuthClient) bool {
	return o.Spec.SecretTemplate != nil || o.Spec.ExistingSecretRef != nil
}

// wanted is the secret that a client declares.
func (m *manager) wanted(o *v1alpha1.OAuthClient, clientID string) credential.Wanted {
	w := credential.Wanted{
		Form:  credential.Keys,
		Owner: ownerOf(o), Noun: "client secret", Name: secretName(o), Digest: annotationDigest, Prefix: secretPrefix,
		Current: v1alpha1.SecretKeyClientSecret, Rotation: o.Spec.Rotation, RotateAt: o.Annotations[v1alpha1.AnnotationRotateAt],
	}
	nameOfID := v1alpha1.SecretKeyClientID
	if template := o.Spec.SecretTemplate; template != nil {
		w.Labels, w.Annotations = template.Labels, template.Annotations
		if keys := template.Keys; keys != nil {
			w.Current, nameOfID = ptr.Deref(keys.ClientSecret, w.Current), ptr.Deref(keys.ClientID, nameOfID)
		}
	}
	w.Previous, w.Fixed = credential.PreviousOf(w.Current), map[string]string{nameOfID: clientID}
	return w
}

func ownerOf(o *v1alpha1.OAuthClient) ownedsecret.Owner {
	return ownedsecret.Owner{
		Object: o, Kind: v1alpha1.KindOAuthClient, Marker: v1alpha1.AnnotationOAuthClient, Taken: "set spec.secretTemplate.name to another name, or delete that Secret when no program uses it",
	}
}

// secretName returns the name of the Secret in which a client's secret is delivered, or from which it is adopted.
func secretName(o *v1alpha1.OAuthClient) string {
	switch {
	case o.Spec.ExistingSecretRef != nil:
		return o.Spec.ExistingSecretRef.Name
	case o.Spec.SecretTemplate != nil && o.Spec.SecretTemplate.Name != nil:
		return *o.Spec.SecretTemplate.Name
	}
	return o.Name
}

// objectNames returns the names of a client's Secret, of the Secret in which its secret was delivered before, and of
// the ConfigMap with its keys.
func objectNames(o *v1alpha1.OAuthClient) (names []string) {
	if hasSecret(o) {
		names = append(names, secretName(o))
	}
	if old := o.Status.SecretName; old != "" && !(hasSecret(o) && old == names[0]) {
		names = append(names, old)
	}
	if ref := o.Spec.JWKSConfigMapRef; ref != nil {
		names = append(names, ref.Name)
	}
	return names
}

// readKeySet reads the public keys that verify a client's signatures. They are in the client's ConfigMap.
func (m *manager) readKeySet(ctx context.Context, o *v1alpha1.OAuthClient) (json.RawMessage, error) {
	ref := o.Spec.JWKSConfigMapRef
	m.ConfigMaps.Ensure(o.Namespace)
	text, err := configmapvalue.Field{Path: "spec.jwksConfigMapRef", Ref: *ref}.Read(ctx, m.Client, o.Namespace)
	if err != nil {
		return nil, err
	}
	set, err := keyset.Parse([]byte(text), keyset.MaxBytes)
	if err != nil {
		return nil, engine.Terminal(v1alpha1.ReasonInvalid, "spec.jwksConfigMapRef: ConfigMap %q, key %q: %v", ref.Name, ref.Key, err)
	}
	return json.Marshal(set) // encoded from the parsed public keys: private keys put there by mistake are not stored
}

// cleanup deletes the Secret that was generated for a client. It does not rely on garbage collection by the Secret's
// ownerReference.
func (m *manager) cleanup(ctx context.Context, o *v1alpha1.OAuthClient) error {
	return m.credentials.Remove(ctx, ownerOf(o), objectNames(o)...)
}

// dropOldSecret deletes the Secret of a former template, now that the store accepts only the declared secret.
func (m *manager) dropOldSecret(ctx context.Context, o *v1alpha1.OAuthClient) error {
	now := ""
	if hasSecret(o) {
		now = secretName(o)
	}
	if old := o.Status.SecretName; old != "" && old != now {
		if err := m.credentials.Remove(ctx, ownerOf(o), old); err != nil {
			return err
		}
	}
	o.Status.SecretName = now
	return nil
}

// record writes the public facts about the credentials into the status: the client id and the times of rotation.
func record(o *v1alpha1.OAuthClient, w credential.Wanted, d credential.Delivered, clientID string) {
	status := &o.Status
	status.ClientID, status.LastRotatedAt, status.NextRotationAt = clientID, nil, nil
	if !d.IssuedAt.IsZero() {
		status.LastRotatedAt = ptr.To(metav1.NewTime(d.IssuedAt.Truncate(time.Second)))
		if next := w.NextRotation(d); next != nil {
			status.NextRotationAt = ptr.To(metav1.NewTime(next.Truncate(time.Second)))
		}
	}
}
