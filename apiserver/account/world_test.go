package account_test

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

const home = "acme/home"

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// world is a store and a snapshot of it.
type world struct {
	t         *testing.T
	store     store.Store
	term      store.Term
	follower  *snapshot.Follower
	following sync.WaitGroup
}

// newWorld declares the deployments acme/home and acme/other, and what more says. It is of one moment: nothing is declared later.
func newWorld(t *testing.T, more ...func(*world)) *world {
	t.Helper()
	w := &world{t: t}
	var err error
	w.store, err = sqlstore.Open(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "cardea.db"), sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	w.must(err)
	t.Cleanup(func() { _ = w.store.Close() })
	w.must(w.store.Migrate(t.Context()))
	w.term, err = w.store.Acquire(t.Context(), "test", time.Second)
	w.must(err)
	for _, name := range []string{"home", "other"} {
		w.put(v1alpha1.KindIdentityDeployment, name, "acme/"+name, document.Deployment{
			OrganizationPermissions: []string{"organization:invite", "billing:read"}, WorkspacePermissions: []string{"documents:read"},
		})
	}
	for _, declare := range more {
		declare(w)
	}
	w.follower = snapshot.NewFollower(w.store, time.Hour, time.Now, logr.Discard())
	ctx, cancel := context.WithCancel(context.Background())
	w.following.Go(func() { _ = w.follower.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		w.following.Wait()
	})
	select {
	case <-w.follower.Loaded():
	case <-time.After(20 * time.Second):
		t.Fatal("the configuration was not loaded")
	}
	return w
}

func role(name, deployment string, level v1alpha1.RoleLevel, permissions ...string) func(*world) {
	return func(w *world) {
		w.put(v1alpha1.KindMembershipRole, name, deployment, document.MembershipRole{Level: string(level), Name: name, Permissions: permissions})
	}
}

func settings(b document.B2BSettings) func(*world) {
	return func(w *world) { w.put(v1alpha1.KindB2BSettings, "b2b", home, b) }
}

func roleID(name string) int64 { return ids.Derive(v1alpha1.KindMembershipRole, "acme", name) }

func (w *world) put(kind, name, deployment string, content any) {
	w.t.Helper()
	hash, err := document.Hash(kind, content)
	w.must(err)
	payload, err := document.Encode(document.Meta{CreatedAt: now, UpdatedAt: now}, content)
	w.must(err)
	_, err = w.store.Put(w.t.Context(), w.term, store.Put{Document: store.Document{
		Owner:      store.Owner{Identity: store.Identity{Kind: kind, Namespace: "acme", Name: name}, UID: "uid-" + name},
		Generation: 1, Deployment: deployment, ID: ids.Derive(kind, "acme", name), Key: name, Hash: hash, Payload: payload,
	}})
	w.must(err)
}

// tenant is that of a deployment.
func (w *world) tenant(deployment string) *account.Tenant {
	w.t.Helper()
	s := w.follower.Current()
	entry, found := s.Deployment(deployment)
	if !found {
		w.t.Fatalf("no deployment %s", deployment)
	}
	return account.NewTenant(s, entry)
}

// request is one from a client of its own.
func (w *world) request() *account.Request {
	return &account.Request{
		Tenant: w.tenant(home), Store: w.store, Random: rand.Reader, Now: now, Actor: "test",
		Client: account.NewClient(netip.MustParseAddr("192.0.2.1"), "test"),
	}
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// change runs do on the rows of acme/home.
func (w *world) change(do func(u *account.Unit) error) {
	w.t.Helper()
	w.must(w.try(do))
}

func (w *world) try(do func(u *account.Unit) error) error {
	w.t.Helper()
	return w.request().Change(w.t.Context(), do)
}

// refuses runs do, which must be refused for a reason.
func (w *world) refuses(reason error, do func(u *account.Unit) error) {
	w.t.Helper()
	if err := w.try(do); !errors.Is(err, reason) {
		w.t.Fatalf("%v, want %v", err, reason)
	}
}

// account creates a user.
func (w *world) account(email string) (user people.User) {
	w.t.Helper()
	w.change(func(u *account.Unit) (err error) {
		user, err = u.CreateAccount(account.NewAccount{Email: email, Method: people.MethodEmailOTP})
		return err
	})
	return user
}

// organization creates one with an owner of its own.
func (w *world) organization(name string) (created account.Created) {
	w.t.Helper()
	owner := w.account(name + "@owners.example")
	w.change(func(u *account.Unit) (err error) {
		created, err = u.CreateOrganization(owner.ID, name, "")
		return err
	})
	return created
}
