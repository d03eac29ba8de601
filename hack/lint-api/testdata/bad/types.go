// Package bad breaks every rule. A `want` comment in the line of a fault has the expected message.
package bad

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

type Undocumented string // want "type Undocumented has no doc comment"

// Kind is an enum.
// +kubebuilder:validation:Enum=A
type Kind string

const KindA Kind = "A" // want "constant KindA has no doc comment"

// Bag is an unbounded list.
type Bag []Kind

// Ruled has a rule without a message.
// +kubebuilder:validation:XValidation:rule="has(self.a)"
type Ruled struct{} // want "Ruled: a CEL rule has no message"

// Spec is all wrong.
type Spec struct {
	// Says something else.
	// +required
	Kind Kind `json:"kind"` // want "doc comment must begin with \"kind\""
	// +required
	None Kind `json:"none"` // want "doc comment must begin with \"none\""
	// unmarked is neither.
	Unmarked Kind `json:"unmarked"` // want "exactly one of +required and +optional"
	// both is both.
	// +required
	// +optional
	Both Kind `json:"both,omitempty"` // want "exactly one of +required and +optional"
	// kept is optional and always written.
	// +optional
	Kept *Kind `json:"kept"` // want "needs omitempty or omitzero"
	// lost is required and left out.
	// +required
	Lost Kind `json:"lost,omitempty"` // want "must not have omitempty or omitzero"
	// text has no end.
	// +required
	Text string `json:"text"` // want "Spec.text: a string needs MaxLength or Enum"
	// undocumented has a type without bound.
	// +optional
	Undocumented *Undocumented `json:"undocumented,omitempty"` // want "Spec.undocumented: a string needs MaxLength or Enum"
	// half has one bound.
	// +required
	// +kubebuilder:validation:Minimum=1
	Half int32 `json:"half"` // want "an integer needs Minimum and Maximum"
	// list is endless.
	// +optional
	// +listType=atomic
	List []Kind `json:"list,omitempty"` // want "a list needs MaxItems"
	// untyped has no listType.
	// +optional
	// +kubebuilder:validation:MaxItems=2
	Untyped []Kind `json:"untyped,omitempty"` // want "a list needs +listType"
	// keyless has no key.
	// +optional
	// +listType=map
	// +kubebuilder:validation:MaxItems=2
	Keyless []Ruled `json:"keyless,omitempty"` // want "needs +listMapKey"
	// elements have no end.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=2
	Elements []string `json:"elements,omitempty"` // want "Spec.elements[]: a string needs MaxLength or Enum"
	// bag has the bounds of its type: none.
	// +optional
	// +listType=set
	Bag Bag `json:"bag,omitempty"` // want "Spec.bag: a list needs MaxItems"
	// sack is an endless map.
	// +optional
	Sack map[string]Kind `json:"sack,omitempty"` // want "a map needs MaxProperties"
	// values have no end.
	// +optional
	// +kubebuilder:validation:MaxProperties=2
	Values map[string]string `json:"values,omitempty"` // want "Spec.values{}: a string needs MaxLength or Enum"
	// ratio is a float.
	// +required
	Ratio float64 `json:"ratio"` // want "a float64 loses digits on the way"
	// port is a port of another type.
	// +required
	Port intstr.IntOrString `json:"port"` // want "nothing is known of the bounds of intstr.IntOrString"
	// ruled has a rule without a message.
	// +optional
	// +kubebuilder:validation:XValidation:rule="true"
	Ruled    *Ruled `json:"ruled,omitempty"` // want "Spec.ruled: a CEL rule has no message"
	Untagged Kind   // want "has no JSON name"

	metav1.TypeMeta `json:",inline"`
}
