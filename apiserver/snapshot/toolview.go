package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"

	backendapi "github.com/cardea-iam/cardea/client/backend"
)

// toolView is a tool's JSON object with the members of every view, without its first member, deployment_id. The other
// views are parts of it, because a deployment may have thousands of tools that are never read.
type toolView struct {
	merged []byte
	// The members end here, each without the comma after it: id; created_at and updated_at; name and description;
	// tool_type, requires_user_approval and configuration. The rest is type, config and is_active.
	id, times, texts, configuration int32
}

var errToolOrder = errors.New("the generated type AIToolMerged has another order of members: restore x-order in backend.yaml")

func newToolView(tool *backendapi.AIToolMerged) (v toolView, err error) {
	if v.merged, err = renderInDeployment(tool); err != nil {
		return v, err
	}
	configuration, err := json.Marshal(tool.Configuration)
	if err != nil {
		return v, err
	}
	// The first match is the member, because in the strings before it every quotation mark has a backslash.
	at := 0
	for _, part := range []struct {
		end  *int32
		next string
	}{{&v.id, `,"created_at":`}, {&v.times, `,"name":`}, {&v.texts, `,"tool_type":`}, {&v.configuration, `,"configuration":`}} {
		n := bytes.Index(v.merged[at:], []byte(part.next))
		if n < 0 {
			return v, errToolOrder
		}
		at += n
		*part.end = int32(at)
	}
	v.configuration += int32(len(`,"configuration":`) + len(configuration))
	if !bytes.HasPrefix(v.merged[v.configuration:], []byte(`,"type":`)) {
		return v, errToolOrder
	}
	return v, nil
}

// inAgent returns the members of the view in an agent, without the brace at their end.
func (v *toolView) inAgent() []byte { return v.merged[:v.configuration] }

// appendPlain appends the view outside of agents.
func (v *toolView) appendPlain(to []byte) []byte {
	to = append(append(to, '{'), v.merged[:v.id]...)
	to = append(to, v.merged[v.times:v.texts]...)
	to = append(to, v.merged[v.configuration:len(v.merged)-1]...)
	return append(append(to, v.merged[v.id:v.times]...), '}')
}
