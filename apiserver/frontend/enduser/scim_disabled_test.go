package enduser_test

import (
	"net/http"
	"testing"
)

// The account of a user with an address of the organization is the organization's: no other way to sign in remains.
func TestDeactivationDisablesAManagedAccountAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		d := owner.setsUpDirectory(id, `{}`)
		w.proves(id, "globex.example")
		ann := d.adds("ann@globex.example")
		disabled := func() int { return w.count("SELECT COUNT(*) FROM users WHERE disabled <> 0") }
		if disabled() != 0 {
			t.Error("an active user is disabled")
		}
		d.activates(ann, false)
		if got := w.count("SELECT COUNT(*) FROM users WHERE disabled <> 0 AND id = (SELECT user_id FROM scim_users WHERE id = " + ann + ")"); got != 1 || disabled() != 1 {
			t.Errorf("of %d disabled accounts, %d are the user's", disabled(), got)
		}
		d.activates(ann, true)
		if got := disabled(); got != 0 {
			t.Errorf("%d accounts are disabled after the activation", got)
		}
	})
}

// A directory does not enable an account that another one disabled, until that one is gone. Here, the suspended
// membership is gone already, which would refuse the user otherwise.
func TestDirectoryDoesNotEnableWhatAnotherDisabled(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		ann := g.adds("ann@globex.example")
		g.activates(ann, false)
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+ann, "")
		w.exec("DELETE FROM suspended_memberships")
		other := w.directory("second", g.document.Organization, nil)
		again := other.adds("ann@globex.example")
		disabled := func() int { return w.count("SELECT COUNT(*) FROM users WHERE disabled <> 0") }
		if disabled() != 1 {
			t.Error("the other directory enabled the account")
		}
		w.Withdraw("Directory", "acme", "globex")
		other.activates(again, false)
		other.activates(again, true)
		if disabled() != 0 {
			t.Error("the account stays disabled after its directory is gone")
		}
	})
}

// The directory of another organization has the account of a member too. It enables nothing that a directory disabled
// whose organization controls the mailbox, even after that directory is gone.
func TestDirectoryOfAnotherOrganizationDoesNotEnableAManagedAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		ann, _ := w.signedUp("ann@globex.example")
		g := w.globex(nil)
		managed := g.adds("ann@globex.example")
		owner, initech, slug := w.customer("initech")
		other := w.directory("initech", slug, nil)
		tied := other.adds("ann@globex.example")
		w.joinsAs(owner, initech, ann)
		g.activates(managed, false)
		disabled := func() int { return w.count("SELECT COUNT(*) FROM users WHERE disabled <> 0") }
		if disabled() != 1 {
			t.Fatal("the account is not disabled")
		}
		w.Withdraw("Directory", "acme", "globex")
		other.activates(tied, false)
		other.activates(tied, true)
		if _, member := owner.memberAt(initech, "ann@globex.example"); member == "" {
			t.Error("the other directory did not restore its own membership")
		}
		if disabled() != 1 {
			t.Error("the directory of another organization enabled the account")
		}
	})
}
