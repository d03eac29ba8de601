package identitydeployment

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

// HostGrants are the hosts that cluster admins grant to namespaces. Nil: none is needed.
type HostGrants struct {
	// Cache knows the namespaces' metadata, and the deployments.
	Cache cache.Cache
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// permit refuses a frontend host that the deployment's namespace has no grant of.
func (g *HostGrants) permit(ctx context.Context, d *v1alpha1.IdentityDeployment) error {
	if g == nil || len(d.Spec.FrontendHosts) == 0 {
		return nil
	}
	namespace := namespaceMetadata()
	if err := g.Cache.Get(ctx, client.ObjectKey{Name: d.Namespace}, namespace); err != nil {
		return client.IgnoreNotFound(err) // a namespace that is gone takes the deployment along
	}
	granted := namespace.Annotations[v1alpha1.AnnotationAllowedHosts]
	for _, host := range d.Spec.FrontendHosts {
		if !grants(granted, string(host)) {
			return engine.Terminal(v1alpha1.ReasonHostNotGranted,
				"spec.frontendHosts: namespace %q has no grant of host %q: a cluster admin lists it in the namespace's annotation %s",
				d.Namespace, host, v1alpha1.AnnotationAllowedHosts)
		}
	}
	return nil
}

// grants tells whether a list of hosts, separated by commas or blanks, has a host. `*.acme.example` grants every name under
// acme.example, at any depth, but not acme.example itself.
func grants(list, host string) bool {
	host = strings.ToLower(host)
	for _, granted := range strings.FieldsFunc(strings.ToLower(list), func(r rune) bool { return strings.ContainsRune(", \t\r\n", r) }) {
		domain, wildcard := strings.CutPrefix(granted, "*.")
		if granted == host || wildcard && domain != "" && len(host) > len(domain)+1 && strings.HasSuffix(host, "."+domain) {
			return true
		}
	}
	return false
}

// sources are the changes of grants: each is a reason to look at the namespace's deployments.
func (g *HostGrants) sources() []source.TypedSource[reconcile.Request] {
	if g == nil {
		return nil
	}
	changed := predicate.TypedFuncs[*metav1.PartialObjectMetadata]{
		UpdateFunc: func(ev event.TypedUpdateEvent[*metav1.PartialObjectMetadata]) bool {
			return ev.ObjectOld.Annotations[v1alpha1.AnnotationAllowedHosts] != ev.ObjectNew.Annotations[v1alpha1.AnnotationAllowedHosts]
		},
		DeleteFunc: func(event.TypedDeleteEvent[*metav1.PartialObjectMetadata]) bool { return false },
	}
	return []source.TypedSource[reconcile.Request]{
		source.Kind(g.Cache, namespaceMetadata(), handler.TypedEnqueueRequestsFromMapFunc(g.deployments), changed),
	}
}

func (g *HostGrants) deployments(ctx context.Context, namespace *metav1.PartialObjectMetadata) []reconcile.Request {
	var found v1alpha1.IdentityDeploymentList
	if g.Cache.List(ctx, &found, client.InNamespace(namespace.Name)) != nil {
		return nil // the cache is stopping
	}
	var requests []reconcile.Request
	for i := range found.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return requests
}
