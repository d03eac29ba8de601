package management

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
)

const (
	// liveReadWithin bounds the reading of a page's resources from the Kubernetes API: without them the page is served all the same.
	liveReadWithin = 3 * time.Second
	// liveReads is how many resources are read at once.
	liveReads = 8
)

// listResources serves a page of the resources that are in force for the deployment, with their conditions as they are now.
func (a *API) listResources(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	kinds := q.kinds()
	if err := q.err(); err != nil {
		return reply{}, err
	}
	list := openapi.ResourceList{Data: []openapi.Resource{}, Limit: int64(limit), Offset: int64(offset), Revision: c.snapshot.Position().Revision}
	for _, kind := range kinds {
		list.Total += int64(c.snapshot.Count(kind.Kind, c.tenant()))
	}
	page := c.resources(kinds, limit, offset)
	live, note := a.readLive(c.r.Context(), page)
	for i, entry := range page {
		list.Data = append(list.Data, resourceView(entry, live[i]))
	}
	list.HasMore, list.Note = int64(offset+len(page)) < list.Total, optional(note)
	return object(list), nil
}

// kinds reads the parameter kind: all of them if it was not sent.
func (q *query) kinds() []v1alpha1.KindInfo {
	sent, ok := q.text("kind")
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
	q.faults = append(q.faults, apierror.Fault{Pointer: "?kind", Message: "must be one of " + strings.Join(names, ", ")})
	return nil
}

// resources are a page of the deployment's, kind by kind in the order of the table of kinds, each the newest first.
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

// readLive reads entries' resources from the Kubernetes API, nil where there is none any more, and tells why others are missing.
func (a *API) readLive(ctx context.Context, entries []*snapshot.Entry) (live []v1alpha1.Resource, note string) {
	ctx, cancel := context.WithTimeout(ctx, liveReadWithin)
	defer cancel()
	live = make([]v1alpha1.Resource, len(entries))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(liveReads)
	for i, entry := range entries {
		group.Go(func() error {
			info, found := v1alpha1.InfoOf(entry.Kind)
			if !found {
				return nil
			}
			obj := info.New()
			err := a.Kubernetes.Get(ctx, client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name}, obj)
			if err == nil && string(obj.GetUID()) == entry.UID {
				live[i] = obj
			}
			return client.IgnoreNotFound(err)
		})
	}
	switch err := group.Wait(); {
	case err == nil:
		return live, ""
	case apierrors.IsForbidden(err):
		return live, "The Kubernetes API forbids this server to read resources, so that conditions are missing: grant it get on every kind, as config/rbac/server_role.yaml does."
	default:
		return live, "The Kubernetes API is out of reach, so that conditions are missing: what is listed is in force all the same."
	}
}

// resourceView is the served form of what is in force, with the resource as it is now, nil where that is not known.
func resourceView(entry *snapshot.Entry, live v1alpha1.Resource) openapi.Resource {
	info, _ := v1alpha1.InfoOf(entry.Kind)
	served := openapi.Resource{
		ApiVersion: v1alpha1.GroupVersion.String(), Kind: entry.Kind, Plural: info.Resource, Namespace: entry.Namespace, Name: entry.Name, Id: ids.Format(entry.ID),
		Generation: entry.Generation, CreatedAt: entry.Meta.CreatedAt.UTC(), UpdatedAt: entry.Meta.UpdatedAt.UTC(),
	}
	if live == nil {
		return served
	}
	generation, conditions := live.GetGeneration(), []openapi.ResourceCondition{}
	for _, condition := range live.CommonStatus().Conditions {
		conditions = append(conditions, openapi.ResourceCondition{
			Type: condition.Type, Status: string(condition.Status), Reason: condition.Reason, Message: condition.Message,
			ObservedGeneration: condition.ObservedGeneration, LastTransitionTime: condition.LastTransitionTime.UTC(),
		})
	}
	served.LiveGeneration, served.Conditions = &generation, &conditions
	return served
}
