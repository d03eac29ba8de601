package snapshot

import (
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// A kind without a decoder would be Ready and never served.
func TestEveryKindHasADecoder(t *testing.T) {
	for _, info := range v1alpha1.Kinds {
		if decoders[info.Kind] == nil {
			t.Errorf("%s has no decoder: add it in decode.go", info.Kind)
		}
	}
	if len(decoders) != len(v1alpha1.Kinds) {
		t.Errorf("%d decoders for %d kinds", len(decoders), len(v1alpha1.Kinds))
	}
}
