package gitops

import (
	"context"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	fluxManager = "kustomize-controller"
	fluxGroup   = "kustomize.toolkit.fluxcd.io"
)

// flux runs Flux' apply engine as kustomize-controller does for one Kustomization with `prune` and `wait`.
type flux struct {
	resources *ssa.ResourceManager
	name      string
	inventory []*unstructured.Unstructured
}

func newFlux(w *world, namespace string) engine {
	c := w.cluster.Client
	resources := ssa.NewResourceManager(c, polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{}), ssa.Owner{Field: fluxManager, Group: fluxGroup})
	return &flux{resources: resources, name: namespace}
}

func (f *flux) manager() string { return fluxManager }

// owned returns the objects as the controller applies them, with its defaults and labels.
func (f *flux) owned(commit []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	objects := copies(commit)
	f.resources.SetOwnerLabels(objects, f.name, "flux-system")
	return objects, normalize.UnstructuredList(objects)
}

func (f *flux) sync(ctx context.Context, commit []*unstructured.Unstructured) error {
	_, err := f.apply(ctx, commit)
	return err
}

// apply is like sync, and returns the change of each object.
func (f *flux) apply(ctx context.Context, commit []*unstructured.Unstructured) (*ssa.ChangeSet, error) {
	objects, err := f.owned(commit)
	if err != nil {
		return nil, err
	}
	options := ssa.DefaultApplyOptions()
	options.WaitInterval = 50 * time.Millisecond
	options.ExclusionSelector = map[string]string{fluxGroup + "/reconcile": "disabled"}
	// The controller takes over fields that kubectl set, and so reverts manual edits.
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply}, {Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
		Exclusions: map[string]string{fluxGroup + "/ssa": "Merge"},
	}
	changes, err := f.resources.ApplyAllStaged(ctx, objects, options)
	if err != nil {
		return nil, err
	}
	stale := without(f.inventory, objects)
	f.inventory = objects
	if len(stale) == 0 {
		return changes, nil
	}
	prune := ssa.DefaultDeleteOptions()
	prune.Inclusions = f.resources.GetOwnerLabels(f.name, "flux-system")
	prune.Exclusions = map[string]string{fluxGroup + "/prune": "disabled", fluxGroup + "/reconcile": "disabled"}
	_, err = f.resources.DeleteAll(ctx, stale, prune)
	return changes, err
}

// without returns the objects that have no counterpart of the same kind and name in others.
func without(objects, others []*unstructured.Unstructured) (left []*unstructured.Unstructured) {
	there := object.UnstructuredSetToObjMetadataSet(others)
	for _, o := range objects {
		if !there.Contains(object.UnstructuredToObjMetadata(o)) {
			left = append(left, o)
		}
	}
	return left
}

// healthy is the controller's health check: kstatus of each object, until all are current or one has failed.
func (f *flux) healthy(ctx context.Context, commit []*unstructured.Unstructured) error {
	return f.resources.WaitForSetWithContext(ctx, object.UnstructuredSetToObjMetadataSet(commit),
		ssa.WaitOptions{Interval: 50 * time.Millisecond, Timeout: within / 2, FailFast: true})
}

func (f *flux) drift(ctx context.Context, commit []*unstructured.Unstructured) ([]difference, error) {
	objects, err := f.owned(commit)
	if err != nil {
		return nil, err
	}
	var drifted []difference
	for _, o := range objects {
		change, live, merged, err := f.resources.Diff(ctx, o, ssa.DiffOptions{})
		if err != nil {
			return nil, err
		}
		if change.Action != ssa.UnchangedAction {
			base := ""
			if merged != nil {
				base = merged.GetResourceVersion()
			}
			drifted = append(drifted, newDifference("by "+string(change.Action), o, live, merged, base))
		}
	}
	return drifted, nil
}
