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

// Kind holds everything that differs between kinds. All its functions are pure except Permit, Prepare and Cleanup. A
// nil function does nothing.
type Kind[T v1alpha1.Resource] struct {
	// Name is the kind's name in the table of kinds.
	Name string
	// RefersTo are the kinds References may name.
	RefersTo []string
	// Through maps each kind that is referred to indirectly to the kind whose reference leads to it. A Reference's Next
	// returns the indirect reference.
	Through map[string]string
	// References lists the resource's references.
	References func(T) []Reference
	// Reserves lists the resource's reservations other than its id, only from its spec.
	Reserves func(T) []string
	// Check returns a TerminalError for faults that the schema and CEL rules cannot express. ResolvedRefs lacks
	// referents that do not exist.
	Check func(T, ResolvedRefs) error
	// Permit returns a TerminalError for content that the resource may not declare in its namespace, before it reserves
	// anything.
	Permit func(context.Context, T) error
	// Translate returns the content to serve. This function must not be nil.
	Translate func(T, ResolvedRefs, Prepared) Content
	// Retention says what deletionPolicy Retain keeps of the document.
	Retention Retention
	// Prepare creates what the content needs outside the store, such as a Secret. Every reconcile calls it, so it must
	// do nothing if everything exists.
	Prepare func(context.Context, Preparation[T]) (Prepared, error)
	// Cleanup undoes Prepare after the document is deleted; a missing object is success.
	Cleanup func(context.Context, T) error
	// Sources are further watches that start reconciles, other than the kind's own and its references'.
	Sources []source.TypedSource[reconcile.Request]
	// Indexes extract further keys to find resources of the kind by.
	Indexes map[string]func(T) []string

	info v1alpha1.KindInfo // its entry in the table, looked up by Add
}

// Retention says what deletionPolicy Retain keeps of a resource's document.
type Retention int

const (
	// RetainDocument keeps the document, marked as retained.
	RetainDocument Retention = iota
	// RetainNothing deletes the document whatever the policy: an API key is revoked, and of a deployment only its
	// users' rows are kept.
	RetainNothing
)

// Reference is one reference to a resource in the same namespace.
type Reference struct {
	// Field is the path in spec, such as "spec.deploymentRef", and the key to find the referent by.
	Field string
	Kind  string
	Name  string
	// Protects keeps the referent from being deleted while this reference exists.
	Protects bool
	// Content reports that the served content, or its check, depends on the referent's spec.
	Content bool
	// LeftOut reports that a missing referent does not hold back the content: servers leave the referent out.
	LeftOut bool
	// Next returns the referent's own reference on which the resource depends too. Nil: none.
	Next func(v1alpha1.Resource) Reference
}

// ResolvedRefs are the referents that were found, by the Field of their Reference.
type ResolvedRefs map[string]v1alpha1.Resource

// Preparation is the input of Prepare.
type Preparation[T v1alpha1.Resource] struct {
	Object T
	// ID is the resource's id in the API.
	ID   int64
	Refs ResolvedRefs
	// Stored is the payload the store holds for the resource, nil if none.
	Stored []byte
}

// Prepared is the result of Prepare.
type Prepared struct {
	// Value is handed to Translate.
	Value any
	// Reserves are needed in addition to those of the spec.
	Reserves []string
	// LeftOut is why the content lacks a part, nil if it is complete. The content is served without that part.
	LeftOut *WaitingError
	// Conditions are the kind's own, with type, status, reason and message.
	Conditions []metav1.Condition
	// RequeueAfter asks for another reconcile; 0: none.
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

// kind is a Kind of any type, so that the engine's steps are written once and compiled once.
type kind interface {
	name() string
	newObject() v1alpha1.Resource
	newList() client.ObjectList
	refersTo() []string
	through() map[string]string
	references(v1alpha1.Resource) []Reference
	reserves(v1alpha1.Resource) []string
	check(v1alpha1.Resource, ResolvedRefs) error
	permit(context.Context, v1alpha1.Resource) error
	translate(v1alpha1.Resource, ResolvedRefs, Prepared) Content
	retention() Retention
	prepare(ctx context.Context, obj v1alpha1.Resource, id int64, refs ResolvedRefs, stored []byte) (Prepared, error)
	cleanup(context.Context, v1alpha1.Resource) error
	sources() []source.TypedSource[reconcile.Request]
	indexes() map[string]func(v1alpha1.Resource) []string
}

func (k Kind[T]) name() string                                     { return k.Name }
func (k Kind[T]) newObject() v1alpha1.Resource                     { return k.info.New() }
func (k Kind[T]) newList() client.ObjectList                       { return k.info.NewList() }
func (k Kind[T]) refersTo() []string                               { return k.RefersTo }
func (k Kind[T]) through() map[string]string                       { return k.Through }
func (k Kind[T]) retention() Retention                             { return k.Retention }
func (k Kind[T]) sources() []source.TypedSource[reconcile.Request] { return k.Sources }

func (k Kind[T]) references(obj v1alpha1.Resource) []Reference {
	if k.References == nil {
		return nil
	}
	return k.References(obj.(T))
}

func (k Kind[T]) reserves(obj v1alpha1.Resource) []string {
	if k.Reserves == nil {
		return nil
	}
	return k.Reserves(obj.(T))
}

func (k Kind[T]) check(obj v1alpha1.Resource, refs ResolvedRefs) error {
	if k.Check == nil {
		return nil
	}
	return k.Check(obj.(T), refs)
}

func (k Kind[T]) permit(ctx context.Context, obj v1alpha1.Resource) error {
	if k.Permit == nil {
		return nil
	}
	return k.Permit(ctx, obj.(T))
}

func (k Kind[T]) translate(obj v1alpha1.Resource, refs ResolvedRefs, prepared Prepared) Content {
	return k.Translate(obj.(T), refs, prepared)
}

func (k Kind[T]) prepare(ctx context.Context, obj v1alpha1.Resource, id int64, refs ResolvedRefs, stored []byte) (Prepared, error) {
	if k.Prepare == nil {
		return Prepared{}, nil
	}
	return k.Prepare(ctx, Preparation[T]{Object: obj.(T), ID: id, Refs: refs, Stored: stored})
}

func (k Kind[T]) cleanup(ctx context.Context, obj v1alpha1.Resource) error {
	if k.Cleanup == nil {
		return nil
	}
	return k.Cleanup(ctx, obj.(T))
}

func (k Kind[T]) indexes() map[string]func(v1alpha1.Resource) []string {
	erased := map[string]func(v1alpha1.Resource) []string{}
	for name, keys := range k.Indexes {
		erased[name] = func(obj v1alpha1.Resource) []string { return keys(obj.(T)) }
	}
	return erased
}
