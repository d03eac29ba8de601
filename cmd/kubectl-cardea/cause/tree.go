package cause

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Reader reads the cluster. Its errors are the API server's.
type Reader interface {
	// Resource returns a resource of Cardea.
	Resource(ctx context.Context, kind, namespace, name string) (v1alpha1.Resource, error)
	// Metadata returns the metadata of a Secret or ConfigMap, never its data.
	Metadata(ctx context.Context, kind, namespace, name string) (*metav1.PartialObjectMetadata, error)
}

// State is the state of an object.
type State string

const (
	// Ready means that the declared state is active. A resource that it depends on may still have a fault.
	Ready State = "Ready"
	// NotReady means that the declared state is not active; the findings have the reason.
	NotReady State = "NotReady"
	// Missing means that the object does not exist.
	Missing State = "Missing"
	// Unreadable means that the caller may not read the object.
	Unreadable State = "Unreadable"
)

// Node is an object and its references with faults.
type Node struct {
	// Field is the field of the parent object that refers to this one, "" at the root.
	Field     string    `json:"field,omitempty"`
	Kind      string    `json:"kind"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	State     State     `json:"state"`
	Findings  []Finding `json:"findings,omitempty"`
	// Above is true if the object was reported before, so that its findings are omitted.
	Above bool `json:"above,omitempty"`
	// Register is what to register at the identity provider of a Connection or Directory, nil for other kinds.
	Register *Registration `json:"register,omitempty"`
	// DependsOn are the referenced objects with a fault of their own, or of their references.
	DependsOn []*Node `json:"dependsOn,omitempty"`
}

// Registration is what an identity provider must know of a Connection or a Directory. Connections of type SAML have an
// entity ID, ACS URLs and the URL of metadata, and all others redirect URIs and a logout URL. A Directory has the URL
// of its endpoints.
type Registration struct {
	RedirectURIs         []string `json:"redirectURIs,omitempty"`
	BackchannelLogoutURL string   `json:"backchannelLogoutURL,omitempty"`
	EntityID             string   `json:"entityID,omitempty"`
	ACSURLs              []string `json:"acsURLs,omitempty"`
	MetadataURL          string   `json:"metadataURL,omitempty"`
	// CertificateExpiresAt is when the first certificate of the identity provider expires, "" if unknown.
	CertificateExpiresAt string `json:"certificateExpiresAt,omitempty"`
	SCIMURL              string `json:"scimURL,omitempty"`
	// TokenSecret is the Secret with the token of a Directory, and TokenKey the key of its data; "" if it has none yet.
	TokenSecret string `json:"tokenSecret,omitempty"`
	TokenKey    string `json:"tokenKey,omitempty"`
}

// registration returns what the status of a Connection or Directory says, nil if it has no URLs.
func registration(obj v1alpha1.Resource) *Registration {
	switch obj := obj.(type) {
	case *v1alpha1.Connection:
		return connectionRegistration(obj)
	case *v1alpha1.Directory:
		return directoryRegistration(obj)
	}
	return nil
}

func directoryRegistration(d *v1alpha1.Directory) *Registration {
	if d.Status.URL == "" {
		return nil
	}
	r := &Registration{SCIMURL: d.Status.URL, TokenSecret: d.Status.SecretName}
	if r.TokenSecret != "" {
		r.TokenKey = v1alpha1.SecretKeySCIMToken
		if ref := d.Spec.ExistingSecretRef; ref != nil {
			r.TokenKey = ptr.Deref(ref.Key, r.TokenKey)
		}
	}
	return r
}

func connectionRegistration(c *v1alpha1.Connection) *Registration {
	if len(c.Status.RedirectURIs) == 0 && len(c.Status.ACSURLs) == 0 {
		return nil
	}
	r := &Registration{
		RedirectURIs: c.Status.RedirectURIs, BackchannelLogoutURL: c.Status.BackchannelLogoutURL,
		EntityID: c.Status.EntityID, ACSURLs: c.Status.ACSURLs, MetadataURL: c.Status.MetadataURL,
	}
	if c.Status.Upstream != nil {
		r.CertificateExpiresAt = c.Status.Upstream.CertificateExpiresAt
	}
	return r
}

// Well reports whether the object and all objects that it depends on are ready.
func (n *Node) Well() bool {
	return n.State == Ready && !slices.ContainsFunc(n.DependsOn, func(d *Node) bool { return !d.Well() })
}

// Silent reports whether there is nothing to report about the object.
func (n *Node) Silent() bool {
	return n.State == Ready && len(n.Findings) == 0 && len(n.DependsOn) == 0
}

// Diagnosis diagnoses objects one after another and reports each once.
type Diagnosis struct {
	reader   Reader
	reported map[string]*Node
	// under are the objects whose references are being followed, because references can be circular.
	under map[string]bool
}

// NewDiagnosis returns an empty diagnosis.
func NewDiagnosis(reader Reader) *Diagnosis {
	return &Diagnosis{reader: reader, reported: map[string]*Node{}, under: map[string]bool{}}
}

// Diagnose returns the tree of a resource. It returns errors of reads, except that a referenced object is missing or
// may not be read.
func (q *Diagnosis) Diagnose(ctx context.Context, obj v1alpha1.Resource, kind string) (*Node, error) {
	return q.diagnose(ctx, obj, Reference{Kind: kind, Name: obj.GetName()})
}

func (q *Diagnosis) diagnose(ctx context.Context, obj v1alpha1.Resource, ref Reference) (*Node, error) {
	key := ref.Kind + "/" + obj.GetNamespace() + "/" + ref.Name
	if before := q.reported[key]; before != nil {
		return &Node{Field: ref.Field, Kind: ref.Kind, Namespace: obj.GetNamespace(), Name: ref.Name, State: stateOf(before), Above: !before.Silent()}, nil
	}
	node := &Node{Field: ref.Field, Kind: ref.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), State: Ready, Findings: find(obj, ref.Kind), Register: registration(obj)}
	if slices.ContainsFunc(node.Findings, func(f Finding) bool { return !f.Harmless }) {
		node.State = NotReady
	}
	q.under[key] = true
	err := q.follow(ctx, obj, node)
	delete(q.under, key)
	q.reported[key] = node
	return node, err
}

// stateOf also returns NotReady if an object that n depends on is not well, because a repeated object is only one line.
func stateOf(n *Node) State {
	if n.State == Ready && !n.Well() {
		return NotReady
	}
	return n.State
}

// follow adds the referenced objects that are not well.
func (q *Diagnosis) follow(ctx context.Context, obj v1alpha1.Resource, node *Node) error {
	seen := map[Reference]bool{}
	for _, ref := range References(obj) {
		referent := Reference{Kind: ref.Kind, Name: ref.Name}
		if seen[referent] || q.under[ref.Kind+"/"+obj.GetNamespace()+"/"+ref.Name] {
			continue
		}
		seen[referent] = true
		child, err := q.referent(ctx, obj, node, ref)
		if err != nil {
			return err
		}
		if child != nil && !child.Well() {
			node.DependsOn = append(node.DependsOn, child)
		}
	}
	return nil
}

// referent diagnoses the referenced object; nil if it has nothing to report.
func (q *Diagnosis) referent(ctx context.Context, obj v1alpha1.Resource, node *Node, ref Reference) (*Node, error) {
	child := &Node{Field: ref.Field, Kind: ref.Kind, Namespace: obj.GetNamespace(), Name: ref.Name}
	foreign := ref.Kind == KindSecret || ref.Kind == KindConfigMap
	// Most users may not read Secrets, and do not need to while the operator reports no fault.
	if foreign && !node.lacks(ref.Kind) {
		return nil, nil
	}
	var err error
	if foreign {
		var found *metav1.PartialObjectMetadata
		if found, err = q.reader.Metadata(ctx, ref.Kind, obj.GetNamespace(), ref.Name); err == nil {
			return child.checkShared(obj, found, node), nil
		}
	} else {
		var found v1alpha1.Resource
		if found, err = q.reader.Resource(ctx, ref.Kind, obj.GetNamespace(), ref.Name); err == nil {
			return q.diagnose(ctx, found, ref)
		}
	}
	named := &metav1.ObjectMeta{Namespace: obj.GetNamespace(), Name: ref.Name}
	switch {
	case apierrors.IsNotFound(err):
		child.State = Missing
		child.Findings = []Finding{own(named, ref.Kind, ReasonMissing, "it does not exist in namespace "+obj.GetNamespace())}
	case apierrors.IsForbidden(err):
		child.State = Unreadable
		child.Findings = []Finding{own(named, ref.Kind, ReasonUnreadable, "you may not read it, so its references are not followed")}
	default:
		return nil, err
	}
	return child, nil
}

// lacks reports whether a finding is about a Secret or ConfigMap.
func (n *Node) lacks(kind string) bool {
	return slices.ContainsFunc(n.Findings, func(f Finding) bool {
		switch f.Reason {
		case v1alpha1.ReasonSecretNotFound, v1alpha1.ReasonSecretNotShared:
			return kind == KindSecret
		case v1alpha1.ReasonConfigMapNotFound:
			return kind == KindConfigMap
		}
		return false
	})
}

// sharing are the kinds that take values from users' Secrets, which must be shared with the deployment.
var sharing = []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindAITool, v1alpha1.KindConnection}

// checkShared returns n with a finding if an existing Secret is not shared with the deployment, otherwise nil.
func (n *Node) checkShared(referrer v1alpha1.Resource, secret *metav1.PartialObjectMetadata, parent *Node) *Node {
	deployment := deploymentOf(referrer)
	if !slices.Contains(sharing, parent.Kind) || n.Kind != KindSecret ||
		secret.Labels[v1alpha1.LabelDeployment] == deployment || secret.Annotations[v1alpha1.LabelDeployment] == "*" {
		return nil
	}
	n.State = NotReady
	n.Findings = []Finding{{
		Condition: v1alpha1.ConditionCredentialsReady, Reason: v1alpha1.ReasonSecretNotShared,
		Message: "it has no label that shares it with " + v1alpha1.KindIdentityDeployment + "/" + deployment,
		Fix:     "kubectl label secret " + n.Name + " -n " + n.Namespace + " " + v1alpha1.LabelDeployment + "=" + deployment,
	}}
	if other := secret.Labels[v1alpha1.LabelDeployment]; other != "" {
		// Another value of the label would take the Secret from the deployment that has it now.
		n.Findings[0].Message = "its label shares it with " + v1alpha1.KindIdentityDeployment + "/" + other + ", and not with " + v1alpha1.KindIdentityDeployment + "/" + deployment
		n.Findings[0].Fix = "create a separate Secret for " + deployment + " and name it in " + n.Field +
			"; or, if every deployment of the namespace may have this one: kubectl annotate secret " + n.Name + " -n " + n.Namespace + " '" + v1alpha1.LabelDeployment + "=*'"
	}
	if secret.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByOperator {
		n.Findings[0].Message = "Cardea generated it for another purpose"
		n.Findings[0].Fix = "use your own Secret, of type " + string(corev1.SecretTypeOpaque)
	}
	return n
}
