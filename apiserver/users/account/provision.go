package account

import (
	"errors"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// DirectoryUser is a user as a directory states it.
type DirectoryUser struct {
	Row people.SCIMUser
	// Address is the address as sent, "" for none.
	Address             string
	FirstName, LastName string
}

// Provision applies a change of a directory's user to the account, and returns the account, 0 while the user waits
// until the address is proven. from is the zero value for a new user.
//  1. A user with an address in a domain of the organization gets the account where the address is verified, and an
//     active one without such an account a new one.
//  2. A user who becomes active becomes a member, or gets the suspended membership back.
//  3. A user who becomes inactive is deprovisioned.
//  4. The primary address and the names of a managed account follow the directory.
//
// A member who left or was removed becomes a member again only with step 1 or 2. Errors: ErrProvisionedElsewhere,
// ErrSuspended, ErrOwnerLeaves, ErrEmailTaken, ErrTooManyEmails, a WaitError with ErrTooManyChanges.
func Provision(u *Unit, d Directory, from, to DirectoryUser) (int64, error) {
	tied, made := false, false
	user := to.Row.User
	if user == 0 && (to.Row.Active || from.Row.Active) {
		var err error
		if user, made, err = accountFor(u, d, to); err != nil {
			return 0, err
		}
		tied = user != 0
	}
	if made { // of which no other transaction knows, and which has no membership
		return user, addNewMember(u, d, user)
	}
	if user == 0 {
		return 0, nil
	}
	if !to.Row.Active {
		if from.Row.Active {
			return user, deprovision(u, d, user)
		}
		return user, nil
	}
	account, found, err := u.Users().LockUser(user)
	if err != nil || !found {
		return 0, err
	}
	if tied || !from.Row.Active {
		if err := enable(u, d, &account); err != nil {
			return user, err
		}
		if err := include(u, d, user); err != nil {
			return user, err
		}
	}
	if tied {
		return user, nil
	}
	return user, follow(u, d, account, from, to)
}

// accountFor returns the account of a user with an address in a domain of the organization: the one where the address
// is verified, else for an active user a new one. It returns 0 if there is none. made reports that the account is new.
func accountFor(u *Unit, d Directory, to DirectoryUser) (user int64, made bool, err error) {
	if inside, err := HoldsDomain(u, d.Of, to.Address); err != nil || !inside {
		return 0, false, err
	}
	holder, known, err := u.Users().Email(people.FoldEmail(to.Address))
	if err == nil && known {
		holder, err = usableForCode(u, holder)
	}
	if err != nil {
		return 0, false, err
	}
	if !to.Row.Active && !holder.Verified() {
		return 0, false, nil
	}
	u.provisions = d.Of.ID
	defer func() { u.provisions = 0 }()
	if holder.User == 0 {
		account, err := u.CreateAccount(NewAccount{Email: to.Address, FirstName: to.FirstName, LastName: to.LastName, Method: people.MethodSCIM})
		if err != nil {
			return 0, false, err
		}
		return account.ID, true, u.Directories().PutDirectoryAccount(people.DirectoryAccount{User: account.ID, CreatedBy: d.ID})
	}
	user, err = takeOver(u, d, to, holder)
	return user, false, err
}

// takeOver returns the account that has a user's address, 0 if the user gets none.
func takeOver(u *Unit, d Directory, to DirectoryUser, holder people.Email) (int64, error) {
	if _, found, err := u.Users().LockUser(holder.User); err != nil || !found {
		return 0, FirstOf(err, ErrEmailTaken)
	}
	if err := requireFree(u, d.Of, holder.User); err != nil {
		if !to.Row.Active && errors.Is(err, ErrProvisionedElsewhere) { // the other user decides about the account
			return 0, nil
		}
		return 0, err
	}
	if holder.Verified() {
		return holder.User, nil
	}
	// The organization controls the mailbox: what another person added to the account goes.
	return holder.User, ProveEmail(u, people.Attempt{User: holder.User, Email: to.Address, Method: people.MethodSSO})
}

// requireFree returns ErrProvisionedElsewhere if a user of a directory of the organization has an account.
func requireFree(u *Unit, o people.Organization, user int64) error {
	all, err := directoriesOf(u, o)
	if err != nil {
		return err
	}
	rows, err := usersAmong(u, all, user)
	if err == nil && len(rows) > 0 {
		err = ErrProvisionedElsewhere
	}
	return err
}

// enable enables a locked account that this directory disabled, or one that no longer exists, if the account has an
// address of this directory's organization: the organization of a deleted directory is not known.
func enable(u *Unit, d Directory, account *people.User) error {
	if !account.Disabled {
		return nil
	}
	state, err := u.Directories().DirectoryAccount(account.ID)
	if err != nil || state.DisabledBy == 0 {
		return err
	}
	if state.DisabledBy != d.ID {
		if exists, err := hasDirectory(u, state.DisabledBy); err != nil || exists {
			return err
		}
		if managed, err := HoldsDomain(u, d.Of, account.Email); err != nil || !managed {
			return err
		}
	}
	account.Disabled, account.UpdatedAt, state.DisabledBy = false, u.Now, 0
	if err := FirstOf(u.Users().UpdateUser(*account), u.Directories().PutDirectoryAccount(state)); err != nil {
		return err
	}
	u.Log(events.OfUser(events.UserEnabled, account.ID))
	return u.Audit("user.enabled", object("user", account.ID))
}

// addNewMember makes a user whose account this transaction made a member of the directory's organization.
func addNewMember(u *Unit, d Directory, user int64) error {
	if _, found, err := u.Organizations().LockOrganization(d.Of.ID); err != nil || !found {
		return FirstOf(err, ErrNoOrganization)
	}
	if _, err := addMember(u, d.Of, user, 0); err != nil {
		return err
	}
	return u.Audit("organization.joined", object("organization", d.Of.ID))
}

// include makes a user a member of the directory's organization, or restores the membership that this directory
// suspended. ErrSuspended: another directory suspended it.
func include(u *Unit, d Directory, user int64) error {
	if _, found, err := u.Organizations().LockOrganization(d.Of.ID); err != nil || !found {
		return FirstOf(err, ErrNoOrganization)
	}
	suspended, found, err := u.Directories().SuspendedMember(d.Of.ID, user)
	if err != nil {
		return err
	}
	if found {
		if suspended.Directory != d.ID {
			if exists, err := hasDirectory(u, suspended.Directory); err != nil || exists {
				return FirstOf(err, ErrSuspended)
			}
		}
		if _, err := u.Directories().RestoreMember(d.Of.ID, user); err != nil {
			return err
		}
		if err := logRestored(u, d.Of.ID, user); err != nil {
			return err
		}
		return u.Audit("scim.user.restored", object("user", user))
	}
	_, err = join(u, d.Of, user, 0)
	if errors.Is(err, ErrAlreadyMember) {
		return nil
	}
	if err != nil {
		return err
	}
	return u.Audit("organization.joined", object("organization", d.Of.ID))
}

// logRestored logs the memberships of a user whose membership of an organization was restored.
func logRestored(u *Unit, organization, user int64) error {
	m, found, err := u.Organizations().Member(organization, user)
	if err != nil || !found {
		return err
	}
	u.Log(events.OfMember(events.MembershipCreated, m))
	workspaces, err := u.Organizations().WorkspaceMembershipsOf(user, organization)
	for _, w := range workspaces {
		u.Log(events.OfWorkspaceMember(events.MembershipCreated, w))
	}
	return err
}

// follow moves the primary address of a managed account to the directory's new one, and writes its new names.
func follow(u *Unit, d Directory, account people.User, from, to DirectoryUser) error {
	managed, err := HoldsDomain(u, d.Of, account.Email)
	if err != nil || !managed {
		return err
	}
	if from.FirstName != to.FirstName || from.LastName != to.LastName {
		before := account
		account.FirstName, account.LastName, account.UpdatedAt = to.FirstName, to.LastName, u.Now
		if err := u.Users().UpdateUser(account); err != nil {
			return err
		}
		if changed := ChangedNames(before, account); len(changed) > 0 {
			u.Log(events.OfUser(events.UserUpdated, account.ID, changed...))
		}
	}
	if from.Row.Email == to.Row.Email || people.FoldEmail(account.Email) == to.Row.Email {
		return nil
	}
	if inside, err := HoldsDomain(u, d.Of, to.Address); err != nil || !inside {
		return err
	}
	if err := CountOwnChange(u, account.ID, moved); err != nil {
		return err
	}
	return moveAddress(u, d.Of, account, from.Row.Email, to.Address)
}

// moveAddress makes an address that the directory proves the primary one of a managed account, and removes the former
// one: its mailbox may get another owner. The former one is that of the directory if the account has it and it belongs
// to the organization, else the primary one.
func moveAddress(u *Unit, o people.Organization, account people.User, former, address string) error {
	emails, err := u.Users().EmailsOf(account.ID)
	if err != nil {
		return err
	}
	at := func(folded string) int {
		return slices.IndexFunc(emails, func(e people.Email) bool { return people.FoldEmail(e.Address) == folded })
	}
	var e people.Email
	if own := at(people.FoldEmail(address)); own >= 0 {
		e = emails[own]
	} else if e, err = AddEmail(u, account.ID, address); err != nil {
		return err
	}
	if !e.Verified() {
		if e, err = AcceptEmail(u, e); err != nil {
			return err
		}
	}
	if _, err := PromoteEmail(u, e); err != nil {
		return err
	}
	own, err := HoldsDomain(u, o, former)
	if err != nil {
		return err
	}
	old := at(former)
	if old < 0 || !own {
		old = at(people.FoldEmail(account.Email))
	}
	if old < 0 || emails[old].ID == e.ID {
		return nil
	}
	emails[old].Primary = false
	return RemoveEmail(u, emails[old])
}

// rolesAtOnce is how many users one step of ApplyRoles reads.
const rolesAtOnce = 1000

// ApplyRoles gives members the roles that groups of the directory lead to: the first of the group roles whose group has
// the user and whose role exists, else the role that new members get. Owners keep what they have. Without group roles,
// the directory decides no role. It returns the memberships that changed. users are ids of the directory's users.
func ApplyRoles(u *Unit, d Directory, users []int64) (changed []int64, err error) {
	mapped := u.RolesByGroup(d)
	if len(mapped) == 0 {
		return nil, nil
	}
	names := make([]string, len(mapped))
	for i, m := range mapped {
		names[i] = m.Group
	}
	for part := range slices.Chunk(users, rolesAtOnce) {
		accounts, err := u.SCIM().SCIMAccounts(d.ID, part)
		if err != nil {
			return changed, err
		}
		named, err := u.SCIM().SCIMMembersNamed(d.ID, names, part)
		if err != nil {
			return changed, err
		}
		groups := map[int64]map[string]bool{}
		for _, m := range named {
			if groups[m.User] == nil {
				groups[m.User] = map[string]bool{}
			}
			groups[m.User][m.Group] = true
		}
		byRole := map[int64][]int64{}
		for _, id := range part {
			if account := accounts[id]; account != 0 {
				role := roleByGroups(u.Tenant, mapped, groups[id])
				byRole[role] = append(byRole[role], account)
			}
		}
		for role, members := range byRole {
			these, err := u.SCIM().SetMemberRoles(d.Of.ID, role, members)
			if err != nil {
				return changed, err
			}
			for _, m := range these {
				m.Organization = d.Of
				u.Log(events.OfMember(events.MembershipUpdated, m))
				changed = append(changed, m.ID)
			}
		}
	}
	return changed, nil
}

// roleByGroups returns the id of the role that groups lead to, 0 for none.
func roleByGroups(t *Tenant, mapped []directory.GroupRole, groups map[string]bool) int64 {
	for _, m := range mapped {
		if m.Role != 0 && groups[m.Group] {
			return m.Role
		}
	}
	return t.assigned(t.B2B.OrgRole)
}
