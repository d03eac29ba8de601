package enduser_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/reprovision"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
)

// reprovisions returns a worker that provisions users of the world again, with the present configuration. Its passes
// are not bounded in time, because a busy machine does less in it.
func (w *world) reprovisions() *reprovision.Worker {
	w.T.Helper()
	shares := reprovision.DefaultShares()
	shares.Deployment.Time, shares.Directory.Time = time.Hour, time.Hour
	return w.reprovisionsWithin(shares)
}

func (w *world) reprovisionsWithin(shares reprovision.Shares) *reprovision.Worker {
	w.T.Helper()
	follower := snapshot.NewFollower(w.Store, time.Second, w.Clock.Now, logr.Discard())
	w.Follow(follower)
	return reprovision.New(reprovision.Options{
		Store: w.Store, Snapshots: follower, Keyring: w.Keyring, OnEnqueue: func() {}, Shares: shares, Clock: w.Clock.Now, Log: logr.Discard(),
	})
}

func TestWaitingUsersBecomeMembersOnceTheOrganizationHasTheirDomain(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		role := w.role("developer", "Organization", "billing:read")
		owner, id, _ := w.customer("globex")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		d := owner.setsUpDirectory(id, fmt.Sprintf(`{"group_roles":[{"group":"Engineering","role_id":%q}]}`, role))
		ann, off := d.adds("ann@globex.example"), d.adds("off@globex.example")
		d.activates(off, false)
		d.group("Engineering", ann)
		for n := range 120 { // more than one batch
			d.adds(fmt.Sprintf("user%d@globex.example", n))
		}
		elsewhere := d.adds("bob@elsewhere.example")
		taken := d.adds("carl@globex.example")
		worker := w.reprovisions()
		members := func() int { return w.count("SELECT COUNT(*) FROM organization_memberships") }
		w.Must(worker.Pass(t.Context()))
		if got := members(); got != 1 {
			t.Fatalf("%d members without a domain", got)
		}

		w.proves(id, "globex.example")
		w.Must(worker.Pass(t.Context()))
		if got := members(); got != 1+122 {
			t.Errorf("%d members", got)
		}
		if name, _ := owner.memberAt(id, "ann@globex.example"); name != "developer" {
			t.Errorf("the member has the role %q", name)
		}
		for _, waits := range []string{off, elsewhere} {
			if got := w.count("SELECT user_id FROM scim_users WHERE id = " + waits); got != 0 {
				t.Errorf("user %s has an account", waits)
			}
		}
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + taken); got == 0 {
			t.Error("the last user waits")
		}
		cost := len(w.traced.of(func() { w.Must(worker.Pass(t.Context())) }))
		w.proves(id, "elsewhere.example")
		w.Must(worker.Pass(t.Context()))
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + elsewhere); got == 0 {
			t.Error("the user of the second domain waits")
		}
		if cost > 10 {
			t.Errorf("a directory of which nothing is due costs %d statements", cost)
		}
	})
}

func TestWaitingUserThatIsRefusedLeavesTheOthersAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, slug := w.customer("globex")
		first, second := owner.setsUpDirectory(id, `{}`), w.directory("second", slug, nil)
		one, other := first.adds("ann@globex.example"), second.adds("ann@globex.example")
		bob := second.adds("bob@globex.example")
		w.proves(id, "globex.example")
		w.Must(w.reprovisions().Pass(t.Context()))
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0 AND id IN (" + one + "," + other + ")"); got != 1 {
			t.Errorf("%d users of two directories have one account", got)
		}
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + bob); got == 0 {
			t.Error("the user after the refused one waits")
		}

		// Neither an inactive directory nor one without effect adds users.
		third, initech, _ := w.customer("initech")
		d := third.setsUpDirectory(initech, `{}`)
		carl := d.adds("carl@initech.example")
		third.ok("PATCH", directoriesOf(initech)+"/"+d.id, `{"is_active":false}`)
		w.proves(initech, "initech.example")
		w.Must(w.reprovisions().Pass(t.Context()))
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + carl); got != 0 {
			t.Error("an inactive directory added a user")
		}
		third.ok("PATCH", directoriesOf(initech)+"/"+d.id, `{"is_active":true}`)
		w.Must(w.reprovisions().Pass(t.Context()))
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + carl); got == 0 {
			t.Error("the user waits after the activation")
		}
	})
}

// The address of a new account is proven by the directory that creates it: a user of another directory of the
// organization that waits for the address must not get the account too.
func TestUserOfAnotherDirectoryStaysWaitingWhenADirectoryCreatesTheAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, slug := w.customer("globex")
		first, second := owner.setsUpDirectory(id, `{}`), w.directory("second", slug, nil)
		waits := second.adds("ann@globex.example")
		w.proves(id, "globex.example")
		has := first.adds("ann@globex.example")
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + waits); got != 0 {
			t.Error("both users have the account")
		}
		if got := w.count("SELECT user_id FROM scim_users WHERE id = " + has); got == 0 {
			t.Error("the new user has no account")
		}
		second.refused(http.StatusConflict, "uniqueness", "PATCH", "/Users/"+waits, `{"Operations":[{"op":"replace","path":"title","value":"x"}]}`)
	})
}

// A pass processes a bounded number of users of a directory and of a deployment, and the next one continues.
func TestPassOverWaitingUsersIsBounded(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.managesConnections(nil)
		provisioned := func() int { return w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0") }
		for n := range 3 {
			name := fmt.Sprintf("customer%d", n)
			owner, id, _ := w.customer(name)
			d := owner.setsUpDirectory(id, `{}`)
			for k := range 25 {
				d.adds(fmt.Sprintf("user%d@%s.example", k, name))
			}
			w.proves(id, name+".example")
		}
		worker := w.reprovisionsWithin(reprovision.Shares{
			Deployment: reprovision.Share{Users: 50, Time: time.Hour}, Directory: reprovision.Share{Users: 20, Time: time.Hour},
		})
		w.Must(worker.Pass(w.T.Context()))
		if got := provisioned(); got < 40 || got > 50 {
			w.T.Errorf("%d users in the first pass of a deployment with a share of 50", got)
		}
		if got := w.count("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM scim_users WHERE user_id <> 0 GROUP BY directory_id)"); got != 20 {
			w.T.Errorf("%d users of one directory with a share of 20", got)
		}
		w.Must(worker.Pass(w.T.Context()))
		w.Must(worker.Pass(w.T.Context()))
		if got := provisioned(); got != 75 {
			w.T.Errorf("%d users after three passes", got)
		}
	})
}

// A task of a directory ends with its time, and a later pass continues it.
func TestPassOverWaitingUsersIsBoundedInTime(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		d := owner.setsUpDirectory(id, `{}`)
		for k := range 10 {
			d.adds(fmt.Sprintf("user%d@globex.example", k))
		}
		w.proves(id, "globex.example")
		shares := reprovision.DefaultShares()
		shares.Directory.Time = time.Nanosecond
		w.Must(w.reprovisionsWithin(shares).Pass(w.T.Context()))
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0"); got != 0 {
			w.T.Errorf("%d users without time", got)
		}
		w.Must(w.reprovisions().Pass(w.T.Context()))
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0"); got != 10 {
			w.T.Errorf("%d users with time", got)
		}
	})
}

func TestMembersGetTheRolesByChangedGroupRoles(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		clerk, lead := w.role("clerk", "Organization", "billing:read"), w.role("lead", "Organization", "billing:read")
		owner, id, slug := w.customer("globex")
		w.proves(id, "globex.example")
		w.Eventually("the roles are known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 2 })
		own := owner.setsUpDirectory(id, fmt.Sprintf(`{"group_roles":[{"group":"Staff","role_id":%q}]}`, clerk))
		declared := w.directory("declared", slug, func(d *document.Directory) { d.GroupRoles = []document.GroupRole{{Group: "Staff", Role: "clerk"}} })
		w.Eventually("the directory is declared", func() bool { return declared.do("GET", "/Users", "").Status == http.StatusOK })
		var users []string
		for n := range 130 { // more than one batch
			users = append(users, own.adds(fmt.Sprintf("own%d@globex.example", n)))
		}
		own.group("Staff", users...)
		declared.group("Staff", declared.adds("ann@globex.example"))
		declared.adds("bob@globex.example")
		having := func(role string) int {
			return w.count("SELECT COUNT(*) FROM organization_memberships WHERE role_id = " + role)
		}
		pass := func() { t.Helper(); w.Must(w.reprovisions().Pass(t.Context())) }
		pass()
		if got := having(clerk); got != 131 {
			t.Fatalf("%d clerks", got)
		}
		_, membership := owner.memberAt(id, "ann@globex.example")
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, lead))
		pass()
		if role, _ := owner.memberAt(id, "ann@globex.example"); role != "lead" {
			t.Errorf("a role was changed to %q although no group role changed", role)
		}

		owner.ok("PATCH", directoriesOf(id)+"/"+own.id, fmt.Sprintf(`{"group_roles":[{"group":"Staff","role_id":%q}]}`, lead))
		pass()
		if got := having(lead); got != 131 {
			t.Errorf("%d leads after the organization's change", got)
		}
		declared.declare(func(d *document.Directory) {
			d.GroupRoles = []document.GroupRole{{Group: "Staff", Role: "clerk"}, {Group: "Others", Role: "lead"}}
		})
		w.Eventually("the members of the declared directory have the roles", func() bool {
			pass()
			role, _ := owner.memberAt(id, "ann@globex.example")
			return role == "clerk"
		})
		if got := having(lead); got != 130 {
			t.Errorf("%d leads after the declared change", got)
		}
		if cost := len(w.traced.of(pass)); cost > 6 {
			t.Errorf("directories of which nothing is due cost %d statements", cost)
		}
	})
}
