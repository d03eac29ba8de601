package people

import (
	"strconv"
	"strings"
	"time"
)

// User is an account.
type User struct {
	ID                  int64
	FirstName, LastName string
	// Disabled users prove who they are and are refused then.
	Disabled bool
	// Organization was active last, 0: none.
	Organization         int64
	CreatedAt, UpdatedAt time.Time
	// Email is the primary address as typed, and Phone the primary number or "". They are read only.
	Email, Phone string
}

// Email is an address of a user.
type Email struct {
	ID, User  int64
	Address   string
	Primary   bool
	CreatedAt time.Time
	// VerifiedAt is zero until the user proved to hold the address: one that was imported may be somebody else's.
	VerifiedAt time.Time
}

// Verified reports whether a user proved that the address is theirs.
func (e Email) Verified() bool { return !e.VerifiedAt.IsZero() }

// FoldEmail returns an address as addresses compare.
func FoldEmail(address string) string { return strings.ToLower(address) }

// CredentialPassword is the kind of a password's credential.
const CredentialPassword = "password"

// Phone is a number of a user.
type Phone struct {
	ID, User int64
	// Number is in E.164 form.
	Number string
	// Region is the ISO 3166 country the number belongs to.
	Region    string
	Primary   bool
	CreatedAt time.Time
	// VerifiedAt is zero until the user proved to hold the number.
	VerifiedAt time.Time
}

// Session is a browser's session, with the token it was found by.
type Session struct {
	ID int64
	// Anonymous sessions only own attempts.
	Anonymous bool
	// ActiveSignIn is one of SignIns, 0: none.
	ActiveSignIn int64
	// Attempting reports that there may be attempts that are not completed.
	Attempting         bool
	Address, UserAgent string
	CreatedAt, UsedAt  time.Time
	// ExpiresAt is the absolute bound.
	ExpiresAt time.Time
	// Token and SignIns are read only.
	Token   Token
	SignIns []SignIn
}

// Active returns the active sign-in, nil if there is none.
func (s *Session) Active() *SignIn {
	for i := range s.SignIns {
		if s.SignIns[i].ID == s.ActiveSignIn {
			return &s.SignIns[i]
		}
	}
	return nil
}

// Token is one value of a session's cookie, known by its hash.
type Token struct {
	Hash    []byte // SHA-256, 32 bytes
	Session int64
	// Parent is the hash of the token this one replaced, empty for a first one.
	Parent    []byte
	CreatedAt time.Time
	// UsedAt is when it was first used, zero before.
	UsedAt time.Time
	// DiesAt is zero until a successor was used.
	DiesAt time.Time
	// Replaced tokens ended with a sign-in: they are dead, and no sign of theft.
	Replaced bool
}

// SignIn is one account in a session.
type SignIn struct {
	ID, Session, User int64
	Method            string
	// Organization and Workspace are active for it, 0: none.
	Organization, Workspace int64
	CreatedAt               time.Time
	// ProvedAt is when whoever is signed in last proved it anew, zero: not since CreatedAt.
	ProvedAt time.Time
}

// ProvenAt is when whoever is signed in last proved who they are.
func (g SignIn) ProvenAt() time.Time {
	if g.ProvedAt.After(g.CreatedAt) {
		return g.ProvedAt
	}
	return g.CreatedAt
}

// EndedSignIn is a sign-in that is over.
type EndedSignIn struct {
	ID, User           int64
	Method             string
	Address, UserAgent string
	CreatedAt, UsedAt  time.Time
}

// The methods of sign-ins and sign-ups.
const (
	MethodPassword = "password"
	MethodEmailOTP = "email_otp"
	MethodImport   = "import"
)

// The kinds of attempts.
const (
	AttemptSignUp         = "signup"
	AttemptSignIn         = "signin"
	AttemptResetPassword  = "reset_password"
	AttemptReauthenticate = "reauthenticate"
)

// Attempt is a sign-up, a sign-in, or another proof of who somebody is, that waits for a code.
type Attempt struct {
	ID, Session  int64
	Kind, Method string
	// Email is as typed; its folded form is what counts.
	Email string
	// User is the account it is about; 0: unknown, or not there yet.
	User                int64
	FirstName, LastName string
	// PasswordHash, OrganizationName and Invitation are what a sign-up brings along.
	PasswordHash         string
	OrganizationName     string
	Invitation           int64
	Completed            bool
	CreatedAt, ExpiresAt time.Time
	// ProvedAt is when the code was right of an attempt that goes on then, zero: not yet.
	ProvedAt time.Time
}

// The purposes of challenges, beside the kinds of attempts.
const (
	PurposeSignUp      = AttemptSignUp
	PurposeSignIn      = AttemptSignIn
	PurposePhone       = "phone"
	PurposeVerifyEmail = "verify_email"
)

// The channels of messages.
const (
	ChannelSMS  = "sms"
	ChannelMail = "mail"
	// ChannelLogout tells a client of an authorization server that a sign-in ended: the recipient is its address, the body the token.
	ChannelLogout = "logout"
)

// Challenge is a code that was sent, as far as it is stored.
type Challenge struct {
	ID               int64
	Purpose, Channel string
	// Subject is the phone or the attempt the code proves.
	Subject, Session, User int64
	// Recipient is a number, or an address as addresses compare.
	Recipient string
	// Region is the country of a number.
	Region string
	// Address is the client's that asked for it.
	Address string
	// Sent reports that a message went out; for an unknown account none does.
	Sent bool
	// Salt and MAC bind the code to this challenge; KeyID names the key.
	Salt, MAC            []byte
	KeyID                string
	Tries                int
	CreatedAt, ExpiresAt time.Time
}

// Failure is a counter of failures in a row.
type Failure struct {
	Scope, Subject string
	Count          int
	// Until is when the next try is allowed, zero: now.
	Until     time.Time
	UpdatedAt time.Time
}

// Counter counts within a window of time.
type Counter struct {
	Count int
	// Ends is when it begins anew, zero where there is none.
	Ends time.Time
}

// KnownFor is how long a client that an account signed in from is remembered.
const KnownFor = 90 * 24 * time.Hour

// Send notes that a code was asked for.
type Send struct {
	ID               int64
	Purpose, Channel string
	// User is who asked, as far as signed in; 0: nobody.
	User int64
	// Recipient is a number, or an address as addresses compare.
	Recipient string
	// Client is an IPv4 address or an IPv6 /64, and WideNetwork the IPv4 /24 or IPv6 /48 it is in.
	Client, WideNetwork string
	// Region is the country of a number.
	Region string
	// Known tells, of mail, that the recipient's account signed in from the client before; of a text, that the user has a verified
	// phone.
	Known bool
	// Sent reports that a message went out; for an unknown account none does.
	Sent bool
	At   time.Time
}

// SendFilter lets through the sends of a channel that agree with each of its members that is set.
type SendFilter struct {
	Channel, Purpose, Recipient, Client, WideNetwork string
	User                                             int64
	// Unknown lets only those through that nobody known asked for.
	Unknown bool
}

// SendCounts are numbers of sends that really went out.
type SendCounts struct {
	All, ToRegion int64
	// Unknown are those that nobody known asked for.
	Unknown int64
}

// Message is a text or mail in the outbox.
type Message struct {
	Deployment string
	ID         int64
	// Challenge is what it was sent for, 0: nothing.
	Challenge          int64
	Channel, Recipient string
	// Sealed is the sealed body, for which the kind is SealedMessage and the id the message's.
	Sealed               string
	Tries                int
	CreatedAt, ExpiresAt time.Time
	// Lease is what LeaseMessages gave it, read only.
	Lease string
	// Trace is the W3C traceparent of what posted it, which the store notes; "" where that was not traced.
	Trace string
	// Void tells, of a leased message, that the challenge was replaced or used up meanwhile. Written so, a message has its end
	// state and no body at once.
	Void bool
}

// SealedFor is the id that a message's body is sealed for.
func (m Message) SealedFor() string { return m.Deployment + "/" + strconv.FormatInt(m.ID, 10) }

// SealedMessage is the kind that bodies in the outbox are sealed for.
const SealedMessage = "outbox-message"

// The states of messages: pending, and how they end.
const (
	MessagePending = "pending"
	MessageSent    = "sent"
	MessageFailed  = "failed"
	MessageExpired = "expired"
	MessageVoid    = "void"
)

// Outcome is what became of a leased message.
type Outcome struct {
	State string
	// NextAt is when a message that stays pending is due again.
	NextAt time.Time
	// ProviderID is the provider's name for it, and Reason why it was not sent, never with its body.
	ProviderID, Reason string
}

// Organization is an organization.
type Organization struct {
	ID                    int64
	Name, Slug            string
	Description, ImageURL string
	// Workspace is where members start, 0: none.
	Workspace int64
	CreatedAt time.Time
}

// Workspace is a workspace of an organization.
type Workspace struct {
	ID, Organization int64
	Name, Slug       string
	CreatedAt        time.Time
}

// Member is a user in an organization.
type Member struct {
	ID, User int64
	// Organization has only its id when a Member is written.
	Organization Organization
	// Role is the id of a MembershipRole, 0: none. The owner has every permission and no role.
	Role  int64
	Owner bool
	// Workspace was active last, 0: none yet.
	Workspace int64
	CreatedAt time.Time
}

// WorkspaceMember is a user in a workspace.
type WorkspaceMember struct {
	ID, User int64
	// Workspace has only its ids when a WorkspaceMember is written.
	Workspace Workspace
	Role      int64
	Owner     bool
	CreatedAt time.Time
}

// Account is what members see of each other.
type Account struct {
	ID                         int64
	FirstName, LastName, Email string
}

// MemberAccount is a member with their account. Its organization has only its id.
type MemberAccount struct {
	Member
	Account Account
}

// WorkspaceMemberAccount is a member of a workspace with their account.
type WorkspaceMemberAccount struct {
	WorkspaceMember
	Account Account
}

// Invitation asks somebody into an organization.
type Invitation struct {
	ID, Organization int64
	Email            string
	Role             int64
	Hash             []byte // SHA-256 of the token
	InvitedBy        int64
	CreatedAt        time.Time
	ExpiresAt        time.Time
	AcceptedAt       time.Time
	RevokedAt        time.Time
}

// The kinds of events.
const (
	EventSignIn       = "signin"
	EventSignUp       = "signup"
	EventOrganization = "organization"
	EventWorkspace    = "workspace"
)

// Event is something analytics counts.
type Event struct {
	ID                         int64
	Kind                       string
	At                         time.Time
	User                       int64
	Method, Address, UserAgent string
}

// Audit is a record for auditors.
type Audit struct {
	ID      int64
	At      time.Time
	Actor   string
	Action  string
	Object  string
	Session int64
	Address string
}
