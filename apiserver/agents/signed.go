package agents

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// sign completes a call of a type that is signed: with the keys, and with what the tool gets in addition to the
// arguments. It returns the result of the call if there is no key.
func (r *recorded) sign(allowed *toolcall.Call) (*toolcall.Result, error) {
	content := &r.tool.Content.AITool
	allowed.Signature = nil
	if !content.Signed() {
		return nil, nil
	}
	refused := toolcall.Failed(codeNotConfigured, notConfigured)
	s := &toolcall.Signature{Clock: r.Clock, Data: toolcall.Data{
		Tool: toolcall.Named{ID: ids.Format(r.tool.Entry.ID), Name: r.tool.Name}, Agent: toolcall.Named{ID: ids.Format(r.agent.ID), Name: r.agent.Name},
		UserID: idOrNull(r.caller.User), OrganizationID: idOrNull(r.caller.Organization), WorkspaceID: idOrNull(r.caller.Workspace),
	}}
	if content.SigningSecret {
		secret, err := signingSecret(r.call, r.tool)
		if err != nil {
			return &refused, nil
		}
		key, err := webhook.ParseSecret(secret)
		if err != nil {
			return &refused, nil
		}
		s.Keys, s.Secrets = []webhook.Key{key}, []string{secret}
	} else {
		var err error
		if s.Keys, err = r.Signer.Webhooks(r.settings, r.Clock()); err != nil {
			return nil, err
		}
	}
	if content.Type == document.ToolTypeWebhook {
		if r.content.URL == "" || r.Keyring.Empty() { // nothing receives or seals results that come later
			return &refused, nil
		}
		s.Data.ResultURL = strings.TrimSuffix(r.content.URL, prefix+r.agent.Name) + resultPrefix + allowed.ID
		s.Data.ResultToken = r.sealResultToken(allowed)
		s.Secrets = append(s.Secrets, s.Data.ResultToken)
	}
	allowed.Signature = s
	return nil, nil
}

// signingSecret returns the secret that signs the calls of a tool. It logs why there is none.
func signingSecret(c *call, t *toolset.Tool) (string, error) {
	secret, err := c.Keyring.Open(document.SealedToolHeader, document.ToolHeaderID(ids.Format(t.Entry.ID), document.ToolSigningSecret), t.Content.SealedSigningSecret)
	if err != nil {
		tracing.Logger(c.r.Context(), c.Log).Error(err, "The signing secret of a tool cannot be opened: give the server the operator's root keys",
			"namespace", t.Entry.Namespace, "name", t.Entry.Name, "request_id", c.ID[0])
	}
	return string(secret), err
}

func idOrNull(id int64) *string {
	if id == 0 {
		return nil
	}
	text := ids.Format(id)
	return &text
}

// resultState is the content of the token with which a tool sends a result that comes later.
type resultState struct {
	Ends time.Time `json:"ends"`
	// Token is the bearer token that the tool got, "" for none. The result must not repeat it.
	Token string `json:"token,omitempty"`
	// User is the user of the call, 0 for none. The result of a deleted user's call is not kept.
	User int64 `json:"user,omitempty"`
}

// sealResultToken returns the token with which the tool sends the result of this call.
func (r *recorded) sealResultToken(allowed *toolcall.Call) string {
	content, _ := json.Marshal(resultState{r.Clock().Add(r.tool.Content.ResultLifetime()), allowed.Token, r.caller.User}) // it can be encoded
	return r.Keyring.Seal(document.SealedResultToken, r.agent.Deployment+"/"+allowed.ID, content)
}
