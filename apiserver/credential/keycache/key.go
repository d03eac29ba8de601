// Package keycache finds the keys that applications gave away: rows of the store, tens of millions of them, of which a server holds those
// that are in use. What happens to a key reaches every server by a feed of the store, within a second.
package keycache

import (
	"encoding/json"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unique"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/permission"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store/people"
)

// Key is a key as it stood when it was read. It never changes; one that did is another Key.
type Key struct {
	ID int64
	// PublicID is "" for a key that was imported.
	PublicID string
	// Deployment is the "namespace/name" of the deployment it belongs to, as snapshot.Entry.Deployment.
	Deployment string
	// App is the slug of its APIAuthApp.
	App  string
	Name string
	// Permissions are the key's own; Resolve returns the effective ones.
	Permissions *Permissions
	// OwnerUserID is the user that the key acts for, 0: none. OrganizationID and WorkspaceID are the membership that
	// bounds it, 0: none.
	OwnerUserID, OrganizationID, WorkspaceID int64
	// RoleID is the role of the owner in the workspace, or else the organization, 0: none. Owner reports whether the
	// user owns it, and so has every permission there.
	RoleID int64
	Owner  bool
	// Scheme is the slug of the key's own RateLimitScheme, "": its app's.
	Scheme string
	// ExpiresAt is when the key ends, by its expiry or because another replaced it; zero: never.
	ExpiresAt time.Time
	// Revoked: dead, because it was revoked, or because its owner is disabled, gone, or no member any more.
	Revoked bool
	// Metadata is an object in JSON, nil: none.
	Metadata json.RawMessage

	digest apikey.Digest
	// readAt is the cache's time just before it was read, in nanoseconds.
	readAt int64
	shares.Item[apikey.Digest]
	// noted is the time of the last use that was noted, in microseconds.
	noted atomic.Int64
}

// Permissions are a list of permissions, shared by all keys that have the same.
type Permissions struct {
	permission.Set
	// Names are as they were given, and not to be changed.
	Names []string
}

// Live reports whether the key is accepted at a time, if its app is.
func (k *Key) Live(now time.Time) bool {
	return !k.Revoked && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Bound reports whether the key acts for a person, an organization or a workspace.
func (k *Key) Bound() bool { return k.OwnerUserID != 0 || k.OrganizationID != 0 || k.WorkspaceID != 0 }

// NewKey makes of a row what a cache would hold of it, for who looks at one key once.
func NewKey(row people.BoundKey) *Key { return newKey(row, &sharedPermissions{}, 0) }

// newKey makes of a row what is held of it. Texts that many keys share are held once.
func newKey(row people.BoundKey, shared *sharedPermissions, readAt int64) *Key {
	k := &Key{
		ID: row.ID, PublicID: row.PublicID, Deployment: unique.Make(row.Deployment).Value(), App: unique.Make(row.App).Value(), Name: row.Name,
		Permissions: shared.of(row.Permissions), OwnerUserID: row.Owner, OrganizationID: row.Organization, WorkspaceID: row.Workspace,
		RoleID: row.Role, Owner: row.OwnsIt, Scheme: unique.Make(row.Scheme).Value(), ExpiresAt: row.EndsAt(),
		Revoked: !row.RevokedAt.IsZero() || row.Orphaned, digest: row.Digest, readAt: readAt,
	}
	if len(row.Metadata) > 0 {
		k.Metadata = row.Metadata
	}
	if !row.LastUsedAt.IsZero() {
		k.noted.Store(row.LastUsedAt.UnixMicro())
	}
	return k
}

// KeyID returns the id by which decisions, the audit and logs name the key.
func (k *Key) KeyID() string { return people.KeyID(k.PublicID, k.ID) }

// size estimates what the key takes in memory, from above. Its list of permissions counts whole, though other keys may share it.
func (k *Key) size() int64 {
	const ofKey, ofPermission = 512, 40
	size := ofKey + len(k.Name) + len(k.PublicID) + len(k.Metadata)
	for _, name := range k.Permissions.Names {
		size += ofPermission + len(name)
	}
	return int64(size)
}

// sharedBytes bounds the lists that are held once.
const sharedBytes = 8 << 20

// sharedPermissions holds each list of permissions once.
type sharedPermissions struct {
	mu    sync.Mutex
	lists map[string]*Permissions
	bytes int
}

func (s *sharedPermissions) of(names []string) *Permissions {
	key := strings.Join(names, "\x00")
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, found := s.lists[key]; found {
		return known
	}
	size := 2*len(key) + 40*len(names)
	if s.bytes += size; s.lists == nil || s.bytes > sharedBytes {
		s.lists, s.bytes = map[string]*Permissions{}, size
	}
	list := &Permissions{Set: permission.NewSet(names), Names: names}
	s.lists[key] = list
	return list
}
