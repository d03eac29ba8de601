package endeddirectories

import (
	"os"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const home = "acme/home"

func TestDeletedDirectoryIsClearedAfterItsTime(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := servertest.New(t, url, nil)
		w.Put(v1alpha1.KindIdentityDeployment, "home", home, "", document.Deployment{})
		declare := func(slug string) int64 {
			return w.Put(v1alpha1.KindDirectory, slug, home, slug, document.Directory{Slug: slug, Active: true})
		}
		gone, kept := declare("gone"), declare("kept")
		follower := snapshot.NewFollower(w.Store, 5*time.Millisecond, w.Clock.Now, logr.Discard())
		w.Follow(follower)
		worker := New(Options{Store: w.Store, Snapshots: follower, Clock: w.Clock.Now, Log: logr.Discard()})
		for i, directory := range []int64{gone, kept} {
			w.Must(w.Store.Change(t.Context(), home, func(tx people.Tx) error {
				if _, err := tx.Directories().LockDirectory(directory); err != nil {
					return err
				}
				return tx.SCIM().InsertSCIMUser(people.SCIMUser{ID: int64(i) + 1, Directory: directory, Name: "ann", Active: true, Version: 1, Document: "{}", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
			}))
		}
		users := func(directory int64) (n int) {
			w.Must(w.Store.View(t.Context(), home, func(tx people.Tx) error {
				found, err := tx.SCIM().FindSCIMUsers(directory, people.SCIMFilter{}, 0, 10)
				n = len(found)
				return err
			}))
			return n
		}
		declared := func(want bool) {
			w.Eventually("the configuration is followed", func() bool { return follower.Current().Declares(v1alpha1.KindDirectory, home, gone) == want })
		}
		pass := func(after time.Duration) {
			w.Clock.Advance(after)
			w.Must(worker.Pass(t.Context()))
		}
		pass(0)
		w.Withdraw(v1alpha1.KindDirectory, "acme", "gone")
		declared(false)
		pass(0)
		pass(people.DirectoryKeptFor - time.Minute)
		if users(gone) != 1 {
			t.Fatal("the users of a directory that was just deleted are gone")
		}
		declare("gone")
		declared(true)
		pass(time.Hour) // declared again: its users stay
		w.Withdraw(v1alpha1.KindDirectory, "acme", "gone")
		declared(false)
		pass(0)
		pass(people.DirectoryKeptFor - time.Minute)
		if users(gone) != 1 {
			t.Fatal("the time before it was declared again counts")
		}
		pass(2 * time.Minute)
		if users(gone) != 0 || users(kept) != 1 {
			t.Errorf("%d users of the deleted directory and %d of the other are left", users(gone), users(kept))
		}
		if _, found, err := worker.state(t.Context(), people.DirectoryRef{Deployment: home, ID: gone}); found || err != nil {
			t.Errorf("the deleted directory has a state (%v)", err)
		}
	})
}

func TestDeletedDirectoryOfAnOrganizationIsClearedAtTheNextPass(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := servertest.New(t, url, nil)
		w.Put(v1alpha1.KindIdentityDeployment, "home", home, "", document.Deployment{})
		follower := snapshot.NewFollower(w.Store, 5*time.Millisecond, w.Clock.Now, logr.Discard())
		w.Follow(follower)
		worker := New(Options{Store: w.Store, Snapshots: follower, Clock: w.Clock.Now, Log: logr.Discard()})
		change := func(do func(people.Tx) error) { w.T.Helper(); w.Must(w.Store.Change(t.Context(), home, do)) }
		for id := range int64(2) {
			change(func(tx people.Tx) error {
				if err := tx.Directories().InsertRuntimeDirectory(people.RuntimeDirectory{ID: id + 1, Organization: 1, Slug: "d", Settings: "{}", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()}); err != nil {
					return err
				}
				return tx.SCIM().InsertSCIMUser(people.SCIMUser{ID: 1, Directory: id + 1, Name: "ann", Version: 1, Document: "{}", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
			})
		}
		w.Must(worker.Pass(t.Context()))
		w.Clock.Advance(people.DirectoryKeptFor + time.Hour)
		w.Must(worker.Pass(t.Context()))
		for id, want := range map[int64]bool{1: true, 2: true} {
			if d, found, err := worker.state(t.Context(), people.DirectoryRef{Deployment: home, ID: id}); found != want || err != nil || !d.EndedAt.IsZero() {
				t.Errorf("directory %d that exists: %v %+v %v", id, found, d, err)
			}
		}
		change(func(tx people.Tx) error { _, err := tx.Directories().DeleteRuntimeDirectory(1); return err })
		w.Must(worker.Pass(t.Context()))
		for id, want := range map[int64]bool{1: false, 2: true} {
			if _, found, err := worker.state(t.Context(), people.DirectoryRef{Deployment: home, ID: id}); found != want || err != nil {
				t.Errorf("directory %d: %v %v", id, found, err)
			}
		}
	})
}
