package account_test

import (
	"crypto/rand"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const home = "acme/home"

var now = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// world is a store with a snapshot of it.
type world struct {
	*servertest.World
	follower *snapshot.Follower
}

// newWorld declares the deployments acme/home and acme/other, and the declarations in more. Its snapshot does not
// change afterwards.
func newWorld(t *testing.T, more ...func(*world)) *world {
	t.Helper()
	w := &world{World: servertest.New(t, "", nil)}
	for _, name := range []string{"home", "other"} {
		w.Put(v1alpha1.KindIdentityDeployment, name, "acme/"+name, name, document.Deployment{
			OrganizationPermissions: []string{"organization:invite", "billing:read"}, WorkspacePermissions: []string{"documents:read"},
		})
	}
	for _, declare := range more {
		declare(w)
	}
	w.follower = snapshot.NewFollower(w.Store, time.Hour, time.Now, logr.Discard())
	w.Follow(w.follower)
	return w
}

func role(name, deployment string, level v1alpha1.RoleLevel, permissions ...string) func(*world) {
	return func(w *world) {
		w.Put(v1alpha1.KindMembershipRole, name, deployment, name, document.MembershipRole{Level: string(level), Name: name, Permissions: permissions})
	}
}

func settings(b document.B2BSettings) func(*world) {
	return func(w *world) { w.Put(v1alpha1.KindB2BSettings, "b2b", home, "b2b", b) }
}

func roleID(name string) int64 { return ids.Derive(v1alpha1.KindMembershipRole, "acme", name) }

// tenant returns the tenant of a deployment.
func (w *world) tenant(deployment string) *account.Tenant {
	w.T.Helper()
	s := w.follower.Current()
	entry, found := s.Deployment(deployment)
	if !found {
		w.T.Fatalf("no deployment %s", deployment)
	}
	return account.NewTenant(s, entry)
}

// request returns a request from the client 192.0.2.1.
func (w *world) request() *account.Request {
	return &account.Request{
		Tenant: w.tenant(home), Store: w.Store, Random: rand.Reader, Now: now, Actor: "test",
		Client: account.NewClient(netip.MustParseAddr("192.0.2.1"), "test"),
	}
}

// change runs do on the rows of acme/home.
func (w *world) change(do func(u *account.Unit) error) {
	w.T.Helper()
	w.Must(w.try(do))
}

func (w *world) try(do func(u *account.Unit) error) error {
	w.T.Helper()
	return w.request().Change(w.T.Context(), do)
}

// refuses runs do, which must fail with the reason.
func (w *world) refuses(reason error, do func(u *account.Unit) error) {
	w.T.Helper()
	if err := w.try(do); !errors.Is(err, reason) {
		w.T.Fatalf("%v, want %v", err, reason)
	}
}

// account creates a user.
func (w *world) account(email string) (user people.User) {
	w.T.Helper()
	w.change(func(u *account.Unit) (err error) {
		user, err = u.CreateAccount(account.NewAccount{Email: email, Method: people.MethodEmailOTP})
		return err
	})
	return user
}

// organization creates an organization with a new user as its owner.
func (w *world) organization(name string) (created account.Created) {
	w.T.Helper()
	owner := w.account(name + "@owners.example")
	w.change(func(u *account.Unit) (err error) {
		created, err = account.CreateOrganization(u, owner.ID, name, "")
		return err
	})
	return created
}
