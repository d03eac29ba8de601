package enduser_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// crowds adds users with one address to a directory, more than are read together.
func (d *directory) crowds(address string) {
	d.w.T.Helper()
	for n := range 11 {
		d.adds(fmt.Sprintf("alias%d@crowd.example", n), fmt.Sprintf(`,"emails":[{"value":%q,"primary":true,"type":"work"}]`, address))
	}
	d.w.Clock.Advance(time.Second) // users that are added now are newer
}

// Users that an organization adds with the address of another organization's user keep nothing from that user's
// directory.
func TestWaitingUsersOfOneDirectoryDoNotKeepAnothersWaiting(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		rival, crowded, crowdedSlug := w.customer("initech")
		own := rival.setsUpDirectory(crowded, `{}`)
		own.crowds("victim@mail.example")
		inactive := w.directory("inactive", crowdedSlug, nil)
		inactive.crowds("victim@mail.example")
		inactive.declare(func(d *document.Directory) { d.Active = false })

		owner, id, _ := w.customer("globex")
		d := owner.setsUpDirectory(id, `{}`)
		row := d.adds("victim@mail.example")
		declaredOwner, declaredID, declaredSlug := w.customer("hooli")
		declared := w.directory("hooli", declaredSlug, nil)
		declaredRow := declared.adds("victim@mail.example")

		victim, _ := w.signedUp("victim@mail.example")
		if got := victim.organizations(); !slices.Equal(got, []string{declaredID}) {
			t.Fatalf("member of %v after the address was proven", got)
		}
		w.joinsAs(owner, id, victim)
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0"); got != 2 {
			t.Errorf("%d users of directories have the account, want one of each organization that has the user", got)
		}
		d.activates(row, false)
		if got := victim.organizations(); !slices.Equal(got, []string{declaredID}) {
			t.Errorf("member of %v after the deactivation", got)
		}
		declared.activates(declaredRow, false)
		if got := victim.organizations(); len(got) != 0 {
			t.Errorf("member of %v after the second deactivation", got)
		}
		for _, o := range []struct {
			owner *browser
			id    string
		}{{owner, id}, {declaredOwner, declaredID}, {rival, crowded}} {
			if got := o.owner.list("/organizations/" + o.id + "/members"); len(got) != 1 {
				t.Errorf("%s has the members %v", o.id, got)
			}
		}
	})
}

// A user that waited before the organization proved the domain of the address is tied, too.
func TestWaitingUserInADomainIsTiedAmongOthers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		rival, crowded, _ := w.customer("initech")
		rival.setsUpDirectory(crowded, `{}`).crowds("ann@globex.example")
		owner, id, _ := w.customer("globex")
		d := owner.setsUpDirectory(id, `{}`)
		row := d.adds("ann@globex.example")
		w.proves(id, "globex.example")
		b, _ := w.signedUp("ann@globex.example")
		if got := b.organizations(); !slices.Equal(got, []string{id}) {
			t.Fatalf("member of %v after the address was proven", got)
		}
		d.activates(row, false)
		if b.alive() {
			t.Error("the deactivated user is signed in")
		}
	})
}

// One proof ties a bounded number of users: those of the user's own organizations first, and others with the next one.
func TestProofTiesTheUsersOfItsOwnOrganizationsFirst(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		victim, _ := w.signedUp("victim@mail.example")
		for n := range 101 {
			w.waitsInADirectory(fmt.Sprintf("customer-%d", n), "victim@mail.example")
		}
		owner, id, _ := w.customer("globex")
		d := owner.setsUpDirectory(id, `{}`)
		row := d.adds("victim@mail.example")
		w.joinsAs(owner, id, victim)
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0"); got != 100 {
			t.Errorf("one proof tied %d users", got)
		}
		d.activates(row, false)
		if slices.Contains(victim.organizations(), id) {
			t.Error("the deactivated user is a member of the organization")
		}
		again := w.browser()
		again.otp("victim@mail.example")
		if a := again.try(again.attempt(), w.CodeFor("victim@mail.example", 2)); a.Status != http.StatusOK {
			t.Fatal(a.Raw)
		}
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id = 0"); got != 0 {
			t.Errorf("%d users wait after the next proof", got)
		}
	})
}

// waitsInADirectory declares a directory of a new organization, with a user that waits for an address.
func (w *world) waitsInADirectory(slug, address string) {
	w.T.Helper()
	organization, err := ids.New(w.Clock.Now(), rand.Reader)
	w.Must(err)
	directory, err := ids.Parse(w.directory(slug, slug, nil).id)
	w.Must(err)
	w.tx(func(tx people.Tx) error {
		if _, err := tx.Directories().LockDirectory(directory); err != nil {
			return err
		}
		at := w.Clock.Now().UTC()
		if err := tx.Organizations().InsertOrganization(people.Organization{ID: organization, Slug: slug, Name: slug, CreatedAt: at}); err != nil {
			return err
		}
		return tx.SCIM().InsertSCIMUser(people.SCIMUser{
			ID: organization, Directory: directory, Name: address, Email: address, Active: true, Version: 1, Document: "{}", CreatedAt: at, UpdatedAt: at,
		})
	})
}
