// Package people states what Cardea needs of its runtime store for people: users, sessions, codes, organizations, and what
// analytics counts. Only servers write here; applying YAML touches none of it. Every row belongs to one deployment, and a Tx
// reaches the rows of one deployment only.
package people

import (
	"context"
	"errors"
	"time"
)

// ErrDuplicate means that a row breaks a uniqueness the store keeps (an id, an email, a verified phone number, a slug, a membership).
// The transaction is lost; reading again tells which.
var ErrDuplicate = errors.New("the row exists already")

// Store is the server's side of the store for people.
type Store interface {
	// View runs do on a deployment's rows. Each statement sees what was committed when it began; writes and locks are refused.
	View(ctx context.Context, deployment string, do func(Tx) error) error
	// Change runs do in one transaction:
	//   - do returns nil: everything it wrote is committed;
	//   - do returns an error, or the process dies: nothing is, and Change returns the error;
	//   - do swallows an error of the Tx: nothing is committed, and Change returns that error;
	//   - do fails with ErrDuplicate: it runs once more, and its reads see the row it collided with;
	//   - the outcome of the commit is unknown: the error wraps store.ErrUnavailable.
	// do may run several times and must keep nothing of an earlier run.
	Change(ctx context.Context, deployment string, do func(Tx) error) error
	Messages
	// LogoutsWaiting returns deployments in which sign-ins ended of which clients are to be told.
	LogoutsWaiting(ctx context.Context) ([]string, error)
	Upkeep
	Analytics
	RollUp
	Keys
}

// Claim says which messages of the outbox a dispatcher has room for.
type Claim struct {
	// Limit is the largest number of messages.
	Limit int
	// Except are deployments of which no message is claimed, and ExceptLogouts those of which none of ChannelLogout is.
	Except, ExceptLogouts []string
	// NoLogouts claims no message of ChannelLogout.
	NoLogouts bool
}

// Messages is the dispatcher's side of the outbox, over all deployments.
type Messages interface {
	// LeaseMessages leases the pending messages of a claim whose time has come to the caller alone, the oldest first, until the
	// lease ends. A lease that ended is taken again.
	LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, claim Claim) ([]Message, error)
	// AckMessage ends the caller's lease: the message gets its end state and loses its body, or is due again at NextAt. It
	// reports whether the lease was still the caller's.
	AckMessage(ctx context.Context, m Message, to Outcome) (bool, error)
}

// Upkeep is what keeps the tables small.
type Upkeep interface {
	// Purge deletes up to limit rows of each kind that are over:
	//   - sessions, attempts and counters past their end, and so authorization requests, devices and families of tokens; codes an hour later;
	//   - clients of authorization servers that nobody used for UnusedClientFor since they came, or for IdleClientFor since they were used;
	//   - what people granted clients and apps that were deleted, with all that lives on it, and what they granted longer than GrantKeptFor
	//     ago and nothing lives on;
	//   - challenges, sends, failures, ended messages and expired invitations older than 25 hours;
	//   - clients that an account did not sign in from for 90 days;
	//   - audit records older than the retention, and imports that were completed before it; others UnfinishedImportFor after they began;
	//   - entries of the feed of changed API keys older than an hour, never the newest ones, which are not counted.
	// It returns how many it deleted.
	Purge(ctx context.Context, now time.Time, auditRetention time.Duration, limit int) (int64, error)
}

// Tx is one deployment's rows within a View or a Change, in groups. It ends with the callback. A method whose name begins with
// Lock reads a row that no other transaction changes before this one ends. Locks are taken in the order session, name,
// failure or counter, other sessions, user, organization, member, as far as a rule knows what it will need. If two
// transactions wait for each other anyway, the engine undoes one after a second, and Change runs it again.
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
	Listings() Listings
}

// Users are accounts, their emails and their credentials.
type Users interface {
	// InsertUser inserts an account with an email that was proven.
	InsertUser(User, Email) error
	User(id int64) (User, bool, error)
	LockUser(id int64) (User, bool, error)
	// UserByEmail finds the account an address belongs to, as FoldEmail compares it.
	UserByEmail(folded string) (User, bool, error)
	// Email finds an address that belongs to an account, as FoldEmail compares it. Where it stands in several accounts: the one it opens,
	// for it is verified or primary there, else the one that had it first.
	Email(folded string) (Email, bool, error)
	// EmailsAt returns an address in every account where it stands, the one it opens first.
	EmailsAt(folded string) ([]Email, error)
	// EmailsOf returns a user's emails, the oldest first.
	EmailsOf(user int64) ([]Email, error)
	// VerifyEmail marks an email as verified.
	VerifyEmail(id int64, now time.Time) error
	// MakePrimaryEmail makes an email its user's only primary one.
	MakePrimaryEmail(user, id int64) error
	DeleteEmail(id int64) error
	// UpdateUser writes the names and the disabled flag. The user's API keys are told to have changed.
	UpdateUser(User) error
	// SetLastOrganization remembers the organization a user was active in last.
	SetLastOrganization(user, organization int64) error
	// DeleteUser deletes an account with all that is its own; what analytics counted stays counted, without address and user
	// agent.
	DeleteUser(id int64) error
	// ListUsers returns users whose name or email contains the search ("" finds all), the newest first, and how many there are.
	ListUsers(search string, limit, offset int) ([]User, int64, error)
	// Credential returns a user's secret of a kind; of a password, its encoded hash.
	Credential(user int64, kind string) (string, bool, error)
	PutCredential(user int64, kind, secret string, now time.Time) error
	// DeleteCredential reports whether there was one.
	DeleteCredential(user int64, kind string) (bool, error)
}

// Phones are users' phone numbers.
type Phones interface {
	// InsertPhone fails with ErrDuplicate where the user has the number already.
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
	// SessionByToken returns the session a token hash belongs to, the token as it stands, and the session's sign-ins, the
	// oldest first, all of one moment.
	SessionByToken(hash []byte) (Session, bool, error)
	// LockSession is SessionByToken, locking the session.
	LockSession(hash []byte) (Session, bool, error)
	InsertSession(Session) error
	// UpdateSession writes anonymous, the active sign-in, attempting, when it was used last, and when it expires.
	UpdateSession(Session) error
	// EndSession deletes a session with its tokens, sign-ins and attempts.
	EndSession(id int64) error
	// EndSessionsOf takes a user's sign-ins out of every session, ends those sessions that have none left, and returns how
	// many sign-ins there were.
	EndSessionsOf(user int64) (int64, error)
	// LeaveSession takes a sign-in out of its session, whose newest other sign-in becomes active if this one was; a session that
	// has none left ends.
	LeaveSession(SignIn) error
	// PendingFrom counts the anonymous sessions of a client address that are not expired.
	PendingFrom(address string, now time.Time) (int, error)

	InsertToken(Token) error
	// UseToken records the first use of a token and lets its parent die at a time, if it does not die before.
	UseToken(token Token, now, parentDies time.Time) error
	// ReplaceTokens ends all tokens of a session at a time, as replaced by a sign-in.
	ReplaceTokens(session int64, now time.Time) error
	// TrimTokens deletes of a session's tokens, and never the presented one:
	//   1. those that died before a time;
	//   2. all dead ones but the newest 64;
	//   3. so many live ones that at most so many are left: those that are about to die first, the oldest before the newer.
	TrimTokens(session int64, presented []byte, most int, now, diedBefore time.Time) error

	InsertSignIn(SignIn) error
	// DeleteSignIn keeps what SessionsOf told of the sign-in for EndedSignIns, as every end of a session does.
	DeleteSignIn(id int64) error
	// ProveSignIn notes that whoever is signed in proved it anew.
	ProveSignIn(id int64, now time.Time) error
	// EndedSignIns returns up to limit sign-ins of a user that are over, the newest first.
	EndedSignIns(user int64, limit int) ([]EndedSignIn, error)
	// SetActiveOrganization writes a sign-in's active organization and workspace.
	SetActiveOrganization(id, organization, workspace int64) error
	// SignInsOf returns the sign-ins of a user in all sessions, the oldest first.
	SignInsOf(user int64) ([]SignIn, error)
	// SessionsOf returns the sessions a user is signed in to, the newest first, without their tokens and other sign-ins.
	SessionsOf(user int64) ([]Session, error)
	// LeaveOrganization takes an organization off every sign-in of a user.
	LeaveOrganization(user, organization int64) error
}

// Attempts are sign-ups and sign-ins that wait for a code.
type Attempts interface {
	InsertAttempt(Attempt) error
	Attempt(id int64) (Attempt, bool, error)
	// AttemptsOf returns a session's attempts that are neither completed nor expired, the oldest first.
	AttemptsOf(session int64, now time.Time) ([]Attempt, error)
	// CompleteAttempt marks an attempt as completed, and reports whether this call did.
	CompleteAttempt(id int64) (bool, error)
	// ProveAttempt notes that an attempt's code was right, of one that goes on then.
	ProveAttempt(id int64, now time.Time) error
	// EndAttemptsOf deletes the attempts on an account that are not completed, and makes their codes void.
	EndAttemptsOf(user int64) error
}

// Challenges are codes, and the messages that carry them.
type Challenges interface {
	// InsertChallenge replaces every earlier live challenge of the same purpose and subject.
	InsertChallenge(Challenge) error
	// LiveChallenge returns the newest challenge of a purpose and subject that was neither replaced nor consumed. It may have
	// expired.
	LiveChallenge(purpose string, subject int64) (Challenge, bool, error)
	// CountTry adds one try to a challenge that is live at a time and has fewer than max, and reports whether it did.
	CountTry(id int64, max int, now time.Time) (bool, error)
	// ConsumeChallenge uses a live challenge up, and reports whether this call did.
	ConsumeChallenge(id int64, now time.Time) (bool, error)
	// VoidChallenges replaces every live challenge of a purpose and subject by nothing.
	VoidChallenges(purpose string, subject int64) error

	// InsertMessage puts a message into the outbox, in the same transaction as what it is about.
	InsertMessage(Message) error
}

// Limits are what bounds guessing and sending.
type Limits interface {
	// Lock holds a name within the deployment until the transaction ends: whoever asks for the same one waits. It counts nothing.
	Lock(name string) error

	// LockFailure returns a counter of failures in a row, 0 where there is none, and holds it: whoever asks for the same one waits.
	LockFailure(scope, subject string, now time.Time) (Failure, error)
	// Failure is LockFailure without holding it.
	Failure(scope, subject string) (Failure, error)
	PutFailure(Failure) error

	// Count adds one to a counter and returns what it counts then. A counter that there is none of, or that has ended, begins at 1 and
	// ends at a time.
	Count(scope, subject string, now, ends time.Time) (Counter, error)
	// Uncount takes one off a counter that has not ended, down to 0.
	Uncount(scope, subject string, now time.Time) error
	// Counted returns a counter, 0 where there is none or it has ended.
	Counted(scope, subject string, now time.Time) (Counter, error)

	// RecordSend notes that a code was asked for.
	RecordSend(Send) error
	// Sends returns when the sends that a filter lets through were recorded since a time, the oldest first.
	Sends(filter SendFilter, since time.Time) ([]time.Time, error)
	// SendsOn counts the sends of a channel since a time that really went out.
	SendsOn(channel, region string, since time.Time) (SendCounts, error)

	// RememberClient notes that an account signed in from a client.
	RememberClient(user int64, client string, now time.Time) error
	// KnownClient reports whether an account signed in from a client since a time.
	KnownClient(user int64, client string, since time.Time) (bool, error)
}

// Organizations are organizations, workspaces, memberships and invitations.
type Organizations interface {
	// InsertOrganization fails with ErrDuplicate where the slug is taken.
	InsertOrganization(Organization) error
	Organization(id int64) (Organization, bool, error)
	LockOrganization(id int64) (Organization, bool, error)
	// SlugTaken reports whether a slug is, or was, that of an organization: slugs are never given again.
	SlugTaken(slug string) (bool, error)
	// OwnedOrganizations counts the organizations a user owns.
	OwnedOrganizations(user int64) (int, error)
	// SetDefaultWorkspace makes a workspace the one members of its organization start in.
	SetDefaultWorkspace(organization, workspace int64) error
	// UpdateOrganization writes the name, description and image.
	UpdateOrganization(Organization) error
	// DeleteOrganization deletes an organization with its workspaces, memberships, invitations and the API keys in it, and takes it off
	// every sign-in.
	DeleteOrganization(id int64) error
	// OwnersOf counts an organization's owners.
	OwnersOf(organization int64) (int, error)

	InsertWorkspace(Workspace) error
	Workspace(id int64) (Workspace, bool, error)
	// WorkspacesOf returns an organization's workspaces, the oldest first.
	WorkspacesOf(organization int64) ([]Workspace, error)
	// RenameWorkspace writes a workspace's name.
	RenameWorkspace(id int64, name string) error

	// InsertMember fails with ErrDuplicate where the user is a member already.
	InsertMember(Member) error
	Member(organization, user int64) (Member, bool, error)
	// MembershipsOf returns a user's memberships with their organizations, the oldest first.
	MembershipsOf(user int64) ([]Member, error)
	// MembersOf returns up to limit members of an organization with their accounts, the oldest first, from those after a membership's id; 0:
	// from the first.
	MembersOf(organization, after int64, limit int) ([]MemberAccount, error)
	// MemberByID finds a membership of an organization, locked in a Change as by Member.
	MemberByID(organization, id int64) (Member, bool, error)
	// UpdateMember writes a member's role and whether they own the organization.
	UpdateMember(Member) error
	// SetMemberWorkspace remembers a member's last active workspace.
	SetMemberWorkspace(organization, user, workspace int64) error
	// DeleteMember ends a membership and those in the organization's workspaces, and takes the organization off the member's
	// sign-ins.
	DeleteMember(organization, user int64) (bool, error)

	InsertWorkspaceMember(WorkspaceMember) error
	WorkspaceMember(workspace, user int64) (WorkspaceMember, bool, error)
	// WorkspaceMembersOf is MembersOf for a workspace.
	WorkspaceMembersOf(workspace, after int64, limit int) ([]WorkspaceMemberAccount, error)
	WorkspaceMemberByID(workspace, id int64) (WorkspaceMember, bool, error)
	// SetWorkspaceMemberRole writes the role of a membership.
	SetWorkspaceMemberRole(id, role int64) error
	// DeleteWorkspaceMember ends a membership and takes the workspace off the member's sign-ins.
	DeleteWorkspaceMember(WorkspaceMember) error
	// WorkspaceMembershipsOf returns a user's memberships with their workspaces, the oldest first; of one organization, or of
	// all for 0.
	WorkspaceMembershipsOf(user, organization int64) ([]WorkspaceMember, error)

	InsertInvitation(Invitation) error
	InvitationByToken(hash []byte) (Invitation, bool, error)
	Invitation(id int64) (Invitation, bool, error)
	// OpenInvitations returns an organization's invitations that are open at a time, the oldest first.
	OpenInvitations(organization int64, now time.Time) ([]Invitation, error)
	// InvitationsSince counts the invitations since a time to an address, as FoldEmail compares it, and by an inviter.
	InvitationsSince(folded string, inviter int64, since time.Time) (toEmail, byInviter int, err error)
	// AcceptInvitation marks an invitation that is open at a time as accepted, and reports whether this call did.
	AcceptInvitation(id int64, now time.Time) (bool, error)
	// RevokeInvitation ends an invitation that is open at a time, and reports whether this call did.
	RevokeInvitation(id int64, now time.Time) (bool, error)
}

// Records are what analytics counts and what auditors read.
type Records interface {
	RecordEvent(Event) error
	// RecordEvents is RecordEvent for many, in a few statements.
	RecordEvents([]Event) error
	RecordAudit(Audit) error
}
