package people

import (
	"context"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
)

// APIKey is the stored form of an API key that an application issued.
type APIKey struct {
	ID int64
	// PublicID is unique in the install, "" for a key that was imported.
	PublicID string
	// Digest is the digest of the whole key, unique in the install.
	Digest apikey.Digest
	// Prefix and Suffix let a user recognize a key.
	Prefix, Suffix string
	// App is the slug of the APIAuthApp it belongs to.
	App, Name   string
	Permissions []string
	// Metadata is an object in JSON, nil: none.
	Metadata []byte
	// Owner is the user it acts for, 0: none. Organization and Workspace are the owner's membership that bounds the key,
	// 0: none. A workspace's key has its organization as well.
	Owner, Organization, Workspace int64
	// Scheme is the slug of its own RateLimitScheme, "": the app's.
	Scheme string
	// ExpiresAt is zero for a key that never expires.
	ExpiresAt time.Time
	// RetiresAt is when a key that was replaced by another ends, zero for a key that was not replaced.
	RetiresAt time.Time
	// LastUsedAt is exact to about a minute, zero: never.
	LastUsedAt           time.Time
	CreatedAt, UpdatedAt time.Time
	// RevokedAt is zero for a key that was not revoked. A revoked key is never accepted, whatever the time is.
	RevokedAt     time.Time
	RevokedReason string
	// RotatedFrom is the key this one replaced, 0: none.
	RotatedFrom int64
}

// EndsAt returns when the key expires or retires, whichever is earlier, regardless of a revocation. Zero: never.
func (k APIKey) EndsAt() time.Time {
	if k.ExpiresAt.IsZero() || !k.RetiresAt.IsZero() && k.RetiresAt.Before(k.ExpiresAt) {
		return k.RetiresAt
	}
	return k.ExpiresAt
}

// Active reports whether the key is accepted at a time, regardless of its app and its owner.
func (k APIKey) Active(now time.Time) bool {
	ends := k.EndsAt()
	return k.RevokedAt.IsZero() && (ends.IsZero() || now.Before(ends))
}

// KeyID returns the id by which decisions, the audit and logs name a key: its public id. An imported key has no public
// id; its id is that of its row.
func KeyID(publicID string, row int64) string {
	if publicID == "" {
		return ids.Format(row)
	}
	return publicID
}

// FindAPIKey returns the deployment's key whose public id is id, or else the key whose row id is id. It reports false
// if there is neither.
func FindAPIKey(keys APIKeys, id string) (k APIKey, found bool, err error) {
	if apikey.IsID(id) {
		if k, found, err = keys.APIKeyByPublicID(id); found || err != nil {
			return k, found, err
		}
	}
	number, err := ids.Parse(id)
	if err != nil {
		return k, false, nil
	}
	return keys.APIKey(number)
}

// APIKeyFilter selects keys.
type APIKeyFilter struct {
	// App is a slug, "": of every app.
	App string
	// Owner and Organization select a user's and an organization's keys, 0: of all.
	Owner, Organization int64
	// ActiveAt leaves out keys that are not active at this time; zero: leaves out none.
	ActiveAt time.Time
	// Before leaves out the key with this id and all newer keys; 0: leaves out none.
	Before int64
}

// APIKeys are the keys that applications issue. A key is deleted with its owner, and with the membership that bounds
// it. A change of an existing key is also written to the feed of changed keys, in the same transaction.
type APIKeys interface {
	// InsertAPIKey fails with ErrDuplicate if the deployment has a key with the id, or any deployment has a key with
	// the public id or the digest.
	InsertAPIKey(APIKey) error
	APIKey(id int64) (APIKey, bool, error)
	// APIKeyByPublicID finds no imported key: those have no public id.
	APIKeyByPublicID(publicID string) (APIKey, bool, error)
	LockAPIKey(id int64) (APIKey, bool, error)
	// ListAPIKeys returns up to limit keys, the newest (the highest id) first.
	ListAPIKeys(filter APIKeyFilter, limit int) ([]APIKey, error)
	// UpdateAPIKey writes the name, permissions, metadata, scheme, the times of expiry, retirement and update, and the
	// revocation.
	UpdateAPIKey(APIKey) error
	// DeleteAPIKey reports whether there was one.
	DeleteAPIKey(id int64) (bool, error)
}

// BoundKey is a key with the current state of its owner and membership.
type BoundKey struct {
	APIKey
	Deployment string
	// Orphaned reports whether the owner is disabled or deleted, or no longer a member of the organization or workspace
	// that bounds the key.
	Orphaned bool
	// Role (0: none) and OwnsIt are the owner's role and ownership in the workspace, or else the organization, that bounds
	// the key.
	Role   int64
	OwnsIt bool
}

// KeyPosition is a reader's place in the feed of changed keys. The tag is random for each revision, as in the feed of
// configuration.
type KeyPosition struct {
	Revision int64
	Tag      string
}

// KeyChanges is the result of one read of the feed of changed keys.
type KeyChanges struct {
	Position KeyPosition
	// Digests are those of the changed keys, in the order of the commits. All is set if any key may have changed.
	Digests []apikey.Digest
	All     bool
	// Imported reports whether the install has, or had, imported keys. If it is false, only text in Cardea's key format
	// can be a key.
	Imported bool
}

// KeyUse is one use of a key.
type KeyUse struct {
	Deployment string
	ID         int64
	At         time.Time
}

// ErrKeyFeedLost means that the position is not in the log of changed keys; drop every cached key.
var ErrKeyFeedLost = errors.New("the position is not in the log of changed API keys (an old reader or a restored store)")

// KeyUseEvery is the least time between two writes of a key's last use.
const KeyUseEvery = time.Minute

// Keys gives servers access to the API keys of all deployments.
type Keys interface {
	// APIKeyByDigest finds a key by one indexed read.
	APIKeyByDigest(ctx context.Context, digest apikey.Digest) (BoundKey, bool, error)
	// KeyPosition returns the feed's newest position.
	KeyPosition(ctx context.Context) (KeyPosition, error)
	// KeyChanges returns the changes after a position and the new position, both of one moment. A change is a revocation,
	// rotation, update or deletion of a key, or a change of its owner or membership, such as another role. A new key is
	// not a change. Errors: ErrKeyFeedLost.
	KeyChanges(ctx context.Context, after KeyPosition) (KeyChanges, error)
	// KeySignals is store.Feed.Signals for the feed of changed keys.
	KeySignals(ctx context.Context) <-chan struct{}
	// RecordKeyUses writes when keys were last used, for keys whose last write is at least KeyUseEvery old.
	RecordKeyUses(ctx context.Context, uses []KeyUse) error
}
