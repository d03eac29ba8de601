package toolset

import (
	"encoding/json"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// Call is a call of an agent's tool without the Model Context Protocol.
type Call struct {
	Snapshot *snapshot.Snapshot
	Caller   *caller.Caller
	Agent    *snapshot.Entry
	// Tool is the id of the tool or its name for models.
	Tool           string
	Arguments      json.RawMessage
	IdempotencyKey string
}
