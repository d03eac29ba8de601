package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/claims"
	"github.com/cardea-iam/cardea/store"
)

// indexClaims finds the resources of a kind that need or list a claim.
const indexClaims = "claims"

// claimsOf returns every claim a resource needs by its spec, its id first.
func claimsOf(k *kind, obj v1alpha1.Resource) []string {
	needed := k.claims(obj)
	if id, err := idOf(k.name, obj); err == nil {
		needed = append([]string{claims.ID(k.name, id)}, needed...)
	}
	return needed
}

// claimant is a resource in a contest for a claim.
type claimant struct {
	store.Owner
	created time.Time
	// lists tells that its status lists the claim: it held it when that was written.
	lists bool
	// byHTTP tells that the management API created it: it yields to a declared one.
	byHTTP bool
}

func newClaimant(kind, claim string, obj v1alpha1.Resource) claimant {
	return claimant{
		Owner: store.Owner{
			Identity: store.Identity{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
			UID:      string(obj.GetUID()),
		},
		created: obj.GetCreationTimestamp().Time,
		lists:   slices.Contains(obj.CommonStatus().Claims, claim),
		byHTTP:  obj.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByHTTP,
	}
}

// holder is who the store records for a claim, nil if nobody.
type holder struct {
	claimant
	// gone tells that a live look found no such resource.
	gone bool
}

// verdict is what becomes of one claim.
type verdict struct {
	// displace is the recorded owner to remove with the put, nil if there is none.
	displace *store.Owner
	// fault is why the claim cannot be had, nil if it can.
	fault error
}

// judge decides a contest: the recorded holder keeps a claim until it releases it; without a record it belongs to the one
// whose status lists it, then to the older, then to the lower namespace/name; what HTTP created yields to what is
// declared.
func judge(claim string, me claimant, recorded *holder, rivals []claimant) verdict {
	if recorded != nil {
		switch {
		case recorded.Identity == me.Identity:
			return verdict{}
		case recorded.gone, recorded.byHTTP && !me.byHTTP:
			return verdict{displace: &recorded.Owner}
		default:
			return verdict{fault: refuse(claim, me, recorded.claimant)}
		}
	}
	for _, rival := range rivals {
		if precedes(rival, me) {
			return verdict{fault: refuse(claim, me, rival)}
		}
	}
	return verdict{}
}

func precedes(a, b claimant) bool {
	if a.byHTTP != b.byHTTP {
		return b.byHTTP
	}
	if a.lists != b.lists {
		return a.lists
	}
	if order := a.created.Compare(b.created); order != 0 {
		return order < 0
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name)) < 0
}

func refuse(claim string, me, winner claimant) error {
	what := claims.Describe(claim)
	if me.byHTTP && !winner.byHTTP {
		return Terminal(v1alpha1.ReasonSuperseded,
			"%s was taken over by the declared %s: delete this resource, which the management API created", what, winner.Identity)
	}
	return Terminal(v1alpha1.ReasonConflict, "%s is held by %s: choose another or delete that resource", what, winner.Identity)
}

// claim judges everything the resource must own alone. What the store already records for it needs no judging.
func (r *reconciler) claim(ctx context.Context, p *pass) error {
	if p.unresolved != nil {
		return p.unresolved
	}
	p.claims = claimsOf(r.kind, p.obj)
	return r.contest(ctx, p, p.claims)
}

// contest judges those of the claims that the store does not record for the resource yet.
func (r *reconciler) contest(ctx context.Context, p *pass, needed []string) error {
	var missing []string
	for _, claim := range needed {
		if _, held := slices.BinarySearch(p.held.Claims, claim); !held {
			missing = append(missing, claim)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	holders, err := r.documents.Holders(ctx, missing)
	if err != nil {
		return &storeError{err}
	}
	for _, claim := range missing {
		me := newClaimant(r.kind.name, claim, p.obj)
		recorded, err := r.recorded(ctx, claim, me, holders)
		if err != nil {
			return err
		}
		rivals, err := r.rivals(ctx, claim, me)
		if err != nil {
			return err
		}
		v := judge(claim, me, recorded, rivals)
		if v.fault != nil {
			return v.fault
		}
		if v.displace != nil {
			p.displace = append(p.displace, *v.displace)
		}
	}
	return nil
}

// recorded looks up the recorded holder of a claim. Whether it is gone is asked of the API server itself: a cache may lag.
func (r *reconciler) recorded(ctx context.Context, claim string, me claimant, holders map[string]store.Owner) (*holder, error) {
	owner, found := holders[claim]
	if !found {
		return nil, nil
	}
	if owner.Identity == me.Identity {
		return &holder{claimant: me}, nil
	}
	obj := r.kind.newObject()
	err := r.live.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, obj)
	if apierrors.IsNotFound(err) {
		return &holder{claimant: claimant{Owner: owner}, gone: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look whether %s still exists: %w", owner.Identity, err)
	}
	h := &holder{claimant: newClaimant(r.kind.name, claim, obj)}
	h.Owner = owner // displaced as recorded, also when the resource was created again since
	return h, nil
}

// rivals lists the other live resources that need the claim and are not themselves refused.
func (r *reconciler) rivals(ctx context.Context, claim string, me claimant) ([]claimant, error) {
	others, err := r.list(ctx, r.kind, client.MatchingFields{indexClaims: claim})
	if err != nil {
		return nil, err
	}
	var rivals []claimant
	for _, obj := range others {
		if string(obj.GetUID()) == me.UID || !obj.GetDeletionTimestamp().IsZero() || refused(obj) {
			continue
		}
		rivals = append(rivals, newClaimant(r.kind.name, claim, obj))
	}
	return rivals, nil
}

// refused tells that a resource was found unacceptable as it is declared now.
func refused(obj v1alpha1.Resource) bool {
	accepted := meta.FindStatusCondition(obj.CommonStatus().Conditions, v1alpha1.ConditionAccepted)
	return accepted != nil && accepted.Status == "False" && accepted.ObservedGeneration == obj.GetGeneration()
}

// list returns the cached resources of a kind. It reads without waiting for writes in flight: a pass that must see them
// is woken by their events.
func (e *Engine) list(ctx context.Context, k *kind, opts ...client.ListOption) ([]v1alpha1.Resource, error) {
	list := k.newList()
	opts = append(opts, disableReadYourWrites{})
	if err := e.client.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	var resources []v1alpha1.Resource
	err := meta.EachListItem(list, func(obj runtime.Object) error {
		resources = append(resources, obj.(v1alpha1.Resource))
		return nil
	})
	return resources, err
}

type disableReadYourWrites struct{}

// ApplyToList implements client.ListOption.
func (disableReadYourWrites) ApplyToList(o *client.ListOptions) {
	o.DisableReadYourWritesConsistency = true
}

// ApplyToGet implements client.GetOption.
func (disableReadYourWrites) ApplyToGet(o *client.GetOptions) {
	o.DisableReadYourWritesConsistency = true
}
