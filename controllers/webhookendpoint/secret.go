package webhookendpoint

import (
	"cmp"
	"context"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/credential"
	"github.com/cardea-iam/cardea/controllers/shared/headervalue"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/controllers/shared/secretvalue"
	"github.com/cardea-iam/cardea/controllers/shared/signingkey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// annotationDigest on a generated Secret is the SHA-256 of its current secret: a value edited by hand no longer fits
// it.
const annotationDigest = "iam.cardea.dev/signing-secret-sha256"

// form is the form of signing secrets, which have no prefix of their own.
var form = credential.Form[webhook.Secret]{
	Parse: webhook.ReadSecret,
	Mint:  func(random io.Reader, _ string) (webhook.Secret, error) { return webhook.NewSecret(random) },
}

// manager manages the Secrets of endpoints.
type manager struct {
	Options
	credentials credential.KeeperOf[webhook.Secret]
	counts      *counts
}

// prepare generates, rotates or adopts the signing secret, seals it and the values of headers, and reads the state of
// the deliveries. An endpoint whose values may not be used is inactive: no event is sent without its headers.
func (m *manager) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.WebhookEndpoint]) (engine.Prepared, error) {
	content, err := translation.WebhookEndpoint(p.Object)
	if err != nil {
		return engine.Prepared{}, err
	}
	m.Secrets.Ensure(p.Object.Namespace)
	if m.Keyring.Empty() {
		return engine.Prepared{}, engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonRootKeyMissing,
			"requests are signed with a key that is stored sealed: start the operator with --root-key")
	}
	prepared := engine.Prepared{RequeueAfter: observeEvery}
	leftOut, err := m.sealHeaders(ctx, p, &content)
	if err != nil {
		return engine.Prepared{}, err
	}
	if content.Scheme == document.WebhookHMAC {
		unsigned, err := m.sealSecret(ctx, p, &content, &prepared)
		if err != nil {
			return engine.Prepared{}, err
		}
		leftOut = cmp.Or(leftOut, unsigned)
	} else {
		leftOut = cmp.Or(leftOut, keyless(p.Refs))
		prepared.Committed = func(ctx context.Context) error {
			return m.committed(ctx, p.Object, nil, credential.DeliveredOf[webhook.Secret]{})
		}
	}
	content.Incomplete = leftOut != nil
	prepared.Value = content
	for _, c := range m.observe(ctx, p, content.Active && !content.Incomplete) {
		if c.Reason == v1alpha1.ReasonDisabled { // the endpoint is not Ready, so that it is noticed
			leftOut = cmp.Or(leftOut, &engine.WaitingError{Condition: c.Type, Reason: c.Reason, Message: c.Message})
		}
		prepared.Conditions = append(prepared.Conditions, c)
	}
	prepared.LeftOut = leftOut
	return prepared, nil
}

// keyless returns why the deployment has no key for signatures with Ed25519, nil if it has one.
func keyless(refs engine.ResolvedRefs) *engine.WaitingError {
	if d, found := engine.DeploymentIn(refs); !found || signingkey.Signs(d) {
		return nil
	}
	return &engine.WaitingError{
		Condition: v1alpha1.ConditionCredentialsReady, Reason: v1alpha1.ReasonNoFrontendHost,
		Message: "spec.signing.scheme: the deployment has no frontend host, and so no key for Ed25519: add a host to its spec.frontendHosts, or sign with HMAC",
	}
}

// sealHeaders seals the values of headers that Secrets have.
func (m *manager) sealHeaders(ctx context.Context, p engine.Preparation[*v1alpha1.WebhookEndpoint], content *document.WebhookEndpoint) (leftOut *engine.WaitingError, err error) {
	for i, header := range p.Object.Spec.Headers {
		if header.ValueFrom == nil {
			continue
		}
		value, err := m.read(ctx, secretvalue.Field{Path: "header " + header.Name, Ref: header.ValueFrom.SecretKeyRef, MaxBytes: headervalue.MaxBytes}, p.Object)
		if err != nil {
			if fault := headervalue.Unusable(err); fault != nil {
				leftOut = cmp.Or(leftOut, fault)
				continue
			}
			return nil, err
		}
		content.Headers[i].Sealed = m.Keyring.Seal(document.SealedEndpointHeader, document.ToolHeaderID(ids.Format(p.ID), header.Name), value)
	}
	return leftOut, nil
}

// sealSecret seals the signing secrets that are in use.
func (m *manager) sealSecret(
	ctx context.Context, p engine.Preparation[*v1alpha1.WebhookEndpoint], content *document.WebhookEndpoint, prepared *engine.Prepared,
) (leftOut *engine.WaitingError, err error) {
	w := wanted(p.Object)
	w.Known = p.Stored != nil
	found, err := m.secret(ctx, p.Object, w)
	if fault := headervalue.Unusable(err); fault != nil {
		return fault, nil
	}
	if err != nil {
		return nil, err
	}
	now := m.Clock()
	sealed := func(secret webhook.Secret, until *time.Time) {
		content.Secrets = append(content.Secrets, document.SealedSecret{
			Sealed: m.Keyring.Seal(document.SealedEndpointSecret, ids.Format(p.ID), []byte(secret.Plain())), ExpiresAt: until,
		})
	}
	sealed(found.Current, nil)
	if found.Previous != nil && now.Before(found.PreviousUntil) {
		sealed(*found.Previous, ptr.To(found.PreviousUntil.UTC()))
	}
	prepared.Conditions = w.Conditions(v1alpha1.KindWebhookEndpoint, now)
	if wake := w.NextWake(found, existing(p.Object) == nil, now); wake > 0 {
		prepared.RequeueAfter = min(prepared.RequeueAfter, wake)
	}
	prepared.Committed = func(ctx context.Context) error { return m.committed(ctx, p.Object, &w, found) }
	return nil, nil
}

// secret returns the signing secret that is in use: a generated one, or that of a Secret of the user.
func (m *manager) secret(ctx context.Context, e *v1alpha1.WebhookEndpoint, w credential.WantedOf[webhook.Secret]) (found credential.DeliveredOf[webhook.Secret], err error) {
	if ref := existing(e); ref != nil {
		field := secretvalue.Field{
			Path: "spec.signing.existingSecretRef", MaxBytes: headervalue.MaxBytes,
			Ref: v1alpha1.SecretKeyReference{Name: ref.Name, Key: ptr.Deref(ref.Key, v1alpha1.SecretKeySigningSecret)},
		}
		value, err := m.read(ctx, field, e)
		if err != nil {
			return found, err
		}
		if found.Current, err = webhook.ReadSecret(string(value)); err != nil {
			return found, field.Invalid(err.Error())
		}
		return found, nil
	}
	found, issue, err := m.credentials.Generate(ctx, w)
	if err == nil && issue.Reason != "" {
		m.Events.Eventf(e, nil, corev1.EventTypeNormal, issue.Reason, "IssueSecret", "%s", issue.Note)
	}
	return found, err
}

func (m *manager) read(ctx context.Context, field secretvalue.Field, e *v1alpha1.WebhookEndpoint) ([]byte, error) {
	reader := headervalue.Reader{Secrets: m.Client, Keyring: m.Keyring}
	return reader.Read(ctx, field, e.Namespace, e.Spec.DeploymentRef.Name, string(e.Spec.URL))
}

// existing returns the reference to a Secret of the user, nil for none.
func existing(e *v1alpha1.WebhookEndpoint) *v1alpha1.ExistingSigningSecretReference {
	if e.Spec.Signing == nil {
		return nil
	}
	return e.Spec.Signing.ExistingSecretRef
}

// wanted is the generated secret that an endpoint declares.
func wanted(e *v1alpha1.WebhookEndpoint) credential.WantedOf[webhook.Secret] {
	w := credential.WantedOf[webhook.Secret]{
		Owner: ownerOf(e), Form: form, Noun: "signing secret", Name: secretName(e), Current: v1alpha1.SecretKeySigningSecret, Previous: v1alpha1.SecretKeyPreviousSigningSecret,
		Digest: annotationDigest, RotateAt: e.Annotations[v1alpha1.AnnotationRotateAt],
	}
	if s := e.Spec.Signing; s != nil {
		w.Rotation = s.Rotation
		if s.SecretTemplate != nil {
			w.Labels, w.Annotations = s.SecretTemplate.Labels, s.SecretTemplate.Annotations
		}
	}
	return w
}

func ownerOf(e *v1alpha1.WebhookEndpoint) ownedsecret.Owner {
	return ownedsecret.Owner{
		Object: e, Kind: v1alpha1.KindWebhookEndpoint, Marker: v1alpha1.AnnotationWebhookEndpoint,
		Taken: "set spec.signing.secretTemplate.name to another name, or delete that Secret when no program uses it",
	}
}

// generates reports whether the signing secret of an endpoint is generated.
func generates(e *v1alpha1.WebhookEndpoint) bool {
	return existing(e) == nil && (e.Spec.Signing == nil || ptr.Deref(e.Spec.Signing.Scheme, "") != v1alpha1.WebhookSchemeEd25519)
}

// secretName returns the name of the Secret with the signing secret, "" if there is none.
func secretName(e *v1alpha1.WebhookEndpoint) string {
	switch {
	case existing(e) != nil:
		return existing(e).Name
	case !generates(e):
		return ""
	case e.Spec.Signing != nil && e.Spec.Signing.SecretTemplate != nil && e.Spec.Signing.SecretTemplate.Name != nil:
		return *e.Spec.Signing.SecretTemplate.Name
	}
	return e.Name
}

// secretNames returns the names of the Secrets that an endpoint uses, or used before.
func secretNames(e *v1alpha1.WebhookEndpoint) []string {
	var names []string
	for _, name := range []string{secretName(e), e.Status.SecretName} {
		if name != "" && (len(names) == 0 || names[0] != name) {
			names = append(names, name)
		}
	}
	for _, header := range e.Spec.Headers {
		if header.ValueFrom != nil {
			names = append(names, header.ValueFrom.SecretKeyRef.Name)
		}
	}
	return names
}

// cleanup deletes the Secret that was generated for an endpoint. It does not rely on garbage collection by the Secret's
// ownerReference.
func (m *manager) cleanup(ctx context.Context, e *v1alpha1.WebhookEndpoint) error {
	m.counts.forget(e)
	return m.credentials.Remove(ctx, ownerOf(e), secretNames(e)...)
}

// committed writes the name of the Secret and its times into the status, and deletes the generated Secret of a former
// name, now that the store has the new secret. w is nil if requests are signed with the deployment's key.
func (m *manager) committed(
	ctx context.Context, e *v1alpha1.WebhookEndpoint, w *credential.WantedOf[webhook.Secret], found credential.DeliveredOf[webhook.Secret],
) error {
	status, name := &e.Status, secretName(e)
	if old := status.SecretName; old != "" && old != name {
		if err := m.credentials.Remove(ctx, ownerOf(e), old); err != nil {
			return err
		}
	}
	status.SecretName, status.LastRotatedAt, status.NextRotationAt = name, nil, nil
	if w == nil || found.IssuedAt.IsZero() {
		return nil
	}
	status.LastRotatedAt = ptr.To(metav1.NewTime(found.IssuedAt.Truncate(time.Second)))
	if next := w.NextRotation(found); next != nil {
		status.NextRotationAt = ptr.To(metav1.NewTime(next.Truncate(time.Second)))
	}
	return nil
}
