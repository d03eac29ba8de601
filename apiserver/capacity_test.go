package apiserver_test

import (
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver"
)

// docs/capacity.md names exactly the shares that a server counts.
func TestSharesAreDocumented(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	if _, err := apiserver.New(apiserver.Options{Clock: time.Now, Log: logr.Discard(), Registry: registry}); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if family.GetName() == "cardea_share_exhausted_total" && label.GetName() == "share" {
					counted[label.GetValue()] = true
				}
			}
		}
	}
	listed := map[string]bool{}
	for _, found := range regexp.MustCompile("(?m)^\\|.*\\| `([a-z_]+)` \\|$").FindAllStringSubmatch(page(t, "capacity.md"), -1) {
		listed[found[1]] = true
	}
	if !maps.Equal(counted, listed) || len(counted) == 0 {
		t.Errorf("counted %v, docs/capacity.md lists %v", slices.Sorted(maps.Keys(counted)), slices.Sorted(maps.Keys(listed)))
	}
}
