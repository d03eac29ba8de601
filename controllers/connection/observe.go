package connection

import (
	"context"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/organization"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// observeEvery is how often the rows of a connection are read, and pendingEvery before its documents were fetched.
	observeEvery, pendingEvery = organization.CheckEvery, 10 * time.Second
)

// observed are the rows that servers and applications wrote about a connection.
type observed struct {
	discovery, keys, saml people.UpstreamDocument
	organization          bool
}

// observe reads what the store has of a connection, and returns the conditions that result. It writes status.upstream.
// If the rows cannot be read, both stay as they were.
func (opts Options) observe(ctx context.Context, c *v1alpha1.Connection, id int64) []metav1.Condition {
	ctx, cancel := context.WithTimeout(ctx, organization.ReadWithin)
	defer cancel()
	var o observed
	err := opts.Rows.View(ctx, engine.DeploymentOf(c, c.Spec.DeploymentRef), func(tx people.Tx) (err error) {
		if err = o.read(tx, c.Spec.Type, id); err != nil || c.Spec.Organization == nil {
			return err
		}
		o.organization, err = organization.Exists(tx, c.Spec.Organization.Slug)
		return err
	})
	if err != nil {
		log.FromContext(ctx).V(1).Info("The rows of the connection were not read; its conditions stay", "error", err.Error())
		return kept(c)
	}
	conditions, upstream := conclude(c, o, opts.Clock())
	opts.announce(c, conditions)
	if upstream == nil || c.Status.Upstream == nil || *upstream != *c.Status.Upstream {
		c.Status.Upstream = upstream
	}
	return conditions
}

// read reads the documents of a connection.
func (o *observed) read(tx people.Tx, of v1alpha1.ConnectionType, id int64) (err error) {
	if of == v1alpha1.ConnectionTypeSAML {
		o.saml, _, err = tx.Connections().UpstreamDocument(id, people.UpstreamSAML)
		return err
	}
	if o.discovery, _, err = tx.Connections().UpstreamDocument(id, people.UpstreamDiscovery); err != nil {
		return err
	}
	o.keys, _, err = tx.Connections().UpstreamDocument(id, people.UpstreamJWKS)
	return err
}

// kept returns the conditions of an earlier read.
func kept(c *v1alpha1.Connection) (conditions []metav1.Condition) {
	for _, name := range []string{v1alpha1.ConditionReachable, v1alpha1.ConditionCertificateExpiring, v1alpha1.ConditionMetadataChanged} {
		if last := meta.FindStatusCondition(c.Status.Conditions, name); last != nil {
			conditions = append(conditions, *last)
		}
	}
	return append(conditions, organization.Kept(c.Status.Conditions)...)
}

// conclude returns the conditions of a connection from its rows, and when its keys were fetched; nil: never. GitHub has
// no documents, so its connections have no condition Reachable. Servers fetch documents of inactive connections too.
func conclude(c *v1alpha1.Connection, o observed, now time.Time) (conditions []metav1.Condition, upstream *v1alpha1.ConnectionUpstream) {
	switch c.Spec.Type {
	case v1alpha1.ConnectionTypeGitHub:
	case v1alpha1.ConnectionTypeSAML:
		conditions, upstream = concludeSAML(o.saml, now)
	default:
		conditions = append(conditions, reachable(needed(c, o)))
		if !o.keys.FetchedAt.IsZero() {
			upstream = &v1alpha1.ConnectionUpstream{FetchedAt: o.keys.FetchedAt.UTC().Format(time.RFC3339), SHA256: o.keys.SHA256}
		}
	}
	if c.Spec.Organization != nil && !o.organization {
		conditions = append(conditions, organization.NotFound(c.Spec.Organization.Slug, "connection"))
	}
	return conditions, upstream
}

// needed returns the documents that sign-ins by a connection need. Declared endpoints replace the discovery document.
func needed(c *v1alpha1.Connection, o observed) []people.UpstreamDocument {
	if c.Spec.OIDC != nil && c.Spec.OIDC.Endpoints != nil {
		return []people.UpstreamDocument{o.keys}
	}
	return []people.UpstreamDocument{o.discovery, o.keys}
}

// failures are the words with which servers begin the error of a document.
var failures = map[string]string{
	"Unreachable": v1alpha1.ReasonUnreachable, "Refused": v1alpha1.ReasonRefused, "InvalidMetadata": v1alpha1.ReasonInvalidMetadata,
	"IssuerMismatch": v1alpha1.ReasonIssuerMismatch,
}

// reachable returns the condition Reachable of documents: the first failure, else whether all were fetched.
func reachable(documents []people.UpstreamDocument) metav1.Condition {
	fetched := true
	for _, d := range documents {
		fetched = fetched && d.Body != ""
		if d.Error == "" {
			continue
		}
		word, text, _ := strings.Cut(d.Error, ": ")
		reason, known := failures[word]
		if !known {
			reason, text = v1alpha1.ReasonUnreachable, d.Error
		}
		return metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionFalse, Reason: reason, Message: d.Kind + ": " + text}
	}
	if !fetched {
		return metav1.Condition{
			Type: v1alpha1.ConditionReachable, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending,
			Message: "no server has fetched the documents of the identity provider yet",
		}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReachable, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonFetched, Message: "servers have the documents of the identity provider",
	}
}
