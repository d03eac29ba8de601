package decision

import (
	"net/http"
	"net/netip"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/limits"
)

// TestDecisionAllocatesTheValuesOfItsHeaderAlone: a decision about a cached credential by three rules allocates
// nothing, and the values of its header are one text and one list.
func TestDecisionAllocatesTheValuesOfItsHeaderAlone(t *testing.T) {
	w := newWorld(t)
	threeRules(w)
	q := question{credential: w.plain, method: "GET", path: "/v1/things", client: netip.MustParseAddr("192.0.2.9")}
	v, header := &decision{}, http.Header{}
	decide := func() {
		if err := w.api.decide(t.Context(), &q, v); err != nil || !v.allowed {
			t.Fatal(err, v.reason)
		}
	}
	if n := testing.AllocsPerRun(1000, decide); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
	if n := testing.AllocsPerRun(1000, func() { limits.WriteFields(header, &v.limits) }); n != 2 {
		t.Errorf("the values of the header are %v allocations, want 2", n)
	}
}
