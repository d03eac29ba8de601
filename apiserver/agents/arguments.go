package agents

import (
	"encoding/json"

	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/internal/toolschema"
)

const (
	// maxArguments bounds the arguments of a call, in bytes.
	maxArguments = 64 << 10
	// maxIdempotencyKey bounds a client's idempotency key, in characters.
	maxIdempotencyKey = 128
)

// objectOf returns arguments as they were sent, an empty object for none.
func objectOf(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 || string(raw) == "null" {
		return json.RawMessage(`{}`)
	}
	return raw
}

// readArguments reads and validates the arguments of a tool, and returns their canonical form (RFC 8785) too. The
// arguments are those of that form, so that what is recorded, shown to approvers and sent is the same. It returns the
// result of a call with wrong arguments.
func readArguments(t *toolset.Tool, raw json.RawMessage) (map[string]any, []byte, *toolcall.Result) {
	refuse := func(text string) (map[string]any, []byte, *toolcall.Result) {
		refused := toolcall.Failed(toolcall.CodeArguments, "%s", text)
		return nil, nil, &refused
	}
	if raw = objectOf(raw); len(raw) > maxArguments {
		return refuse("The arguments are too long: shorten them.")
	}
	value, err := toolschema.Read(raw)
	if err != nil {
		return refuse("The arguments are no JSON object.")
	}
	faults := t.Arguments.Faults(value)
	if len(faults) == 0 {
		faults = toolschema.Inexact(value)
	}
	if len(faults) > 0 {
		text := "The arguments do not have the form of the tool's inputSchema. Correct them and call again:"
		for _, one := range faults {
			text += "\n" + toolcall.Clean(one)
		}
		return refuse(text)
	}
	canonical, err := callrecord.Canonical(raw)
	if err != nil {
		return refuse("The arguments have a name twice in one object: send it once.")
	}
	if value, err = toolschema.Read(canonical); err != nil {
		return refuse("The arguments are no JSON object.")
	}
	return value.(map[string]any), canonical, nil // the schema is that of an object
}

// idempotencyKeyOf returns the client's idempotency key, "" for none.
func idempotencyKeyOf(r *request) (key string, err error) {
	raw, sent := r.params.Meta[metaIdempotency]
	if !sent {
		return "", nil
	}
	wrong := faulty(codeParams, metaIdempotency+" has 1 to 128 visible ASCII characters")
	if json.Unmarshal(raw, &key) != nil || key == "" || len(key) > maxIdempotencyKey {
		return "", wrong
	}
	for _, r := range key {
		if r <= ' ' || r > '~' {
			return "", wrong
		}
	}
	return key, nil
}
