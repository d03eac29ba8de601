package enduser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// logged returns the events of the deployment after a number.
func (w *world) logged(after int64) []people.LoggedEvent {
	w.T.Helper()
	return frontendtest.Logged(w.T, w.Store, after)
}

// happens runs do, and compares the types of its events.
func (w *world) happens(do func(), want ...events.Type) []people.LoggedEvent {
	w.T.Helper()
	return frontendtest.Happens(w.T, w.Store, do, want...)
}

func TestOwnChangesLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		var b *browser
		var user string
		created := w.happens(func() { b, user = w.signedUp("ada@example.com") }, events.UserCreated, events.SessionCreated)[0]
		if created.SubjectType != "user" || created.SubjectID != user || created.Actor != "user:"+user || created.At.IsZero() {
			t.Errorf("%+v", created)
		}
		own := "user:" + user
		renamed := w.happens(func() { b.ok("PATCH", "/me", `{"first_name":"Ada","last_name":"Lovelace"}`) }, events.UserUpdated)[0]
		if renamed.Actor != own || renamed.Data != `{"changed":["first_name","last_name"]}` {
			t.Errorf("%+v", renamed)
		}
		w.happens(func() { b.ok("PATCH", "/me", `{"first_name":"Ada"}`) })
		var path string
		added := w.happens(func() {
			path = "/me/email-addresses/" + b.ok("POST", "/me/email-addresses", `{"email":"ada@example.org"}`)["id"].(string)
		}, events.UserEmailAdded)[0]
		if want := fmt.Sprintf(`{"email_id":%q}`, strings.TrimPrefix(path, "/me/email-addresses/")); added.Data != want || added.SubjectID != user {
			t.Errorf("%+v", added)
		}
		w.happens(func() { b.ok("POST", path+"/prepare-verification", `{}`) })
		code := w.CodeFor("ada@example.org", 1)
		w.happens(func() { b.refused(400, "INVALID_CODE", "POST", path+"/attempt-verification", codeBody(wrong(code))) })
		w.happens(func() { b.ok("POST", path+"/attempt-verification", codeBody(code)) }, events.UserEmailVerified)
		w.happens(func() { b.ok("POST", path+"/make-primary", `{}`) }, events.UserEmailPrimaryChanged)
		w.happens(func() { b.refused(400, "CANNOT_REMOVE_PRIMARY_EMAIL", "DELETE", path, "") })
		w.happens(func() { b.ok("DELETE", "/me/email-addresses/"+former(b), "") }, events.UserEmailRemoved)
		w.happens(func() { b.ok("POST", "/me/update-password", updateBody(goodPassword, newPassword, "")) }, events.UserPasswordChanged)
		w.happens(func() {
			b.refused(400, "INVALID_CURRENT_PASSWORD", "POST", "/me/update-password", updateBody("wrong", newPassword, ""))
		})
		w.happens(func() { b.ok("DELETE", "/me/password", fmt.Sprintf(`{"current_password":%q}`, newPassword)) }, events.UserPasswordRemoved)
		w.happens(func() { b.ok("DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`) }, events.SessionRevoked, events.UserDeleted)
	})
}

// former returns the id of the address that is not the primary one.
func former(b *browser) string {
	for _, e := range b.list("/me/email-addresses") {
		if e["primary"] == false {
			return e["id"].(string)
		}
	}
	return ""
}

func TestChangesOfOrganizationsLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.manageable()
		reader := w.role("reader", "Workspace", "documents:read")
		owner, ownerID := w.signedUp("owner@example.com")
		bob, bobID := w.signedUp("bob@example.com")
		var organization string
		made := w.happens(func() { organization = owner.organization("Org") },
			events.OrganizationCreated, events.MembershipCreated, events.WorkspaceCreated, events.MembershipCreated, events.SessionSwitched)
		if e := made[0]; e.SubjectID != organization || ids.Format(e.Organization) != organization || e.Actor != "user:"+ownerID {
			t.Errorf("%+v", e)
		}
		if want := fmt.Sprintf(`{"level":"organization","owner":true,"user_id":%q}`, ownerID); made[1].Data != want {
			t.Errorf("%+v", made[1])
		}
		if want := fmt.Sprintf(`{"level":"workspace","owner":true,"user_id":%q}`, ownerID); made[3].Data != want || made[3].Workspace == 0 {
			t.Errorf("%+v", made[3])
		}
		path := "/organizations/" + organization
		if e := w.happens(func() { owner.ok("PATCH", path, `{"name":"New","description":"d"}`) }, events.OrganizationUpdated)[0]; e.Data != `{"changed":["name","description"]}` {
			t.Errorf("%+v", e)
		}
		var invitation string
		w.happens(func() {
			invitation = owner.ok("POST", path+"/invitations", `{"email":"eve@example.com"}`)["id"].(string)
		}, events.InvitationCreated)
		if e := w.happens(func() { owner.ok("DELETE", path+"/invitations/"+invitation, "") }, events.InvitationRevoked)[0]; e.SubjectID != invitation || ids.Format(e.Organization) != organization {
			t.Errorf("%+v", e)
		}
		owner.ok("POST", path+"/invitations", `{"email":"bob@example.com"}`)
		token := w.InvitationFor("bob@example.com", 1)
		joined := w.happens(func() { bob.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, token)) },
			events.MembershipCreated, events.MembershipCreated, events.InvitationAccepted)
		if want := fmt.Sprintf(`{"user_id":%q}`, bobID); joined[2].Data != want {
			t.Errorf("%+v", joined[2])
		}
		membership := joined[0].SubjectID
		w.Clock.Advance(time.Second)
		changed := w.happens(func() { owner.ok("PATCH", path+"/members/"+membership, `{"owner":true}`) }, events.MembershipUpdated)[0]
		if !strings.Contains(changed.Data, `"owner":true`) || changed.SubjectID != membership {
			t.Errorf("%+v", changed)
		}
		w.happens(func() { owner.ok("PATCH", path+"/members/"+membership, `{"owner":true}`) })
		var workspace string
		w.happens(func() {
			made := owner.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Research","organization_id":%q}`, organization))
			workspace = "/workspaces/" + made["workspace"].(map[string]any)["id"].(string)
		}, events.WorkspaceCreated, events.MembershipCreated)
		w.happens(func() { owner.ok("PATCH", workspace, `{"name":"Renamed"}`) }, events.WorkspaceUpdated)
		var inside string
		w.happens(func() {
			inside = owner.ok("POST", workspace+"/members", fmt.Sprintf(`{"user_id":%q}`, bobID))["id"].(string)
		}, events.MembershipCreated)
		granted := w.happens(func() { owner.ok("PATCH", workspace+"/members/"+inside, fmt.Sprintf(`{"role_id":%q}`, reader)) }, events.MembershipUpdated)[0]
		if want := fmt.Sprintf(`{"level":"workspace","owner":false,"role":"reader","role_id":%q,"user_id":%q}`, reader, bobID); granted.Data != want {
			t.Errorf("%+v", granted)
		}
		w.happens(func() { owner.ok("PATCH", workspace+"/members/"+inside, fmt.Sprintf(`{"role_id":%q}`, reader)) })
		w.happens(func() { owner.ok("DELETE", workspace+"/members/"+inside, "") }, events.MembershipDeleted)
		left := w.happens(func() { owner.ok("DELETE", path+"/members/"+membership, "") }, events.MembershipDeleted)[0]
		if want := fmt.Sprintf(`{"level":"organization","user_id":%q}`, bobID); left.Data != want || left.Actor != "user:"+ownerID {
			t.Errorf("%+v", left)
		}
		w.happens(func() { owner.ok("DELETE", path, fmt.Sprintf(`{"confirmation":%q}`, w.Numbered("org"))) }, events.OrganizationDeleted)
	})
}

func TestDirectoriesLogTheEventsOfOthers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		role := w.role("developer", "Organization", "billing:read")
		w.role("helper", "Organization")
		g := w.globex(mapped)
		var id string
		made := w.happens(func() { id = g.adds("ann@globex.example") }, events.UserCreated, events.MembershipCreated, events.MembershipCreated)
		if !strings.HasPrefix(made[0].Actor, "directory:") {
			t.Errorf("%+v", made[0])
		}
		given := w.happens(func() { g.group("Engineering", id) }, events.MembershipUpdated)[0]
		if !strings.Contains(given.Data, fmt.Sprintf(`"role_id":%q`, role)) || given.SubjectID != made[1].SubjectID {
			t.Errorf("%+v", given)
		}
		active := func(active bool) func() {
			return func() {
				g.ok(http.StatusOK, "PATCH", "/Users/"+id, fmt.Sprintf(`{"Operations":[{"op":"replace","path":"active","value":%t}]}`, active))
			}
		}
		w.happens(active(false), events.MembershipDeleted, events.UserDisabled)
		back := w.happens(active(true), events.UserEnabled, events.MembershipCreated, events.MembershipCreated)
		if back[1].SubjectID != made[1].SubjectID {
			t.Errorf("the membership %s came back as %s", made[1].SubjectID, back[1].SubjectID)
		}
	})
}
