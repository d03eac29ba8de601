package enduser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// An owner requires a level of the members up to the owner's own; members with less are notified, keep their place, and
// get in after the proof.
func TestOwnersRequireALevelOfMembers(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		owner, member := w.browser(), w.browser()
		owner.signUp("ada@example.com")
		member.signUp("bob@example.com")
		id := owner.organization("Harbour")
		path := "/organizations/" + id
		owner.invites(id, "bob@example.com")
		member.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("bob@example.com", 1)))
		member.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id))
		const two = `{"required_assurance":"two_factors"}`

		member.refused(403, "PERMISSION_DENIED", "PATCH", path, two)
		owner.refused(403, "ENROLLMENT_REQUIRED", "PATCH", path, two)
		a, _ := owner.addApp()
		owner.refused(403, "ENROLLMENT_REQUIRED", "PATCH", path, `{"required_assurance":"phishing_resistant"}`)
		for _, wrong := range []string{`{"required_assurance":"strong"}`, `{"enforce_from":"tomorrow"}`, `{"required_assurance":null}`} {
			owner.refused(400, "VALIDATION_ERROR", "PATCH", path, wrong)
		}
		if members := owner.list(path + "/members"); members[0]["second_factor"] != nil {
			t.Errorf("the levels of members are shown before the organization requires any: %v", members)
		}

		from := w.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		changed := owner.ok("PATCH", path, fmt.Sprintf(`{"required_assurance":"two_factors","enforce_from":%q}`, from))
		if changed["required_assurance"] != "two_factors" || changed["enforce_from"] != from || changed["name"] != "Harbour" {
			t.Errorf("the organization is %v", changed)
		}
		w.mailed("bob@example.com", "requires a second factor beside your password or emailed code from")
		own := member.list("/me/organization-memberships")[0]
		if got := fmt.Sprint(own["assurance"]); got != "map[required:one_factor satisfied:true]" {
			t.Errorf("before the date: %s", got)
		}
		if ahead := member.ok("GET", "/session/assurance", "")["enforce_from"]; ahead != from {
			t.Errorf("what is coming: %v", ahead)
		}
		levels := map[string]any{}
		for _, m := range owner.list(path + "/members") {
			levels[m["user"].(map[string]any)["email"].(string)] = m["second_factor"]
		}
		if levels["ada@example.com"] != "two_factors" || levels["bob@example.com"] != "none" {
			t.Errorf("the owner sees %v", levels)
		}
		for _, m := range member.list(path + "/members") {
			if m["second_factor"] != nil {
				t.Errorf("a member sees levels: %v", m)
			}
		}

		owner.ok("PATCH", path, `{"enforce_from":null}`)
		if got := fmt.Sprint(member.list("/me/organization-memberships")[0]["assurance"]); got != "map[required:two_factors satisfied:false]" {
			t.Errorf("in force: %s", got)
		}
		if member.ok("GET", "/session", "")["organization"] != nil {
			t.Error("the withheld organization is still active")
		}
		member.refused(403, "ENROLLMENT_REQUIRED", "GET", path+"/members", "")
		member.addApp()
		if in, _ := member.ok("GET", "/session", "")["organization"].(map[string]any); in["id"] != id {
			t.Errorf("the place did not come back: %v", in)
		}

		// The owner needs a recent proof of a factor, and the team can turn such requirements off.
		w.Clock.Advance(time.Hour)
		owner.refused(403, "REAUTHENTICATION_REQUIRED", "PATCH", path, `{"required_assurance":"one_factor"}`)
		owner.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"totp","code":%q}`, a.next()))
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, OrganizationAssuranceOff: true})
		w.Eventually("requirements of organizations are off", func() bool {
			return owner.list("/me/organization-memberships")[0]["assurance"].(map[string]any)["required"] == "two_factors" && // the account's own
				owner.do("PATCH", path, `{"required_assurance":"one_factor"}`).Status == 403
		})
		owner.refused(403, "ASSURANCE_OFF", "PATCH", path, `{"required_assurance":"one_factor"}`)
		owner.ok("PATCH", path, `{"name":"Port"}`) // the rest stays changeable
	})
}
