package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// OAuth are the rows of a deployment's authorization servers: requests of clients, grants of users, and the tokens that
// depend on them. Hashes are SHA-256 of the value handed out. A client is identified by its client_id, an app by its
// numeric id.
type OAuth interface {
	// InsertAuthorizationRequest stores a request and deletes older requests beyond the bounds.
	InsertAuthorizationRequest(request AuthorizationRequest, bounds WaitingBounds) error
	AuthorizationRequest(hash []byte) (AuthorizationRequest, bool, error)
	// DeleteAuthorizationRequest deletes a request, and reports whether this call deleted it.
	DeleteAuthorizationRequest(hash []byte) (bool, error)

	// PutGrant writes a grant and returns its id. If the user has a grant to the same client in the same organization
	// and workspace, PutGrant replaces it and keeps its id. PutGrant then deletes the user's least recently used grants
	// beyond the bound most, with their tokens.
	PutGrant(grant Grant, most int) (int64, error)
	Grant(id int64) (Grant, bool, error)
	// GrantsOf returns a user's grants, the last granted first.
	GrantsOf(user int64) ([]Grant, error)
	// ListGrants returns up to limit grants that match the filter, the newest first.
	ListGrants(filter GrantFilter, limit int) ([]Grant, error)
	// DeleteGrant deletes a grant with everything that depends on it, and reports whether there was one.
	DeleteGrant(id int64) (bool, error)

	// InsertTokenFamily inserts a token family. It then deletes the grant's least recently used families beyond the
	// bound most, with their tokens.
	InsertTokenFamily(family TokenFamily, most int) error
	TokenFamily(id int64) (TokenFamily, bool, error)
	LockTokenFamily(id int64) (TokenFamily, bool, error)
	// UpdateTokenFamily writes the scopes, when it was last used, and when it ends.
	UpdateTokenFamily(TokenFamily) error
	// EndTokenFamily deletes a token family with its tokens, and reports whether there was one.
	EndTokenFamily(id int64) (bool, error)
	// EndOfflineFamilies deletes a user's token families that outlive their sign-ins and were made at a time or later,
	// with their tokens. It returns how many it deleted.
	EndOfflineFamilies(user int64, since time.Time) (int, error)

	InsertAuthorizationCode(AuthorizationCode) error
	AuthorizationCode(hash []byte) (AuthorizationCode, bool, error)
	// RedeemAuthorizationCode consumes a code that is valid at a time, and reports whether this call did.
	RedeemAuthorizationCode(hash []byte, now time.Time) (bool, error)

	InsertRefreshToken(RefreshToken) error
	RefreshToken(hash []byte) (RefreshToken, bool, error)
	// UseRefreshToken records the first use of a token and its network. It sets when the parent dies, unless the parent
	// dies earlier.
	UseRefreshToken(token RefreshToken, now, parentDies time.Time) error
	// TrimRefreshTokens deletes the tokens of a family except the newest within the bounds, and never the presented one.
	TrimRefreshTokens(family int64, presented []byte, bounds RefreshBounds) error

	// InsertDevice stores a device and deletes older devices beyond the bounds. ErrDuplicate: another device has the user
	// code.
	InsertDevice(device Device, bounds WaitingBounds) error
	Device(hash []byte) (Device, bool, error)
	LockDevice(hash []byte) (Device, bool, error)
	// DeviceByUserCode finds a device by the code that the user types.
	DeviceByUserCode(code string) (Device, bool, error)
	// UpdateDevice writes the state, the token family, and when it last polled with its interval.
	UpdateDevice(Device) error
	DeleteDevice(hash []byte) error

	// TakeLogouts removes and returns up to limit logouts of which clients must be notified. The caller must notify them.
	TakeLogouts(limit int) ([]Logout, error)

	// SessionOfSignIn returns the session of a sign-in, with that sign-in only and without its token. It may have expired:
	// the caller checks.
	SessionOfSignIn(id int64) (Session, bool, error)
}

// OAuthClients are the clients that registered themselves, or that backends and users created.
type OAuthClients interface {
	// InsertOAuthClient fails with ErrDuplicate if the app has a client of the same name or fingerprint.
	InsertOAuthClient(OAuthClient) error
	OAuthClient(app int64, client string) (OAuthClient, bool, error)
	// OAuthClientAlike finds the client of an app with a fingerprint. All registrations with equal metadata share this
	// client.
	OAuthClientAlike(app int64, fingerprint []byte) (OAuthClient, bool, error)
	// LockOAuthClient is OAuthClient with a lock, for a caller that will change the client.
	LockOAuthClient(app int64, client string) (OAuthClient, bool, error)
	// ListOAuthClients returns up to limit clients of an app after a place, the newest first.
	ListOAuthClients(app int64, after OAuthClientPlace, limit int) ([]OAuthClient, error)
	// UpdateOAuthClient writes the content, the network, when the content changed, the manager, when it was last used, and
	// until when it is fresh.
	UpdateOAuthClient(OAuthClient) error
	// RenewOAuthClient marks a client that was never used as created at a time, by a network.
	RenewOAuthClient(app int64, client, network string, now time.Time) error
	// DeleteOAuthClient deletes a client, and reports whether there was one. All its grants made until now are void at
	// once; Purge deletes their rows.
	DeleteOAuthClient(app int64, client string, now time.Time) (bool, error)
	// UnusedOAuthClients counts the clients of an app that no backend created and that were never used, of a network or
	// ("") of all. It also returns the oldest of them.
	UnusedOAuthClients(app int64, network string) (int, OAuthClient, error)
	// UsedOAuthClients counts the clients of an app that no backend created and that were used, of a network or ("") of
	// all. It also returns the least recently used of them.
	UsedOAuthClients(app int64, network string) (int, OAuthClient, error)
	// LargestClientNetwork returns the network with the most clients, among those that UsedOAuthClients counts if used
	// is true, otherwise among those that UnusedOAuthClients counts; "" if no network is known.
	LargestClientNetwork(app int64, used bool) (string, error)
	// UngrantedOAuthClient returns the least recently used client that UsedOAuthClients counts and that has no grant.
	// It reports whether there is one. It reads every client that was used less recently than the result.
	UngrantedOAuthClient(app int64) (OAuthClient, bool, error)
}

// AuthorizationRequest is a client's request to a user, until the user decides.
type AuthorizationRequest struct {
	Hash   []byte
	App    int64
	Client string
	// Parameters are the parameters of the request, as JSON.
	Parameters string
	// Pushed reports whether the client pushed the request itself (RFC 9126).
	Pushed bool
	// Network is the client address, or the pushing client, for which the request is counted. NetworkBlock is the network
	// around it.
	Network, NetworkBlock string
	CreatedAt, ExpiresAt  time.Time
}

// WaitingBounds are how many authorization requests, or devices, may wait at once. Beyond the bound of a Network or a
// NetworkBlock, its oldest request or device is deleted. Beyond the bound of the app, the oldest one from the
// NetworkBlock with the most of them is deleted.
type WaitingBounds struct{ Network, NetworkBlock, App int }

// Grant is a user's grant to a client, in an organization and a workspace (0: in none).
type Grant struct {
	ID, App                       int64
	Client                        string
	User, Organization, Workspace int64
	Scopes, Resources             []string
	CreatedAt, UpdatedAt          time.Time
}

// GrantFilter selects the grants of an app.
type GrantFilter struct {
	App int64
	// Client and User select the grants of a client and of a user; "" and 0: of all.
	Client string
	User   int64
	// Before is the id of the previous page's last grant: only grants with lower ids are listed; 0: all.
	Before int64
}

// TokenFamily is one authorization: all tokens that came from one code. Without the family none of them is valid.
type TokenFamily struct {
	ID, Grant, App                int64
	Client                        string
	User, Organization, Workspace int64
	// Session and SignIn are those that authorized it, and Connection is the connection of the sign-in, 0: none.
	Session, SignIn   int64
	Connection        int64
	Scopes, Resources []string
	// Nonce, Method and AuthenticatedAt go into ID tokens.
	Nonce, Method   string
	AuthenticatedAt time.Time
	// ACR and AMR are what the sign-in had proven when the user authorized the client; read them through Proven, because
	// families of earlier versions have none.
	ACR string
	AMR []string
	// StatedACR is what the family's tokens state: ACR, or the value that the client asked for, if it holds. It belongs to
	// AuthenticatedAt.
	StatedACR string
	// Offline reports whether it outlives the sign-in, and Backchannel whether the client is notified of the sign-in's
	// end.
	Offline, Backchannel bool
	CreatedAt, UsedAt    time.Time
	// ExpiresAt is the absolute bound of all its tokens.
	ExpiresAt time.Time
}

// AuthorizationCode is the stored part of a code.
type AuthorizationCode struct {
	Hash   []byte
	Family int64
	// RedirectURI is the URI the code was sent to, and Challenge the hash of its verifier (PKCE S256).
	RedirectURI, Challenge string
	CreatedAt, ExpiresAt   time.Time
	// RedeemedAt is zero until the code is redeemed.
	RedeemedAt time.Time
}

// RefreshToken is one refresh token of a family.
type RefreshToken struct {
	Hash   []byte
	Family int64
	// Parent is the hash of the token this one replaced, empty for a first one.
	Parent []byte
	// Network is the network of its first use.
	Network   string
	CreatedAt time.Time
	// UsedAt is when it was first used, zero before.
	UsedAt time.Time
	// DiesAt is zero until a successor was used.
	DiesAt time.Time
	// ParentDiesAt is the parent's DiesAt, zero if the parent is no longer stored. It is read only.
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

// Device is a device without a browser that waits for a user with one.
type Device struct {
	Hash []byte
	// UserCode is the code that the user types.
	UserCode   string
	App        int64
	Client     string
	Parameters string
	// Network and NetworkBlock are those for which the device is counted, as with an AuthorizationRequest.
	Network, NetworkBlock, State string
	// Family is the token family that resulted, 0: none yet.
	Family int64
	// PolledAt is when the device last polled, and Interval the time it must wait between polls, in whole seconds.
	PolledAt             time.Time
	Interval             time.Duration
	CreatedAt, ExpiresAt time.Time
}

// OAuthClientPlace is a place in the list of an app's clients; the zero value is its beginning.
type OAuthClientPlace struct {
	At     time.Time
	Client string
}

// OAuthClient is a runtime client: it registered itself, its metadata was fetched, or a backend created it.
type OAuthClient struct {
	App int64
	// Client is its client_id.
	Client string
	// Content is its configuration as JSON, in the form of a declared client.
	Content string
	// Fingerprint is the hash of the metadata of a client that all registrations with equal metadata share, nil for
	// others.
	Fingerprint []byte
	// Manager is the hash of the token that manages the client, nil if there is none.
	Manager []byte
	// ByBackend reports that a backend created it: such a client is trusted, and kept even if it is never used.
	ByBackend bool
	// Network is the network (IPv4 /24, IPv6 /48) that registered the client, and after its first use the network of the
	// first grant. It is "" if unknown, and for a backend's client.
	Network string
	// UpdatedAt is when the content last changed, zero if unknown.
	CreatedAt, UpdatedAt time.Time
	// UsedAt is when a user last authorized it, to the day, zero: never.
	UsedAt time.Time
	// FreshUntil is until when fetched metadata is valid, zero for a client whose metadata was not fetched.
	FreshUntil time.Time
}

// UnusedClientFor is how long a runtime client that no backend created is kept if it is never used.
const UnusedClientFor = 24 * time.Hour

// IdleClientFor is how long a runtime client that no backend created is kept after its last authorization. All its
// tokens end long before.
const IdleClientFor = 90 * 24 * time.Hour

// GrantKeptFor is how long a grant is kept after its last authorization if it has no tokens.
const GrantKeptFor = 365 * 24 * time.Hour

// Logout is an ended sign-in of which a client must be notified.
type Logout struct {
	App           int64
	Client        string
	User, Session int64
}

// RefreshBounds are how many refresh tokens of a family are kept, the newest of each sort.
type RefreshBounds struct {
	// Used bounds the used tokens, Unused the unused ones older than YoungSince, and Young the other unused ones.
	Used, Unused, Young int
	YoungSince          time.Time
}

// Stated returns the authentication context class reference that the family's tokens state.
func (f TokenFamily) Stated() string {
	if f.StatedACR != "" {
		return f.StatedACR
	}
	level, _ := f.Proven()
	return level.ACR()
}

// Proven returns the level and the authentication methods of a family. A family of an earlier version has one factor.
func (f TokenFamily) Proven() (level assurance.Level, amr []string) {
	if level, known := assurance.ParseACR(f.ACR); known {
		return level, f.AMR
	}
	return assurance.OneFactor, assurance.Proofs{}.With(assurance.Method(f.Method), f.AuthenticatedAt).AMR()
}
