package backend

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/pause"
)

const (
	// writeDeadline bounds each step of a request that calls the Kubernetes API, such as all attempts of one patch.
	writeDeadline = 5 * time.Second
	// syncPatience is how long a write waits until this server applies it. After that, the response shows the resource
	// as the Kubernetes API acknowledged it.
	syncPatience = 2 * time.Second
	// firstPoll is the time until the first read of the resource while waiting.
	firstPoll = 100 * time.Millisecond
	// patchAttempts bounds the retries against other writers. Each concurrent patch changes the version twice: the
	// operator then writes the status.
	patchAttempts = 10
	// firstPause is the shortest pause before a patch is tried again after a conflict. Each further pause is about
	// twice as long, up to lastPause. The operator writes the status after each change, so a patch that is tried again
	// immediately could conflict with that write each time.
	firstPause, lastPause = 10 * time.Millisecond, 200 * time.Millisecond
)

// writer changes resources through the Kubernetes API and waits until this server applies the change.
type writer struct {
	kubernetes Kubernetes
	snapshots  *snapshot.Follower
	// patience is how long a write waits until this server applies it.
	patience time.Duration
}

// resource is a pointer to the Go type of a kind.
type resource[T any] interface {
	*T
	v1alpha1.Resource
}

// edit is a change of one resource.
type edit[P any] struct {
	kind string
	// keys are where the resource may be, the likeliest first.
	keys []client.ObjectKey
	// override reports that fields which other managers declare are changed as well.
	override bool
	// plan returns the outstanding changes to a live resource, or why there is nothing to change here. errElsewhere
	// means that it is not the intended resource.
	plan func(live P) ([]change, error)
	// written is called when the Kubernetes API has acknowledged changes.
	written func(P)
}

// errElsewhere means that the resource under a key is not the intended one.
var errElsewhere = errors.New("the resource is another one")

// update patches a resource and waits until this server applies it. It returns the resource, and whether this server
// applies it. It returns errElsewhere if there is no such resource.
func update[T any, P resource[T]](ctx context.Context, w *writer, e edit[P]) (obj P, synced bool, err error) {
	var changed bool
	err = errElsewhere
	for _, key := range e.keys {
		obj, changed, err = patch[T](ctx, w, key, e)
		if !apierrors.IsNotFound(err) && !errors.Is(err, errElsewhere) {
			break
		}
		err = errElsewhere
	}
	if err != nil {
		return nil, false, err
	}
	if changed && e.written != nil {
		e.written(obj)
	}
	synced, err = w.settle(ctx, e.kind, obj)
	var refused *refusal
	if errors.As(err, &refused) && !changed {
		return obj, false, nil // the request changes nothing that could be refused
	}
	return obj, synced, err
}

// patch writes the fields that differ to a live resource, in one merge patch conditional on the version that was read.
// changed reports whether anything was written.
func patch[T any, P resource[T]](ctx context.Context, w *writer, key client.ObjectKey, e edit[P]) (obj P, changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	backoff := wait.Backoff{Duration: firstPause, Factor: 2, Jitter: 1, Steps: patchAttempts, Cap: lastPause}
	for attempt := range patchAttempts {
		if attempt > 0 && pause.For(ctx, backoff.Step()) != nil {
			return nil, false, ctx.Err()
		}
		live := P(new(T))
		if err := w.kubernetes.Get(ctx, key, live); err != nil {
			return nil, false, err
		}
		changes, err := e.plan(live)
		if err != nil || len(changes) == 0 {
			return live, false, err
		}
		if !e.override {
			if err := refuseOwned(live, changes); err != nil {
				return nil, false, err
			}
		}
		raw, err := mergePatch(live, changes)
		if err != nil {
			return nil, false, err
		}
		// The client decodes into the existing object: a field that is absent in the response must not keep an older
		// value.
		patched := P(new(T))
		patched.SetNamespace(key.Namespace)
		patched.SetName(key.Name)
		err = w.kubernetes.Patch(ctx, patched, client.RawPatch(types.MergePatchType, raw), client.FieldOwner(v1alpha1.FieldManagerHTTP))
		if !apierrors.IsConflict(err) {
			return patched, err == nil, err
		}
	}
	return nil, false, apierror.New(http.StatusConflict, "other requests changed the resource during all %d attempts: read it and try again", patchAttempts)
}

func mergePatch(live v1alpha1.Resource, changes []change) ([]byte, error) {
	spec := map[string]any{}
	for _, c := range changes {
		spec[c.path] = c.value
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.GetResourceVersion(), "uid": live.GetUID()},
		"spec":     spec,
	})
}
