package config

import (
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// changesOf returns the changes of resources that a decision makes, for their events. It is called before the decision
// is applied. A resource changes with its UID or its generation: another content of the same generation, such as that
// of a rotated Secret or of a new release, is no change of it, and neither is a deletion that retains the document.
func changesOf(held *batchState, d decision, o Op) (changes []people.ConfigurationChange) {
	if d.err != nil {
		return nil
	}
	for _, id := range d.displace {
		changes = append(changes, changeOf(people.ConfigurationDeleted, held.documents[id], ""))
	}
	before, found := held.documents[o.Put.Identity]
	switch {
	case d.remove:
		return append(changes, changeOf(people.ConfigurationDeleted, before, ""))
	case d.write == nil || o.Verb != VerbPut || o.Put.Source == "":
		return changes
	case !found:
		return append(changes, changeOf(people.ConfigurationCreated, *d.write, o.Put.Source))
	case before.UID != d.write.UID || before.Generation != d.write.Generation:
		return append(changes, changeOf(people.ConfigurationUpdated, *d.write, o.Put.Source))
	}
	return changes
}

func changeOf(what string, d store.Document, source string) people.ConfigurationChange {
	return people.ConfigurationChange{Type: what, Deployment: d.Deployment, ID: d.ID, Kind: d.Kind, Name: d.Name, Generation: d.Generation, Source: source}
}
