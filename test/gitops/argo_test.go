package gitops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	engines "github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/health"
	argosync "github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit/argohealth"
)

const (
	argoManager = "argocd-controller"
	trackingID  = "argocd.argoproj.io/tracking-id"
)

// argoCluster is what Argo CD's controller keeps of a cluster for all applications.
type argoCluster struct {
	config    *rest.Config
	cache     cache.ClusterCache
	kubectl   *kube.KubectlCmd
	dryRunner diff.ServerSideDryRunner
}

func newArgoCluster(t *testing.T, config *rest.Config) *argoCluster {
	t.Helper()
	kubectl := &kube.KubectlCmd{Log: logr.Discard(), Tracer: tracing.NopTracer{}}
	a := &argoCluster{config: config, kubectl: kubectl}
	a.cache = cache.NewClusterCache(config, cache.SetLogr(logr.Discard()), cache.SetKubectl(kubectl),
		cache.SetSettings(cache.Settings{ResourceHealthOverride: scripted{}, ResourcesFilter: ours{}}),
		cache.SetPopulateResourceInfoHandler(func(o *unstructured.Unstructured, _ bool) (any, bool) {
			id := o.GetAnnotations()[trackingID]
			return id, id != ""
		}))
	if err := a.cache.EnsureSynced(); err != nil {
		t.Fatal(err)
	}
	applier, stop, err := kubectl.ManageServerSideDiffDryRuns(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	t.Cleanup(func() { a.cache.Invalidate() })
	a.dryRunner = diff.NewK8sServerSideDryRunner(applier)
	return a
}

// ours excludes from the cache all kinds that no tenant here uses.
type ours struct{}

func (ours) IsExcludedResource(group, kind, _ string) bool {
	return group != v1alpha1.GroupVersion.Group && !slices.Contains([]string{"Namespace", "Secret", "ServiceAccount", "RoleBinding"}, kind)
}

// scripted is the health check that config/argocd/argocd-cm.yaml configures for Cardea's kinds.
type scripted struct{}

func (scripted) GetResourceHealth(o *unstructured.Unstructured) (*health.HealthStatus, error) {
	if o.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		return nil, nil
	}
	status, message, err := argohealth.Of(o.Object)
	return &health.HealthStatus{Status: health.HealthStatusCode(status), Message: message}, err
}

// statusless ignores status in every comparison, as Argo CD does by default.
type statusless struct{}

func (statusless) Normalize(o *unstructured.Unstructured) error {
	delete(o.Object, "status")
	return nil
}

// argo runs Argo CD's engine as its controller does for one Application.
type argo struct {
	*argoCluster
	client     client.Client
	name       string
	serverSide bool
	applied    []*unstructured.Unstructured
}

func newArgo(serverSide bool) func(w *world, namespace string) engine {
	return func(w *world, namespace string) engine {
		return &argo{argoCluster: w.argo, client: w.cluster.Client, name: namespace, serverSide: serverSide}
	}
}

func (a *argo) manager() string { return argoManager }

// tracked returns the objects as the controller applies them, with the tracking annotation.
func (a *argo) tracked(commit []*unstructured.Unstructured) []*unstructured.Unstructured {
	objects := copies(commit)
	for _, o := range objects {
		annotations := o.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		gvk := o.GroupVersionKind()
		annotations[trackingID] = fmt.Sprintf("%s:%s/%s:%s/%s", a.name, gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName())
		o.SetAnnotations(annotations)
	}
	return objects
}

// managed reports whether a resource belongs to the application.
func (a *argo) managed(r *cache.Resource) bool {
	id, _ := r.Info.(string)
	return len(id) > len(a.name) && id[:len(a.name)+1] == a.name+":"
}

func (a *argo) sync(ctx context.Context, commit []*unstructured.Unstructured) error {
	objects := a.tracked(commit)
	if err := a.caughtUp(ctx, a.applied); err != nil {
		return err
	}
	results, err := engines.NewEngine(a.config, a.cache, engines.WithLogr(logr.Discard())).Sync(ctx, objects, a.managed, "revision", a.name,
		argosync.WithLogr(logr.Discard()), argosync.WithPrune(true), argosync.WithHealthOverride(scripted{}), argosync.WithManifestValidation(true),
		argosync.WithServerSideApply(a.serverSide), argosync.WithServerSideApplyManager(argoManager))
	errs := []error{err}
	for _, result := range results {
		if result.Status == common.ResultCodeSyncFailed || result.HookPhase == common.OperationFailed || result.HookPhase == common.OperationError {
			errs = append(errs, fmt.Errorf("%s: %s", result.ResourceKey, result.Message))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	a.applied = objects
	return nil
}

// caughtUp waits until the engine's cache holds the objects that are in the cluster, so that the engine knows which
// objects to prune.
func (a *argo) caughtUp(ctx context.Context, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, o := range objects {
		for {
			live, err := read(ctx, a.client, o)
			if err != nil {
				return fmt.Errorf("the cache does not know %s %s: %w", o.GetKind(), o.GetName(), err)
			}
			key := kube.GetResourceKey(o)
			known := a.cache.FindResources(o.GetNamespace(), func(r *cache.Resource) bool { return r.ResourceKey() == key && a.managed(r) })
			if (live != nil) == (len(known) > 0) {
				break
			}
			if err := again(ctx); err != nil {
				return fmt.Errorf("the cache does not know %s %s: %w", o.GetKind(), o.GetName(), err)
			}
		}
	}
	return nil
}

// again pauses a wait for a condition that has no notification.
func again(ctx context.Context) error {
	pace := time.NewTimer(20 * time.Millisecond)
	defer pace.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pace.C:
		return nil
	}
}

func (a *argo) healthy(ctx context.Context, commit []*unstructured.Unstructured) error {
	for _, o := range commit {
		live, err := read(ctx, a.client, o)
		if err != nil {
			return err
		}
		if live == nil {
			return fmt.Errorf("%s %s is missing", o.GetKind(), o.GetName())
		}
		found, err := health.GetResourceHealth(live, scripted{})
		if err != nil {
			return err
		}
		if found != nil && found.Status != health.HealthStatusHealthy {
			return fmt.Errorf("%s %s is %s: %s", o.GetKind(), o.GetName(), found.Status, found.Message)
		}
	}
	return nil
}

// versioned is a dry run that remembers the version of the resource that it was based on.
type versioned struct {
	diff.ServerSideDryRunner
	base string
}

func (v *versioned) Run(ctx context.Context, object *unstructured.Unstructured, manager string) (string, error) {
	predicted, err := v.ServerSideDryRunner.Run(ctx, object, manager)
	if err != nil {
		return "", err
	}
	of, err := decoded([]byte(predicted))
	if err == nil {
		v.base = of.GetResourceVersion()
	}
	return predicted, err
}

func decoded(content []byte) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	return object, json.Unmarshal(content, &object.Object)
}

// drift compares in two ways: as an application with this sync option does, and as one with ServerSideDiff=true does.
func (a *argo) drift(ctx context.Context, commit []*unstructured.Unstructured) ([]difference, error) {
	var drifted []difference
	for _, o := range a.tracked(commit) {
		live, err := read(ctx, a.client, o)
		if err != nil {
			return nil, err
		}
		dryRun := &versioned{ServerSideDryRunner: a.dryRunner}
		for way, options := range map[string][]diff.Option{
			"as synced":     {diff.WithStructuredMergeDiff(a.serverSide)},
			"by the server": {diff.WithServerSideDiff(true), diff.WithServerSideDryRunner(dryRun), diff.WithIgnoreMutationWebhook(true)},
		} {
			dryRun.base = ""
			found, err := a.compare(way, o, live, dryRun, options)
			if err != nil {
				return nil, fmt.Errorf("%s %s compared %s: %w", o.GetKind(), o.GetName(), way, err)
			}
			drifted = append(drifted, found...)
		}
	}
	return drifted, nil
}

// compare compares a resource in one way.
func (a *argo) compare(way string, o, live *unstructured.Unstructured, dryRun *versioned, options []diff.Option) ([]difference, error) {
	options = append([]diff.Option{diff.WithNormalizer(statusless{}), diff.WithLogr(logr.Discard()),
		diff.WithManager(argoManager), diff.WithGVKParser(a.cache.GetGVKParser())}, options...)
	result, err := diff.Diff(o, live, options...)
	if err != nil || !result.Modified {
		return nil, err
	}
	if live == nil {
		return []difference{newDifference(way, o, nil, nil, "")}, nil
	}
	normal, err := decoded(result.NormalizedLive)
	if err != nil {
		return nil, err
	}
	predicted, err := decoded(result.PredictedLive)
	if err != nil {
		return nil, err
	}
	normal.SetResourceVersion(live.GetResourceVersion())
	return []difference{newDifference(way, o, normal, predicted, dryRun.base)}, nil
}

// orphans returns the resources of a namespace that Argo CD's orphan monitoring would list: without an owner, and
// without an application.
func (a *argo) orphans(namespace string) []string {
	var names []string
	for key, r := range a.cache.FindResources(namespace, func(r *cache.Resource) bool { return len(r.OwnerRefs) == 0 && r.Info == "" }) {
		if key.Kind != "ServiceAccount" || r.Ref.Name != "default" {
			names = append(names, key.Kind+" "+key.Name)
		}
	}
	return names
}
