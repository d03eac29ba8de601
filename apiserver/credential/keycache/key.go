// Package keycache finds runtime keys. The store can have tens of millions of them as rows; a server caches the keys in
// use. A change of a key reaches every server through a feed of the store within a second.
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

// Key is a key at the time it was read. It does not change; a changed key becomes another Key.
type Key struct {
	ID int64
	// PublicID is "" for an imported key.
	PublicID string
	// Deployment is the key's deployment as "namespace/name", as in snapshot.Entry.Deployment.
	Deployment string
	// App is the slug of its APIAuthApp.
	App  string
	Name string
	// Permissions are the key's own; Resolve returns the effective ones.
	Permissions *Permissions
	// OwnerUserID is the user that the key acts for, 0 for none. OrganizationID and WorkspaceID are the membership that
	// bounds it, 0 for none.
	OwnerUserID, OrganizationID, WorkspaceID int64
	// RoleID is the role of the owner in the workspace or else in the organization, 0 for none. Owner reports whether
	// the user owns the workspace or organization, and so has every permission there.
	RoleID int64
	Owner  bool
	// Scheme is the slug of the key's own RateLimitScheme, "" for that of its app.
	Scheme string
	// ExpiresAt is when the key ends, by its expiry or by a rotation; zero means never.
	ExpiresAt time.Time
	// Revoked reports that the key was revoked, or that its owner was disabled or deleted, or is no longer a member.
	Revoked bool
	// Metadata is a JSON object, nil for none.
	Metadata json.RawMessage

	digest apikey.Digest
	// readAt is the cache's time just before the read, in nanoseconds.
	readAt int64
	shares.Item[apikey.Digest]
	// touched is the time of the last recorded use, in microseconds.
	touched atomic.Int64
}

// Permissions is a list of permissions, shared by all keys that have the same list.
type Permissions struct {
	permission.Set
	// Names are the permissions as declared. They must not be changed.
	Names []string
}

// Live reports whether the key is valid at a time, if its app is active.
func (k *Key) Live(now time.Time) bool {
	return !k.Revoked && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Bound reports whether the key acts for a user, an organization or a workspace.
func (k *Key) Bound() bool { return k.OwnerUserID != 0 || k.OrganizationID != 0 || k.WorkspaceID != 0 }

// NewKey returns the Key of a row, for a single use without a cache.
func NewKey(row people.BoundKey) *Key { return newKey(row, &sharedPermissions{}, 0) }

// newKey returns the Key of a row. Texts that many keys share are stored once.
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
		k.touched.Store(row.LastUsedAt.UnixMicro())
	}
	return k
}

// KeyID returns the id of the key in decisions, the audit and logs.
func (k *Key) KeyID() string { return people.KeyID(k.PublicID, k.ID) }

// size returns an upper estimate of the key's memory, in bytes. Its list of permissions counts fully, though other keys
// may share it.
func (k *Key) size() int64 {
	const ofKey, ofPermission = 512, 40
	size := ofKey + len(k.Name) + len(k.PublicID) + len(k.Metadata)
	for _, name := range k.Permissions.Names {
		size += ofPermission + len(name)
	}
	return int64(size)
}

// sharedBytes bounds the memory of the shared lists.
const sharedBytes = 8 << 20

// sharedPermissions stores each list of permissions once.
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
