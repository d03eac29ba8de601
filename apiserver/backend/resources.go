package backend

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
)

const (
	// liveReadWithin bounds reading a page's resources from the Kubernetes API, including the wait for slots. If the
	// reads fail, the page is served without conditions.
	liveReadWithin = 3 * time.Second
	// readsOfOne is how many resources are read concurrently for a deployment.
	readsOfOne = 8
)

// readBounds limit the reads of pages of resources from the Kubernetes API: the server reads and writes for all
// deployments with one account.
var readBounds = egress.Bounds{AtOnce: 16, DeploymentAtOnce: readsOfOne, DeploymentPerMinute: 600}

// LiveReads limits reads of resources from the Kubernetes API, fairly among deployments.
type LiveReads struct {
	slots     *egress.Slots
	exhausted atomic.Uint64
}

// NewLiveReads returns LiveReads. clock counts the minutes of the bounds.
func NewLiveReads(clock func() time.Time) *LiveReads {
	return &LiveReads{slots: egress.NewSlots(readBounds, clock)}
}

// Exhausted returns how many pages lack conditions because their deployment had exhausted its share.
func (l *LiveReads) Exhausted() uint64 { return l.exhausted.Load() }

// errReadShare is returned for a read that was not admitted.
var errReadShare = errors.New("too many resources were read for the deployment")

// begin waits for a read's turn; the caller calls done when the read has ended. errReadShare: the deadline of ctx
// passed first, or the deployment has exhausted its bound of this minute.
func (l *LiveReads) begin(ctx context.Context, deployment string) (done func(), err error) {
	done, err = l.slots.Begin(ctx, egress.Asker{Deployment: deployment})
	if errors.Is(err, egress.ErrTooManyFetches) || errors.Is(err, context.DeadlineExceeded) {
		return nil, errReadShare
	}
	return done, err
}

// listResources serves a page of the resources in effect for the deployment, with their current conditions.
func listResources(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	kinds := q.kinds()
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	list := backendapi.ResourceList{Data: []backendapi.Resource{}, Limit: int64(limit), Offset: int64(offset), Revision: c.snapshot.Position().Revision}
	for _, kind := range kinds {
		list.Total += int64(c.snapshot.Count(kind.Kind, c.tenant()))
	}
	page := c.resources(kinds, limit, offset)
	live, note := c.api.readLive(c.r.Context(), c.tenant(), page)
	for i, entry := range page {
		list.Data = append(list.Data, resourceView(entry, live[i]))
	}
	list.HasMore, list.Note = int64(offset+len(page)) < list.Total, optional(note)
	return object(list), nil
}

// kinds reads the parameter kind: all kinds if it is absent.
func (q *parameters) kinds() []v1alpha1.KindInfo {
	sent, ok := q.Text("kind")
	if !ok {
		return v1alpha1.Kinds
	}
	names := make([]string, 0, len(v1alpha1.Kinds))
	for _, info := range v1alpha1.Kinds {
		if info.Kind == sent {
			return []v1alpha1.KindInfo{info}
		}
		names = append(names, info.Kind)
	}
	q.Fault("kind", "must be one of %s", strings.Join(names, ", "))
	return nil
}

// resources returns a page of the deployment's resources: kind by kind in the order of the table of kinds, each the
// newest first.
func (c *call) resources(kinds []v1alpha1.KindInfo, limit, offset int) []*snapshot.Entry {
	var page []*snapshot.Entry
	for _, kind := range kinds {
		if count := c.snapshot.Count(kind.Kind, c.tenant()); count <= offset {
			offset -= count
			continue
		}
		c.snapshot.List(kind.Kind, c.tenant(), func(entry *snapshot.Entry) bool {
			if offset > 0 {
				offset--
				return true
			}
			if len(page) < limit {
				page = append(page, entry)
			}
			return len(page) < limit
		})
	}
	return page
}

// readLive reads the resources of a deployment's entries from the Kubernetes API, nil for a resource that no longer
// exists. It returns a note that says why others are missing.
func (a *API) readLive(ctx context.Context, deployment string, entries []*snapshot.Entry) (live []v1alpha1.Resource, note string) {
	ctx, cancel := context.WithTimeout(ctx, liveReadWithin)
	defer cancel()
	live = make([]v1alpha1.Resource, len(entries))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(readsOfOne)
	for i, entry := range entries {
		group.Go(func() error {
			info, found := v1alpha1.InfoOf(entry.Kind)
			if !found {
				return nil
			}
			done, err := a.LiveReads.begin(ctx, deployment)
			if err != nil {
				return err
			}
			defer done()
			obj := info.New()
			err = a.Kubernetes.Get(ctx, client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name}, obj)
			if err == nil && string(obj.GetUID()) == entry.UID {
				live[i] = obj
			}
			return client.IgnoreNotFound(err)
		})
	}
	switch err := group.Wait(); {
	case err == nil:
		return live, ""
	case errors.Is(err, errReadShare):
		a.LiveReads.exhausted.Add(1)
		return live, "Too many resources of this deployment were read recently, so conditions are missing: list fewer resources per request, or try again in a minute."
	case apierrors.IsForbidden(err):
		return live, "The Kubernetes API forbids this server to read resources, so that conditions are missing: grant it get on every kind, as config/rbac/server_role.yaml does."
	default:
		return live, "The Kubernetes API is unavailable, so conditions are missing: the listed resources are in effect anyway."
	}
}

// resourceView is the served form of a resource in effect, with the live resource, nil if unknown.
func resourceView(entry *snapshot.Entry, live v1alpha1.Resource) backendapi.Resource {
	info, _ := v1alpha1.InfoOf(entry.Kind)
	served := backendapi.Resource{
		ApiVersion: v1alpha1.GroupVersion.String(), Kind: entry.Kind, Plural: info.Resource, Namespace: entry.Namespace, Name: entry.Name, Id: ids.Format(entry.ID),
		Generation: entry.Generation, CreatedAt: entry.Meta.CreatedAt.UTC(), UpdatedAt: entry.Meta.UpdatedAt.UTC(),
	}
	if live == nil {
		return served
	}
	generation, conditions := live.GetGeneration(), []backendapi.ResourceCondition{}
	for _, condition := range live.CommonStatus().Conditions {
		conditions = append(conditions, backendapi.ResourceCondition{
			Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
			ObservedGeneration: condition.ObservedGeneration, LastTransitionTime: condition.LastTransitionTime.UTC(),
		})
	}
	served.LiveGeneration, served.Conditions = &generation, &conditions
	return served
}
