package people

import (
	"encoding/json"
	"time"

	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/internal/ids"
)

// The types of events of resources.
const (
	ConfigurationCreated = "configuration.created"
	ConfigurationUpdated = "configuration.updated"
	ConfigurationDeleted = "configuration.deleted"
)

// SubjectConfiguration is the subject type of events of resources.
const SubjectConfiguration = "configuration"

// ConfigurationChange is a change of a resource in the store.
type ConfigurationChange struct {
	// Type is one of the types of events of resources.
	Type string
	// Deployment is the "namespace/name" of the deployment, and ID the id under which the resource is served.
	Deployment string
	ID         int64
	Kind, Name string
	Generation int64
	// Source is store.SourceDeclared or store.SourceHTTP, "" for a deletion.
	Source string
}

// Event returns the event of the change. It has no id yet.
func (c ConfigurationChange) Event(at time.Time) (LoggedEvent, error) {
	data := map[string]any{"kind": c.Kind, "name": c.Name, "generation": c.Generation}
	if c.Source != "" {
		data["source"] = c.Source
	}
	text, err := json.Marshal(data)
	return LoggedEvent{
		At: at, Type: c.Type, Version: eventtype.Versions[c.Type], Actor: "system", SubjectType: SubjectConfiguration, SubjectID: ids.Format(c.ID), Data: string(text),
	}, err
}
