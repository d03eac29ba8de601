package toolcall

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/internal/webhook"
)

// callType is the type of the events by which tools of types function and webhook are called.
const callType = "agent.tool.call"

// Signature is what a signed call has in addition to the request of an API tool.
type Signature struct {
	// Keys sign the body, the current one first.
	Keys []webhook.Key
	// Secrets are the texts of Keys and tokens that no result repeats.
	Secrets []string
	Clock   func() time.Time
	// Data is what the tool gets in addition to the arguments.
	Data Data
}

// Named is a resource by its id and by its name for models.
type Named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Data is the content of a signed call. Ids are decimal; nil members are null.
type Data struct {
	CallID string `json:"call_id"`
	Tool   Named  `json:"tool"`
	Agent  Named  `json:"agent"`
	// Endpoint is that of the tool. All tools of a deployment share its key, so a receiver compares it with its own.
	Endpoint       string         `json:"endpoint"`
	Arguments      map[string]any `json:"arguments"`
	UserID         *string        `json:"user_id"`
	OrganizationID *string        `json:"organization_id"`
	WorkspaceID    *string        `json:"workspace_id"`
	// ResultURL and ResultToken are where and with which bearer token a result that comes later is sent, "" for tools
	// whose results do not.
	ResultURL   string `json:"result_url,omitempty"`
	ResultToken string `json:"result_token,omitempty"`
}

// envelope returns the body of a signed call.
func (c *Call) envelope(arguments map[string]any) ([]byte, error) {
	data := c.Signature.Data
	data.CallID, data.Arguments, data.Endpoint = c.ID, arguments, c.Tool.Endpoint
	return json.Marshal(struct {
		Type      string    `json:"type"`
		Timestamp time.Time `json:"timestamp"`
		Data      Data      `json:"data"`
	}{callType, c.Signature.Clock().UTC().Truncate(time.Second), data})
}

// sign signs a request with a body.
func (c *Call) sign(r *http.Request, body []byte) {
	webhook.Sign(r.Header, "call_"+c.ID, c.Signature.Clock(), body, c.Signature.Keys...)
}
