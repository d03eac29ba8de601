// Package objectwatch wakes resources when a Secret or ConfigMap they name changes.
package objectwatch

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Index finds the resources of a kind that name an object of the watched resource, by its name.
const Index = "named-object"

// Secrets and ConfigMaps are the resources that can be watched.
var (
	Secrets    = corev1.SchemeGroupVersion.WithResource("secrets")
	ConfigMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
)

// Watch watches Secrets or ConfigMaps, namespace by namespace, while a resource of the kind lives there: rights on them
// are bound per namespace, so no watch can span the cluster. It asks for metadata only, and keeps no more of it than
// names and versions.
type Watch struct {
	objects  metadata.Interface
	resource schema.GroupVersionResource
	reader   client.Reader
	newList  func() client.ObjectList

	mu    sync.Mutex
	ctx   context.Context // set while the controller runs
	queue workqueue.TypedRateLimitingInterface[reconcile.Request]
	// running holds the function that ends the watch of each namespace.
	running map[string]context.CancelFunc
}

// New returns a Watch that finds resources through a reader with Index.
func New(objects metadata.Interface, resource schema.GroupVersionResource, reader client.Reader, newList func() client.ObjectList) *Watch {
	return &Watch{objects: objects, resource: resource, reader: reader, newList: newList, running: map[string]context.CancelFunc{}}
}

// Source yields the resources whose object changed.
func (w *Watch) Source() source.TypedSource[reconcile.Request] {
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ctx, w.queue = ctx, queue
		return nil
	})
}

// Ensure starts the watch of a namespace, if it does not run yet.
func (w *Watch) Ensure(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx == nil || w.running[namespace] != nil {
		return
	}
	informer := metadatainformer.NewFilteredMetadataInformer(w.objects, w.resource, namespace, 0, cache.Indexers{}, nil).Informer()
	// Neither call can fail on an informer that has not started.
	_ = informer.SetTransform(bare)
	_ = informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, _ error) {
		// The condition SecretForbidden reports missing rights; the reflector tries again by itself.
	})
	ctx, end := context.WithCancel(w.ctx)
	w.running[namespace] = end
	queue := w.queue
	_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.wake(ctx, queue, obj) },
		UpdateFunc: func(_, obj any) { w.wake(ctx, queue, obj) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			w.wake(ctx, queue, obj)
		},
	})
	go informer.RunWithContext(ctx)
}

// Release ends the watch of a namespace in which no resource of the kind lives any more. A resource that comes later is
// in the cache before its reconcile calls Ensure, so that no watch that is needed ends.
func (w *Watch) Release(ctx context.Context, namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := w.running[namespace]
	if end == nil {
		return
	}
	left := w.newList()
	if err := w.reader.List(ctx, left, client.InNamespace(namespace), client.Limit(1)); err != nil || meta.LenList(left) > 0 {
		return
	}
	end()
	delete(w.running, namespace)
}

// wake asks for a reconcile of the resources that name an object.
func (w *Watch) wake(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request], obj any) {
	changed, ok := obj.(metav1.Object)
	if !ok {
		return
	}
	lookUp, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	found := w.newList()
	if err := w.reader.List(lookUp, found, client.InNamespace(changed.GetNamespace()), client.MatchingFields{Index: changed.GetName()}); err != nil {
		return // the cache is stopping
	}
	_ = meta.EachListItem(found, func(item runtime.Object) error {
		queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
}

// bare keeps only the metadata that identifies the object, because foreign annotations can be large.
func bare(obj any) (any, error) {
	secret, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	return &metav1.PartialObjectMetadata{TypeMeta: secret.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion,
	}}, nil
}
