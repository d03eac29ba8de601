// Package hostpolicy enforces the hosts that cluster admins grant to namespaces, if an install requires grants.
package hostpolicy

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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

// Grants are the hosts that cluster admins grant to namespaces. Nil: no grant is required.
type Grants struct {
	// Cache holds the namespaces' metadata, and the resources that declare hosts.
	Cache cache.Cache
}

func namespaceMetadata() *metav1.PartialObjectMetadata {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return namespace
}

// Permit refuses hosts that are not granted to the namespace in. field is the path of the field that declares them.
func (g *Grants) Permit(ctx context.Context, in, field string, hosts ...v1alpha1.Hostname) error {
	if g == nil || len(hosts) == 0 {
		return nil
	}
	namespace := namespaceMetadata()
	if err := g.Cache.Get(ctx, client.ObjectKey{Name: in}, namespace); err != nil {
		return client.IgnoreNotFound(err) // the resources of a deleted namespace are deleted with it
	}
	granted := namespace.Annotations[v1alpha1.AnnotationAllowedHosts]
	for _, host := range hosts {
		if !grants(granted, string(host)) {
			return engine.Terminal(v1alpha1.ReasonHostNotGranted,
				"%s: namespace %q has no grant of host %q: let a cluster admin add it to the namespace's annotation %s",
				field, in, host, v1alpha1.AnnotationAllowedHosts)
		}
	}
	return nil
}

// grants reports whether a list of hosts, separated by commas or blanks, grants a host. `*.acme.example` grants every
// name under acme.example, at any depth, but not acme.example itself.
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

// Sources watch the grants: each change reconciles the namespace's resources of a kind.
func (g *Grants) Sources(newList func() v1alpha1.ResourceList) []source.TypedSource[reconcile.Request] {
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
		source.Kind(g.Cache, namespaceMetadata(), handler.TypedEnqueueRequestsFromMapFunc(g.within(newList)), changed),
	}
}

func (g *Grants) within(newList func() v1alpha1.ResourceList) handler.TypedMapFunc[*metav1.PartialObjectMetadata, reconcile.Request] {
	return func(ctx context.Context, namespace *metav1.PartialObjectMetadata) []reconcile.Request {
		found := newList()
		if g.Cache.List(ctx, found, client.InNamespace(namespace.Name)) != nil {
			return nil // the cache is stopping
		}
		var requests []reconcile.Request
		_ = meta.EachListItem(found, func(item runtime.Object) error {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
			return nil
		})
		return requests
	}
}
