package enduser_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

func TestTokenOfADirectoryIsForItAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.selfService()
		owner, id, slug := w.customer("globex")
		rival, other, _ := w.customer("initech")
		d, foreign, declared := owner.setsUpDirectory(id, `{}`), rival.setsUpDirectory(other, `{}`), w.directory("declared", slug, nil)
		elsewhere := w.browser()
		elsewhere.host = "other.localhost"
		elsewhere.signUp("eve@example.com")
		own := elsewhere.setsUpDirectory(elsewhere.organization("globex"), `{}`)
		own.host = elsewhere.host
		own.ok(http.StatusOK, "GET", "/Users", "")
		for name, wrong := range map[string]directory{
			"another organization's token": {id: d.id, host: d.host, token: foreign.token},
			"a declared directory's token": {id: d.id, host: d.host, token: declared.token},
			"at a declared directory":      {id: declared.id, host: d.host, token: d.token},
			"at another deployment":        {id: d.id, host: own.host, token: d.token},
			"of another deployment":        {id: d.id, host: d.host, token: own.token},
			"of another deployment's":      {id: own.id, host: d.host, token: own.token},
			"at another deployment's":      {id: own.id, host: own.host, token: d.token},
			"at an unknown directory":      {id: "12345", host: d.host, token: d.token},
			"without the last character":   {id: d.id, host: d.host, token: d.token[:len(d.token)-1]},
		} {
			wrong.w = w
			a := wrong.do("GET", "/Users", "")
			if a.Status != http.StatusUnauthorized || a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s: %d %s", name, a.Status, a.Raw)
			}
		}
		d.ok(http.StatusOK, "GET", "/Users", "")
		owner.ok("DELETE", "/organizations/"+id, fmt.Sprintf(`{"confirmation":%q}`, slug))
		d.refused(http.StatusUnauthorized, "", "GET", "/Users", "")
		foreign.ok(http.StatusOK, "GET", "/Users", "")
	})
}

func TestDeletionOfADirectoryEndsConcurrentChanges(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		w.proves(id, "globex.example")
		d := owner.setsUpDirectory(id, `{}`)
		var all sync.WaitGroup
		statuses := make([]int, 12)
		for n := range statuses {
			all.Go(func() {
				email := fmt.Sprintf("user%d@globex.example", n)
				statuses[n], _, _ = w.SCIM(d.host, d.id, d.token, "POST", "/Users", fmt.Sprintf(`{"userName":%q,"emails":[{"value":%q,"primary":true}]}`, email, email))
			})
		}
		owner.ok("DELETE", directoriesOf(id)+"/"+d.id, "")
		all.Wait()
		added := 0
		for n, status := range statuses {
			switch status {
			case http.StatusCreated:
				added++
			case http.StatusUnauthorized:
			default:
				t.Errorf("user %d: %d", n, status)
			}
		}
		if members := len(owner.list("/organizations/"+id+"/members")) - 1; members != added {
			t.Errorf("%d users were added, and %d are members", added, members)
		}
	})
}

// An organization that any user creates can set up a directory: its bounds, and those of all of them, are lower.
func TestRowsOfOrganizationsDirectoriesAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, slug := w.customer("globex")
		rival, other, _ := w.customer("initech")
		d, foreign, declared := owner.setsUpDirectory(id, `{}`), rival.setsUpDirectory(other, `{}`), w.directory("declared", slug, nil)
		has := func(of *directory, users int64) {
			t.Helper()
			n, err := ids.Parse(of.id)
			w.Must(err)
			w.tx(func(tx people.Tx) error {
				state, err := tx.Directories().LockDirectory(n)
				if err != nil {
					return err
				}
				state.Users = users
				return tx.Directories().UpdateDirectory(state)
			})
		}
		ann := d.adds("ann@globex.example")
		has(d, people.MaxSCIMUsersWithoutDomain)
		d.refused(http.StatusForbidden, "", "POST", "/Users", `{"userName":"eve@globex.example"}`)
		w.proves(id, "globex.example")
		d.adds("eve@globex.example")
		const bob = `{"userName":"bob@globex.example"}`
		has(d, people.MaxRuntimeSCIMUsers)
		d.refused(http.StatusForbidden, "", "POST", "/Users", bob)
		has(d, 1)
		has(foreign, people.MaxSCIMUsersOfRuntime)
		d.adds("bob@globex.example") // counted for each hundredth user alone
		has(d, 100)
		d.refused(http.StatusForbidden, "", "POST", "/Users", `{"userName":"carl@globex.example"}`)
		declared.adds("dora@globex.example")
		has(foreign, people.MaxSCIMUsersOfRuntime-101)
		d.adds("carl@globex.example")

		group := d.group("Staff", ann)
		full := func(members int64) {
			t.Helper()
			n, err := ids.Parse(group)
			w.Must(err)
			directory, err := ids.Parse(d.id)
			w.Must(err)
			w.tx(func(tx people.Tx) error {
				g, _, err := tx.SCIM().SCIMGroup(directory, n)
				if err != nil {
					return err
				}
				g.Members = members
				return tx.SCIM().UpdateSCIMGroup(g)
			})
		}
		full(people.MaxRuntimeSCIMMemberships)
		d.refused(http.StatusForbidden, "", "POST", "/Groups", fmt.Sprintf(`{"displayName":"Others","members":[{"value":%q}]}`, ann))
		d.group("Empty")
		full(people.MaxRuntimeSCIMMemberships - 1)
		others := d.group("Others", ann)
		d.patches("/Groups/"+others, `{"op":"remove","path":"members"}`)
		full(people.MaxRuntimeSCIMMemberships)
		d.refused(http.StatusForbidden, "", "PATCH", "/Groups/"+others, fmt.Sprintf(`{"Operations":[{"op":"add","path":"members","value":[{"value":%q}]}]}`, ann))
	})
}

// An organization that any user creates must not make other users its members by naming their addresses.
func TestDirectoryOfAnOrganizationMakesNoUserAMemberOutsideOfItsDomains(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		w.proves(id, "globex.example")
		d := owner.setsUpDirectory(id, `{}`)
		for n := range 12 { // more than are read together
			waits := d.adds(fmt.Sprintf("alias%d@globex.test", n), `,"emails":[{"value":"victim@elsewhere.example","primary":true,"type":"work"}]`)
			d.activates(waits, n%2 == 0)
		}
		victim, _ := w.signedUp("victim@elsewhere.example")
		if got := victim.organizations(); len(got) != 0 {
			t.Errorf("%v", got)
		}
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0"); got != 0 {
			t.Errorf("%d users of the directory have an account", got)
		}
	})
}

// A change that waits for the lock of the directory is refused if its token is revoked meanwhile. The story needs
// PostgreSQL: a revocation would wait for the one writer of SQLite.
func TestRevokedTokenMakesNoChangeThatWaitsForItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, servertest.Postgres(t))
	w.managesConnections(nil)
	owner, id, _ := w.customer("globex")
	d := owner.setsUpDirectory(id, `{}`)
	token := owner.ok("GET", directoriesOf(id)+"/"+d.id, "")["tokens"].([]any)[0].(map[string]any)["id"].(string)
	d.ok(http.StatusOK, "GET", "/Users", "") // the use of the token is written
	n, err := ids.Parse(d.id)
	w.Must(err)
	locked, release, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- w.Store.Change(t.Context(), deploymentName, func(tx people.Tx) error {
			_, err := tx.Directories().LockDirectory(n)
			close(locked)
			<-release
			return err
		})
	}()
	<-locked
	status := d.begins("POST", "/Users", strings.NewReader(`{"userName":"ann@globex.example"}`))
	w.Eventually("the change waits for the lock", func() bool {
		return w.count("SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'") > 0
	})
	owner.ok("DELETE", directoriesOf(id)+"/"+d.id+"/tokens/"+token, "")
	close(release)
	w.Must(<-ended)
	if got := <-status; got != http.StatusUnauthorized {
		t.Errorf("the status is %d", got)
	}
	if got := w.count("SELECT COUNT(*) FROM scim_users"); got != 0 {
		t.Errorf("%d users", got)
	}
}
