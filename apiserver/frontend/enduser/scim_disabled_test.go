package enduser_test

import "testing"

// The account of a user with an address of the organization is the organization's: no other way to sign in remains.
func TestDeactivationDisablesAManagedAccountAlone(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
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
