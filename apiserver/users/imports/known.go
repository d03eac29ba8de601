package imports

import (
	"maps"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// known is the state that a batch works on: the existing rows that its lines refer to, and the rows of its lines so
// far.
type known struct {
	// as holds the rows of imported lines, by kind and external id.
	as map[string]map[string]int64
	// users holds the ids of existing users that the batch refers to.
	users map[int64]bool
	// emails holds the rows of the addresses in the batch, and primaryEmails the users' primary addresses.
	emails        map[string]people.Email
	primaryEmails map[int64]people.Email
	// phones holds the users' numbers that the batch refers to, and verified the verified ones by number.
	phones        map[numberOf]bool
	verified      map[string]int64
	primaryPhones map[int64]int64

	organizations map[int64]people.Organization
	// slugs holds the taken slugs of organizations, and workspaceSlugs those of workspaces in an organization.
	slugs          map[string]bool
	workspaces     map[int64]people.Workspace
	workspaceSlugs map[slugIn]bool
	factors        knownFactors
	identities     knownIdentities
	// members and workspaceMembers hold pairs of an organization or workspace, and a user.
	members, workspaceMembers map[[2]int64]bool
}

type numberOf struct {
	user   int64
	number string
}

type slugIn struct {
	organization int64
	slug         string
}

// wanted is the set of keys that the lines of a batch refer to.
type wanted struct {
	external map[string]map[string]bool
	// changed holds the external ids of the users for which the batch writes rows that a deletion of the user removes.
	// named holds those of the other users.
	changed, named         map[string]bool
	emails, numbers, slugs map[string]bool
	// proven holds the addresses that a line verifies.
	workspaceSlugs, proven map[string]bool
	memberships            map[string]bool
	// emailUsers, phoneUsers and workspaceParents hold external ids.
	emailUsers, phoneUsers, workspaceParents map[string]bool
	// factorUsers holds external ids, and credentials the ids of passkeys.
	factorUsers, credentials map[string]bool
	// identityUsers holds the external ids of the users of identities.
	identityUsers map[string]bool
	identities    []*Identity
}

func (w *wanted) reference(kind, externalID string) {
	if externalID == "" {
		return
	}
	if w.external[kind] == nil {
		w.external[kind] = map[string]bool{}
	}
	w.external[kind][externalID] = true
}

// wants collects the keys that the lines refer to.
func (b *batch) wants(lines []Line) *wanted {
	w := &wanted{
		external: map[string]map[string]bool{}, changed: map[string]bool{}, named: map[string]bool{}, emails: map[string]bool{}, numbers: map[string]bool{},
		slugs: map[string]bool{}, workspaceSlugs: map[string]bool{}, proven: map[string]bool{}, memberships: map[string]bool{}, emailUsers: map[string]bool{}, phoneUsers: map[string]bool{}, workspaceParents: map[string]bool{},
		factorUsers: map[string]bool{}, credentials: map[string]bool{}, identityUsers: map[string]bool{},
	}
	for i := range lines {
		line := &lines[i]
		if line.Refused != nil {
			continue
		}
		w.reference(line.Kind, line.ExternalID)
		w.reference(people.ImportedUser, line.User)
		w.reference(people.ImportedOrganization, line.Organization)
		w.reference(people.ImportedWorkspace, line.Workspace)
		users := w.changed
		switch content := line.Content.(type) {
		case *Email:
			w.emails[people.FoldEmail(content.Address)], w.emailUsers[line.User] = true, true
			if !content.VerifiedAt.IsZero() {
				w.proven[people.FoldEmail(content.Address)] = true
			}
		case *Phone:
			w.numbers[content.Number], w.phoneUsers[line.User] = true, true
			if content.SecondFactor {
				w.factorUsers[line.User] = true
			}
		case *TOTP:
			w.factorUsers[line.User] = true
		case *Passkey:
			w.factorUsers[line.User], w.credentials[string(content.Credential)] = true, true
		case *Identity:
			w.identityUsers[line.User], w.identities = true, append(w.identities, content)
		case *Organization:
			w.slugs[wantedSlug(content.Slug, content.Name, "organization")] = true
		case *Workspace:
			w.workspaceParents[line.Organization] = true
			w.workspaceSlugs[wantedSlug(content.Slug, content.Name, "workspace")] = true
		case *Membership:
			w.memberships[line.User] = true
		case *SignIn:
			if address, agent := b.kept(line, content); address == "" && agent == "" {
				users = w.named // no personal data is written
			}
		}
		if line.User != "" {
			users[line.User] = true
		}
	}
	return w
}

// wantedSlug returns the slug of a line, or the slug of its name.
func wantedSlug(slug, name, fallback string) string {
	if slug == "" {
		slug = account.Slug(name)
	}
	if slug == "" {
		return fallback
	}
	return slug
}

// load reads the rows that the lines refer to. The number of statements does not depend on the number of lines.
func (b *batch) load(lines []Line) error {
	w := b.wants(lines)
	b.known.as = map[string]map[string]int64{}
	for _, kind := range Kinds() { // in a fixed order, as locks must be taken
		b.known.as[kind] = map[string]int64{}
		if len(w.external[kind]) == 0 {
			continue
		}
		// Sorted keys are next to each other in the store's tree.
		found, err := b.Imports().ImportedAs(kind, slices.Sorted(maps.Keys(w.external[kind])))
		if err != nil {
			return err
		}
		b.known.as[kind] = found
	}
	for _, load := range []func(*wanted) error{b.loadUsers, b.loadEmails, b.loadPhones, b.loadOrganizations, b.loadMemberships, b.loadFactors} {
		if err := load(w); err != nil {
			return err
		}
	}
	return b.known.identities.load(b.Unit, w.identities, b.rowsOf(people.ImportedUser, w.identityUsers))
}

// rowsOf returns the sorted ids of the rows that were imported with external ids.
func (b *batch) rowsOf(kind string, externalIDs map[string]bool) []int64 {
	found := make([]int64, 0, len(externalIDs))
	for externalID := range externalIDs {
		if id, there := b.known.as[kind][externalID]; there {
			found = append(found, id)
		}
	}
	slices.Sort(found)
	return found
}

// loadUsers reads which users exist. It locks the users whose rows are written or removed, so that a concurrent
// deletion or verification either commits before the next reads or sees the written rows.
func (b *batch) loadUsers(w *wanted) (err error) {
	b.known.users = map[int64]bool{}
	contested, err := b.Bulk().EmailsAmong(slices.Collect(maps.Keys(w.proven)))
	if err != nil {
		return err
	}
	changed := b.rowsOf(people.ImportedUser, w.changed)
	for _, e := range contested {
		if e.VerifiedAt.IsZero() {
			changed = append(changed, e.User)
		}
	}
	slices.Sort(changed)
	if changed = slices.Compact(changed); len(changed) > 0 {
		if b.known.users, err = b.Bulk().LockUsers(changed); err != nil {
			return err
		}
	}
	there, err := b.Bulk().UsersAmong(b.rowsOf(people.ImportedUser, w.named))
	maps.Copy(b.known.users, there)
	return err
}

func (b *batch) loadEmails(w *wanted) (err error) {
	if b.known.emails, err = b.Bulk().EmailsAmong(slices.Collect(maps.Keys(w.emails))); err != nil {
		return err
	}
	b.known.primaryEmails, err = b.Bulk().PrimaryEmails(b.rowsOf(people.ImportedUser, w.emailUsers))
	return err
}

func (b *batch) loadPhones(w *wanted) error {
	b.known.phones, b.known.verified, b.known.primaryPhones = map[numberOf]bool{}, map[string]int64{}, map[int64]int64{}
	if len(w.numbers) == 0 {
		return nil
	}
	there, err := b.Bulk().PhonesAmong(b.rowsOf(people.ImportedUser, w.phoneUsers), slices.Collect(maps.Keys(w.numbers)))
	for _, p := range there {
		b.known.phones[numberOf{p.User, p.Number}] = true
		if !p.VerifiedAt.IsZero() {
			b.known.verified[p.Number] = p.User
		}
		if p.Primary {
			b.known.primaryPhones[p.User] = p.ID
		}
	}
	return err
}

func (b *batch) loadOrganizations(w *wanted) (err error) {
	if b.known.slugs, err = b.Bulk().SlugsTaken(slices.Collect(maps.Keys(w.slugs))); err != nil {
		return err
	}
	if b.known.workspaces, err = b.Bulk().WorkspacesAmong(b.rowsOf(people.ImportedWorkspace, w.external[people.ImportedWorkspace])); err != nil {
		return err
	}
	parents := b.rowsOf(people.ImportedOrganization, w.external[people.ImportedOrganization])
	if b.known.organizations, err = b.Bulk().OrganizationsAmong(parents); err != nil {
		return err
	}
	b.known.workspaceSlugs = map[slugIn]bool{}
	there, err := b.Bulk().WorkspaceSlugsTaken(b.rowsOf(people.ImportedOrganization, w.workspaceParents), slices.Collect(maps.Keys(w.workspaceSlugs)))
	for _, workspace := range there {
		b.known.workspaceSlugs[slugIn{workspace.Organization, workspace.Slug}] = true
	}
	return err
}

func (b *batch) loadMemberships(w *wanted) (err error) {
	b.known.members, b.known.workspaceMembers, err = b.Bulk().MembershipsAmong(b.rowsOf(people.ImportedUser, w.memberships))
	return err
}

// present reports whether a line was imported already.
func (b *batch) present(line *Line) bool {
	_, found := b.known.as[line.Kind][line.ExternalID]
	return found
}
