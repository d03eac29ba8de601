package people

import (
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// User is an account.
type User struct {
	ID                  int64
	FirstName, LastName string
	// Disabled users are refused after they have authenticated.
	Disabled bool
	// Organization is the last active one, 0: none.
	Organization int64
	// TwoStep reports whether the user wants to be asked for a second factor. SetTwoStep writes it.
	TwoStep              bool
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
	// VerifiedAt is zero until the user has proven the address: an imported address may belong to another person.
	VerifiedAt time.Time
}

// Verified reports whether a user proved that the address is theirs.
func (e Email) Verified() bool { return !e.VerifiedAt.IsZero() }

// FoldEmail returns an address in the form in which addresses are compared.
func FoldEmail(address string) string { return strings.ToLower(address) }

// CredentialPassword is the kind of a password's credential.
const CredentialPassword = "password"

// Phone is a number of a user.
type Phone struct {
	ID, User int64
	// Number is in E.164 form.
	Number string
	// Region is the ISO 3166 country of the number.
	Region    string
	Primary   bool
	CreatedAt time.Time
	// VerifiedAt is zero until the user has proven the number.
	VerifiedAt time.Time
	// SecondFactorAt is when the number became a second factor, zero: it is none. SetSecondFactorPhone writes it.
	SecondFactorAt time.Time
}

// Session is a browser's session, with the token by which it was found.
type Session struct {
	ID int64
	// Anonymous reports whether the session has no sign-in yet, only attempts.
	Anonymous bool
	// ActiveSignIn is one of SignIns, 0: none.
	ActiveSignIn int64
	// Attempting reports whether there may be uncompleted attempts.
	Attempting         bool
	Address, UserAgent string
	CreatedAt, UsedAt  time.Time
	// ExpiresAt is the absolute end.
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
	// Replaced tokens were ended by a sign-in: they are dead, and their use is no sign of theft.
	Replaced bool
}

// SignIn is one signed-in account of a session.
type SignIn struct {
	ID, Session, User int64
	Method            string
	// Organization and Workspace are the active ones, 0: none.
	Organization, Workspace int64
	CreatedAt               time.Time
	// ProvedAt is when the user last authenticated again, zero: not since CreatedAt.
	ProvedAt time.Time
	// Proofs are what the user has shown in this sign-in; read them through Proven, because sign-ins of earlier versions
	// have none.
	Proofs assurance.Proofs
	// Upstream is how the sign-in came from a connection.
	Upstream Upstream
	// TwoStep and UserCreatedAt are those of the user. Only SessionByToken and LockSession read them.
	TwoStep       bool
	UserCreatedAt time.Time
}

// ProvenAt returns when the user last authenticated.
func (g SignIn) ProvenAt() time.Time {
	if g.ProvedAt.After(g.CreatedAt) {
		return g.ProvedAt
	}
	return g.CreatedAt
}

// EndedSignIn is a sign-in that has ended.
type EndedSignIn struct {
	ID, User           int64
	Method             string
	Proofs             assurance.Proofs
	Address, UserAgent string
	CreatedAt, UsedAt  time.Time
}

// The methods of sign-ins and sign-ups.
const (
	MethodPassword = "password"
	MethodEmailOTP = "email_otp"
	MethodPasskey  = "passkey"
	MethodImport   = "import"
	// MethodSSO is a sign-in by a connection. Events name the connection too: "sso:<slug>".
	MethodSSO = "sso"
)

// The purposes of challenges, besides the kinds of attempts.
const (
	PurposeSignUp      = AttemptSignUp
	PurposeSignIn      = AttemptSignIn
	PurposePhone       = "phone"
	PurposeVerifyEmail = "verify_email"
	// PurposeSetup is for the code that opens a setup link.
	PurposeSetup = "setup"
	// PurposeSecondFactor is for a text whose code is the second step of an attempt.
	PurposeSecondFactor = "second_factor"
)

// The channels of messages.
const (
	ChannelSMS  = "sms"
	ChannelMail = "mail"
	// ChannelLogout notifies a client of an authorization server that a sign-in ended. The recipient is the client's URL,
	// the body the logout token.
	ChannelLogout = "logout"
)

// Challenge is the stored part of a code that was sent.
type Challenge struct {
	ID               int64
	Purpose, Channel string
	// Subject is the phone or the attempt that the code proves.
	Subject, Session, User int64
	// Recipient is a phone number, or an email address in folded form.
	Recipient string
	// Region is the country of a number.
	Region string
	// Address is the address of the client that requested the code.
	Address string
	// Sent reports whether a message was sent; for an unknown account none is.
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
	// Ends is when the counter starts again, zero if there is no counter.
	Ends time.Time
}

// KnownFor is how long the store remembers a client from which an account signed in.
const KnownFor = 90 * 24 * time.Hour

// Send records that a code was requested.
type Send struct {
	ID               int64
	Purpose, Channel string
	// User is the signed-in user that requested it; 0: not signed in.
	User int64
	// Recipient is a phone number, or an email address in folded form.
	Recipient string
	// Client is an IPv4 address or an IPv6 /64, and WideNetwork the IPv4 /24 or IPv6 /48 around it.
	Client, WideNetwork string
	// Region is the country of a number.
	Region string
	// Known reports, for mail, whether the recipient's account signed in from the client before; for a text, whether the
	// user has a verified phone.
	Known bool
	// Sent reports whether a message was sent; for an unknown account none is.
	Sent bool
	At   time.Time
}

// SendFilter selects the sends of a channel that match each of its members that is set.
type SendFilter struct {
	Channel, Purpose, Recipient, Client, WideNetwork string
	User                                             int64
	// Unknown selects only sends that are not Known.
	Unknown bool
}

// SendCounts are numbers of sends for which a message was sent.
type SendCounts struct {
	All, ToRegion int64
	// Unknown counts the sends that are not Known.
	Unknown int64
}

// Message is a text or mail in the outbox.
type Message struct {
	Deployment string
	ID         int64
	// Challenge is the challenge it was sent for, 0: none.
	Challenge          int64
	Channel, Recipient string
	// Sealed is the body, sealed with the kind SealedMessage and the id SealedFor.
	Sealed               string
	Tries                int
	CreatedAt, ExpiresAt time.Time
	// Lease is the lease that LeaseMessages assigned, read only.
	Lease string
	// Trace is the W3C traceparent of the request that wrote the message, set by the store; "" if the request was not
	// traced.
	Trace string
	// Void reports, for a leased message, that the challenge was replaced or consumed in the meantime. A message inserted
	// with Void has its end state at once, and no body.
	Void bool
}

// SealedFor returns the id for which a message's body is sealed.
func (m Message) SealedFor() string { return m.Deployment + "/" + strconv.FormatInt(m.ID, 10) }

// SealedMessage is the kind that bodies in the outbox are sealed for.
const SealedMessage = "outbox-message"

// The states of messages: pending, and the end states.
const (
	MessagePending = "pending"
	MessageSent    = "sent"
	MessageFailed  = "failed"
	MessageExpired = "expired"
	MessageVoid    = "void"
)

// Outcome is the result of sending a leased message.
type Outcome struct {
	State string
	// NextAt is when a message that stays pending is due again.
	NextAt time.Time
	// ProviderID is the provider's id of the message. Reason is why it was not sent; it never contains the body.
	ProviderID, Reason string
}

// Organization is an organization.
type Organization struct {
	ID                    int64
	Name, Slug            string
	Description, ImageURL string
	// Workspace is the workspace in which members start, 0: none.
	Workspace int64
	CreatedAt time.Time
	// Required is the level that the organization itself requires of its members.
	Required assurance.Requirement
	// OwnConnections are its connections in Connections, which keeps it true.
	OwnConnections OwnConnections
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
	// Workspace is the last active one, 0: none yet.
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

// Account is the data of an account that other members see.
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

// Invitation invites an email address into an organization.
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

// Event is an event that analytics counts.
type Event struct {
	ID                         int64
	Kind                       string
	At                         time.Time
	User                       int64
	Method, Address, UserAgent string
}

// Audit is an audit record.
type Audit struct {
	ID      int64
	At      time.Time
	Actor   string
	Action  string
	Object  string
	Session int64
	Address string
	// Detail is what else is recorded about the action, "" for most: the reason of a reset, the removed factor.
	Detail string
}
