package people

import "time"

// OAuth are what clients of a deployment's authorization servers asked for, what people granted, and what lives on it. Hashes are SHA-256 of
// what was handed out. Clients are named as they are in the protocol; apps are named by their ids.
type OAuth interface {
	// InsertAuthorizationRequest stores a request. Beyond the bounds older requests are deleted.
	InsertAuthorizationRequest(request AuthorizationRequest, bounds WaitingBounds) error
	AuthorizationRequest(hash []byte) (AuthorizationRequest, bool, error)
	// DeleteAuthorizationRequest reports whether this call did.
	DeleteAuthorizationRequest(hash []byte) (bool, error)

	// PutGrant writes a grant. What a person granted a client before, in the same organization and workspace, it takes the place of, with its
	// id, which it returns. It keeps at most so many of a person: that which was used longest ago gives way, with its tokens.
	PutGrant(grant Grant, most int) (int64, error)
	Grant(id int64) (Grant, bool, error)
	// GrantsOf returns what a user granted, what was granted last first.
	GrantsOf(user int64) ([]Grant, error)
	// ListGrants returns up to limit of those that fit, the newest first.
	ListGrants(filter GrantFilter, limit int) ([]Grant, error)
	// DeleteGrant ends a grant with all that lives on it, and reports whether there was one.
	DeleteGrant(id int64) (bool, error)

	// InsertTokenFamily keeps at most so many of a grant: that which was used longest ago gives way, with its tokens.
	InsertTokenFamily(family TokenFamily, most int) error
	TokenFamily(id int64) (TokenFamily, bool, error)
	LockTokenFamily(id int64) (TokenFamily, bool, error)
	// UpdateTokenFamily writes the scopes, when it was used last, and when it ends.
	UpdateTokenFamily(TokenFamily) error
	// EndTokenFamily deletes a family with its tokens, and reports whether there was one.
	EndTokenFamily(id int64) (bool, error)
	// EndOfflineFamilies deletes a user's families that outlive their sign-ins and were made at a time or later, with their tokens, and
	// returns how many.
	EndOfflineFamilies(user int64, since time.Time) (int, error)

	InsertAuthorizationCode(AuthorizationCode) error
	AuthorizationCode(hash []byte) (AuthorizationCode, bool, error)
	// RedeemAuthorizationCode uses up a code that is good at a time, and reports whether this call did.
	RedeemAuthorizationCode(hash []byte, now time.Time) (bool, error)

	InsertRefreshToken(RefreshToken) error
	RefreshToken(hash []byte) (RefreshToken, bool, error)
	// UseRefreshToken records the first use of a token, and from where, and lets its parent die at a time, if it does not die before.
	UseRefreshToken(token RefreshToken, now, parentDies time.Time) error
	// TrimRefreshTokens deletes of a family's tokens, and never the presented one, all but the newest within bounds.
	TrimRefreshTokens(family int64, presented []byte, bounds RefreshBounds) error

	// InsertDevice stores a device. Beyond the bounds older devices are deleted. ErrDuplicate: the code that people type is another's.
	InsertDevice(device Device, bounds WaitingBounds) error
	Device(hash []byte) (Device, bool, error)
	LockDevice(hash []byte) (Device, bool, error)
	// DeviceByUserCode finds a device by what people type.
	DeviceByUserCode(code string) (Device, bool, error)
	// UpdateDevice writes the state, the family, and when it asked last with its interval.
	UpdateDevice(Device) error
	DeleteDevice(hash []byte) error

	// TakeLogouts takes up to limit sign-ins that ended, of which clients are to be told: whoever takes them tells.
	TakeLogouts(limit int) ([]Logout, error)

	// SessionOfSignIn returns the session that a sign-in is of, with that sign-in alone and without its token. Whether it is over, the caller judges.
	SessionOfSignIn(id int64) (Session, bool, error)
}

// OAuthClients are the clients that registered themselves, or that applications and users made.
type OAuthClients interface {
	// InsertOAuthClient fails with ErrDuplicate where the app has one of the name, or of the fingerprint.
	InsertOAuthClient(OAuthClient) error
	OAuthClient(app int64, client string) (OAuthClient, bool, error)
	// OAuthClientAlike finds the client of an app that shares its name with all of its fingerprint.
	OAuthClientAlike(app int64, fingerprint []byte) (OAuthClient, bool, error)
	// LockOAuthClient is OAuthClient for who is about to change it.
	LockOAuthClient(app int64, client string) (OAuthClient, bool, error)
	// ListOAuthClients returns up to limit clients of an app that stand behind a place, the newest first.
	ListOAuthClients(app int64, after OAuthClientPlace, limit int) ([]OAuthClient, error)
	// UpdateOAuthClient writes the content, the network and when it changed, the manager, when it was last used, and until when it is fresh.
	UpdateOAuthClient(OAuthClient) error
	// RenewOAuthClient lets a client that was never used count as made at a time, by a network.
	RenewOAuthClient(app int64, client, network string, now time.Time) error
	// DeleteOAuthClient deletes a client, and reports whether there was one. All that people granted it till now is over at once; Purge takes
	// the rows.
	DeleteOAuthClient(app int64, client string, now time.Time) (bool, error)
	// UnusedOAuthClients counts the clients of an app that no backend made and that were never used, of a network or ("") of all, and returns the
	// oldest of them.
	UnusedOAuthClients(app int64, network string) (int, OAuthClient, error)
	// UsedOAuthClients counts the clients of an app that no backend made and that were used, of a network or ("") of all, and returns that which was
	// used longest ago.
	UsedOAuthClients(app int64, network string) (int, OAuthClient, error)
	// LargestClientNetwork returns the network that has the most clients that UnusedOAuthClients counts, or UsedOAuthClients; "" for none that is known.
	LargestClientNetwork(app int64, used bool) (string, error)
	// UngrantedOAuthClient returns, of the clients that UsedOAuthClients counts and nobody's grant stands for, that which was used longest
	// ago, and whether there is one. It looks through all of them that were used before.
	UngrantedOAuthClient(app int64) (OAuthClient, bool, error)
}

// AuthorizationRequest is what a client asks a person for, until the person decided.
type AuthorizationRequest struct {
	Hash   []byte
	App    int64
	Client string
	// Parameters are the request's, as JSON.
	Parameters string
	// Pushed reports that the client pushed it itself (RFC 9126).
	Pushed bool
	// Network is the client address or the pushing client that the request is counted for, and NetworkBlock the network around it.
	Network, NetworkBlock string
	CreatedAt, ExpiresAt  time.Time
}

// WaitingBounds are how many authorization requests, or devices, wait at once: of one Network and of one NetworkBlock, where the oldest of the same
// is deleted; and of one app, where the oldest of the NetworkBlock that has the most is deleted.
type WaitingBounds struct{ Network, NetworkBlock, App int }

// Grant is what a person granted a client, in an organization and a workspace (0: in none).
type Grant struct {
	ID, App                       int64
	Client                        string
	User, Organization, Workspace int64
	Scopes, Resources             []string
	CreatedAt, UpdatedAt          time.Time
}

// GrantFilter says which grants of an app are listed.
type GrantFilter struct {
	App int64
	// Client and User are whose, "" and 0: anybody's.
	Client string
	User   int64
	// Before is the id behind which the list goes on, 0: from its beginning.
	Before int64
}

// TokenFamily is one authorization: all tokens that came of one code. Without it none of them is good.
type TokenFamily struct {
	ID, Grant, App                int64
	Client                        string
	User, Organization, Workspace int64
	// Session and SignIn are those in which it was authorized.
	Session, SignIn   int64
	Scopes, Resources []string
	// Nonce, Method and AuthenticatedAt are what ID tokens say.
	Nonce, Method   string
	AuthenticatedAt time.Time
	// Offline reports that it outlives the sign-in, and Backchannel that the client is told of the sign-in's end.
	Offline, Backchannel bool
	CreatedAt, UsedAt    time.Time
	// ExpiresAt is the absolute bound of all its tokens.
	ExpiresAt time.Time
}

// AuthorizationCode is a code, as far as it is stored.
type AuthorizationCode struct {
	Hash   []byte
	Family int64
	// RedirectURI is where it was sent, and Challenge what its verifier must hash to (PKCE S256).
	RedirectURI, Challenge string
	CreatedAt, ExpiresAt   time.Time
	// RedeemedAt is zero until it was used up.
	RedeemedAt time.Time
}

// RefreshToken is one refresh token of a family.
type RefreshToken struct {
	Hash   []byte
	Family int64
	// Parent is the hash of the token this one replaced, empty for a first one.
	Parent []byte
	// Network is where it was first used from.
	Network   string
	CreatedAt time.Time
	// UsedAt is when it was first used, zero before.
	UsedAt time.Time
	// DiesAt is zero until a successor was used.
	DiesAt time.Time
	// ParentDiesAt is the parent's, zero where that is forgotten. It is read alone.
	ParentDiesAt time.Time
	// ExpiresAt is the family's bound.
	ExpiresAt time.Time
}

// The states of devices.
const (
	DevicePending = "pending"
	DeviceDenied  = "denied"
	DeviceGranted = "granted"
)

// Device is a device without a browser that waits for a person who has one.
type Device struct {
	Hash []byte
	// UserCode is what the person types.
	UserCode   string
	App        int64
	Client     string
	Parameters string
	// Network and NetworkBlock are what the device is counted for, as of an AuthorizationRequest.
	Network, NetworkBlock, State string
	// Family is what came of it, 0: nothing yet.
	Family int64
	// PolledAt is when the device asked last, and Interval, in whole seconds, how long it has to wait in between.
	PolledAt             time.Time
	Interval             time.Duration
	CreatedAt, ExpiresAt time.Time
}

// OAuthClientPlace is a place in the list of an app's clients; the zero value is its beginning.
type OAuthClientPlace struct {
	At     time.Time
	Client string
}

// OAuthClient is a client of run time: one that registered itself, whose metadata was fetched, or that a backend made.
type OAuthClient struct {
	App int64
	// Client is what it is called in the protocol.
	Client string
	// Content is what it is, as a declared one is kept, as JSON.
	Content string
	// Fingerprint is the hash of the metadata of one that shares its name with all of the same, nil for others.
	Fingerprint []byte
	// Manager is the hash of what manages it, nil where nobody does.
	Manager []byte
	// ByBackend reports that a backend made it, which vouches for it: it is kept though nobody uses it.
	ByBackend bool
	// Network is the network (IPv4 /24, IPv6 /48) that registered the client, and once it was used that of the first grant; "" where that is not
	// known, and of a backend's.
	Network string
	// UpdatedAt is when the content changed last, zero where that is not known.
	CreatedAt, UpdatedAt time.Time
	// UsedAt is when somebody authorized it last, to the day, zero: nobody ever did.
	UsedAt time.Time
	// FreshUntil is until when fetched metadata is good, zero for what was not fetched.
	FreshUntil time.Time
}

// UnusedClientFor is how long a client of run time is kept that nobody uses and no backend made.
const UnusedClientFor = 24 * time.Hour

// IdleClientFor is how long a client of run time that no backend made is kept after somebody authorized it last: all its tokens ended long
// before then.
const IdleClientFor = 90 * 24 * time.Hour

// GrantKeptFor is how long a grant is remembered after the last authorization, if no token of it is left.
const GrantKeptFor = 365 * 24 * time.Hour

// Logout is a sign-in that ended, of which a client is to be told.
type Logout struct {
	App           int64
	Client        string
	User, Session int64
}

// RefreshBounds say how many refresh tokens of a family are kept, of each sort the newest.
type RefreshBounds struct {
	// Used are those that were used, Unused those that were not and are older than YoungSince, and Young those that are not.
	Used, Unused, Young int
	YoungSince          time.Time
}
