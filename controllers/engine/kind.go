package engine

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Kind is everything that differs between kinds. Its functions are pure but for Prepare and Cleanup.
type Kind[T v1alpha1.Resource] struct {
	// Name is the kind's name.
	Name string
	// New and NewList return empty objects.
	New     func() T
	NewList func() client.ObjectList
	// RefersTo are the kinds References may name.
	RefersTo []string
	// References lists what the resource points at. Nil: nothing.
	References func(T) []Reference
	// Claims lists what the resource must own alone beside its id, from its spec alone. Nil: nothing.
	Claims func(T) []string
	// Check returns a TerminalError for what schema and CEL cannot say. Referents that are missing are absent. Nil:
	// nothing to check.
	Check func(T, Referents) error
	// Translate returns the content to serve.
	Translate func(T, Referents, Material) Content
	// RetainByDefault is the meaning of an absent deletionPolicy; absent: Delete.
	RetainByDefault bool
	// WithdrawOnRetain removes the document even where the policy is Retain: what is retained is not the document.
	WithdrawOnRetain bool
	// AlwaysDelete ignores the deletion policy: the document always goes with the resource.
	AlwaysDelete bool
	// Prepare makes what the content needs outside the store, such as a Secret. It is called on every pass and must do
	// nothing when all is there. Nil: nothing to prepare.
	Prepare func(context.Context, Preparation[T]) (Material, error)
	// Cleanup undoes Prepare after the document is gone; a missing piece is success. Nil: nothing to undo.
	Cleanup func(context.Context, T) error
	// Sources are further reasons for a pass, beside the kind itself and what it refers to.
	Sources []source.TypedSource[reconcile.Request]
	// Indexes extract further keys to find resources of the kind by. Nil: none.
	Indexes map[string]func(T) []string
}

// Reference is one reference to a resource in the same namespace.
type Reference struct {
	// Field is the path in spec, such as "spec.deploymentRef", and the key to find the referent by.
	Field string
	Kind  string
	Name  string
	// Protects keeps the referent from being deleted while this reference exists.
	Protects bool
	// Content tells that the served content, or its check, depends on the referent's spec.
	Content bool
	// LeftOut tells that a missing referent is left out of the content instead of holding it back.
	LeftOut bool
}

// Referents are the resolved references by their field.
type Referents map[string]v1alpha1.Resource

// Preparation is what Prepare may look at.
type Preparation[T v1alpha1.Resource] struct {
	Object    T
	Referents Referents
	// Held is the payload the store holds for the resource, nil if none.
	Held []byte
}

// Material is what Prepare made.
type Material struct {
	// Value is handed to Translate.
	Value any
	// Claims are needed beside those of the spec.
	Claims []string
	// Conditions are the kind's own, with type, status, reason and message.
	Conditions []metav1.Condition
	// RequeueAfter asks for another pass; 0: none.
	RequeueAfter time.Duration
	// Committed is called after the store holds the content and may change the status. Nil: nothing to do.
	Committed func(context.Context) error
}

// Content is a translated resource.
type Content struct {
	// Deployment is the "namespace/name" of the deployment it belongs to.
	Deployment string
	// Key is the natural key in the deployment, "" if none.
	Key string
	// Value is a type of package document.
	Value any
}

// kind is a Kind whose type is forgotten, so that the engine's steps are written once and compiled once.
type kind struct {
	name             string
	newObject        func() v1alpha1.Resource
	newList          func() client.ObjectList
	refersTo         []string
	references       func(v1alpha1.Resource) []Reference
	claims           func(v1alpha1.Resource) []string
	check            func(v1alpha1.Resource, Referents) error
	translate        func(v1alpha1.Resource, Referents, Material) Content
	prepare          func(context.Context, v1alpha1.Resource, Referents, []byte) (Material, error)
	cleanup          func(context.Context, v1alpha1.Resource) error
	retainByDefault  bool
	withdrawOnRetain bool
	alwaysDelete     bool
	sources          []source.TypedSource[reconcile.Request]
	indexes          map[string]func(v1alpha1.Resource) []string
}

func erase[T v1alpha1.Resource](k Kind[T]) *kind {
	erased := &kind{
		name: k.Name, newList: k.NewList, refersTo: k.RefersTo, retainByDefault: k.RetainByDefault, withdrawOnRetain: k.WithdrawOnRetain,
		alwaysDelete: k.AlwaysDelete, sources: k.Sources,
		newObject:  func() v1alpha1.Resource { return k.New() },
		references: func(v1alpha1.Resource) []Reference { return nil },
		claims:     func(v1alpha1.Resource) []string { return nil },
		check:      func(v1alpha1.Resource, Referents) error { return nil },
		translate:  func(obj v1alpha1.Resource, r Referents, m Material) Content { return k.Translate(obj.(T), r, m) },
		prepare: func(context.Context, v1alpha1.Resource, Referents, []byte) (Material, error) {
			return Material{}, nil
		},
		cleanup: func(context.Context, v1alpha1.Resource) error { return nil },
		indexes: map[string]func(v1alpha1.Resource) []string{},
	}
	if k.References != nil {
		erased.references = func(obj v1alpha1.Resource) []Reference { return k.References(obj.(T)) }
	}
	if k.Claims != nil {
		erased.claims = func(obj v1alpha1.Resource) []string { return k.Claims(obj.(T)) }
	}
	if k.Check != nil {
		erased.check = func(obj v1alpha1.Resource, r Referents) error { return k.Check(obj.(T), r) }
	}
	if k.Prepare != nil {
		erased.prepare = func(ctx context.Context, obj v1alpha1.Resource, r Referents, held []byte) (Material, error) {
			return k.Prepare(ctx, Preparation[T]{Object: obj.(T), Referents: r, Held: held})
		}
	}
	if k.Cleanup != nil {
		erased.cleanup = func(ctx context.Context, obj v1alpha1.Resource) error { return k.Cleanup(ctx, obj.(T)) }
	}
	for name, keys := range k.Indexes {
		erased.indexes[name] = func(obj v1alpha1.Resource) []string { return keys(obj.(T)) }
	}
	return erased
}
