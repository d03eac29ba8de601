package agents_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

const helpdeskURL = "http://localhost/mcp/helpdesk"

// boundWorld has two agents with two tools of equal form, and three users' authorizations of two clients.
type boundWorld struct {
	*peopleWorld
	agents map[string]document.AIAgent
	// own is a token of Ada by the client cli in organization 50, good at both agents.
	own string
}

func newBoundWorld(t *testing.T, url string) *boundWorld {
	t.Helper()
	w := &boundWorld{peopleWorld: newPeopleWorldIn(t, newWorldOver(t, url), nil), agents: map[string]document.AIAgent{}}
	for _, name := range []string{"pay", "refund"} {
		w.declareMoneyTool(name, nil)
	}
	for name, address := range map[string]string{"support": agentURL, "helpdesk": helpdeskURL} {
		w.agents[name] = document.AIAgent{Name: "Support", Active: true, Tools: []string{"pay", "refund"}, URL: address, OAuthApp: "portal", Sessions: true}
		w.declareBound(name, nil)
	}
	w.own = w.bothAgents(w.authorizes(7, nil))
	return w
}

// declareMoneyTool declares a tool whose calls the user approves.
func (w *boundWorld) declareMoneyTool(name string, change func(*document.AITool)) {
	w.T.Helper()
	tool := document.AITool{
		Type: "api", Name: "Pay", Method: "POST", Endpoint: w.up.URL + "/payments", RequiresUserApproval: true, TimeoutSeconds: 5, Active: true,
		RequestBodySchema: []schemafield.Field{{Name: "cents", FieldType: "INTEGER", Required: true}, {Name: "note", FieldType: "STRING"}},
	}
	if change != nil {
		change(&tool)
	}
	w.Put(v1alpha1.KindAITool, name, frontendtest.Deployment, "", tool)
}

func (w *boundWorld) declareBound(name string, change func(*document.AIAgent)) {
	w.T.Helper()
	agent := w.agents[name]
	if change != nil {
		change(&agent)
	}
	w.Put(v1alpha1.KindAIAgent, name, frontendtest.Deployment, "", agent)
}

// bothAgents signs an access token of a family for both agents.
func (w *boundWorld) bothAgents(family people.TokenFamily) string {
	return w.tokenOf(family, "orders:read", forAudience(agentURL, helpdeskURL))
}

// boundCall is a call of a tool that needs an approval.
type boundCall struct{ credential, agent, tool, arguments string }

func (w *boundWorld) try(c boundCall) answer {
	return w.post(c.agent, c.credential, callBody(c.tool, c.arguments))
}

// approved asks for the approval of a call, and approves it.
func (w *boundWorld) approved(c boundCall) int64 {
	w.T.Helper()
	a := w.try(c)
	code, approval, _ := failureOf(a)
	if code != "approval_required" {
		w.T.Fatalf("the call: %d %s", a.status, a.raw)
	}
	id, err := ids.Parse(approval)
	w.Must(err)
	(&approvalWorld{peopleWorld: w.peopleWorld}).decide(id, people.ApprovalApproved)
	return id
}

// denyPending denies every approval that waits, because only some may wait for a user.
func (w *boundWorld) denyPending() {
	w.T.Helper()
	now := w.Clock.Now()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		waiting, err := tx.Approvals().ListApprovals(people.ApprovalFilter{Status: people.ApprovalPending}, 100)
		for i := 0; err == nil && i < len(waiting); i++ {
			_, err = tx.Approvals().DecideApproval(waiting[i].ID, people.ApprovalDenied, 7, now, now.Add(time.Minute))
		}
		return err
	}))
}

// expectUnused checks that a call neither uses an approval nor is sent.
func (w *boundWorld) expectUnused(what string, c boundCall, approval int64) {
	w.T.Helper()
	_, before := w.up.last()
	a := w.try(c)
	code, other, _ := failureOf(a)
	if code != "approval_required" || other == ids.Format(approval) {
		w.T.Errorf("%s: %d %s", what, a.status, a.raw)
	}
	direct := w.directAnswer(c.credential, "acme", c.agent, c.tool, `{"arguments":`+c.arguments+`}`)
	if !strings.Contains(direct.Body.String(), `"status":"approval_required"`) {
		w.T.Errorf("%s without MCP: %d %s", what, direct.Code, direct.Body)
	}
	if _, after := w.up.last(); after != before {
		w.T.Errorf("%s: %d calls were sent", what, after-before)
	}
	if stored := w.approvalOf(approval); stored.Status != people.ApprovalApproved {
		w.T.Errorf("%s: the approval is %s", what, stored.Status)
	}
	w.denyPending()
}

// expectUsed checks that the approved call itself is sent, with the approval, and only once.
func (w *boundWorld) expectUsed(what string, c boundCall, approval int64) {
	w.T.Helper()
	_, before := w.up.last()
	if a := w.try(c); !strings.Contains(a.raw, `"open"`) {
		w.T.Errorf("the call itself, after %s: %d %s", what, a.status, a.raw)
	}
	if _, after := w.up.last(); after != before+1 || w.approvalOf(approval).Status != people.ApprovalUsed {
		w.T.Errorf("the call itself, after %s: %d calls were sent, and the approval is %s", what, after-before, w.approvalOf(approval).Status)
	}
	if code, _, _ := failureOf(w.try(c)); code != "approval_required" {
		w.T.Errorf("the call again, after %s: %s", what, code)
	}
	if _, after := w.up.last(); after != before+1 {
		w.T.Errorf("the call again, after %s: it was sent", what)
	}
	w.denyPending()
}

// secondClient declares another client of the app, and returns its id.
func (w *boundWorld) secondClient() string {
	w.T.Helper()
	return ids.Format(w.Put(v1alpha1.KindOAuthClient, "second", frontendtest.Deployment, "", document.OAuthClient{
		App: "portal", Name: "CLI", Active: true, Authentication: "None", GrantTypes: []string{"AuthorizationCode", "RefreshToken"}, RedirectURIs: []string{"https://client.example/callback"},
	}))
}

func TestApprovalIsNotUsedByACallThatDiffersInOnePart(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		second := w.secondClient()
		otherUser := w.bothAgents(w.authorizes(101, nil))
		otherClient := w.bothAgents(w.authorizes(7, func(f *people.TokenFamily) { f.Client = second }))
		noOrganization := w.bothAgents(w.authorizes(7, func(f *people.TokenFamily) { f.Organization = 0 }))
		refreshed := w.bothAgents(w.authorizes(7, nil))
		session, key := w.sessions()(agentURL), w.declareKeyOf(7).Plain()
		for i, one := range []struct {
			what   string
			change func(*boundCall)
		}{
			{"another amount", func(c *boundCall) { c.arguments = strings.Replace(c.arguments, `{"cents":`, `{"cents":1`, 1) }},
			{"one argument more", func(c *boundCall) { c.arguments = strings.Replace(c.arguments, `}`, `,"note":""}`, 1) }},
			{"another tool of equal form", func(c *boundCall) { c.tool = "refund" }},
			{"another agent of equal form", func(c *boundCall) { c.agent = "helpdesk" }},
			{"another client of the user", func(c *boundCall) { c.credential = otherClient }},
			{"another user of the client", func(c *boundCall) { c.credential = otherUser }},
			{"no organization", func(c *boundCall) { c.credential = noOrganization }},
			{"the user's session", func(c *boundCall) { c.credential = session }},
			{"the user's key", func(c *boundCall) { c.credential = key }},
		} {
			own := boundCall{w.own, "support", "pay", fmt.Sprintf(`{"cents":%d}`, 500+i)}
			id := w.approved(own)
			other := own
			one.change(&other)
			w.expectUnused(one.what, other, id)
			w.expectUsed(one.what, own, id)
		}
		// The token of the call is no part of what was approved: the client may have a new one.
		own := boundCall{w.own, "support", "pay", `{"cents":900,"note":"n"}`}
		id := w.approved(own)
		own.credential, own.arguments = refreshed, ` { "note" : "n", "cents" : 9e2 } `
		w.expectUsed("another token and spelling", own, id)
	})
}

func TestApprovalIsNotUsedAfterAChangeOfToolOrAgent(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		tool := func(change func(*document.AITool)) func() { return func() { w.declareMoneyTool("pay", change) } }
		agent := func(change func(*document.AIAgent)) func() { return func() { w.declareBound("support", change) } }
		for i, one := range []struct {
			what   string
			change func()
		}{
			{"another title", tool(func(a *document.AITool) { a.Name = "Pay at once" })},
			{"another description", tool(func(a *document.AITool) { a.Description = "Pays." })},
			{"another path", tool(func(a *document.AITool) { a.Endpoint += "/now" })},
			{"another method", tool(func(a *document.AITool) { a.Method = "PUT" })},
			{"another header", tool(func(a *document.AITool) { a.Headers = []document.ToolHeader{{Name: "X-Mode", Value: "live"}} })},
			{"another field", tool(func(a *document.AITool) {
				a.RequestBodySchema = append(a.RequestBodySchema, schemafield.Field{Name: "more", FieldType: "STRING"})
			})},
			{"another permission", tool(func(a *document.AITool) { a.Permissions = []string{"orders:read"} })},
			{"another time for approvals", tool(func(a *document.AITool) { a.Approval = &document.ToolApproval{LifetimeSeconds: 120} })},
			{"the token of the user", tool(func(a *document.AITool) { a.Authorization.AuthorizeAsUser = true })},
			{"another title of the agent", agent(func(a *document.AIAgent) { a.Name = "Helpdesk" })},
			{"other instructions of the agent", agent(func(a *document.AIAgent) { a.Instructions = "Pay at once." })},
			{"fewer tools of the agent", agent(func(a *document.AIAgent) { a.Tools = []string{"pay"} })},
		} {
			tool(nil)()
			agent(nil)()
			own := boundCall{w.own, "support", "pay", fmt.Sprintf(`{"cents":%d}`, 500+i)}
			id, control := w.approved(own), own
			control.arguments = fmt.Sprintf(`{"cents":%d}`, 5000+i)
			same := w.approved(control)
			tool(nil)() // the same content again changes nothing
			w.expectUsed(one.what, control, same)
			one.change()
			w.expectUnused(one.what, own, id)
		}
	})
}

// An approval of a tool or agent that is gone, inactive or no longer linked is not used; the call itself is refused.
func TestApprovalIsNotUsedWithoutItsToolOrAgent(t *testing.T) {
	servertest.OnOneEngine(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		for i, one := range []struct {
			what   string
			change func()
			want   string
		}{
			{"an inactive tool", func() { w.declareMoneyTool("pay", func(a *document.AITool) { a.Active = false }) }, "Unknown tool"},
			{"an agent without the tool", func() { w.declareBound("support", func(a *document.AIAgent) { a.Tools = []string{"refund"} }) }, "Unknown tool"},
			{"an inactive agent", func() { w.declareBound("support", func(a *document.AIAgent) { a.Active = false }) }, "no such agent"},
			{"no tool", func() { w.Withdraw(v1alpha1.KindAITool, "acme", "pay") }, "Unknown tool"},
			{"no agent", func() { w.Withdraw(v1alpha1.KindAIAgent, "acme", "support") }, "no such agent"},
		} {
			w.declareMoneyTool("pay", nil)
			w.declareBound("support", nil)
			own := boundCall{w.own, "support", "pay", fmt.Sprintf(`{"cents":%d}`, 500+i)}
			id := w.approved(own)
			one.change()
			if a := w.try(own); !strings.Contains(a.raw, one.want) {
				t.Errorf("%s: %d %s", one.what, a.status, a.raw)
			}
			if a := w.directAnswer(own.credential, "acme", "support", "pay", `{"arguments":`+own.arguments+`}`); a.Code < 400 {
				t.Errorf("%s without MCP: %d %s", one.what, a.Code, a.Body)
			}
			if _, count := w.up.last(); count != 0 || w.approvalOf(id).Status == people.ApprovalUsed {
				t.Errorf("%s: %d calls were sent, and the approval is %s", one.what, count, w.approvalOf(id).Status)
			}
		}
	})
}

// The end of the user's right ends what the user approved.
func TestApprovalIsNotUsedAfterTheUsersRightEnded(t *testing.T) {
	servertest.OnOneEngine(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		user := int64(200)
		for what, revoke := range map[string]func(tx people.Tx, f people.TokenFamily) error{
			"the grant": func(tx people.Tx, f people.TokenFamily) error { _, err := tx.OAuth().DeleteGrant(f.Grant); return err },
			"the user": func(tx people.Tx, f people.TokenFamily) error {
				return tx.Users().UpdateUser(people.User{ID: f.User, Disabled: true})
			},
			"the family": func(tx people.Tx, f people.TokenFamily) error { _, err := tx.OAuth().EndTokenFamily(f.ID); return err },
		} {
			user++
			family := w.authorizes(user, nil)
			own := boundCall{w.tokenOf(family, "orders:read"), "support", "pay", `{"cents":1}`}
			w.approved(own)
			w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { return revoke(tx, family) }))
			if a := w.try(own); a.status != 401 {
				t.Errorf("after the end of %s: %d %s", what, a.status, a.raw)
			}
		}
		if _, count := w.up.last(); count != 0 {
			t.Errorf("%d calls were sent", count)
		}
	})
}
