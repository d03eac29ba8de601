package account_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

var enabled = document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 3, OrgRole: "member", WorkspaceRole: "editor"}

func TestRoles(t *testing.T) {
	t.Parallel()
	organization, workspace := v1alpha1.RoleLevelOrganization, v1alpha1.RoleLevelWorkspace
	w := newWorld(t,
		role("member", home, organization, "billing:read"), role("inviter", home, organization, "organization:invite"), role("bare", home, organization),
		role("editor", home, workspace, "documents:read"), role("foreign", "acme/other", organization, "organization:invite"))
	d := w.tenant(home)
	for name, tc := range map[string]struct {
		level v1alpha1.RoleLevel
		owner bool
		id    int64
		// want is the role's name and permissions, "" for none.
		want string
		has  bool
		// may reports whether a member with the role may invite.
		may bool
	}{
		"the owner of an organization":              {organization, true, 0, "owner: organization:invite billing:read", false, true},
		"the owner of a workspace":                  {workspace, true, 0, "owner: documents:read", false, true},
		"an owner with another role":                {organization, true, roleID("bare"), "owner: organization:invite billing:read", true, true},
		"a role with a permission":                  {organization, false, roleID("member"), "member: billing:read", true, false},
		"a role that lets invite":                   {organization, false, roleID("inviter"), "inviter: organization:invite", true, true},
		"a role without permissions":                {organization, false, roleID("bare"), "bare: ", true, false},
		"a role of workspaces":                      {workspace, false, roleID("editor"), "editor: documents:read", true, false},
		"a role of the other level":                 {organization, false, roleID("editor"), "", false, false},
		"a role of an organization, in a workspace": {workspace, false, roleID("inviter"), "", false, true},
		"a role of another deployment":              {organization, false, roleID("foreign"), "", false, false},
		"a role that was deleted":                   {organization, false, 4711, "", false, false},
		"none":                                      {organization, false, 0, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if r := d.RoleOf(tc.level, tc.owner, tc.id); r != nil {
				got = r.Name + ": " + strings.Join(r.Permissions, " ")
				if tc.owner && r.ID != 0 || !tc.owner && r.ID != tc.id {
					t.Errorf("id %d", r.ID)
				}
			}
			if got != tc.want {
				t.Errorf("role %q, want %q", got, tc.want)
			}
			if has := d.HasRole(tc.level, tc.id); has != tc.has {
				t.Errorf("has %t", has)
			}
			if may := d.May(people.Member{Owner: tc.owner, Role: tc.id}, account.PermissionInvite); may != tc.may {
				t.Errorf("may %t", may)
			}
		})
	}
	// The returned permissions are a copy that callers may change.
	d.RoleOf(organization, true, 0).Permissions[0] = "changed"
	if again := d.RoleOf(organization, true, 0).Permissions[0]; again != "organization:invite" {
		t.Errorf("the catalog was changed to %q", again)
	}
}

func TestJoinAssignsTheRolesOfTheSettings(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		orgRole, workspaceRole string
		given                  int64
		want, wantBelow        int64
	}{
		"the assigned roles":                           {"member", "editor", 0, roleID("member"), roleID("editor")},
		"a requested role":                             {"member", "editor", roleID("inviter"), roleID("inviter"), roleID("editor")},
		"no roles are assigned":                        {"", "", 0, 0, 0},
		"the assigned roles do not exist":              {"gone", "gone", 0, 0, 0},
		"the assigned roles are of another deployment": {"foreign", "foreign", 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := enabled
			b.OrgRole, b.WorkspaceRole = tc.orgRole, tc.workspaceRole
			w := newWorld(t, settings(b), role("member", home, v1alpha1.RoleLevelOrganization), role("inviter", home, v1alpha1.RoleLevelOrganization),
				role("editor", home, v1alpha1.RoleLevelWorkspace), role("foreign", "acme/other", v1alpha1.RoleLevelOrganization))
			o := w.organization("Acme").Member.Organization
			user := w.account("new@acme.example")
			join := func(u *account.Unit) error {
				m, err := account.Join(u, o, user.ID, tc.given)
				if err == nil && m.Role != tc.want {
					return fmt.Errorf("role %d", m.Role)
				}
				return err
			}
			w.change(join)
			w.change(func(u *account.Unit) error {
				m, found, err := u.Organizations().Member(o.ID, user.ID)
				if err != nil || !found || m.Role != tc.want || m.Owner {
					t.Errorf("%+v, %t, %v", m, found, err)
				}
				below, found, err := u.Organizations().WorkspaceMember(o.Workspace, user.ID)
				if err != nil || !found || below.Role != tc.wantBelow || below.Owner {
					t.Errorf("%+v, %t, %v", below, found, err)
				}
				return nil
			})
			w.refuses(account.ErrAlreadyMember, join)
		})
	}
}

func TestJoinWithoutDefaultWorkspaceJoinsNone(t *testing.T) {
	t.Parallel()
	b := enabled
	b.AllowWorkspaceCreation = false
	w := newWorld(t, settings(b))
	created := w.organization("Acme")
	if created.Workspace != nil || created.Member.Organization.Workspace != 0 {
		t.Fatalf("%+v: workspaces may not be created", created)
	}
	user := w.account("new@acme.example")
	w.change(func(u *account.Unit) error {
		if _, err := account.Join(u, created.Member.Organization, user.ID, 0); err != nil {
			return err
		}
		in, err := u.Organizations().WorkspaceMembershipsOf(user.ID, 0)
		if len(in) != 0 {
			t.Errorf("%+v", in)
		}
		return err
	})
}

func TestOrganizationsRequireB2B(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := w.account("a@acme.example")
	w.refuses(account.ErrOrganizationsDisabled, func(u *account.Unit) error {
		_, err := account.CreateOrganization(u, user.ID, "Acme", "")
		return err
	})
}

func TestOrganizationsWithTheSameNameHaveDifferentSlugs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings(enabled))
	var slugs []string
	for n, name := range []string{"Acme", "ACME!", "日本", "中国"} {
		user := w.account(fmt.Sprintf("%d@acme.example", n))
		w.change(func(u *account.Unit) error {
			created, err := account.CreateOrganization(u, user.ID, name, "")
			if err == nil {
				slugs = append(slugs, created.Member.Organization.Slug)
			}
			return err
		})
	}
	if len(slugs) != 4 || slugs[0] != "acme" || !strings.HasPrefix(slugs[1], "acme-") || slugs[2] != "organization" || !strings.HasPrefix(slugs[3], "organization-") {
		t.Errorf("%q", slugs)
	}
	for _, slug := range slugs {
		if !label.MatchString(slug) || len(slug) > 63 {
			t.Errorf("%q is no DNS label", slug)
		}
	}
}

func TestWorkspacesAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings(enabled))
	o := w.organization("Acme").Member
	create := func(name string) func(u *account.Unit) error {
		return func(u *account.Unit) error {
			_, err := account.CreateWorkspace(u, o.Organization.ID, o.User, name)
			return err
		}
	}
	w.change(create("Two"))
	w.change(create("Two"))
	w.refuses(account.ErrTooManyWorkspaces, create("Four"))
	w.refuses(account.ErrNotMember, func(u *account.Unit) error {
		_, err := account.CreateWorkspace(u, 4711, o.User, "Nowhere")
		return err
	})
	w.change(func(u *account.Unit) error {
		workspaces, err := u.Organizations().WorkspacesOf(o.Organization.ID)
		var slugs []string
		for _, w := range workspaces {
			slugs = append(slugs, w.Slug)
		}
		slices.Sort(slugs)
		if err != nil || len(slugs) != 3 || slugs[0] != "default" || slugs[1] != "two" || !strings.HasPrefix(slugs[2], "two-") {
			t.Errorf("%q, %v", slugs, err)
		}
		return nil
	})
	// Each organization has its own limit.
	other := w.organization("Other").Member
	w.change(func(u *account.Unit) error {
		_, err := account.CreateWorkspace(u, other.Organization.ID, other.User, "Two")
		return err
	})
}

func TestFirstWorkspaceBecomesTheDefault(t *testing.T) {
	t.Parallel()
	b := enabled
	b.AllowWorkspaceCreation = false
	w := newWorld(t, settings(b))
	o := w.organization("Acme").Member
	for _, name := range []string{"First", "Second"} {
		w.change(func(u *account.Unit) error {
			_, err := account.CreateWorkspace(u, o.Organization.ID, o.User, name)
			return err
		})
	}
	w.change(func(u *account.Unit) error {
		now, _, err := u.Organizations().Organization(o.Organization.ID)
		if err != nil {
			return err
		}
		first, found, err := u.Organizations().Workspace(now.Workspace)
		if !found || first.Name != "First" {
			t.Errorf("the default is %+v", first)
		}
		return err
	})
}

func TestCreateAccountRefusesTakenAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.account("Somebody@Acme.example")
	w.refuses(account.ErrEmailTaken, func(u *account.Unit) error {
		_, err := u.CreateAccount(account.NewAccount{Email: "somebody@ACME.example"})
		return err
	})
}

// locking records which locks a unit takes, and when it writes the organization.
type locking struct {
	people.Tx
	order *[]string
}

type (
	lockingLimits struct {
		people.Limits
		locking
	}
	lockingUsers struct {
		people.Users
		locking
	}
	lockingOrganizations struct {
		people.Organizations
		locking
	}
	lockingSessions struct {
		people.Sessions
		locking
	}
)

func (tx locking) Limits() people.Limits { return lockingLimits{tx.Tx.Limits(), tx} }
func (tx locking) Users() people.Users   { return lockingUsers{tx.Tx.Users(), tx} }
func (tx locking) Organizations() people.Organizations {
	return lockingOrganizations{tx.Tx.Organizations(), tx}
}
func (tx locking) Sessions() people.Sessions { return lockingSessions{tx.Tx.Sessions(), tx} }

func (l lockingLimits) Lock(name string) error {
	kind, _, _ := strings.Cut(name, ":")
	*l.order = append(*l.order, "name "+kind)
	return l.Tx.Limits().Lock(name)
}

func (l lockingUsers) LockUser(id int64) (people.User, bool, error) {
	*l.order = append(*l.order, "user")
	return l.Tx.Users().LockUser(id)
}

func (l lockingOrganizations) InsertOrganization(o people.Organization) error {
	*l.order = append(*l.order, "organization")
	return l.Tx.Organizations().InsertOrganization(o)
}

// A backend and the owner may create organizations concurrently. Both lock in the same order, so they wait for each
// other without a deadlock.
func TestCreateOrganizationLocksNameBeforeOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings(enabled))
	owner := w.account("owner@example.com")
	var order []string
	w.change(func(u *account.Unit) error {
		u.Tx = locking{u.Tx, &order}
		_, err := account.CreateOrganization(u, owner.ID, "Org", "")
		return err
	})
	if want := []string{"name owner", "user", "organization"}; !slices.Equal(order, want) {
		t.Errorf("locked %q, want %q", order, want)
	}
	w.refuses(account.ErrUserUnknown, func(u *account.Unit) error {
		_, err := account.CreateOrganization(u, owner.ID+1, "Unowned", "")
		return err
	})
}

func (l lockingOrganizations) Member(organization, user int64) (people.Member, bool, error) {
	*l.order = append(*l.order, "member")
	return l.Tx.Organizations().Member(organization, user)
}

func (l lockingSessions) DeleteSignIn(id int64) error {
	*l.order = append(*l.order, "sign-in")
	return l.Tx.Sessions().DeleteSignIn(id)
}

// A removal from an organization and a concurrent new sign-in wait for each other: both lock the member, then the
// sign-ins.
func TestSignInAgainLocksMemberBeforeSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, settings(enabled))
	created := w.organization("org")
	user := created.Member.User
	policy := session.Policy{Idle: time.Hour, Lifetime: time.Hour, MaxSignIns: 5}
	var order []string
	w.change(func(u *account.Unit) error {
		if err := u.Users().SetLastOrganization(user, created.Member.Organization.ID); err != nil {
			return err
		}
		s, err := u.NewSession(policy, false)
		if err != nil {
			return err
		}
		if err := u.SignIn(s, policy, account.NewSignIn{User: user, Method: people.MethodPassword}); err != nil {
			return err
		}
		u.Tx = locking{u.Tx, &order}
		return u.SignIn(s, policy, account.NewSignIn{User: user, Method: people.MethodPassword})
	})
	if want := []string{"name sign-in", "user", "member", "sign-in"}; !slices.Equal(order, want) {
		t.Errorf("locked %q, want %q", order, want)
	}
}
