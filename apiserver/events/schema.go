package events

import (
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// schemas has the JSON Schema of each form.
var schemas = map[Form]map[string]any{
	ID:    {"type": "string", "pattern": "^[1-9][0-9]{0,18}$"},
	Text:  {"type": "string"},
	Names: {"type": "array", "items": map[string]any{"type": "string"}, "minItems": 1},
	Truth: {"type": "boolean"},
	Count: {"type": "integer", "minimum": 0},
	Texts: {"type": "array", "items": map[string]any{"type": "string"}},
}

// Schema returns the JSON Schema (2020-12) of the data of a type. Later versions of Cardea may add members.
func (e Entry) Schema() map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, m := range e.Members {
		property := map[string]any{"description": m.Description}
		for name, value := range schemas[m.Of] {
			property[name] = value
		}
		if len(m.Values) > 0 {
			property["enum"] = m.Values
		}
		properties[m.Name] = property
		if !m.Optional {
			required = append(required, m.Name)
		}
	}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": string(e.Type), "type": "object",
		"properties": properties, "required": required, "additionalProperties": true,
	}
}

// Example returns an event of a type, with all members.
func (e Entry) Example() people.LoggedEvent {
	const subject, other, organization, workspace = 419524352409601001, 420437871820801002, 420445421568002002, 420445421568003003
	at := time.Date(2026, time.May, 10, 11, 0, 0, 0, time.UTC)
	event := Event{Type: e.Type, Subject: subject, Data: Data{User: other, Email: other, Phone: other, Role: other, SessionsEnded: 2, Changed: []string{"name"}, Level: LevelOrganization,
		SignIn: other, Method: people.MethodPassword, Reason: SignedOut, Step: StepPassword, App: "reports", Last4: "x7Qd", Next: other, Source: SourceHTTP,
		OAuthApp: other, Client: ids.Format(other), Scopes: []string{"openid", "orders:read"}, Rows: 1200, Agent: other, Tool: subject, Cause: CauseSustained, Since: at.Add(-time.Hour), From: 41200, To: 45911,
		Scheme: "partners", Rule: "100/1min", Mode: "per_key", Key: subject, Count: 1730, Kind: "APIAuthApp", Name: "reports", Generation: 3,
		Call: subject, Decision: people.CallAllowed, Outcome: people.CallFailed, Code: "upstream_status", Latency: 213 * time.Millisecond}}
	if e.Type == EndpointFailing {
		event.Data.Cause = CauseStatus
	}
	switch e.Type.Subject() {
	case "session":
		switch e.Type {
		case SessionRevoked:
			event.Data.Reason = Evicted
		case SessionSwitched:
			event.Organization, event.Workspace = organization, workspace
		}
	case "import":
		event.Subject, event.Named = 0, "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	case "oauth_client":
		event.Data.Source = SourceBackend
	case "webhook_endpoint", "rate_limit_scheme", "configuration": // it belongs to no organization
	case "user":
		event.Data.Changed = []string{"first_name"}
	case "organization":
		event.Subject, event.Organization = organization, organization
	case "workspace":
		event.Subject, event.Organization, event.Workspace = workspace, organization, workspace
	default:
		event.Organization = organization
	}
	logged, _ := event.Log(at, "user:"+ids.Format(other)) // a test logs the example of each type
	logged.Sequence, logged.ID = 48213, 420634165248007002
	return logged
}
