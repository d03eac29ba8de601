package frontendtest

import (
	"crypto/rand"
	"fmt"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Approvable is an agent with a tool whose calls need an approval.
type Approvable struct {
	w           *World
	Agent, Tool int64
	content     string
}

// DeclareApprovable declares the agent support with the tool cancel-order. Tokens of the OAuthApp portal are accepted.
func (w *World) DeclareApprovable(approval *document.ToolApproval) *Approvable {
	w.T.Helper()
	a := &Approvable{w: w}
	a.Tool = w.Put(v1alpha1.KindAITool, "cancel-order", Deployment, "", document.AITool{
		Name: "Cancel an order", Type: string(v1alpha1.AIToolTypeAPI), Active: true, RequiresUserApproval: true, Method: "POST", TimeoutSeconds: 30,
		Endpoint: "https://api.acme.example/v1/orders/{number}/cancellation?dry=no", Approval: approval,
	})
	a.Agent = w.Put(v1alpha1.KindAIAgent, "support", Deployment, "", document.AIAgent{
		Name: "Support", Active: true, Tools: []string{"cancel-order"}, OAuthApp: "portal", URL: "https://localhost/mcp/support",
	})
	follower := snapshot.NewFollower(w.Store, time.Second, w.Clock.Now, logr.Discard())
	w.Follow(follower)
	w.Must(follower.Wait(w.T.Context(), func(s *snapshot.Snapshot) bool {
		a.content = approvals.Content(s, Deployment, a.Agent, a.Tool)
		return a.content != ""
	}))
	return a
}

// Ask inserts a pending approval with arguments, a JSON object, and returns it with its id.
func (a *Approvable) Ask(of people.Approval, arguments string) people.Approval {
	a.w.T.Helper()
	a.w.Clock.Advance(time.Millisecond) // ids of one time are in no order
	now := a.w.Clock.Now()
	a.w.Must(a.w.Store.Change(a.w.T.Context(), Deployment, func(tx people.Tx) (err error) {
		if of.ID, err = ids.New(now, rand.Reader); err != nil {
			return err
		}
		of.Agent, of.Tool, of.AgentName, of.ToolName, of.Content = a.Agent, a.Tool, "support", "cancel-order", a.content
		of.Key, of.Digest, of.Status = fmt.Sprint("key ", of.ID), fmt.Sprint("digest ", of.ID), people.ApprovalPending
		of.Arguments = approvals.Seal(a.w.Keyring, Deployment, of.ID, []byte(arguments))
		of.RequestedAt, of.EndsAt = now, now.Add(10*time.Minute)
		_, err = tx.Approvals().InsertApproval(of)
		return err
	}))
	return of
}

// Path returns the path of an approval in the API and on the pages, below a prefix.
func Path(prefix string, a people.Approval) string { return prefix + "/" + ids.Format(a.ID) }
