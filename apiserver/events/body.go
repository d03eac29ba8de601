package events

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"

	backendapi "github.com/cardea-iam/cardea/client/backend"
)

// IDPrefix begins the ids of events.
const IDPrefix = "evt_"

// Served is the form of a numbered event in GET /events and in webhooks. deployment is the id of its deployment.
func Served(e *people.LoggedEvent, deployment int64) backendapi.Event {
	actorType, actorID, _ := strings.Cut(e.Actor, ":")
	served := backendapi.Event{
		Id: IDPrefix + ids.Format(e.ID), Type: e.Type, Version: e.Version, Timestamp: e.At, Sequence: strconv.FormatInt(e.Sequence, 10),
		DeploymentId: ids.Format(deployment), Actor: backendapi.EventParty{Type: actorType, Id: actorID}, Subject: backendapi.EventParty{Type: e.SubjectType, Id: e.SubjectID},
		OrganizationId: idOrNull(e.Organization), WorkspaceId: idOrNull(e.Workspace), Data: json.RawMessage("{}"),
	}
	if e.Data != "" {
		served.Data = json.RawMessage(e.Data)
	}
	return served
}

func idOrNull(id int64) *string {
	if id == 0 {
		return nil
	}
	text := ids.Format(id)
	return &text
}

// CloudEvent returns a served event in the structured JSON of CloudEvents 1.0.2.
func CloudEvent(served backendapi.Event) ([]byte, error) {
	data := map[string]any{}
	if err := json.Unmarshal(served.Data, &data); err != nil {
		return nil, err
	}
	data["actor"], data["organization_id"], data["workspace_id"] = served.Actor, served.OrganizationId, served.WorkspaceId
	return json.Marshal(map[string]any{
		"specversion": "1.0", "id": served.Id, "source": "urn:cardea:deployment:" + served.DeploymentId,
		"type": "dev.cardea.iam." + served.Type + ".v" + strconv.FormatInt(served.Version, 10), "time": served.Timestamp.UTC(),
		"subject": served.Subject.Type + "/" + served.Subject.Id, "datacontenttype": "application/json", "sequence": served.Sequence,
		"deploymentid": served.DeploymentId, "data": data,
	})
}
