// Package people states what Cardea needs of its runtime store for people: users, sessions, codes, organizations, and
// what analytics counts. Only servers write here; applying YAML touches none of it. Every row belongs to one
// deployment, and a Tx reaches the rows of one deployment only.
package people

import (
	"context"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// ErrDuplicate means that a row violates a uniqueness constraint of the store (an id, an email, a verified phone
// number, a slug, a membership). The transaction is lost; read again to find which.
var ErrDuplicate = errors.New("the row exists already")

// Store is the server's side of the store for people.
type Store interface {
	// View runs do on a deployment's rows. Each statement sees the rows committed before it began; writes and locks are
	// refused.
	View(ctx context.Context, deployment string, do func(Tx) error) error
	// Change runs do in one transaction:
	//   - do returns nil: everything it wrote is committed;
	//   - do returns an error, or the process dies: nothing is committed, and Change returns the error;
	//   - do swallows an error of the Tx: nothing is committed, and Change returns that error;
	//   - do fails with ErrDuplicate: it runs a second time, and its reads see the conflicting row;
	//   - the outcome of the commit is unknown: the error wraps store.ErrUnavailable.
	// do may run several times and must keep nothing of an earlier run.
	Change(ctx context.Context, deployment string, do func(Tx) error) error
	// Single is Change for a do that executes one statement, as the methods of Tx say of themselves. It costs less. A
	// second statement fails.
	Single(ctx context.Context, deployment string, do func(Tx) error) error
	// Writers returns how many Changes can be in progress at once; more wait for one of them.
	Writers() int
	Messages
	// LogoutsWaiting returns deployments with ended sign-ins of which clients must be notified.
	LogoutsWaiting(ctx context.Context) ([]string, error)
	Upkeep
	Analytics
	RollUp
	Keys
}

// Claim selects the messages of the outbox that a dispatcher can take.
type Claim struct {
	// Limit is the largest number of messages.
	Limit int
	// Except are deployments of which no message is claimed, and ExceptLogouts deployments of which no ChannelLogout
	// message is claimed.
	Except, ExceptLogouts []string
	// NoLogouts claims no message of ChannelLogout.
	NoLogouts bool
}

// Messages is the dispatcher's side of the outbox, over all deployments.
type Messages interface {
	// LeaseMessages leases due pending messages that match a claim to the caller, the oldest first, until the lease
	// ends. A message whose lease has ended can be leased again.
	LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, claim Claim) ([]Message, error)
	// AckMessage ends the caller's lease: the message gets its end state and loses its body, or is due again at
	// NextAt. It reports whether the lease was still the caller's.
	AckMessage(ctx context.Context, m Message, to Outcome) (bool, error)
}

// Upkeep is periodic work over the rows of all deployments.
type Upkeep interface {
	// PendingNotices returns up to limit organizations whose members wait for notices, in the order of deployment and
	// organization: those after the given deployment and organization; the first ones for the zero PendingNotice.
	PendingNotices(ctx context.Context, after PendingNotice, limit int) ([]PendingNotice, error)
	// SealedSecrets returns up to limit secrets of authenticators, confirmed or not, in the order of deployment and id:
	// those after the given deployment and id; the first ones for the zero SealedSecret.
	SealedSecrets(ctx context.Context, after SealedSecret, limit int) ([]SealedSecret, error)
	// Purge deletes up to limit rows of each kind, and returns how many rows it deleted:
	//   - expired sessions, attempts, SSO attempts, counters, authorization requests, devices, token families and refresh
	//     tokens;
	//   - authorization codes an hour after they expire, and invitations 25 hours after they expire;
	//   - challenges, sends, failures and ended messages older than 25 hours;
	//   - runtime clients that no backend created, if they were not used for UnusedClientFor since they were created,
	//     or for IdleClientFor since their last use;
	//   - grants of deleted clients and apps, with everything that depends on them;
	//   - grants older than GrantKeptFor with no tokens;
	//   - remembered clients that an account did not sign in from for 90 days;
	//   - audit records older than their retention, and imports completed before it;
	//   - records of calls of tools older than their retention;
	//   - unfinished imports UnfinishedImportFor after they began;
	//   - authenticators that were not confirmed within UnconfirmedFor, expired temporary codes and spent challenges, and
	//     recovery codes that were used 90 days ago;
	//   - sign-ins that end before their sessions, and documents and failures of connections after the time for which they
	//     are kept;
	//   - entries of the feed of changed API keys older than an hour, except the newest ones. These are not counted.
	// It also deletes the arguments and results of up to limit calls older than CallBodiesFor, and frees the keys of up to
	// limit approvals that ended without a decision or a use; both are counted. So are up to limit API keys that expired,
	// which it looks at once. With keep.Events, sign-ins, invitations, approvals and API keys whose time is over, and
	// clients that were not used for IdleClientFor, have events.
	//
	// An error of a deployment, or of a kind of rows, does not stop the deletion of others. Purge returns such errors, the
	// first ten of each kind.
	Purge(ctx context.Context, now time.Time, keep Retention, limit int) (int64, error)
	CallUpkeep
	ConnectionUpkeep
	DirectoryUpkeep
	EventUpkeep
	WebhookUpkeep
}

// Tx is one deployment's rows within a View or a Change, in groups. It ends with the callback. A method whose name
// begins with Lock reads a row and locks it against other transactions until this one ends. Locks are taken in this
// order, as far as the caller knows what it will need: directory, session, name, failure or counter, connection, other
// sessions, user, organization, member, domain, user of a directory. If two transactions deadlock anyway, the engine
// undoes one after a second, and Change runs it again.
type Tx interface {
	Users() Users
	Phones() Phones
	Sessions() Sessions
	Attempts() Attempts
	Challenges() Challenges
	Limits() Limits
	Organizations() Organizations
	APIKeys() APIKeys
	OAuth() OAuth
	OAuthClients() OAuthClients
	Imports() Imports
	Bulk() Bulk
	Records() Records
	EventLog() EventLog
	Webhooks() Webhooks
	Listings() Listings
	Factors() Factors
	Approvals() Approvals
	Connections() Connections
	Identities() Identities
	Domains() Domains
	SetupLinks() SetupLinks
	Directories() Directories
	SCIM() SCIM
}

// Users are accounts, their emails and their credentials.
type Users interface {
	// InsertUser inserts an account with a proven email.
	InsertUser(User, Email) error
	User(id int64) (User, bool, error)
	LockUser(id int64) (User, bool, error)
	// UserByEmail returns the account of the row that Email returns for a folded address.
	UserByEmail(folded string) (User, bool, error)
	// Email finds an address by its form from FoldEmail. If several accounts have the address, it returns the row of
	// the account in which the address is verified or primary (at most one). If there is no such account, it returns
	// the oldest row.
	Email(folded string) (Email, bool, error)
	// EmailsAt returns the rows of an address in all accounts, the row that Email returns first.
	EmailsAt(folded string) ([]Email, error)
	// EmailsOf returns a user's emails, the oldest first.
	EmailsOf(user int64) ([]Email, error)
	// VerifyEmail marks an email as verified.
	VerifyEmail(id int64, now time.Time) error
	// MakePrimaryEmail makes an email its user's only primary one.
	MakePrimaryEmail(user, id int64) error
	DeleteEmail(id int64) error
	// UpdateUser writes the names and the disabled flag. It marks the user's API keys as changed.
	UpdateUser(User) error
	// SetLastOrganization remembers the organization a user was active in last.
	SetLastOrganization(user, organization int64) error
	// DeleteUser deletes an account with everything that belongs to it. Analytics keeps counting its events, without
	// address and user agent.
	DeleteUser(id int64) error
	// ListUsers returns users that match the filter, the newest first, and how many there are.
	ListUsers(filter UserFilter, limit, offset int) ([]User, int64, error)
	// Credential returns a user's secret of a kind; for a password, its encoded hash.
	Credential(user int64, kind string) (string, bool, error)
	PutCredential(user int64, kind, secret string, now time.Time) error
	// DeleteCredential reports whether there was one.
	DeleteCredential(user int64, kind string) (bool, error)
}

// Phones are users' phone numbers.
type Phones interface {
	// InsertPhone fails with ErrDuplicate if the user already has the number.
	InsertPhone(Phone) error
	Phone(id int64) (Phone, bool, error)
	// PhonesOf returns a user's phones, the oldest first.
	PhonesOf(user int64) ([]Phone, error)
	// PhoneOwner returns the user who verified a number.
	PhoneOwner(number string) (int64, bool, error)
	// VerifyPhone marks a phone as verified. ErrDuplicate: another user verified the number first.
	VerifyPhone(id int64, now time.Time) error
	// MakePrimary makes a phone its user's only primary one.
	MakePrimary(user, id int64) error
	DeletePhone(id int64) error
}

// Sessions are sessions with their tokens and sign-ins.
type Sessions interface {
	// SessionByToken returns the session of a token hash, the token's current state, and the session's sign-ins, the
	// oldest first. All of it is of one moment.
	SessionByToken(hash []byte) (Session, bool, error)
	// LockSession is SessionByToken, locking the session.
	LockSession(hash []byte) (Session, bool, error)
	InsertSession(Session) error
	// UpdateSession writes Anonymous, ActiveSignIn, Attempting, UsedAt and ExpiresAt.
	UpdateSession(Session) error
	// EndSession deletes a session with its tokens, sign-ins and attempts.
	EndSession(id int64) error
	// EndSessionsOf removes a user's sign-ins from every session and ends the sessions that have none left. It returns
	// the sign-ins that it removed, the oldest first.
	EndSessionsOf(user int64) ([]SignIn, error)
	// LeaveSession removes a sign-in from its session. If it was the active one, the newest other sign-in becomes
	// active. A session without sign-ins ends.
	LeaveSession(SignIn) error
	// PendingFrom counts the anonymous sessions of a client address that have not expired.
	PendingFrom(address string, now time.Time) (int, error)

	InsertToken(Token) error
	// UseToken records the first use of a token and sets when its parent dies, unless the parent dies earlier.
	UseToken(token Token, now, parentDies time.Time) error
	// ReplaceTokens ends all tokens of a session at a time, marked as replaced by a sign-in.
	ReplaceTokens(session int64, now time.Time) error
	// TrimTokens deletes tokens of a session, but never the presented one:
	//   1. those that died before a time;
	//   2. dead ones except the newest 64;
	//   3. live ones beyond most: first those with a time of death, then the others, each the oldest first.
	TrimTokens(session int64, presented []byte, most int, now, diedBefore time.Time) error

	InsertSignIn(SignIn) error
	// DeleteSignIn deletes a sign-in and keeps its data for EndedSignIns, as does every other method that ends
	// sign-ins.
	DeleteSignIn(id int64) error
	// ProveSignIn records that the signed-in user authenticated again: all proofs of the sign-in, and the time of the
	// newest one.
	ProveSignIn(id int64, proofs assurance.Proofs, now time.Time) error
	// EndedSignIns returns up to limit ended sign-ins of a user, the newest first.
	EndedSignIns(user int64, limit int) ([]EndedSignIn, error)
	// SetActiveOrganization writes a sign-in's active organization and workspace.
	SetActiveOrganization(id, organization, workspace int64) error
	// SignInsOf returns the sign-ins of a user in all sessions, the oldest first.
	SignInsOf(user int64) ([]SignIn, error)
	// SessionsOf returns the sessions that a user is signed in to, the newest first, without tokens and other sign-ins.
	SessionsOf(user int64) ([]Session, error)
	// LeaveOrganization clears an organization from every sign-in of a user.
	LeaveOrganization(user, organization int64) error
	UpstreamSignIns
}

// Challenges are codes, and the messages that carry them.
type Challenges interface {
	// InsertChallenge replaces every earlier live challenge of the same purpose and subject.
	InsertChallenge(Challenge) error
	// LiveChallenge returns the newest challenge of a purpose and subject that was neither replaced nor consumed. It
	// may have expired.
	LiveChallenge(purpose string, subject int64) (Challenge, bool, error)
	// CountTry adds a try to a challenge that is live at a time and has fewer tries than max. It reports whether it
	// did.
	CountTry(id int64, max int, now time.Time) (bool, error)
	// ConsumeChallenge consumes a live challenge, and reports whether this call did.
	ConsumeChallenge(id int64, now time.Time) (bool, error)
	// VoidChallenges voids every live challenge of a purpose and subject.
	VoidChallenges(purpose string, subject int64) error

	// InsertMessage puts a message into the outbox, in the transaction of the change that it is about.
	InsertMessage(Message) error
}

// Limits are the counters and records that bound failed attempts and sending.
type Limits interface {
	// Lock holds a name within the deployment until the transaction ends; other transactions that lock it wait. It
	// counts nothing.
	Lock(name string) error

	// LockFailure returns a counter of failures in a row, 0 if there is none, and locks it until the transaction ends;
	// others wait.
	LockFailure(scope, subject string, now time.Time) (Failure, error)
	// Failure is LockFailure without the lock.
	Failure(scope, subject string) (Failure, error)
	PutFailure(Failure) error

	// Count adds 1 to a counter and returns its new value. A counter that does not exist or has ended starts at 1 with
	// the given end.
	Count(scope, subject string, now, ends time.Time) (Counter, error)
	// Uncount subtracts 1 from a counter that has not ended, down to 0.
	Uncount(scope, subject string, now time.Time) error
	// Counted returns a counter, 0 if there is none or it has ended.
	Counted(scope, subject string, now time.Time) (Counter, error)

	// RecordSend records that a code was requested.
	RecordSend(Send) error
	// Sends returns when the sends that match a filter were recorded, since a time, the oldest first.
	Sends(filter SendFilter, since time.Time) ([]time.Time, error)
	// SendsOn counts the messages of a channel that were really sent since a time.
	SendsOn(channel, region string, since time.Time) (SendCounts, error)

	// RememberClient records that an account signed in from a client.
	RememberClient(user int64, client string, now time.Time) error
	// KnownClient reports whether an account signed in from a client since a time.
	KnownClient(user int64, client string, since time.Time) (bool, error)
}

// Organizations are organizations, workspaces, memberships and invitations.
type Organizations interface {
	// InsertOrganization fails with ErrDuplicate if the slug is taken.
	InsertOrganization(Organization) error
	Organization(id int64) (Organization, bool, error)
	LockOrganization(id int64) (Organization, bool, error)
	// OrganizationBySlug returns the organization that has a slug now.
	OrganizationBySlug(slug string) (Organization, bool, error)
	// SlugTaken reports whether an organization has or had a slug: slugs are never reused.
	SlugTaken(slug string) (bool, error)
	// OwnedOrganizations counts the organizations a user owns.
	OwnedOrganizations(user int64) (int, error)
	// SetDefaultWorkspace sets the workspace in which members of an organization start.
	SetDefaultWorkspace(organization, workspace int64) error
	// UpdateOrganization writes the name, description, image and requirement.
	UpdateOrganization(Organization) error
	// SetPendingNotices records that the members of an organization after a membership wait for notices; 0: none waits.
	SetPendingNotices(organization, after int64) error
	// NoticesAfter returns that membership.
	NoticesAfter(organization int64) (int64, error)
	// DeleteOrganization deletes an organization with its workspaces, memberships, invitations, API keys, domains and
	// connections, and clears it from every sign-in. It deletes connections as DeleteConnection does.
	DeleteOrganization(id int64) error
	// FactorLevelsOf returns, for the members that MembersOf returns, the level that their usable factors reach as
	// second factors: None without one. It ignores the filter's level.
	FactorLevelsOf(organization, after int64, limit int, usable FactorFilter) (map[int64]assurance.Level, error)
	// OwnersOf counts an organization's owners.
	OwnersOf(organization int64) (int, error)

	InsertWorkspace(Workspace) error
	Workspace(id int64) (Workspace, bool, error)
	// WorkspacesOf returns an organization's workspaces, the oldest first.
	WorkspacesOf(organization int64) ([]Workspace, error)
	// RenameWorkspace writes a workspace's name.
	RenameWorkspace(id int64, name string) error

	// InsertMember fails with ErrDuplicate if the user is already a member.
	InsertMember(Member) error
	Member(organization, user int64) (Member, bool, error)
	// MembershipsOf returns a user's memberships with their organizations, the oldest first.
	MembershipsOf(user int64) ([]Member, error)
	// MembersOf returns up to limit members of an organization with their accounts, the oldest first. It starts after
	// the given membership id; 0: from the first.
	MembersOf(organization, after int64, limit int) ([]MemberAccount, error)
	// MemberByID finds a membership of an organization. In a Change it locks the membership, as Member does.
	MemberByID(organization, id int64) (Member, bool, error)
	// UpdateMember writes a member's role and whether they own the organization.
	UpdateMember(Member) error
	// SetMemberWorkspace records a member's last active workspace.
	SetMemberWorkspace(organization, user, workspace int64) error
	// DeleteMember deletes a membership and those in the organization's workspaces, and clears the organization from
	// the member's sign-ins.
	DeleteMember(organization, user int64) (bool, error)

	InsertWorkspaceMember(WorkspaceMember) error
	WorkspaceMember(workspace, user int64) (WorkspaceMember, bool, error)
	// WorkspaceMembersOf is MembersOf for a workspace.
	WorkspaceMembersOf(workspace, after int64, limit int) ([]WorkspaceMemberAccount, error)
	WorkspaceMemberByID(workspace, id int64) (WorkspaceMember, bool, error)
	// SetWorkspaceMemberRole writes the role of a membership.
	SetWorkspaceMemberRole(id, role int64) error
	// DeleteWorkspaceMember deletes a membership and clears the workspace from the member's sign-ins.
	DeleteWorkspaceMember(WorkspaceMember) error
	// WorkspaceMembershipsOf returns a user's memberships with their workspaces, the oldest first: of one
	// organization, or of all for 0.
	WorkspaceMembershipsOf(user, organization int64) ([]WorkspaceMember, error)
	// MemberWithWorkspaces returns a user's membership in an organization and, the oldest first, those in its
	// workspaces. It is one statement, and locks nothing: Member and WorkspaceMembershipsOf are for a Change.
	MemberWithWorkspaces(organization, user int64) (Member, []WorkspaceMember, bool, error)

	InsertInvitation(Invitation) error
	InvitationByToken(hash []byte) (Invitation, bool, error)
	Invitation(id int64) (Invitation, bool, error)
	// OpenInvitations returns an organization's invitations that are open at a time, the oldest first.
	OpenInvitations(organization int64, now time.Time) ([]Invitation, error)
	// InvitationsSince counts the invitations since a time: to an address, as FoldEmail compares it, and by an inviter.
	InvitationsSince(folded string, inviter int64, since time.Time) (toEmail, byInviter int, err error)
	// AcceptInvitation marks an invitation that is open at a time as accepted, and reports whether this call did.
	AcceptInvitation(id int64, now time.Time) (bool, error)
	// RevokeInvitation revokes an invitation that is open at a time, and reports whether this call did.
	RevokeInvitation(id int64, now time.Time) (bool, error)
}

// Records are the events that analytics counts, the audit records, and the records of calls of agents' tools.
type Records interface {
	RecordEvent(Event) error
	// RecordEvents records many events in a few statements.
	RecordEvents([]Event) error
	RecordAudit(Audit) error
	// LogEvents records events of the transaction's changes. They get their numbers after the commit.
	LogEvents([]LoggedEvent) error
	ToolCalls
}
