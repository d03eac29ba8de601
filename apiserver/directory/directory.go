// Package directory holds the rules for a deployment's people, the same whether an end user or a backend acts: accounts,
// organizations, workspaces, memberships and what they permit.
package directory

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
	"github.com/cardea-iam/cardea/store/people"
)

// The permissions the end-user API itself asks for.
const (
	PermissionInvite          = "organization:invite"
	PermissionCreateWorkspace = "workspace:create"
)

// InvitationLifetime is how long an invitation can be accepted.
const InvitationLifetime = 7 * 24 * time.Hour

// Directory is one deployment's configuration as it binds people, at one moment.
type Directory struct {
	snapshot *snapshot.Snapshot
	// Deployment is the deployment's entry.
	Deployment *snapshot.Entry
	// B2B has effective values.
	B2B    document.B2BSettings
	random io.Reader
	now    time.Time
}

// New returns the directory of a deployment.
func New(s *snapshot.Snapshot, deployment *snapshot.Entry, random io.Reader, now time.Time) *Directory {
	d := &Directory{snapshot: s, Deployment: deployment, B2B: document.AbsentB2BSettings(), random: random, now: now}
	if entry, found := s.BySlug(v1alpha1.KindB2BSettings, deployment.Deployment, "b2b"); found {
		d.B2B = *entry.Content.(*document.B2BSettings)
	}
	return d
}

// NewID returns the id of a new row.
func (d *Directory) NewID() (int64, error) { return ids.New(d.now, d.random) }

// Origin is where something an event records came from.
type Origin struct{ Address, UserAgent string }

// NewAccount is what an account is created from.
type NewAccount struct {
	Email, FirstName, LastName string
	// PasswordHash is "" for an account without a password.
	PasswordHash string
	// Method is how the account came to be, as analytics tells it.
	Method string
	Origin Origin
}

// CreateAccount creates an account whose email was proven, and counts a sign-up.
func (d *Directory) CreateAccount(tx people.Tx, from NewAccount) (people.User, error) {
	if _, taken, err := tx.UserByEmail(people.FoldEmail(from.Email)); err != nil {
		return people.User{}, err
	} else if taken {
		return people.User{}, apierror.Bad("EMAIL_EXISTS", "an account with this email exists already: sign in instead")
	}
	id, err := d.NewID()
	if err != nil {
		return people.User{}, err
	}
	user := people.User{ID: id, FirstName: from.FirstName, LastName: from.LastName, CreatedAt: d.now, UpdatedAt: d.now, Email: from.Email}
	if err := tx.InsertUser(user, people.Email{ID: id, User: id, Address: from.Email, Primary: true, CreatedAt: d.now}); err != nil {
		return user, err
	}
	if from.PasswordHash != "" {
		if err := tx.PutCredential(id, people.CredentialPassword, from.PasswordHash, d.now); err != nil {
			return user, err
		}
	}
	return user, d.count(tx, people.EventSignUp, id, from.Method, from.Origin)
}

// CountSignIn records a completed sign-in.
func (d *Directory) CountSignIn(tx people.Tx, user int64, method string, origin Origin) error {
	return d.count(tx, people.EventSignIn, user, method, origin)
}

// maxUserAgent bounds what is kept of a user agent, in bytes.
const maxUserAgent = 512

func (d *Directory) count(tx people.Tx, kind string, user int64, method string, origin Origin) error {
	id, err := d.NewID()
	if err != nil {
		return err
	}
	return tx.RecordEvent(people.Event{ID: id, Kind: kind, At: d.now, User: user, Method: method, Address: origin.Address, UserAgent: Clip(origin.UserAgent)})
}

// Clip returns what is kept of a user agent: valid text of a bounded length.
func Clip(userAgent string) string {
	userAgent = strings.ToValidUTF8(strings.ReplaceAll(userAgent, "\x00", ""), "")
	if len(userAgent) > maxUserAgent {
		userAgent = strings.ToValidUTF8(userAgent[:maxUserAgent], "")
	}
	return userAgent
}

// RequireB2B refuses what needs organizations where the deployment has none.
func (d *Directory) RequireB2B() error {
	if !d.B2B.Enabled {
		return apierror.Coded(http.StatusForbidden, "ORGANIZATIONS_DISABLED", "organizations are disabled in this deployment: its B2B settings enable them")
	}
	return nil
}

// Created is what creating an organization made.
type Created struct {
	Member people.Member
	// Workspace is the default one, nil where none may be created.
	Workspace *people.WorkspaceMember
}

// CreateOrganization creates an organization whose owner is the user, with a default workspace where workspaces may be created. User 0
// is nobody: the organization has no member then, and Created tells the organization alone in its Member.
func (d *Directory) CreateOrganization(tx people.Tx, user int64, name, description string, origin Origin) (Created, error) {
	if err := d.RequireB2B(); err != nil {
		return Created{}, err
	}
	slug, err := freeSlug(name, "organization", tx.SlugTaken, d.NewID)
	if err != nil {
		return Created{}, err
	}
	id, err := d.NewID()
	if err != nil {
		return Created{}, err
	}
	o := people.Organization{ID: id, Name: name, Slug: slug, Description: description, CreatedAt: d.now}
	if err := tx.InsertOrganization(o); err != nil {
		return Created{}, err
	}
	member := people.Member{ID: id, User: user, Organization: o, Owner: true, CreatedAt: d.now}
	if user != 0 {
		if err := tx.InsertMember(member); err != nil {
			return Created{}, err
		}
	}
	if err := d.count(tx, people.EventOrganization, user, "", origin); err != nil {
		return Created{}, err
	}
	created := Created{Member: member}
	if !d.B2B.AllowWorkspaceCreation || d.B2B.DefaultWorkspaceLimit < 1 {
		return created, nil
	}
	w, err := d.addWorkspace(tx, o.ID, user, "Default", nil, origin)
	if err != nil {
		return Created{}, err
	}
	created.Workspace, created.Member.Organization.Workspace = &w, w.Workspace.ID
	return created, tx.SetDefaultWorkspace(o.ID, w.Workspace.ID)
}

// CreateWorkspace creates a workspace in an organization, within the limit of the B2B settings. Its owner is the user.
func (d *Directory) CreateWorkspace(tx people.Tx, organization, user int64, name string, origin Origin) (people.WorkspaceMember, error) {
	// The lock makes those who create at once count each other.
	o, found, err := tx.LockOrganization(organization)
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	if !found {
		return people.WorkspaceMember{}, NotMember()
	}
	slugs, err := tx.WorkspacesIn(organization)
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	if int64(len(slugs)) >= d.B2B.DefaultWorkspaceLimit {
		return people.WorkspaceMember{}, apierror.Bad("WORKSPACE_LIMIT_REACHED", "the organization has %d workspaces, and may have %d", len(slugs), d.B2B.DefaultWorkspaceLimit)
	}
	w, err := d.addWorkspace(tx, organization, user, name, slugs, origin)
	if err == nil && o.Workspace == 0 {
		err = tx.SetDefaultWorkspace(organization, w.Workspace.ID)
	}
	return w, err
}

func (d *Directory) addWorkspace(tx people.Tx, organization, user int64, name string, taken []string, origin Origin) (people.WorkspaceMember, error) {
	slug, err := freeSlug(name, "workspace", func(slug string) (bool, error) { return slices.Contains(taken, slug), nil }, d.NewID)
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	id, err := d.NewID()
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	w := people.Workspace{ID: id, Organization: organization, Name: name, Slug: slug, CreatedAt: d.now}
	if err := tx.InsertWorkspace(w); err != nil {
		return people.WorkspaceMember{}, err
	}
	m := people.WorkspaceMember{ID: id, User: user, Workspace: w, Owner: true, CreatedAt: d.now}
	if user != 0 {
		if err := tx.InsertWorkspaceMember(m); err != nil {
			return people.WorkspaceMember{}, err
		}
	}
	return m, d.count(tx, people.EventWorkspace, user, "", origin)
}

// Join makes a user a member of an organization and of its default workspace. Without a role, 0, the member gets the one the
// B2B settings assign.
func (d *Directory) Join(tx people.Tx, organization people.Organization, user, role int64) (people.Member, error) {
	if _, found, err := tx.Member(organization.ID, user); err != nil {
		return people.Member{}, err
	} else if found {
		return people.Member{}, apierror.Bad("ALREADY_MEMBER", "the user is a member of this organization already")
	}
	if role == 0 {
		role = d.assigned(d.B2B.OrgRole)
	}
	id, err := d.NewID()
	if err != nil {
		return people.Member{}, err
	}
	m := people.Member{ID: id, User: user, Organization: organization, Role: role, CreatedAt: d.now}
	if err := tx.InsertMember(m); err != nil || organization.Workspace == 0 {
		return m, err
	}
	w, found, err := tx.Workspace(organization.Workspace)
	if err != nil || !found {
		return m, err
	}
	return m, tx.InsertWorkspaceMember(people.WorkspaceMember{ID: id, User: user, Workspace: w, Role: d.assigned(d.B2B.WorkspaceRole), CreatedAt: d.now})
}

// assigned returns the id of a role that settings name, 0 if it is not there.
func (d *Directory) assigned(name string) int64 {
	if name == "" {
		return 0
	}
	entry, found := d.snapshot.Get(store.Identity{Kind: v1alpha1.KindMembershipRole, Namespace: d.Deployment.Namespace, Name: name})
	if !found || entry.Deployment != d.Deployment.Deployment {
		return 0
	}
	return entry.ID
}

// NotMember is the one answer about an organization that is unknown, foreign, or not the user's.
func NotMember() error {
	return apierror.Coded(http.StatusForbidden, "NOT_MEMBER", "you are not a member of this organization")
}

// Role is a role as members hold it.
type Role struct {
	// ID is 0 for the owner and for none.
	ID          int64
	Name        string
	Permissions []string
}

// OwnerRole is the name of the role an organization's creator has.
const OwnerRole = "owner"

// RoleOf returns the role of a membership: the owner has every permission of the catalog's level. A role that vanished is nil: the
// member keeps the row, with no permissions.
func (d *Directory) RoleOf(level v1alpha1.RoleLevel, owner bool, id int64) *Role {
	settings := d.Deployment.Content.(*document.Deployment)
	if owner {
		permissions := settings.OrganizationPermissions
		if level == v1alpha1.RoleLevelWorkspace {
			permissions = settings.WorkspacePermissions
		}
		return &Role{Name: OwnerRole, Permissions: slices.Clone(permissions)}
	}
	entry, found := d.snapshot.ByID(v1alpha1.KindMembershipRole, d.Deployment.Deployment, id)
	if id == 0 || !found {
		return nil
	}
	content := entry.Content.(*document.MembershipRole)
	if content.Level != string(level) {
		return nil
	}
	return &Role{ID: id, Name: content.Name, Permissions: slices.Clone(content.Permissions)}
}

// HasRole tells whether the deployment has a role of a level.
func (d *Directory) HasRole(level v1alpha1.RoleLevel, id int64) bool {
	return id != 0 && d.RoleOf(level, false, id) != nil
}

// May tells whether a member has a permission in the organization.
func (d *Directory) May(m people.Member, permission string) bool {
	if m.Owner {
		return true
	}
	role := d.RoleOf(v1alpha1.RoleLevelOrganization, false, m.Role)
	return role != nil && slices.Contains(role.Permissions, permission)
}

// maxSlug, in bytes, leaves room for a suffix within a DNS label.
const maxSlug = 48

// Slug writes a name as a slug: lower-case letters and digits of ASCII, in words joined by dashes; "" if nothing is left.
func Slug(name string) string {
	var b strings.Builder
	dash := false
	for _, r := range norm.NFKD.String(strings.ToLower(name)) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			if dash && b.Len() > 0 {
				b.WriteByte('-')
			}
			dash = false
			b.WriteRune(r)
		case !unicode.Is(unicode.Mn, r):
			dash = true
		}
		if b.Len() >= maxSlug {
			break
		}
	}
	// A dash and a letter are written at once: what is cut may end between them.
	return strings.TrimSuffix(b.String()[:min(b.Len(), maxSlug)], "-")
}

// freeSlug returns a slug for a name that is not taken: the name's own, else with a number of its own.
func freeSlug(name, otherwise string, taken func(string) (bool, error), newID func() (int64, error)) (string, error) {
	slug := Slug(name)
	if slug == "" {
		slug = otherwise
	}
	used, err := taken(slug)
	if err != nil || !used {
		return slug, err
	}
	id, err := newID()
	return slug + "-" + strconv.FormatInt(id, 36), err
}
