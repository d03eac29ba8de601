package toolset

import "encoding/json"

// Formats of definitions.
const (
	// FormatMCP is that of tools/list of the Model Context Protocol.
	FormatMCP = "mcp"
	// FormatOpenAI is that of OpenAI's Responses API.
	FormatOpenAI = "openai"
	// FormatOpenAIChat is that of OpenAI's Chat Completions API, which many servers of models have.
	FormatOpenAIChat = "openai-chat"
	// FormatAnthropic is that of Anthropic's Messages API.
	FormatAnthropic = "anthropic"
)

// Formats returns the formats of definitions.
func Formats() []string { return []string{FormatMCP, FormatOpenAI, FormatOpenAIChat, FormatAnthropic} }

// responsesTool is a function of the Responses API. Strict schemas require every member, so that mode is off; it is on
// where the member is absent.
type responsesTool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Strict      bool            `json:"strict"`
}

type chatTool struct {
	Type     string       `json:"type"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type messagesTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"input_schema"`
}

// Definition returns the JSON object of a tool in a format of Formats.
func (t *Tool) Definition(format string) (json.RawMessage, error) {
	d := t.described
	switch format {
	case FormatOpenAI:
		return json.Marshal(responsesTool{"function", d.Name, d.Description, d.InputSchema, false})
	case FormatOpenAIChat:
		return json.Marshal(chatTool{"function", chatFunction{d.Name, d.Description, d.InputSchema}})
	case FormatAnthropic:
		return json.Marshal(messagesTool{d.Name, d.Description, d.InputSchema})
	}
	return t.Listed, nil
}
