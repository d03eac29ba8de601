package enduser_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const cancels = `{"number":"1007","reason":"late"}`

// byUser is an approval that the user of a key's call decides.
func byUser(user string) people.Approval {
	return people.Approval{Caller: people.ToolCaller{Kind: people.CallerKey, ID: "7Gk2hPz0QwXe", User: parseID(user)}}
}

func approvalPath(a people.Approval) string { return frontendtest.Path("/me/tool-approvals", a) }

// seen is the body that approves a call.
func seen(a people.Approval) string { return fmt.Sprintf(`{"arguments_digest":%q}`, a.Digest) }

func TestUserApprovesTheCallThatWasShown(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		asked := tool.Ask(byUser(user), cancels)
		path := approvalPath(asked)

		shown := b.ok("GET", path, "")
		want := map[string]any{
			"status": "pending", "can_decide": true, "arguments": map[string]any{"number": "1007", "reason": "late"}, "arguments_digest": asked.Digest, "organization_id": nil, "decided_at": nil,
			"client": map[string]any{"name": "7Gk2hPz0QwXe", "verified": false},
			"agent":  map[string]any{"id": fmt.Sprint(tool.Agent), "name": "support"},
			"tool":   map[string]any{"id": fmt.Sprint(tool.Tool), "name": "cancel-order", "title": "Cancel an order", "method": "POST", "host": "api.acme.example"},
		}
		for name, value := range want {
			if fmt.Sprint(shown[name]) != fmt.Sprint(value) {
				t.Errorf("%s is %v, want %v", name, shown[name], value)
			}
		}
		listed := b.list("/me/tool-approvals")
		if len(listed) != 1 || listed[0]["id"] != shown["id"] || listed[0]["arguments"] != nil {
			t.Errorf("the list is %v", listed)
		}

		for _, wrong := range []string{`{}`, `{"arguments_digest":"other"}`, `{"arguments_digest":7}`, `{"arguments_digest":""}`, `{"arguments_digest":"x","more":1}`} {
			b.refused(400, "VALIDATION_ERROR", "POST", path+"/approve", wrong)
		}
		b.refused(400, "VALIDATION_ERROR", "POST", path+"/deny", `{"arguments_digest":"x"}`)
		b.refused(403, "ORIGIN_NOT_ALLOWED", "POST", path+"/approve", seen(asked), "Origin", "https://evil.example")

		approved := b.ok("POST", path+"/approve", seen(asked))
		if approved["status"] != "approved" || approved["can_decide"] != false || approved["decided_at"] == nil {
			t.Errorf("approved: %v", approved)
		}
		if ends := w.Clock.Now().Add(5 * time.Minute).Format(time.RFC3339); !strings.HasPrefix(approved["expires_at"].(string), ends[:19]) {
			t.Errorf("it ends at %v, want %s", approved["expires_at"], ends)
		}
		b.refused(400, "APPROVAL_DECIDED", "POST", path+"/approve", seen(asked))
		b.refused(400, "APPROVAL_DECIDED", "POST", path+"/deny", `{}`)
		if n := w.audited("tool_approval.approved"); n != 1 {
			t.Errorf("%d approvals are audited, want 1", n)
		}
		w.tx(func(tx people.Tx) error {
			a, _, err := tx.Approvals().Approval(asked.ID)
			if a.Status != people.ApprovalApproved || a.DecidedBy != parseID(user) {
				t.Errorf("stored: %+v", a)
			}
			if err == nil {
				_, err = tx.Approvals().UseApproval(asked.ID, w.Clock.Now())
			}
			return err
		})
		if got := b.ok("GET", path, "")["status"]; got != "used" {
			t.Errorf("after the call: %v", got)
		}
		b.refused(400, "APPROVAL_DECIDED", "POST", path+"/deny", `{}`)
	})
}

func TestUserDeniesACall(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		asked := tool.Ask(byUser(user), cancels)
		denied := b.ok("POST", approvalPath(asked)+"/deny", `{}`)
		ends := w.Clock.Now().Add(10 * time.Minute).Format(time.RFC3339)
		if denied["status"] != "denied" || !strings.HasPrefix(denied["expires_at"].(string), ends[:19]) {
			t.Errorf("denied: %v", denied)
		}
		b.refused(400, "APPROVAL_DECIDED", "POST", approvalPath(asked)+"/approve", seen(asked))
		if n := w.audited("tool_approval.denied"); n != 1 {
			t.Errorf("%d denials are audited, want 1", n)
		}
	})
}

func TestEndedAndVoidApprovalsAreNotDecided(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		late, unused := tool.Ask(byUser(user), cancels), tool.Ask(byUser(user), cancels)
		b.ok("POST", approvalPath(unused)+"/approve", seen(unused))
		w.Clock.Advance(11 * time.Minute)
		for _, a := range []people.Approval{late, unused} {
			b.refused(400, "APPROVAL_EXPIRED", "POST", approvalPath(a)+"/approve", seen(a))
			b.refused(400, "APPROVAL_EXPIRED", "POST", approvalPath(a)+"/deny", `{}`)
		}
		changed, denied := tool.Ask(byUser(user), cancels), tool.Ask(byUser(user), cancels)
		b.ok("POST", approvalPath(denied)+"/deny", `{}`)
		w.Put(v1alpha1.KindAITool, "cancel-order", deploymentName, "", document.AITool{Name: "Harmless", Type: "API", Active: true, Method: "GET", Endpoint: "https://other.example/"})
		b.refused(400, "APPROVAL_EXPIRED", "POST", approvalPath(changed)+"/approve", seen(changed))
		b.refused(400, "APPROVAL_EXPIRED", "POST", approvalPath(changed)+"/deny", `{}`)
		shown := b.ok("GET", approvalPath(changed), "")["tool"].(map[string]any)
		if shown["title"] != "cancel-order" || shown["method"] != "" || shown["host"] != "" {
			t.Errorf("the changed tool is shown as what was asked for: %v", shown)
		}
		for status, want := range map[string]int{"": 4, "pending": 0, "approved": 0, "denied": 1, "void": 3, "expired": 0, "used": 0} {
			if listed := b.list("/me/tool-approvals?status=" + status); len(listed) != want {
				t.Errorf("status=%s lists %d, want %d: %v", status, len(listed), want, listed)
			}
		}
		b.refused(400, "VALIDATION_ERROR", "GET", "/me/tool-approvals?status=open", "")
	})
}

func TestErasedArgumentsAreNull(t *testing.T) {
	onSQLite(t, func(w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		asked := tool.Ask(byUser(user), cancels)
		db := w.Open()
		defer func() { _ = db.Close() }()
		_, err := db.ExecContext(w.T.Context(), "UPDATE tool_approvals SET arguments = NULL")
		w.Must(err)
		if shown := b.ok("GET", approvalPath(asked), ""); shown["arguments"] != nil {
			w.T.Errorf("shown: %v", shown)
		}
	})
}

// Another user, another tenant's user and a browser without a session do not learn that an approval exists.
func TestApprovalsOfOthersAreUnknown(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		alice, user := w.signedUp("alice@example.com")
		bob, _ := w.signedUp("bob@example.com")
		asked := tool.Ask(byUser(user), cancels)
		for _, path := range []string{approvalPath(asked), "/me/tool-approvals/1", "/me/tool-approvals/none"} {
			bob.refused(404, "APPROVAL_NOT_FOUND", "GET", path, "")
			bob.refused(404, "APPROVAL_NOT_FOUND", "POST", path+"/approve", seen(asked))
			bob.refused(404, "APPROVAL_NOT_FOUND", "POST", path+"/deny", `{}`)
		}
		if listed := bob.list("/me/tool-approvals"); len(listed) != 0 {
			t.Errorf("bob sees %v", listed)
		}
		signedOut := w.browser()
		signedOut.refused(401, "NOT_AUTHENTICATED", "GET", "/me/tool-approvals", "")
		signedOut.refused(401, "NOT_AUTHENTICATED", "GET", approvalPath(asked), "")
		signedOut.refused(401, "NOT_AUTHENTICATED", "POST", approvalPath(asked)+"/approve", seen(asked))
		signedOut.refused(401, "NOT_AUTHENTICATED", "POST", approvalPath(asked)+"/deny", `{}`, "Authorization", "Bearer x")
		elsewhere := w.browser()
		elsewhere.host = "other.localhost"
		elsewhere.refused(401, "NOT_AUTHENTICATED", "GET", approvalPath(asked), "", "Cookie", "__session="+alice.cookie())
		alice.ok("POST", approvalPath(asked)+"/approve", seen(asked))
	})
}

func TestMemberWithThePermissionDecides(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(&document.ToolApproval{Permission: "billing:read"})
		role := w.role("clerk", "Organization", "billing:read")
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Harbour")
		caller, _, user := w.joins(owner, organization, "caller@example.com")
		clerk, membership, _ := w.joins(owner, organization, "clerk@example.com")
		outside, _ := w.signedUp("outside@example.com")
		ask := func(user string) people.Approval {
			a := byUser(user)
			a.Permission, a.Caller.Organization = "billing:read", parseID(organization)
			return tool.Ask(a, cancels)
		}
		first, second := ask(user), ask("")
		path := approvalPath(first)

		// The caller sees it, and does not decide it; a member without the permission does not see it.
		if shown := caller.ok("GET", path, ""); shown["can_decide"] != false || shown["organization_id"] != organization {
			t.Errorf("the caller sees %v", shown)
		}
		caller.refused(403, "PERMISSION_DENIED", "POST", path+"/approve", seen(first))
		caller.refused(403, "PERMISSION_DENIED", "POST", path+"/deny", `{}`)
		for _, b := range []*browser{clerk, outside} {
			b.refused(404, "APPROVAL_NOT_FOUND", "GET", path, "")
			b.refused(404, "APPROVAL_NOT_FOUND", "POST", path+"/approve", seen(first))
			if listed := b.list("/me/tool-approvals"); len(listed) != 0 {
				t.Errorf("listed without the permission: %v", listed)
			}
		}
		owner.ok("PATCH", "/organizations/"+organization+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, role))
		listed := clerk.list("/me/tool-approvals?status=pending")
		if len(listed) != 2 || listed[0]["can_decide"] != true || listed[0]["id"] != fmt.Sprint(second.ID) {
			t.Fatalf("the clerk sees %v", listed)
		}
		if own := caller.list("/me/tool-approvals"); len(own) != 1 || own[0]["can_decide"] != false {
			t.Errorf("the caller's list is %v", own)
		}
		clerk.ok("POST", path+"/approve", seen(first))
		caller.refused(403, "PERMISSION_DENIED", "POST", path+"/deny", `{}`)

		// The right is that of the moment.
		clerk.ok("GET", approvalPath(second), "")
		owner.ok("DELETE", "/organizations/"+organization+"/members/"+membership, "")
		clerk.refused(404, "APPROVAL_NOT_FOUND", "POST", approvalPath(second)+"/approve", seen(second))
	})
}

func TestOfConcurrentDecisionsOneCounts(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		asked := tool.Ask(byUser(user), cancels)
		var all sync.WaitGroup
		var decided sync.Map
		for i := range 6 {
			tab, path, body := b.as(b.cookie()), approvalPath(asked)+"/approve", seen(asked)
			if i%2 == 0 {
				path, body = approvalPath(asked)+"/deny", `{}`
			}
			all.Go(func() {
				if resp, err := tab.raw("POST", path, body); err == nil {
					_ = resp.Body.Close()
					if resp.StatusCode == 200 {
						decided.Store(i, true)
					}
				}
			})
		}
		all.Wait()
		n := 0
		decided.Range(func(any, any) bool { n++; return true })
		if audited := w.audited("tool_approval.approved") + w.audited("tool_approval.denied"); n != 1 || audited != 1 {
			t.Errorf("%d decisions succeeded and %d are audited, want 1", n, audited)
		}
	})
}

func TestFreshToolNeedsARecentProof(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(&document.ToolApproval{Fresh: true})
		b, user := w.signedUp("ada@example.com")
		w.Clock.Advance(11 * time.Minute)
		asked := tool.Ask(byUser(user), cancels)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", approvalPath(asked)+"/approve", seen(asked))
		b.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		b.ok("POST", approvalPath(asked)+"/approve", seen(asked))
		other := tool.Ask(byUser(user), cancels)
		w.Clock.Advance(9*time.Minute + 59*time.Second)
		b.ok("POST", approvalPath(other)+"/approve", seen(other))
	})
}

func TestOrganizationThatRequiresMoreHidesItsApprovals(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(&document.ToolApproval{Permission: "billing:read"})
		role := w.role("clerk", "Organization", "billing:read")
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Harbour")
		clerk, membership, _ := w.joins(owner, organization, "clerk@example.com")
		owner.ok("PATCH", "/organizations/"+organization+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, role))
		a := byUser("")
		a.Permission, a.Caller.Organization = "billing:read", parseID(organization)
		asked := tool.Ask(a, cancels)
		clerk.ok("GET", approvalPath(asked), "")
		owner.addApp()
		owner.ok("PATCH", "/organizations/"+organization, `{"required_assurance":"two_factors"}`)
		clerk.refused(403, "ENROLLMENT_REQUIRED", "GET", approvalPath(asked), "")
		clerk.refused(403, "ENROLLMENT_REQUIRED", "POST", approvalPath(asked)+"/approve", seen(asked))
		if listed := clerk.list("/me/tool-approvals"); len(listed) != 0 {
			t.Errorf("listed below the organization's level: %v", listed)
		}
		owner.ok("POST", approvalPath(asked)+"/approve", seen(asked))
	})
}

// Clients are verified as on the page where a user grants them access.
func TestClientOfAnApproval(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.sign()
		w.DeclareOAuthApp("http://localhost:8081")
		declared := w.Put(v1alpha1.KindOAuthClient, "public", deploymentName, "", document.OAuthClient{
			App: "portal", Name: "Reports", Authentication: string(v1alpha1.ClientAuthenticationNone), RedirectURIs: []string{"https://client.example/callback"}, Active: true,
		})
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		for _, tc := range []struct{ kind, id, want string }{
			{people.CallerClient, fmt.Sprint(declared), `{"name":"Reports","verified":true}`},
			{people.CallerClient, "7306112409600000099", `{"name":"7306112409600000099","verified":false}`},
			{people.CallerToken, "build", `{"name":"build","verified":false}`},
			{people.CallerSession, "7306112409600000001", `null`},
		} {
			a := byUser(user)
			a.Caller.Kind, a.Caller.ID = tc.kind, tc.id
			raw, err := json.Marshal(b.ok("GET", approvalPath(tool.Ask(a, cancels)), "")["client"])
			if err != nil || string(raw) != tc.want {
				w.T.Errorf("%s %s: %s, want %s", tc.kind, tc.id, raw, tc.want)
			}
		}
	})
}

func TestNewestHundredApprovalsAreListed(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		for range 101 {
			tool.Ask(byUser(user), cancels)
		}
		w.Clock.Advance(11 * time.Minute)
		newest := tool.Ask(byUser(user), cancels)
		for status, want := range map[string]int{"": 100, "expired": 100, "pending": 1} {
			if listed := b.list("/me/tool-approvals?status=" + status); len(listed) != want || status != "expired" && listed[0]["id"] != fmt.Sprint(newest.ID) {
				t.Errorf("status=%s lists %d, want %d", status, len(listed), want)
			}
		}
	})
}
