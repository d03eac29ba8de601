package people

import (
	"context"
	"time"
)

// Connections are the connections of organization admins and backends, and the attempts, documents and failures of all
// connections. A declared connection has no row here. Its id is that of the resource.
type Connections interface {
	// InsertConnection fails with ErrDuplicate if another of these connections has the slug. Like UpdateConnection and
	// DeleteConnection, it locks the connection's organization, whose OwnConnections it keeps true.
	InsertConnection(Connection) error
	Connection(id int64) (Connection, bool, error)
	ConnectionBySlug(slug string) (Connection, bool, error)
	// LockConnection is Connection with a lock, for a caller that will change the connection.
	LockConnection(id int64) (Connection, bool, error)
	// LockConnectionShared is Connection with a lock that many transactions have at once. Until the last of them ends, no
	// transaction locks the connection with LockConnection or deletes it. Sign-ins take this lock, so that a connection
	// that changes or ends leaves no identity behind.
	LockConnectionShared(id int64) (Connection, bool, error)
	// UpdateConnection writes the settings, the secrets, Active, Enforces and UpdatedAt.
	UpdateConnection(Connection) error
	// ResealConnection replaces the sealed secrets of a connection if they still are the given ones, and reports whether
	// this call did.
	ResealConnection(id int64, from, to string) (bool, error)
	// DeleteConnection deletes a connection with its sign-ins, identities, documents and failures, and reports whether
	// there was one. A caller ends many sign-ins and identities in batches first: EndSignInsBy, DeleteIdentitiesOf.
	DeleteConnection(id int64) (bool, error)
	// ListConnections returns up to limit connections that match the filter, the newest first.
	ListConnections(filter ConnectionFilter, limit int) ([]Connection, error)
	// CountConnections counts the connections of an organization.
	CountConnections(organization int64) (int, error)

	SSOAttempts
	UpstreamDocuments
	ConnectionEnds

	// RecordConnectionFailure records a failure. Only the newest MaxConnectionFailures of a connection are kept.
	RecordConnectionFailure(ConnectionFailure) error
	// ConnectionFailures returns up to limit failures of a connection, the newest first.
	ConnectionFailures(connection int64, limit int) ([]ConnectionFailure, error)
}

// Connection is a connection of an organization admin or a backend.
type Connection struct {
	ID int64
	// Organization is 0 for a connection of the deployment.
	Organization int64
	// Slug is unique among these connections. The caller checks that no declared connection has it.
	Slug string
	// Settings are its settings as JSON.
	Settings string
	// Secrets are its secrets, sealed for the object of the kind SealedConnection with the id SealedFor; "": none.
	Secrets string
	Active  bool
	// Enforces reports that it requires sign-ins by it, which its settings define.
	Enforces             bool
	CreatedAt, UpdatedAt time.Time
}

// OwnConnections is what is known of an organization's active connections without reading them.
type OwnConnections int

// The values of OwnConnections.
const (
	NoConnections OwnConnections = iota
	// HasConnections: none of them enforces.
	HasConnections
	// EnforcesConnections: one of them enforces.
	EnforcesConnections
)

// The kinds that values are sealed for, with the id SealedFor: the secrets of a connection, the outcome and the claims
// of an SSO attempt, and the ID token of a sign-in.
const (
	SealedConnection = "connection"
	SealedSSOAttempt = "sso-attempt"
	SealedIDToken    = "id-token"
)

// ConnectionFilter selects the connections that match each of its members that is set.
type ConnectionFilter struct {
	Organization int64
	// OfDeployment selects the connections of no organization.
	OfDeployment bool
	// Before leaves out this connection and all newer ones; 0: none.
	Before int64
}

// SSOAttempts are the attempts that wait for the answer of a connection's provider. Each belongs to a row of Attempts,
// whose session owns it.
type SSOAttempts interface {
	// InsertSSOAttempt fails with ErrDuplicate if another attempt has the state.
	InsertSSOAttempt(SSOAttempt) error
	SSOAttempt(attempt int64) (SSOAttempt, bool, error)
	// SSOAttemptByState finds an attempt by the hash of its state. It may have expired or be completed.
	SSOAttemptByState(hash []byte) (SSOAttempt, bool, error)
	// CountSSOTry adds a try to an attempt that is neither completed nor expired and has fewer tries than max. It reports
	// whether it did.
	CountSSOTry(attempt int64, max int, now time.Time) (bool, error)
	// ReturnSSOTry takes a counted try back from an attempt that is neither completed nor expired. It reports whether it
	// did.
	ReturnSSOTry(attempt int64, now time.Time) (bool, error)
	// PutSSOOutcome replaces the outcome of an attempt that is neither completed nor expired, and reports whether there
	// was one.
	PutSSOOutcome(attempt int64, sealed string, now time.Time) (bool, error)
	// CompleteSSOAttempt completes an attempt that is neither completed nor expired: it clears the outcome and stores
	// claims. It reports whether this call did. Of concurrent calls one does.
	CompleteSSOAttempt(attempt int64, claims string, now time.Time) (bool, error)
	// DeleteSSOAttempt reports whether there was one.
	DeleteSSOAttempt(attempt int64) (bool, error)
}

// The intents of SSO attempts.
const (
	IntentSignIn         = "sign_in"
	IntentLink           = "link"
	IntentReauthenticate = "reauthenticate"
)

// SSOAttempt is the part of an attempt that waits for the answer of a connection's provider.
type SSOAttempt struct {
	// Attempt is the id of the attempt.
	Attempt, Connection int64
	// State is the SHA-256 of the parameter state.
	State []byte
	// RequestID is the id that the answer must repeat, "" for a protocol without one.
	RequestID string
	// Host is the frontend host where the attempt began.
	Host   string
	Intent string
	// Continue is the path to which the browser goes afterwards, "" if none was asked for.
	Continue string
	// User and SignIn are the account and the sign-in that began a link or a reauthentication, 0 for a sign-in.
	User, SignIn int64
	// Invitation is the invitation that the attempt accepts, 0: none.
	Invitation int64
	// OrganizationName is the name of the organization that the attempt creates, "": none.
	OrganizationName string
	// Tries counts the answers that were evaluated, or are now.
	Tries int
	// Outcome is an evaluated answer that waits for a request of the browser's session, sealed; "": none.
	Outcome string
	// Claims are what is known of the user after the completion, until a code proves an address, sealed; "": none.
	Claims string
	// CompletedAt is zero until an answer completes it.
	CompletedAt          time.Time
	CreatedAt, ExpiresAt time.Time
}

// UpstreamDocuments are what servers fetch from the providers of connections, with the state of fetching.
type UpstreamDocuments interface {
	UpstreamDocument(connection int64, kind string) (UpstreamDocument, bool, error)
	// LeaseUpstreamDocument leases the fetching of a document to the caller until a time, under a name that the caller
	// chooses at random. tried is the TriedAt that the caller has read, zero for no row. It reports false if another
	// caller has a lease that has not ended, or has begun a fetch after the caller read.
	LeaseUpstreamDocument(connection int64, kind, lease string, tried, now, until time.Time) (bool, error)
	// StoreUpstreamDocument ends the lease of a successful fetch: it writes Body, SHA256, FetchedAt, ValidUntil and, if
	// another body was stored before, ChangedAt. It reports whether the lease was still the caller's.
	StoreUpstreamDocument(document UpstreamDocument, lease string) (bool, error)
	// FailUpstreamDocument ends the lease of a failed fetch, and keeps the last body. It reports whether the lease was
	// still the caller's.
	FailUpstreamDocument(connection int64, kind, lease, reason string) (bool, error)
}

// ConnectionEnds are the ends of declared connections, whose identities are kept for IdentitiesKeptFor.
type ConnectionEnds interface {
	// RecordConnectionEnd records when a connection ended, and replaces an earlier end. It locks the record.
	RecordConnectionEnd(connection int64, at time.Time) error
	// LockConnectionEnd returns when a connection ended, false if no end is recorded, and locks the record.
	LockConnectionEnd(connection int64) (time.Time, bool, error)
	// ForgetConnectionEnd deletes the record: the connection is declared again, or nothing of it is left.
	ForgetConnectionEnd(connection int64) error
}

// IdentitiesKeptFor is how long the identities of a declared connection are kept after its end. A Connection with the
// same namespace and name that is declared in this time has them again.
const IdentitiesKeptFor = 30 * 24 * time.Hour

// The kinds of documents.
const (
	UpstreamDiscovery = "discovery"
	UpstreamJWKS      = "jwks"
	// UpstreamSAML is the metadata of a provider of SAML: its text is the JSON of a document.SAMLMetadata, and SHA256 the
	// hash of that without ValidUntil.
	UpstreamSAML = "saml"
)

// UpstreamDocument is a document of a connection's provider.
type UpstreamDocument struct {
	Connection int64
	Kind       string
	// Body is the last one that was fetched, "" before the first: the URL, a line break and the text. SHA256 is the hash
	// of the text in hexadecimal digits.
	Body, SHA256 string
	// FetchedAt is when the body was fetched, and ValidUntil until when it needs no other fetch.
	FetchedAt, ValidUntil time.Time
	// ChangedAt is when a fetch found another body than the one before, zero: never.
	ChangedAt time.Time
	// Error is the reason of the last fetch's failure, and Failures how many failed in a row; "" and 0: it succeeded.
	Error    string
	Failures int
	// TriedAt is when the last fetch began, and LeasedUntil when another one may begin, zero: now.
	TriedAt, LeasedUntil time.Time
}

// UpstreamDocumentKeptFor is how long a document is kept after its last fetch.
const UpstreamDocumentKeptFor = 30 * 24 * time.Hour

const (
	// MaxConnectionFailures is how many failures of a connection are kept.
	MaxConnectionFailures = 100
	// ConnectionFailureKeptFor is how long a failure is kept.
	ConnectionFailureKeptFor = 30 * 24 * time.Hour
)

// ConnectionFailure is a failed sign-in by a connection, in words for its admins. It contains no token.
type ConnectionFailure struct {
	ID, Connection int64
	At             time.Time
	RequestID      string
	// Step is the check that failed, and Reason why.
	Step, Reason  string
	Expected, Got string
	// Subject and Email are those that the provider stated, "" if unknown.
	Subject, Email string
}

// UpstreamSignIns are the sign-ins by connections.
type UpstreamSignIns interface {
	// UpstreamOf returns how a sign-in came from a connection; the zero Upstream for any other sign-in.
	UpstreamOf(signIn int64) (Upstream, bool, error)
	// SetUpstream writes how a sign-in came from a connection, after another proof: of the provider, or of the mailbox,
	// which ends the confinement.
	SetUpstream(signIn int64, upstream Upstream) error
	// EndSignInsBy ends up to limit sign-ins that match the filter, as LeaveSession does, and returns them, the oldest
	// first. Fewer than limit: no other matches.
	EndSignInsBy(filter UpstreamFilter, limit int) ([]SignIn, error)
}

// Upstream is how a sign-in came from a connection. It is zero for a sign-in by other means. Only UpstreamOf reads
// SessionID and IDToken; every other method leaves them empty.
type Upstream struct {
	Connection, Identity int64
	// SessionID is the provider's id of its session, "" if unknown.
	SessionID string
	// ConfinedTo is the only organization in which the sign-in counts, 0: it is not confined.
	ConfinedTo int64
	// EndsAt is when the sign-in ends, if its session does not end earlier. Zero: it ends with the session.
	EndsAt time.Time
	// IDToken is the provider's ID token, sealed; "": not kept.
	IDToken string
}

// Ended reports whether the sign-in has ended at a time although its session may not have.
func (u Upstream) Ended(now time.Time) bool { return !u.EndsAt.IsZero() && !now.Before(u.EndsAt) }

// EndWith returns when the sign-in ends in a session that ends at a time: the sooner of the two.
func (u Upstream) EndWith(session time.Time) time.Time {
	if !u.EndsAt.IsZero() && u.EndsAt.Before(session) {
		return u.EndsAt
	}
	return session
}

// UpstreamFilter selects sign-ins by a connection that match each of its members that is set. One of Connection and
// Identity must be set; with neither, no sign-in matches.
type UpstreamFilter struct {
	Connection int64
	// Identity selects the sign-ins of one subject of a connection.
	Identity int64
	// SessionID selects by the provider's id of its session.
	SessionID string
	// Issuer selects the sign-ins of identities of one issuer: a connection may accept several, each with own ids of
	// sessions.
	Issuer string
}

// ConnectionUpkeep is periodic work over the connections and domains of all deployments.
type ConnectionUpkeep interface {
	// SealedConnections is SealedSecrets for the secrets of connections.
	SealedConnections(ctx context.Context, after SealedSecret, limit int) ([]SealedSecret, error)
	// DueDomains returns up to limit domains whose records must be looked up by a time, the longest due first. It passes
	// over the deployments of except.
	DueDomains(ctx context.Context, now time.Time, except []string, limit int) ([]DueDomain, error)
	// NextUpstreamConnection returns the first connection after another one that has sign-ins, identities or a recorded
	// end, in the order of deployments and ids. It reports false if there is none. It reads few rows, however many
	// sign-ins and identities a connection has.
	NextUpstreamConnection(ctx context.Context, after UpstreamConnection) (UpstreamConnection, bool, error)
}

// UpstreamConnection is a connection by which users sign in or signed in.
type UpstreamConnection struct {
	Deployment string
	ID         int64
	// EndedAt is its recorded end, zero for none.
	EndedAt time.Time
	// Runtime reports that it is a row, not declared.
	Runtime bool
}
