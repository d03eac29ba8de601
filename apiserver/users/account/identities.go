package account

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// Errors of identities.
var (
	// ErrIdentityExists: another account has the identity.
	ErrIdentityExists = errors.New("another account has this identity")
	// ErrTooManyIdentities: the account has connection.MaxIdentities.
	ErrTooManyIdentities = errors.New("the account has too many identities")
	// ErrNotProvisioned: the connection lets only users sign in who have an account or a membership already.
	ErrNotProvisioned = errors.New("the connection lets in no new users")
	// ErrIdentityUnknown: the user has no such identity.
	ErrIdentityUnknown = errors.New("there is no such identity")
	// ErrOnlyWayIn: the user could not sign in without it.
	ErrOnlyWayIn = errors.New("the user has no other way to sign in")
)

// ConnectionSignIn is a sign-in by a connection.
type ConnectionSignIn struct {
	Connection Connection
	Evidence   connection.Evidence
	// Links permits that the identity is added to the account if it is unknown.
	Links bool
	// Address is the address that the attempt proved or that the provider is authoritative for, "" for none.
	Address string
	// Proofs are what was shown in the attempt.
	Proofs assurance.Proofs
	// Created reports that the attempt created the account.
	Created bool
}

// AddConnection completes a sign-in by a connection for a locked user:
//  1. It marks the address as verified that the attempt proved.
//  2. It records the identity, or adds it to the account if the sign-in may.
//  3. It makes the user a member of the connection's organization, with the role that the provider's claims lead to.
//  4. It returns how the sign-in came from the connection, and the organization that becomes active, 0 for none.
//
// The sign-in is confined to that organization unless the provider controls the mailbox of the account's primary
// address, or the attempt proved a mailbox of the account. Errors: ErrIdentityExists, ErrIdentityUnknown,
// ErrTooManyIdentities, ErrNotProvisioned.
func AddConnection(u *Unit, user people.User, s ConnectionSignIn) (up people.Upstream, organization int64, err error) {
	up.Connection, up.SessionID = s.Connection.ID, s.Evidence.SessionID
	if seconds := s.Connection.SessionSeconds; seconds > 0 {
		up.EndsAt = u.Now.Add(time.Duration(seconds) * time.Second)
	}
	if ends := s.Evidence.EndsAt; !ends.IsZero() && (up.EndsAt.IsZero() || ends.Before(up.EndsAt)) {
		up.EndsAt = ends
	}
	if s.Address != "" { // before the identity is added: an unproven account loses its earlier identities
		err := ProveEmail(u, people.Attempt{User: user.ID, Email: s.Address, Method: people.MethodSSO, Proofs: s.Proofs})
		if err != nil {
			return up, 0, err
		}
	}
	if up.Identity, err = useIdentity(u, user.ID, s); err != nil {
		return up, 0, err
	}
	if s.Evidence.IDToken != "" {
		up.IDToken = u.Keyring.Seal(people.SealedIDToken, people.SealedFor(u.Key(), up.Identity), []byte(s.Evidence.IDToken))
	}
	if s.Connection.Organization == "" {
		return up, 0, nil
	}
	o, found, err := u.Organizations().OrganizationBySlug(s.Connection.Organization)
	if err != nil || !found {
		return up, 0, FirstOf(err, ErrNotProvisioned)
	}
	if err := joinByConnection(u, user.ID, o, s); err != nil {
		return up, 0, err
	}
	if err := u.Users().SetLastOrganization(user.ID, o.ID); err != nil {
		return up, 0, err
	}
	if s.Proofs.Has(assurance.EmailOTP) {
		return up, o.ID, nil
	}
	own, err := Authoritative(u, s.Connection, user.Email)
	own = own || s.Evidence.Authoritative && people.FoldEmail(s.Evidence.Email) == people.FoldEmail(user.Email)
	if err == nil && !own {
		up.ConfinedTo = o.ID
	}
	return up, o.ID, err
}

// UseIdentity records that a user showed an identity of the account again. ErrIdentityUnknown, ErrIdentityExists: the
// user does not have it anymore.
func UseIdentity(u *Unit, user int64, s ConnectionSignIn) error {
	s.Links = false
	_, err := useIdentity(u, user, s)
	return err
}

// useIdentity records the use of a known identity of the user, or adds the identity. It returns its id.
func useIdentity(u *Unit, user int64, s ConnectionSignIn) (int64, error) {
	known, found, err := u.Identities().IdentityOf(s.Connection.ID, s.Evidence.Issuer, s.Evidence.Subject)
	switch {
	case err != nil:
		return 0, err
	case found && known.User != user:
		return 0, ErrIdentityExists
	case !found && !s.Links:
		return 0, ErrIdentityUnknown
	case found:
		return known.ID, u.Identities().UseIdentity(known.ID, s.Evidence.Email, u.Now)
	}
	added, err := LinkIdentity(u, user, s)
	return added.ID, err
}

// LinkIdentity adds an identity to a locked user, and notifies the user unless the account is new. Errors:
// ErrTooManyIdentities.
func LinkIdentity(u *Unit, user int64, s ConnectionSignIn) (people.Identity, error) {
	have, err := u.Identities().IdentitiesOf(user)
	if err != nil {
		return people.Identity{}, err
	}
	if len(have) >= connection.MaxIdentities {
		return people.Identity{}, ErrTooManyIdentities
	}
	id, err := u.NewID()
	if err != nil {
		return people.Identity{}, err
	}
	i := people.Identity{
		ID: id, Connection: s.Connection.ID, Issuer: s.Evidence.Issuer, Subject: s.Evidence.Subject, User: user, Email: s.Evidence.Email, CreatedAt: u.Now, UsedAt: u.Now,
	}
	if err := u.Identities().InsertIdentity(i); err != nil {
		return i, err
	}
	if err := u.AuditAs(object("user", user), "identity.linked", object("identity", id), u.Session); err != nil || s.Created {
		return i, err
	}
	return i, u.Notify(user, "You can sign in with "+messages.Quoted(s.Connection.Name, "another provider")+" now.")
}

// joinByConnection makes a user a member of the connection's organization, and gives the member the role that the
// provider's claims lead to. Owners keep what they have. ErrNotProvisioned: the connection adds no members.
func joinByConnection(u *Unit, user int64, o people.Organization, s ConnectionSignIn) error {
	membership := s.Connection.Membership
	m, found, err := u.Organizations().Member(o.ID, user)
	if err != nil {
		return err
	}
	role := roleByConnection(u, s)
	if !found {
		if !membership.JustInTime {
			return ErrNotProvisioned
		}
		if _, err := Join(u, o, user, role); err != nil {
			if errors.Is(err, ErrSuspended) {
				err = ErrNotProvisioned
			}
			return err
		}
		return u.AuditAs(object("user", user), "organization.joined", object("organization", o.ID), u.Session)
	}
	role = cmp.Or(role, u.assigned(u.B2B.OrgRole))
	if s.Connection.Role == nil && len(s.Connection.Mappings) == 0 || membership.FirstOnly || m.Owner || m.Role == role {
		return nil
	}
	if ruled, err := rolesByDirectory(u, o, user); err != nil || ruled {
		return err
	}
	m.Role = role
	if err := u.Organizations().UpdateMember(m); err != nil {
		return err
	}
	LogAs(u, "connection:"+s.Connection.Slug, events.OfMember(events.MembershipUpdated, m))
	return u.AuditAs("connection:"+s.Connection.Slug, "organization.member_changed", object("membership", m.ID), u.Session)
}

// roleByConnection returns the id of the first role that exists of those that the role expression, or the mappings of a
// row, yield; 0 for none.
func roleByConnection(u *Unit, s ConnectionSignIn) int64 {
	for _, id := range s.Evidence.RoleIDs {
		if u.RoleOf(v1alpha1.RoleLevelOrganization, false, id) != nil {
			return id
		}
	}
	for _, name := range s.Evidence.Roles {
		if id := u.RoleNamed(v1alpha1.RoleLevelOrganization, name); id != 0 {
			return id
		}
	}
	return 0
}

// RemoveIdentity removes an identity of a user, ends the sign-ins by it in other sessions than the unit's, and returns
// it. Errors: ErrIdentityUnknown, ErrOnlyWayIn.
func RemoveIdentity(u *Unit, user, id int64) (removed people.Identity, err error) {
	if err := endSignInsBy(u, user, id); err != nil {
		return removed, err
	}
	have, err := u.Identities().IdentitiesOf(user)
	if err != nil {
		return removed, err
	}
	at := slices.IndexFunc(have, func(i people.Identity) bool { return i.ID == id })
	if at < 0 {
		return removed, ErrIdentityUnknown
	}
	removed = have[at]
	usable := false
	for _, i := range slices.Delete(slices.Clone(have), at, at+1) {
		if _, err := FindConnection(u, i.Connection); err == nil {
			usable = true
		} else if !IsUnusable(err) {
			return removed, err
		}
	}
	if !usable {
		if other, err := signsInOtherwise(u, user); err != nil || !other {
			return removed, FirstOf(err, ErrOnlyWayIn)
		}
	}
	return removed, deleteIdentity(u, removed)
}

// WithdrawIdentity removes an identity of a user for the tenant's help desk, even if the user cannot sign in otherwise,
// and ends the sign-ins by it. ErrIdentityUnknown: the user has no such identity.
func WithdrawIdentity(u *Unit, user, id int64) error {
	i, found, err := u.Identities().Identity(id)
	if err != nil || !found || i.User != user {
		return FirstOf(err, ErrIdentityUnknown)
	}
	if err := endSignInsBy(u, user, id); err != nil {
		return err
	}
	return deleteIdentity(u, i)
}

// endSignInsBy locks a user, and ends the user's sign-ins by an identity in other sessions than the unit's.
func endSignInsBy(u *Unit, user, identity int64) error {
	if err := leaveSignInsBy(u, user, identity); err != nil { // sessions are locked before users
		return err
	}
	if _, found, err := u.Users().LockUser(user); err != nil || !found {
		return FirstOf(err, ErrUserUnknown)
	}
	return leaveSignInsBy(u, user, identity) // those of meanwhile
}

// leaveSignInsBy ends a user's sign-ins by an identity in other sessions than the unit's.
func leaveSignInsBy(u *Unit, user, identity int64) error {
	all, err := u.Sessions().SignInsOf(user)
	if err != nil {
		return err
	}
	for _, g := range all {
		if g.Upstream.Identity != identity || g.Session == u.Session {
			continue
		}
		if err := EndSignIn(u, g, u.Actor, events.ByConnection); err != nil {
			return err
		}
		if err := u.AuditAs(u.Actor, "session.signed_out", object("signin", g.ID), g.Session); err != nil {
			return err
		}
	}
	return nil
}

// deleteIdentity deletes an identity of a locked user, and notifies the user.
func deleteIdentity(u *Unit, i people.Identity) error {
	if deleted, err := u.Identities().DeleteIdentity(i.User, i.ID); err != nil || !deleted {
		return FirstOf(err, ErrIdentityUnknown)
	}
	if err := u.Audit("identity.unlinked", object("identity", i.ID)); err != nil {
		return err
	}
	name := ""
	c, err := FindConnection(u, i.Connection)
	switch {
	case err == nil:
		name = c.Name
	case !IsUnusable(err):
		return err
	}
	return u.Notify(i.User, "You can no longer sign in with "+messages.Quoted(name, "another provider")+".")
}

// signsInOtherwise reports whether a user can sign in without an identity: by a password, an emailed code or a passkey.
func signsInOtherwise(u *Unit, user int64) (bool, error) {
	settings := u.Settings.EffectiveSignIn()
	if settings.EmailCode && u.Settings.Email != nil {
		return true, nil
	}
	if settings.Password {
		if _, has, err := u.Users().Credential(user, people.CredentialPassword); err != nil || has {
			return has, err
		}
	}
	f, err := u.FactorsOf(user)
	return slices.ContainsFunc(f.Passkeys, func(p people.Passkey) bool { return !p.SecondFactorOnly }), err
}
