package toolcall

import (
	"bytes"
	"encoding/json"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/toolschema"
)

// CodeTool is the code of a call whose tool reports an error instead of a result.
const CodeTool = "tool_error"

// Late is a result that came after the response to the call: the body of a request of the tool.
type Late struct {
	// Result is any JSON value, nil if there is none.
	Result json.RawMessage `json:"result"`
	// Error is the text of a failure.
	Error string `json:"error"`
}

// Read returns the result in the form that the tool declares, without secret values.
func (l Late) Read(tool *document.AITool, output *toolschema.Validator, secrets []string) Result {
	reader := newReader(secrets)
	reader.shape = shape{tool.Response, output}
	var out Result
	switch {
	case l.Error != "":
		out = Failed(CodeTool, "The tool reports an error: %s", reader.quoted(l.Error))
	case int64(len(l.Result)) > tool.Response.MostBytes():
		out = Failed(CodeTooLarge, "The tool's answer has more than %d bytes.", tool.Response.MostBytes())
	default:
		out = reader.structured(bytes.TrimSpace(l.Result))
	}
	out.BytesIn = len(l.Result) + len(l.Error)
	return out
}
