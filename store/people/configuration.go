package people

import (
	"encoding/json"
	"fmt"
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
	// Type is one of the types of events of resources, "" for a change that has no such event: another content of the same
	// generation.
	Type string
	// Deployment is the "namespace/name" of the deployment, and ID the id under which the resource is served.
	Deployment string
	ID         int64
	Kind, Name string
	Generation int64
	// Source is store.SourceDeclared or store.SourceHTTP, "" for a deletion.
	Source string
	// Before and After are what the store has before and after the change, nil for no document.
	Before, After *ConfigurationState
}

// ConfigurationState is a document before or after a change.
type ConfigurationState struct {
	ID, Generation int64
	// Payload is that of package document.
	Payload []byte
}

// Events returns the events of the change, without ids: that of the resource, and those of the API key or the OAuth
// client that it declares. The function apps returns the APIAuthApp or the OAuthApp to which that belongs.
func (c ConfigurationChange) Events(at time.Time, apps func(kind, name string) (DeclaredApp, error)) ([]LoggedEvent, error) {
	var events []LoggedEvent
	if c.Type != "" {
		data := map[string]any{"kind": c.Kind, "name": c.Name, "generation": c.Generation}
		if c.Source != "" {
			data["source"] = c.Source
		}
		e, err := systemEvent(at, c.Type, SubjectConfiguration, c.ID, data)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	of, known := declaredKinds[c.Kind]
	if !known {
		return events, nil
	}
	declared, err := of(c, apps)
	if err != nil {
		return nil, fmt.Errorf("events of %s %s in %s: %w", c.Kind, c.Name, c.Deployment, err)
	}
	for _, d := range declared {
		e, err := systemEvent(at, d.what, d.subject, d.id, d.data)
		if err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, nil
}

// systemEvent returns an event of the newest version of its type.
func systemEvent(at time.Time, what, subject string, id int64, data map[string]any) (LoggedEvent, error) {
	text, err := json.Marshal(data)
	return LoggedEvent{
		At: at, Type: what, Version: eventtype.Versions[what], Actor: "system", SubjectType: subject, SubjectID: ids.Format(id), Data: string(text),
	}, err
}
