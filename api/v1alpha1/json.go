package v1alpha1

import "encoding/json"

// JSON is any JSON value, kept as it was written.
// +kubebuilder:validation:Schemaless
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:object:generate=false
type JSON struct {
	// Raw is the value's text.
	Raw json.RawMessage `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j.Raw == nil {
		return []byte("null"), nil
	}
	return j.Raw, nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (j *JSON) UnmarshalJSON(raw []byte) error {
	j.Raw = append(j.Raw[:0:0], raw...)
	return nil
}

// DeepCopyInto copies the value.
func (j *JSON) DeepCopyInto(out *JSON) { out.Raw = append(json.RawMessage(nil), j.Raw...) }

// DeepCopy returns a copy.
func (j *JSON) DeepCopy() *JSON {
	if j == nil {
		return nil
	}
	out := &JSON{}
	j.DeepCopyInto(out)
	return out
}
