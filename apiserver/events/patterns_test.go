package events

import (
	"testing"

	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/store/people"
)

// The operator accepts the patterns that servers know.
func TestCatalogueHasTheTypesAndVersionsThatPatternsSelect(t *testing.T) {
	t.Parallel()
	for _, e := range Catalogue {
		if eventtype.Versions[string(e.Type)] != e.Version {
			t.Errorf("eventtype.Versions has version %d of %s, the catalogue %d", eventtype.Versions[string(e.Type)], e.Type, e.Version)
		}
	}
	if len(Catalogue) != len(eventtype.Versions) {
		t.Errorf("eventtype.Versions has %d types, the catalogue %d", len(eventtype.Versions), len(Catalogue))
	}
}

// TestUnknownTypesAreSelectedByNoPattern: a server of the next release can log types that this one does not know. They
// are listed without a filter.
func TestUnknownTypesAreSelectedByNoPattern(t *testing.T) {
	t.Parallel()
	all, err := ParseTypes([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	e := people.LoggedEvent{Type: "user.renamed"}
	if !(Filter{}).Takes(&e) || (Filter{Types: all}).Takes(&e) {
		t.Error("the filters take an unknown type otherwise")
	}
}
