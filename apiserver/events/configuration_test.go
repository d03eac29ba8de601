package events

import (
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// TestEventsOfResourcesHaveTheFormOfTheCatalogue: the store writes these events itself, in the transaction of the
// resource.
func TestEventsOfResourcesHaveTheFormOfTheCatalogue(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 5, 10, 11, 0, 0, 0, time.UTC)
	if SourceDeclared != store.SourceDeclared || SourceHTTP != store.SourceHTTP {
		t.Error("the sources are other ones than those of the store")
	}
	for what, source := range map[Type]string{ConfigurationCreated: SourceDeclared, ConfigurationUpdated: SourceHTTP, ConfigurationDeleted: ""} {
		got, err := people.ConfigurationChange{Type: string(what), Deployment: "acme/main", ID: 7, Kind: "APIKey", Name: "shop", Generation: 3, Source: source}.Event(at)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Event{Type: what, Subject: 7, Data: Data{Kind: "APIKey", Name: "shop", Generation: 3, Source: source}}.Log(at, "system")
		if err != nil || got != want {
			t.Errorf("%+v, want %+v: %v", got, want, err)
		}
		entry, _ := Find(what)
		if err := compiled(t, entry).Validate(dataOf(t, got)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
