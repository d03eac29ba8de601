package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/store"
)

// indexReservations finds the resources of a kind that need a reservation, or list it in their status.
const indexReservations = "reservations"

// reservationsOf returns every reservation a resource needs by its spec, its id first.
func reservationsOf(k kind, obj v1alpha1.Resource) []string {
	needed := k.reserves(obj)
	if id, err := idOf(k.name(), obj); err == nil {
		needed = append([]string{reservation.ID(k.name(), id)}, needed...)
	}
	return needed
}

// competitor is a resource that needs a reservation which others may need too.
type competitor struct {
	store.Owner
	created time.Time
	// innate reports whether the reservation belongs to the resource by its name alone.
	innate bool
	// lists reports whether the resource's status lists the reservation. The resource had the reservation when the
	// status was written.
	lists bool
	// yields reports whether the management API created the resource and no other manager declares it. Such a resource
	// yields a slug to a resource that another manager declares.
	yields bool
}

func newCompetitor(kind, key string, obj v1alpha1.Resource) competitor {
	return competitor{
		Owner: store.Owner{
			Identity: store.Identity{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()},
			UID:      string(obj.GetUID()),
		},
		created: obj.GetCreationTimestamp().Time,
		innate:  reservation.Innate(key, kind, obj.GetNamespace(), obj.GetName()),
		lists:   slices.Contains(obj.CommonStatus().Claims, key),
		yields:  reservation.IsSlug(key) && createdByHTTP(obj),
	}
}

// recordedOwner is the owner that the store records for a reservation.
type recordedOwner struct {
	competitor
	// gone reports that a live read found no such resource.
	gone bool
}

// resolution is the decision about one reservation.
type resolution struct {
	// displace is the recorded owner whose document is removed with the put, nil if there is none.
	displace *store.Owner
	// fault says why the resource cannot have the reservation, nil if it can.
	fault error
}

// resolveConflict decides whether the resource me gets a reservation, by the first rule that applies:
//  1. If me is the recorded owner, it keeps the reservation.
//  2. A recorded owner of the same kind in another namespace is displaced if the reservation belongs to me by name and
//     does not belong to the owner by name.
//  3. A recorded owner of the same kind and namespace is displaced if it no longer exists, or if it yields and me does
//     not.
//  4. Any other recorded owner keeps the reservation until it releases it. The sweep releases the reservation of an
//     owner that no longer exists.
//  5. Without a recorded owner, the competitor that is first in the order of precedes gets the reservation, whatever
//     its kind.
func resolveConflict(key string, me competitor, recorded *recordedOwner, competitors []competitor) resolution {
	if recorded != nil {
		switch {
		case recorded.Identity == me.Identity:
			return resolution{}
		case recorded.Kind != me.Kind:
			// A document of another kind is only ever removed by its own kind's reconciler.
		case recorded.Namespace != me.Namespace && me.innate && !recorded.innate,
			recorded.Namespace == me.Namespace && (recorded.gone || recorded.yields && !me.yields):
			return resolution{displace: &recorded.Owner}
		}
		return resolution{fault: refuse(key, me, recorded.competitor)}
	}
	for _, other := range competitors {
		if precedes(other, me) {
			return resolution{fault: refuse(key, me, other)}
		}
	}
	return resolution{}
}

// precedes reports whether competitor a comes before b in the order for a free reservation:
//  1. the resource to which the reservation belongs by name;
//  2. resources that do not yield;
//  3. resources whose status lists the reservation;
//  4. the older resource;
//  5. the lower namespace, name and kind.
//
// Only slugs are yielded. Resources of two namespaces never compete for the same slug.
func precedes(a, b competitor) bool {
	switch {
	case a.innate != b.innate:
		return a.innate
	case a.yields != b.yields:
		return b.yields
	case a.lists != b.lists:
		return a.lists
	}
	if order := a.created.Compare(b.created); order != 0 {
		return order < 0
	}
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind)) < 0
}

// refuse names the owner of the reservation, but not across namespaces: one tenant must not learn what another has.
func refuse(key string, me, winner competitor) error {
	what := reservation.Describe(key)
	switch {
	case me.Namespace != winner.Namespace:
		return Terminal(v1alpha1.ReasonConflict, "%s is reserved in another namespace: choose another value", what)
	case me.yields && !winner.yields:
		return Terminal(v1alpha1.ReasonSuperseded,
			"%s now belongs to the declared %s: delete this resource, which the management API created", what, winner.Identity)
	}
	return Terminal(v1alpha1.ReasonConflict, "%s belongs to %s: choose another value, or delete that resource", what, winner.Identity)
}

// reserve decides about everything the resource must own alone.
func (r *reconciler) reserve(ctx context.Context, s *state) error {
	if s.unresolved != nil {
		return s.unresolved
	}
	s.reservations = reservationsOf(r.kind, s.obj)
	return r.resolveConflicts(ctx, s, s.reservations)
}

// resolveConflicts decides about the needed reservations that the store does not record for the resource yet.
func (r *reconciler) resolveConflicts(ctx context.Context, s *state, needed []string) error {
	var missing []string
	for _, key := range needed {
		if _, recorded := slices.BinarySearch(s.stored.Reservations, key); !recorded {
			missing = append(missing, key)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	owners, err := r.documents.ReservationOwners(ctx, missing)
	if err != nil {
		return &storeError{err}
	}
	for _, key := range missing {
		me := newCompetitor(r.kind.name(), key, s.obj)
		recorded, err := r.recorded(ctx, key, me, owners)
		if err != nil {
			return err
		}
		competitors, err := r.competitors(ctx, key, me)
		if err != nil {
			return err
		}
		decided := resolveConflict(key, me, recorded, competitors)
		if decided.fault != nil {
			return decided.fault
		}
		if decided.displace != nil {
			s.displace = append(s.displace, *decided.displace)
		}
	}
	return nil
}

// recorded looks up the recorded owner of a reservation. It reads the owner from the API server, because the cache may
// lag. An owner of a kind that this operator does not know, written by a newer operator, is assumed to exist. If an
// owner of another kind no longer exists, its document is swept at once, which wakes its competitors.
func (r *reconciler) recorded(ctx context.Context, key string, me competitor, owners map[string]store.Owner) (*recordedOwner, error) {
	owner, found := owners[key]
	if !found {
		return nil, nil
	}
	if owner.Identity == me.Identity {
		return &recordedOwner{competitor: me}, nil
	}
	innate := reservation.Innate(key, owner.Kind, owner.Namespace, owner.Name)
	held, known := r.kinds[owner.Kind]
	if !known {
		return &recordedOwner{competitor: competitor{Owner: owner, innate: innate}}, nil
	}
	name := client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}
	obj := held.newObject()
	err := r.live.Get(ctx, name, obj)
	if apierrors.IsNotFound(err) {
		if owner.Kind != me.Kind {
			r.ask(ctx, owner.Kind, name)
		}
		return &recordedOwner{competitor: competitor{Owner: owner, innate: innate}, gone: true}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("check whether %s still exists: %w", owner.Identity, err)
	}
	o := &recordedOwner{competitor: newCompetitor(owner.Kind, key, obj)}
	o.Owner = owner // displaced as recorded, even if the resource was created again since
	return o, nil
}

// competitors lists the other live resources, of every kind, that need the reservation and are not themselves refused.
func (r *reconciler) competitors(ctx context.Context, key string, me competitor) ([]competitor, error) {
	var competitors []competitor
	for _, k := range r.ordered {
		others, err := r.list(ctx, k, client.MatchingFields{indexReservations: key})
		if err != nil {
			return nil, err
		}
		for _, obj := range others {
			if string(obj.GetUID()) == me.UID || !obj.GetDeletionTimestamp().IsZero() || refused(obj) {
				continue
			}
			competitors = append(competitors, newCompetitor(k.name(), key, obj))
		}
	}
	return competitors, nil
}

// refused reports whether the current generation of a resource has Accepted=False.
func refused(obj v1alpha1.Resource) bool {
	accepted := meta.FindStatusCondition(obj.CommonStatus().Conditions, v1alpha1.ConditionAccepted)
	return accepted != nil && accepted.Status == "False" && accepted.ObservedGeneration == obj.GetGeneration()
}
