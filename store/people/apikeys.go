package people

import (
	"context"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
)

// APIKey is a key that an application gave away: all that is kept of it.
type APIKey struct {
	ID int64
	// PublicID is unique in the install, "" for a key that was imported.
	PublicID string
	// Digest is that of the whole key, unique in the install.
	Digest apikey.Digest
	// Prefix and Suffix are what people recognise a key by.
	Prefix, Suffix string
	// App is the slug of the APIAuthApp it belongs to.
	App, Name   string
	Permissions []string
	// Metadata is an object in JSON, nil: none.
	Metadata []byte
	// Owner is the user it acts for, 0: none. Organization and Workspace are the membership of the owner's that bounds it, 0: none; a
	// workspace's key has its organization as well.
	Owner, Organization, Workspace int64
	// Scheme is the slug of its own RateLimitScheme, "": the app's.
	Scheme string
	// ExpiresAt is zero for a key that never expires.
	ExpiresAt time.Time
	// RetiresAt is when a key ends that another replaced, zero for one that none did.
	RetiresAt time.Time
	// LastUsedAt is exact to about a minute, zero: never.
	LastUsedAt           time.Time
	CreatedAt, UpdatedAt time.Time
	// RevokedAt is zero for a key that was not revoked. One that was is dead, whatever the clock says.
	RevokedAt     time.Time
	RevokedReason string
	// RotatedFrom is the key this one replaced, 0: none.
	RotatedFrom int64
}

// EndsAt is when the key stops being accepted by the clock, zero: never.
func (k APIKey) EndsAt() time.Time {
	if k.ExpiresAt.IsZero() || !k.RetiresAt.IsZero() && k.RetiresAt.Before(k.ExpiresAt) {
		return k.RetiresAt
	}
	return k.ExpiresAt
}

// Active reports whether the key is accepted at a time, whatever its app and its owner are.
func (k APIKey) Active(now time.Time) bool {
	ends := k.EndsAt()
	return k.RevokedAt.IsZero() && (ends.IsZero() || now.Before(ends))
}

// KeyID returns the id by which decisions, the audit and logs name a key: its public id, or the row's id of an imported key, which has none.
func KeyID(publicID string, row int64) string {
	if publicID == "" {
		return ids.Format(row)
	}
	return publicID
}

// FindAPIKey returns the key of a deployment that has a public id, or else a row id. It reports false for text that is neither.
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
	// Owner and Organization select a user's and an organization's keys, 0: everybody's.
	Owner, Organization int64
	// ActiveAt leaves out what is not active at a time, zero: nothing.
	ActiveAt time.Time
	// Before leaves out the key of an id and all that were made after it, 0: nothing.
	Before int64
}

// APIKeys are the keys that applications give away. A key dies with its owner, and with the membership it is bound to. What changes a key
// that is there also writes the feed of changed keys, in the same transaction.
type APIKeys interface {
	// InsertAPIKey fails with ErrDuplicate where the id, the public id or the digest is taken, the last two by any deployment.
	InsertAPIKey(APIKey) error
	APIKey(id int64) (APIKey, bool, error)
	// APIKeyByPublicID finds no imported key: those have no public id.
	APIKeyByPublicID(publicID string) (APIKey, bool, error)
	LockAPIKey(id int64) (APIKey, bool, error)
	// ListAPIKeys returns up to limit keys, the newest, by their ids, first.
	ListAPIKeys(filter APIKeyFilter, limit int) ([]APIKey, error)
	// UpdateAPIKey writes name, permissions, metadata, scheme, when it expires, retires and was updated, and its revocation.
	UpdateAPIKey(APIKey) error
	// DeleteAPIKey reports whether there was one.
	DeleteAPIKey(id int64) (bool, error)
}

// BoundKey is a key with what it is bound to, as it stands now.
type BoundKey struct {
	APIKey
	Deployment string
	// Orphaned: the owner is disabled or gone, or no member any more of what bounds the key.
	Orphaned bool
	// Role and OwnsIt are the role (0: none) and the ownership of the owner in the workspace, or else the organization, that bounds the key.
	Role   int64
	OwnsIt bool
}

// KeyPosition is a reader's place in the feed of changed keys. The tag is random for each revision, as in the feed of configuration.
type KeyPosition struct {
	Revision int64
	Tag      string
}

// KeyChanges is what a look at the feed of changed keys found.
type KeyChanges struct {
	Position KeyPosition
	// Digests are those of the keys that changed, in the order of the commits; all is set where any key may have.
	Digests []apikey.Digest
	All     bool
	// Imported reports whether the install has, or had, imported keys: before, what has not the form of a key is none.
	Imported bool
}

// KeyUse is that a key was used.
type KeyUse struct {
	Deployment string
	ID         int64
	At         time.Time
}

// ErrKeyFeedLost means that the position is not in the log of changed keys; drop every cached key.
var ErrKeyFeedLost = errors.New("the position is not in the log of changed API keys (an old reader or a restored store)")

// KeyUseEvery is the least time between two writes of when a key was used last.
const KeyUseEvery = time.Minute

// Keys is what servers ask about API keys of all deployments.
type Keys interface {
	// APIKeyByDigest finds a key by one indexed read.
	APIKeyByDigest(ctx context.Context, digest apikey.Digest) (BoundKey, bool, error)
	// KeyPosition returns the feed's newest position.
	KeyPosition(ctx context.Context) (KeyPosition, error)
	// KeyChanges returns what changed after a position, and the new position, of one moment. A change is a revocation, a rotation, an
	// update or a deletion of a key, and what happens to its owner and its membership, such as another role; a new key is none. ErrKeyFeedLost.
	KeyChanges(ctx context.Context, after KeyPosition) (KeyChanges, error)
	// KeySignals is Signals of the feed of changed keys.
	KeySignals(ctx context.Context) <-chan struct{}
	// RecordKeyUses writes when keys were used last, for each whose last use was written KeyUseEvery before or earlier.
	RecordKeyUses(ctx context.Context, uses []KeyUse) error
}
