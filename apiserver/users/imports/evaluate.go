package imports

import (
	"errors"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// referred returns the id of the row that was imported with an external id. If there is none, it refuses line, which
// refers to that row.
func (b *batch) referred(line *Line, kind, externalID string) (int64, bool) {
	id, found := b.known.as[kind][externalID]
	if !found {
		line.fault(kind, "refers to no imported "+kind+": move the line of that "+kind+" before this one")
	}
	return id, found
}

// user returns the user that a line refers to, or refuses the line.
func (b *batch) user(line *Line) (int64, bool) {
	id, found := b.referred(line, people.ImportedUser, line.User)
	if found && !b.known.users[id] {
		line.fault("user", "was deleted since it was imported")
	}
	return id, line.Refused == nil
}

func (b *batch) evaluateUser(line *Line, u *User, id int64) {
	at := b.at(line)
	b.rows.users = append(b.rows.users, people.User{ID: id, FirstName: u.FirstName, LastName: u.LastName, Disabled: u.Disabled, CreatedAt: at})
	if u.PasswordHash != "" {
		b.rows.passwords = append(b.rows.passwords, people.Password{User: id, Encoded: u.PasswordHash, CreatedAt: at})
	}
	b.rows.events = append(b.rows.events, people.Event{ID: id, Kind: people.EventSignUp, At: at, User: id, Method: people.MethodImport})
	b.known.users[id] = true
}

// evaluateEmail makes the first address of an account its primary one, and later ones that request it. Verified
// addresses have precedence:
//   - A verified address replaces an unverified primary one without a request, and an unverified address never replaces
//     a verified one.
//   - If an address is verified by the line and unverified at another account, it is removed there.
func (b *batch) evaluateEmail(line *Line, e *Email, id int64) {
	user, ok := b.user(line)
	if !ok {
		return
	}
	row := people.Email{ID: id, User: user, Address: e.Address, VerifiedAt: e.VerifiedAt, CreatedAt: b.Now}
	folded := people.FoldEmail(e.Address)
	if other, taken := b.known.emails[folded]; taken {
		if other.User == user || !row.Verified() || other.Verified() {
			line.fault("email", "is already an address of this account or of another account")
			return
		}
		b.displace(other)
	}
	former, has := b.known.primaryEmails[user]
	if row.Primary = !has || becomesPrimary(former, row, ptr.Deref(e.Primary, false)); row.Primary {
		if has {
			b.rows.demotedEmails[former.ID] = true
		}
		b.known.primaryEmails[user] = row
	}
	b.known.emails[folded] = row
	b.rows.emails = append(b.rows.emails, row)
}

// becomesPrimary reports whether an address replaces its account's primary one.
func becomesPrimary(former, e people.Email, asked bool) bool {
	return asked && e.Verified() == former.Verified() || e.Verified() && !former.Verified()
}

// displace removes an unverified address from its account, for the account that verified it.
func (b *batch) displace(e people.Email) {
	b.rows.displacedEmails[e.ID] = e
	if b.known.primaryEmails[e.User].ID == e.ID {
		delete(b.known.primaryEmails, e.User)
	}
	b.rows.lostEmail[e.User] = true
}

// evaluatePhone makes the first verified number of an account its primary one, unless its line has "primary": false,
// and later verified ones that request it.
func (b *batch) evaluatePhone(line *Line, p *Phone, id int64) {
	user, ok := b.user(line)
	if !ok {
		return
	}
	if b.known.phones[numberOf{user, p.Number}] {
		line.fault("phone_number", "is a number that the account already has")
		return
	}
	verified := !p.VerifiedAt.IsZero()
	if _, taken := b.known.verified[p.Number]; taken && verified {
		line.fault("phone_number", "is a verified number of another account")
		return
	}
	if p.SecondFactor && !b.textFactor(line, user, id) {
		return
	}
	b.known.phones[numberOf{user, p.Number}] = true
	if verified {
		b.known.verified[p.Number] = user
	}
	former, has := b.known.primaryPhones[user]
	primary := verified && ptr.Deref(p.Primary, !has)
	if primary {
		if has {
			b.rows.demotedPhones[former] = true
		}
		b.known.primaryPhones[user] = id
	}
	b.rows.phones = append(b.rows.phones, people.Phone{
		ID: id, User: user, Number: p.Number, Region: p.Region, Primary: primary, VerifiedAt: p.VerifiedAt, CreatedAt: b.Now,
	})
}

// requireB2B refuses a line about organizations if the deployment has none.
func (b *batch) requireB2B(line *Line) bool {
	if b.RequireB2B() != nil {
		line.fault("type", "is about organizations, which the deployment's B2B settings do not enable")
		return false
	}
	return true
}

func (b *batch) evaluateOrganization(line *Line, o *Organization, id int64) {
	if !b.requireB2B(line) {
		return
	}
	slug := free(wantedSlug(o.Slug, o.Name, "organization"), id, func(slug string) bool { return b.known.slugs[slug] || account.Reserved(slug) })
	b.known.slugs[slug] = true
	row := people.Organization{ID: id, Name: o.Name, Slug: slug, Description: o.Description, ImageURL: o.ImageURL, CreatedAt: b.at(line)}
	b.known.organizations[id] = row
	b.rows.freshOrganizations[id] = len(b.rows.organizations)
	b.rows.organizations = append(b.rows.organizations, row)
	b.rows.events = append(b.rows.events, people.Event{ID: id, Kind: people.EventOrganization, At: row.CreatedAt})
}

// maxSlug leaves space for a suffix within a DNS label.
const maxSlug = 48

// free returns a slug, with a unique suffix if it is taken.
func free(slug string, id int64, taken func(string) bool) string {
	if !taken(slug) {
		return slug
	}
	return strings.TrimRight(slug[:min(len(slug), maxSlug)], "-") + "-" + strconv.FormatInt(id, 36)
}

// evaluateWorkspace makes the first workspace of an organization its default one, unless its line has "default": false,
// and later ones that request it.
func (b *batch) evaluateWorkspace(line *Line, w *Workspace, id int64) {
	if !b.requireB2B(line) {
		return
	}
	parent, ok := b.referred(line, people.ImportedOrganization, line.Organization)
	if !ok {
		return
	}
	slug := free(wantedSlug(w.Slug, w.Name, "workspace"), id, func(slug string) bool { return b.known.workspaceSlugs[slugIn{parent, slug}] })
	b.known.workspaceSlugs[slugIn{parent, slug}] = true
	row := people.Workspace{ID: id, Organization: parent, Name: w.Name, Slug: slug, CreatedAt: b.at(line)}
	b.known.workspaces[id] = row
	b.rows.workspaces = append(b.rows.workspaces, row)
	b.rows.events = append(b.rows.events, people.Event{ID: id, Kind: people.EventWorkspace, At: row.CreatedAt})
	organization := b.known.organizations[parent]
	if ptr.Deref(w.Default, organization.Workspace == 0) {
		organization.Workspace = id
		b.known.organizations[parent] = organization
		b.rows.setDefault(organization)
	}
}

// evaluateMembership adds a member. A member that is neither an owner nor has a role gets the role that the B2B
// settings assign, as in account.Join.
func (b *batch) evaluateMembership(line *Line, m *Membership, id int64) {
	if !b.requireB2B(line) {
		return
	}
	user, ok := b.user(line)
	if !ok {
		return
	}
	level, assigned := v1alpha1.RoleLevelOrganization, b.B2B.OrgRole
	if line.Workspace != "" {
		level, assigned = v1alpha1.RoleLevelWorkspace, b.B2B.WorkspaceRole
	}
	role := b.RoleNamed(level, m.Role)
	if m.Role != "" && role == 0 {
		line.fault("role", "is not the name of a MembershipRole of level "+string(level)+" in the deployment")
		return
	}
	if m.Role == "" && !m.Owner {
		role = b.RoleNamed(level, assigned)
	}
	if line.Workspace != "" {
		b.joinWorkspace(line, user, people.WorkspaceMember{ID: id, User: user, Role: role, Owner: m.Owner, CreatedAt: b.at(line)})
		return
	}
	organization, ok := b.referred(line, people.ImportedOrganization, line.Organization)
	if !ok {
		return
	}
	if b.known.members[[2]int64{organization, user}] {
		line.fault("user", "is already a member")
		return
	}
	b.known.members[[2]int64{organization, user}] = true
	b.rows.members = append(b.rows.members, people.Member{
		ID: id, User: user, Organization: people.Organization{ID: organization}, Role: role, Owner: m.Owner, CreatedAt: b.at(line),
	})
}

func (b *batch) joinWorkspace(line *Line, user int64, m people.WorkspaceMember) {
	id, ok := b.referred(line, people.ImportedWorkspace, line.Workspace)
	if !ok {
		return
	}
	m.Workspace = b.known.workspaces[id]
	switch {
	case !b.known.members[[2]int64{m.Workspace.Organization, user}]:
		line.fault("user", "is not a member of the workspace's organization: move that membership's line before this one")
	case b.known.workspaceMembers[[2]int64{id, user}]:
		line.fault("user", "is already a member")
	default:
		b.known.workspaceMembers[[2]int64{id, user}] = true
		b.rows.workspaceMembers = append(b.rows.workspaceMembers, m)
	}
}

func (b *batch) evaluateSignIn(line *Line, s *SignIn, id int64) {
	user, ok := b.user(line)
	if !ok {
		return
	}
	address, agent := b.kept(line, s)
	b.rows.events = append(b.rows.events, people.Event{
		ID: id, Kind: people.EventSignIn, At: line.At, User: user, Method: s.Method, Address: address, UserAgent: agent,
	})
}

// kept returns the address and user agent of a sign-in that are stored: none if the sign-in is older than the
// retention.
func (b *batch) kept(line *Line, s *SignIn) (address, agent string) {
	if line.At.Before(b.Now.Add(-b.Settings.AddressRetention())) {
		return "", ""
	}
	return s.Address, s.UserAgent
}

// evaluateKey resolves what a key refers to. Its binding is checked when the rows are written.
func (b *batch) evaluateKey(line *Line, k *APIKey, id int64) pendingKey {
	pending := pendingKey{key: people.APIKey{
		ID: id, App: k.App, Name: k.Name, Digest: k.Digest, Prefix: k.Prefix, Suffix: k.Suffix, Permissions: k.Permissions, Metadata: k.Metadata,
		Scheme: k.Scheme, ExpiresAt: k.ExpiresAt, CreatedAt: b.at(line), UpdatedAt: b.Now,
	}}
	for _, reference := range []struct {
		kind, externalID string
		to               *int64
	}{
		{people.ImportedUser, line.User, &pending.key.Owner}, {people.ImportedOrganization, line.Organization, &pending.key.Organization},
		{people.ImportedWorkspace, line.Workspace, &pending.key.Workspace},
	} {
		if reference.externalID != "" && line.Refused == nil {
			*reference.to, _ = b.referred(line, reference.kind, reference.externalID)
		}
	}
	if line.Refused == nil {
		line.refuse(b.keys(k, line.User != ""))
	}
	pending.line = *line
	return pending
}

// unbound returns an error of BindKey as a refusal of the key, or as a failure.
func unbound(err error) (refused *apierror.Error, failed error) {
	fault := func(member, message string) *apierror.Error {
		return apierror.Invalid(apierror.Fault{Pointer: "/" + member, Message: message})
	}
	switch {
	case errors.Is(err, account.ErrUserUnknown):
		return fault("user", "was deleted since it was imported"), nil
	case errors.Is(err, account.ErrNotMember):
		return fault("user", "is not a member of the organization"), nil
	case errors.Is(err, account.ErrWorkspaceUnknown):
		return fault("workspace", "is not in an organization of the user"), nil
	}
	return nil, err
}
