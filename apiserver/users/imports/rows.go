package imports

import (
	"maps"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/store/people"
)

// rows are the rows that a batch writes.
type rows struct {
	users            []people.User
	passwords        []people.Password
	emails           []people.Email
	phones           []people.Phone
	organizations    []people.Organization
	workspaces       []people.Workspace
	members          []people.Member
	workspaceMembers []people.WorkspaceMember
	identities       []people.Identity
	events           []people.Event
	factors          factorRows
	imported         []people.ImportedRow
	// demotedEmails and demotedPhones hold the ids of rows, of this batch or earlier, that are no longer primary
	// because another row replaced them.
	demotedEmails, demotedPhones map[int64]bool
	// displacedEmails holds the ids of addresses, of this batch or earlier, that are removed because another account
	// verified them. lostEmail holds the ids of their users.
	displacedEmails map[int64]people.Email
	lostEmail       map[int64]bool
	// freshOrganizations holds the indexes of new rows in organizations, and defaults the default workspaces of
	// existing organizations.
	freshOrganizations map[int64]int
	defaults           map[int64]int64
}

func newRows() rows {
	return rows{
		demotedEmails: map[int64]bool{}, demotedPhones: map[int64]bool{}, displacedEmails: map[int64]people.Email{}, lostEmail: map[int64]bool{},
		freshOrganizations: map[int64]int{}, defaults: map[int64]int64{},
	}
}

// setDefault records the default workspace of an organization.
func (r *rows) setDefault(o people.Organization) {
	if at, fresh := r.freshOrganizations[o.ID]; fresh {
		r.organizations[at].Workspace = o.Workspace
		return
	}
	r.defaults[o.ID] = o.Workspace
}

// write writes all rows except API keys, each after the rows that it refers to.
func (b *batch) write() error {
	removed := maps.Clone(b.rows.displacedEmails)
	for _, e := range b.rows.emails {
		delete(removed, e.ID) // it never was there
	}
	b.rows.emails = slices.DeleteFunc(b.rows.emails, func(e people.Email) bool { _, displaced := b.rows.displacedEmails[e.ID]; return displaced })
	for i := range b.rows.emails {
		b.rows.emails[i].Primary = b.rows.emails[i].Primary && !b.rows.demotedEmails[b.rows.emails[i].ID]
	}
	for i := range b.rows.phones {
		b.rows.phones[i].Primary = b.rows.phones[i].Primary && !b.rows.demotedPhones[b.rows.phones[i].ID]
	}
	for _, write := range []func() error{
		func() error { return b.Bulk().InsertUsers(b.rows.users) },
		func() error { logUsers(b, removed); return nil },
		func() error { return b.Bulk().InsertPasswords(b.rows.passwords) },
		func() error { return b.Bulk().DemoteEmails(slices.Sorted(maps.Keys(b.rows.demotedEmails))) },
		func() error { return b.Bulk().DeleteUnproven(slices.Sorted(maps.Keys(b.rows.displacedEmails))) },
		func() error { return b.Bulk().InsertEmails(b.rows.emails) },
		b.promoteRest,
		func() error { return b.Bulk().DemotePhones(slices.Sorted(maps.Keys(b.rows.demotedPhones))) },
		func() error { return b.Bulk().InsertPhones(b.rows.phones) },
		func() error { logPhones(b); return nil },
		b.writeFactors,
		func() error { return b.Bulk().InsertIdentities(b.rows.identities) },
		func() error { return b.Bulk().InsertOrganizations(b.rows.organizations) },
		func() error { return b.Bulk().InsertWorkspaces(b.rows.workspaces) },
		b.writeDefaults,
		func() error { return b.Bulk().InsertMembers(b.rows.members) },
		func() error { return b.Bulk().InsertWorkspaceMembers(b.rows.workspaceMembers) },
		func() error { return b.Records().RecordEvents(b.rows.events) },
		func() error { logOrganizations(b); return nil },
	} {
		if err := write(); err != nil {
			return err
		}
	}
	return nil
}

// logUsers logs the events of new users, of addresses that users of earlier batches get, and of removed addresses.
func logUsers(b *batch, removed map[int64]people.Email) {
	fresh := map[int64]bool{}
	for _, user := range b.rows.users {
		fresh[user.ID] = true
		b.Log(events.OfAccount(user.ID, people.MethodImport))
	}
	for _, id := range slices.Sorted(maps.Keys(removed)) {
		account.LogAs(b.Unit, "system", events.OfEmail(events.UserEmailRemoved, removed[id].User, id))
	}
	for _, e := range b.rows.emails {
		if fresh[e.User] {
			continue
		}
		added := events.UserEmailAdded
		if e.Verified() {
			added = events.UserEmailVerified
		}
		b.Log(events.OfEmail(added, e.User, e.ID))
		if e.Primary {
			b.Log(events.OfEmail(events.UserEmailPrimaryChanged, e.User, e.ID))
		}
	}
}

// logPhones logs the events of phone numbers that users of earlier batches get.
func logPhones(b *batch) {
	fresh := map[int64]bool{}
	for _, user := range b.rows.users {
		fresh[user.ID] = true
	}
	for _, p := range b.rows.phones {
		if fresh[p.User] {
			continue
		}
		added := events.UserPhoneAdded
		if !p.VerifiedAt.IsZero() {
			added = events.UserPhoneVerified
		}
		b.Log(events.OfPhone(added, p.User, p.ID))
		if p.Primary {
			b.Log(events.OfPhone(events.UserPhonePrimaryChanged, p.User, p.ID))
		}
	}
}

// logOrganizations logs the events of new organizations, workspaces and memberships.
func logOrganizations(b *batch) {
	for _, o := range b.rows.organizations {
		b.Log(events.OfOrganization(events.OrganizationCreated, o.ID))
	}
	for _, w := range b.rows.workspaces {
		b.Log(events.OfWorkspace(events.WorkspaceCreated, w))
	}
	for _, m := range b.rows.members {
		b.Log(events.OfMember(events.MembershipCreated, m))
	}
	for _, m := range b.rows.workspaceMembers {
		b.Log(events.OfWorkspaceMember(events.MembershipCreated, m))
	}
}

// promoteRest chooses a new primary address for users who lost theirs, if they have another, and audits the loss.
func (b *batch) promoteRest() error {
	for _, user := range slices.Sorted(maps.Keys(b.rows.lostEmail)) {
		if err := account.PrimaryAmongRest(b.Unit, user); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) writeDefaults() error {
	for _, organization := range slices.Sorted(maps.Keys(b.rows.defaults)) {
		if err := b.Organizations().SetDefaultWorkspace(organization, b.rows.defaults[organization]); err != nil {
			return err
		}
	}
	return nil
}
