package frontendtest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// Logged numbers the events of the deployment, and returns those after a number. Each has a known type and members of
// that type, and neither addresses nor names of the persons of stories.
func Logged(t testing.TB, store people.Store, after int64) (list []people.LoggedEvent) {
	t.Helper()
	err := store.Change(t.Context(), Deployment, func(tx people.Tx) error {
		for {
			numbered, err := tx.EventLog().NumberEvents(1000)
			if err != nil {
				return err
			}
			if len(numbered) == 0 {
				break
			}
		}
		all, err := tx.EventLog().EventsAfter(after, 1000)
		list = all
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		if strings.Contains(e.Data+e.Actor, "@") || strings.Contains(e.Data, "Lovelace") {
			t.Errorf("%s has personal data: %s %s", e.Type, e.Actor, e.Data)
		}
		entry, found := events.Find(events.Type(e.Type))
		var data map[string]any
		if e.Data != "" && json.Unmarshal([]byte(e.Data), &data) != nil {
			t.Errorf("%s: %s is no object", e.Type, e.Data)
		}
		for name := range data {
			if !found || !slices.ContainsFunc(entry.Members, func(m events.Member) bool { return m.Name == name }) {
				t.Errorf("%s has the data %s", e.Type, e.Data)
			}
		}
	}
	return list
}

// Happens runs do, and compares the types of its events with want. It returns the events. Those of opt-in types, which
// may be written later, are left out.
func Happens(t testing.TB, store people.Store, do func(), want ...events.Type) []people.LoggedEvent {
	t.Helper()
	before := Logged(t, store, 0)
	do()
	list := Logged(t, store, int64(len(before)))
	list = slices.DeleteFunc(list, func(e people.LoggedEvent) bool { return events.Type(e.Type).OptIn() })
	var types []events.Type
	for _, e := range list {
		types = append(types, events.Type(e.Type))
	}
	if !slices.Equal(types, want) {
		t.Errorf("the events are %v, want %v", types, want)
		return make([]people.LoggedEvent, len(want))
	}
	return list
}
