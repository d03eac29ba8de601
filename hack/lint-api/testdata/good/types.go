// Package good breaks no rule.
package good

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Word is a bounded string.
// +kubebuilder:validation:MaxLength=10
type Word string

// Mode is an enum.
// +kubebuilder:validation:Enum=A;B
type Mode string

// Modes.
const (
	ModeA Mode = "A"
	// ModeB is the other one.
	ModeB Mode = "B"
)

// Words is a bounded list.
// +listType=set
// +kubebuilder:validation:MaxItems=3
type Words []Word

// Spec has every form a field can take.
// +kubebuilder:validation:XValidation:rule="has(self.word)",message="set word: it is the point"
type Spec struct {
	Inner `json:",inline"`

	// word bounded by its type.
	// +required
	Word Word `json:"word"`
	// text bounded by itself.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	Text *string `json:"text,omitempty"`
	// mode is an enum.
	// +optional
	Mode *Mode `json:"mode,omitempty"`
	// words bounded by their type.
	// +optional
	Words Words `json:"words,omitempty"`
	// texts bounded by items.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:MaxLength=5
	Texts []string `json:"texts,omitempty"`
	// inners is a list by key.
	// +optional
	// +listType=map
	// +listMapKey=count
	// +kubebuilder:validation:MaxItems=3
	Inners []Inner `json:"inners,omitempty"`
	// labels of it.
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	Labels map[string]Word `json:"labels,omitempty"`
	// at is a time.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// observedGeneration is counted by Kubernetes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Inner is a part.
type Inner struct {
	// count of things.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=9
	Count *int32 `json:"count,omitempty"`
	// on or off.
	// +optional
	On *bool `json:"on,omitempty"`
}

// SpecList is Kubernetes' form.
// +kubebuilder:object:root=true
type SpecList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Spec `json:"items"`
}

// Helper is for programs alone.
// +kubebuilder:object:generate=false
type Helper struct {
	Name string
}
