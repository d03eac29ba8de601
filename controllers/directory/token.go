package directory

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/credential"
	"github.com/cardea-iam/cardea/controllers/shared/organization"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

const (
	// annotationDigest on a generated Secret is the SHA-256 of its current token: a value edited by hand no longer fits
	// it.
	annotationDigest = "iam.cardea.dev/scim-token-sha256"
	// mint says in messages how to make a token.
	mint = "a token from `cardea key new --prefix " + document.DirectoryTokenPrefix + "`"
)

// manager manages directories' Secrets.
type manager struct {
	Options
	credentials credential.Keeper
}

// prepare writes the URL to register into the status, issues, rotates or adopts the token in the Secret, and returns
// the verifiers of the tokens that are accepted.
func (m *manager) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.Directory]) (engine.Prepared, error) {
	d := p.Object
	d.Status.URL = ""
	if deployment, found := engine.DeploymentIn(p.Refs); found {
		if frontend := m.Local.URL(deployment); frontend != "" {
			d.Status.URL = frontend + translation.DirectoryPath(p.ID)
		}
	}
	w := wanted(d)
	w.Known = p.Stored != nil
	prepared, err := m.token(ctx, d, w)
	if userMustAct(err) && !ptr.Deref(d.Spec.Active, true) {
		// An inactive directory needs no token, so that a directory can also be disabled after its Secret was deleted.
		prepared, err = engine.Prepared{Value: []document.Verifier{}, Committed: func(ctx context.Context) error {
			return m.committed(ctx, d, w, credential.Delivered{})
		}}, nil
	}
	if err == nil {
		prepared.Conditions = append(prepared.Conditions, served(d))
	}
	prepared.Conditions = append(prepared.Conditions,
		organization.Check(ctx, m.Rows, engine.DeploymentOf(d, d.Spec.DeploymentRef), d.Spec.Organization.Slug, "directory", d.Status.Conditions)...)
	if prepared.RequeueAfter == 0 || organization.CheckEvery < prepared.RequeueAfter {
		prepared.RequeueAfter = organization.CheckEvery
	}
	return prepared, err
}

// userMustAct reports whether an error is about the Secret and not about a failed request.
func userMustAct(err error) bool {
	var waiting *engine.WaitingError
	var terminal *engine.TerminalError
	return errors.As(err, &waiting) || errors.As(err, &terminal)
}

// served returns the condition Served.
func served(d *v1alpha1.Directory) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionServed, Status: metav1.ConditionFalse}
	switch {
	case !ptr.Deref(d.Spec.Active, true):
		c.Reason, c.Message = v1alpha1.ReasonInactive, "spec.active is false"
	case d.Status.URL == "":
		c.Reason, c.Message = v1alpha1.ReasonNoFrontendHost, "the deployment has no frontend host: add one to its spec.frontendHosts"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonServing, "the identity provider can use the directory at "+d.Status.URL
	}
	return c
}

// token issues, rotates or adopts the token, and derives verifiers, reservations and conditions from the content of the
// Secret.
func (m *manager) token(ctx context.Context, d *v1alpha1.Directory, w credential.Wanted) (engine.Prepared, error) {
	m.Secrets.Ensure(d.Namespace)
	var found credential.Delivered
	var issue credential.Issue
	var err error
	if ref := d.Spec.ExistingSecretRef; ref != nil {
		found, err = m.credentials.Adopt(ctx, d.Namespace, ref.Name, ptr.Deref(ref.Key, v1alpha1.SecretKeySCIMToken), mint, readToken)
	} else {
		found, issue, err = m.credentials.Generate(ctx, w)
	}
	if err != nil {
		return engine.Prepared{}, err
	}
	if issue.Reason != "" {
		m.Events.Eventf(d, nil, corev1.EventTypeNormal, issue.Reason, "IssueToken", "%s", issue.Note)
	}
	now := m.Clock()
	verifiers := credential.Verifiers(w, found, now)
	p := engine.Prepared{Value: verifiers, Conditions: w.Conditions(v1alpha1.KindDirectory, now), RequeueAfter: w.NextWake(found, d.Spec.SecretTemplate != nil, now)}
	for _, v := range verifiers {
		p.Reserves = append(p.Reserves, reservation.SCIMToken(v.ID))
	}
	p.Committed = func(ctx context.Context) error { return m.committed(ctx, d, w, found) }
	return p, nil
}

// readToken parses a token that a user wrote.
func readToken(plain string) (apikey.Key, error) {
	token, err := apikey.Parse(plain)
	if err != nil || token.Prefix() != document.DirectoryTokenPrefix {
		return apikey.Key{}, errors.New("not a token of the form " + document.DirectoryTokenPrefix + "_<50 letters and digits> with a matching checksum")
	}
	return token, nil
}

// wanted is the token that a directory declares. status.url is set before.
func wanted(d *v1alpha1.Directory) credential.Wanted {
	w := credential.Wanted{
		Form:  credential.Keys,
		Owner: ownerOf(d), Noun: "token", Name: secretName(d), Current: v1alpha1.SecretKeySCIMToken, Previous: v1alpha1.SecretKeyPreviousSCIMToken,
		Fixed:  map[string]string{v1alpha1.SecretKeySCIMURL: d.Status.URL},
		Digest: annotationDigest, Prefix: document.DirectoryTokenPrefix, Rotation: d.Spec.Rotation, RotateAt: d.Annotations[v1alpha1.AnnotationRotateAt],
	}
	if template := d.Spec.SecretTemplate; template != nil {
		w.Labels, w.Annotations = template.Labels, template.Annotations
	}
	return w
}

func ownerOf(d *v1alpha1.Directory) ownedsecret.Owner {
	return ownedsecret.Owner{
		Object: d, Kind: v1alpha1.KindDirectory, Marker: v1alpha1.AnnotationDirectory, Taken: "set spec.secretTemplate.name to another name, or delete that Secret when no program uses it",
	}
}

// secretName returns the name of the Secret in which a token is delivered, or from which it is adopted.
func secretName(d *v1alpha1.Directory) string {
	switch {
	case d.Spec.ExistingSecretRef != nil:
		return d.Spec.ExistingSecretRef.Name
	case d.Spec.SecretTemplate != nil && d.Spec.SecretTemplate.Name != nil:
		return *d.Spec.SecretTemplate.Name
	}
	return d.Name
}

// secretNames returns the name of a directory's Secret, and of the Secret in which the token was delivered before.
func secretNames(d *v1alpha1.Directory) []string {
	names := []string{secretName(d)}
	if old := d.Status.SecretName; old != "" && old != names[0] {
		names = append(names, old)
	}
	return names
}

// cleanup deletes the Secret that was generated for a directory. It does not rely on garbage collection by the Secret's
// ownerReference.
func (m *manager) cleanup(ctx context.Context, d *v1alpha1.Directory) error {
	return m.credentials.Remove(ctx, ownerOf(d), secretNames(d)...)
}

// committed writes the public facts about the token into the status, and deletes the Secret of a former
// spec.secretTemplate.name, now that the store accepts only the new token.
func (m *manager) committed(ctx context.Context, d *v1alpha1.Directory, w credential.Wanted, found credential.Delivered) error {
	record(d, w, found)
	names := secretNames(d)
	if err := m.credentials.Remove(ctx, ownerOf(d), names[1:]...); err != nil {
		return err
	}
	if d.Status.SecretName = ""; d.Status.TokenID != "" {
		d.Status.SecretName = names[0]
	}
	return nil
}

// record writes the public id of the token, its last four characters and times into the status. A directory without a
// token has none of them.
func record(d *v1alpha1.Directory, w credential.Wanted, found credential.Delivered) {
	status := &d.Status
	status.TokenID, status.Last4, status.LastRotatedAt, status.NextRotationAt = "", "", nil, nil
	if found.Current == (apikey.Key{}) {
		return
	}
	status.TokenID, status.Last4 = found.Current.ID(), found.Current.Last4()
	if found.IssuedAt.IsZero() {
		return
	}
	status.LastRotatedAt = ptr.To(metav1.NewTime(found.IssuedAt.Truncate(time.Second)))
	if next := w.NextRotation(found); next != nil {
		status.NextRotationAt = ptr.To(metav1.NewTime(next.Truncate(time.Second)))
	}
}
