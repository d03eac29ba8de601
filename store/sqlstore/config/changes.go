package config

import (
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// changesOf returns the changes of resources that a decision makes, for their events. It is called before the decision
// is applied. A resource changes with its UID or its generation. Another content of the same generation, such as that
// of a rotated Secret or of a new release, is no change of it, so it has no type; a deletion that retains the document
// is no change at all.
func changesOf(held *batchState, d decision, o Op) (changes []people.ConfigurationChange) {
	if d.err != nil {
		return nil
	}
	for _, id := range d.displace {
		changes = append(changes, ended(held.documents[id]))
	}
	before, found := held.documents[o.Put.Identity]
	switch {
	case d.remove:
		return append(changes, ended(before))
	case d.write == nil || o.Verb != VerbPut || o.Put.Source == "":
		return changes
	}
	change := changeOf(people.ConfigurationCreated, *d.write)
	change.Source, change.After = o.Put.Source, stateOf(*d.write)
	if found {
		change.Type, change.Before = people.ConfigurationUpdated, stateOf(before)
		if before.UID == d.write.UID && before.Generation == d.write.Generation {
			change.Type = ""
		}
	}
	return append(changes, change)
}

// ended returns the change of a document that is deleted.
func ended(d store.Document) people.ConfigurationChange {
	change := changeOf(people.ConfigurationDeleted, d)
	change.Before = stateOf(d)
	return change
}

func changeOf(what string, d store.Document) people.ConfigurationChange {
	return people.ConfigurationChange{Type: what, Deployment: d.Deployment, ID: d.ID, Kind: d.Kind, Name: d.Name, Generation: d.Generation}
}

func stateOf(d store.Document) *people.ConfigurationState {
	return &people.ConfigurationState{ID: d.ID, Generation: d.Generation, Payload: d.Payload}
}
