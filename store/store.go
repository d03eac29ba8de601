// Package store states what Cardea requires of its runtime store: config documents with their reservations, the change
// feed, and the store's identity with the operator's term. Package sqlstore implements it over SQLite and PostgreSQL;
// package storetest tests any implementation.
package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// Identity names a resource: its kind, namespace and name. A document has the identity of the resource it came from.
type Identity struct {
	Kind      string
	Namespace string
	Name      string
}

// String returns "Kind namespace/name", the form used in messages.
func (i Identity) String() string { return i.Kind + " " + i.Namespace + "/" + i.Name }

// Owner is one life of a resource: an identity and the UID that the API server assigned. A resource that is deleted and
// created again has the same identity and another UID.
type Owner struct {
	Identity
	UID string
}

// Document is the translation of one accepted resource, as servers read it.
type Document struct {
	Owner
	// Generation is metadata.generation of the resource this content was translated from. It only increases for one UID.
	Generation int64
	// Deployment is the "namespace/name" of the IdentityDeployment that the document belongs to. The document of an
	// IdentityDeployment belongs to itself.
	Deployment string
	// ID is the positive 63-bit id under which the resource is served, unique per kind.
	ID int64
	// Key is the natural key within (kind, deployment), such as a slug; "" if the kind has none.
	Key string
	// Hash is the content hash: equal hashes mean equal served content.
	Hash string
	// Payload is the versioned JSON of package document.
	Payload []byte
	// Retained marks a document whose resource was deleted with deletionPolicy Retain; it is never swept.
	Retained bool
	// Revision is the feed revision that wrote this content. It is assigned by the store.
	Revision int64
}

// The values of Put.Source.
const (
	// SourceDeclared is a resource whose spec a manager other than the management API declares.
	SourceDeclared = "declared"
	// SourceHTTP is a resource that the management API created, and whose spec no other manager declares.
	SourceHTTP = "http"
)

// Put is one write of a document with all reservations that it must hold exclusively.
type Put struct {
	Document
	// Reservations is the complete set of reservations that the document holds after the write. Its other reservations are
	// released. At most 256, each at most 512 bytes.
	Reservations []string
	// SeenUID is the UID that the writer found recorded for this identity, "" if it found no document. The write
	// succeeds only if that UID is still recorded. This compare-and-swap lets a resource that was created again take
	// over the document.
	SeenUID string
	// Displace lists owners that the writer has proven may lose their reservations: deleted from the cluster, or
	// yielding. A reservation held by one of them moves to the writer, and the displaced document is deleted with all
	// its reservations. A document of another kind is never displaced. A document in another namespace is displaced
	// only for a reservation that derives from the writer's own kind, namespace and name.
	Displace []Owner
	// Source says how the resource came into being, for the event of the write; "" for a write without an event.
	Source string
}

// Stored is what the store holds for one identity.
type Stored struct {
	// Document is the zero Document if the identity has no document.
	Document Document
	// Found reports whether there is a document.
	Found bool
	// Reservations are the document's reservations, sorted.
	Reservations []string
}

// Term is an operator's right to write: the store on which it was acquired, and its epoch there. Every write carries a
// term. The store refuses a write with ErrFenced if the store's identity or epoch differs from the term.
type Term struct {
	StoreID string
	Epoch   int64
}

// Position is a reader's place in the feed. The tag is random for each revision. With the tag, a reader detects a
// restored backup, whose revisions repeat with other content.
type Position struct {
	Revision int64
	Tag      string
}

// Change is one entry of the feed: the current document, or its deletion.
type Change struct {
	// Document has only the identity if Deleted.
	Document Document
	Deleted  bool
}

// Usage is the number of documents of a deployment, and the bytes of their payloads.
type Usage struct {
	Documents, Bytes int64
}

// Plus returns the sum of u and other.
func (u Usage) Plus(other Usage) Usage {
	return Usage{Documents: u.Documents + other.Documents, Bytes: u.Bytes + other.Bytes}
}

// Documents is the operator's side of the store. Every write checks the term in its own transaction. Concurrent writes
// may share a transaction. Each succeeds or fails by itself, and none is acknowledged before the shared commit is
// durable.
type Documents interface {
	// Stored returns the stored document of an identity with its reservations.
	Stored(ctx context.Context, id Identity) (Stored, error)
	// ReservationOwners returns the owners of the reservations. Reservations without an owner are absent.
	ReservationOwners(ctx context.Context, reservations []string) (map[string]Owner, error)
	// Owners returns the owner of every document that is not retained, in no order.
	Owners(ctx context.Context) ([]Owner, error)
	// Usage returns the usage of each deployment ("namespace/name") of a namespace, retained documents included. A
	// deployment without documents is absent.
	Usage(ctx context.Context, namespace string) (map[string]Usage, error)
	// Put writes a document and its reservations, adds one revision to the feed, and returns the revision that holds
	// the content. An equal write (same UID, generation, hash, payload, deployment, id, key and reservations, not
	// retained) changes nothing and adds no revision. Errors: ErrFenced; ErrStale (the recorded UID is not SeenUID, or
	// the recorded generation of the same UID is higher); *ReservedError; ErrInvalid; ErrUnavailable.
	Put(ctx context.Context, term Term, put Put) (int64, error)
	// Delete removes the document of an owner with its reservations and adds a revision. If there is no document, or
	// one of another UID, Delete succeeds and changes nothing. The grants of a deleted OAuthClient, or of all clients
	// of a deleted OAuthApp, end for good, even if a resource of the same name is created again. Retain keeps the
	// grants, and so does Put, also by a rebuilt cluster. Errors: ErrFenced, ErrUnavailable.
	Delete(ctx context.Context, term Term, owner Owner) error
	// Retain marks the document of an owner as retained. If there is no document, or one of another UID, Retain succeeds.
	// Errors: ErrFenced, ErrUnavailable.
	Retain(ctx context.Context, term Term, owner Owner) error
}

// Erasure deletes the users' rows of a deployment that is deleted with its data. It belongs to the operator, like
// Documents.
type Erasure interface {
	// Erase deletes up to limit users' rows in each table of a deployment ("namespace/name") and returns how many it
	// deleted; 0 means that none are left. Errors: ErrFenced, ErrUnavailable.
	Erase(ctx context.Context, term Term, deployment string, limit int) (int64, error)
}

// Tenants lets the operator find the rows that former deployments left behind.
type Tenants interface {
	// OldestUser returns the lowest id of a user in a deployment ("namespace/name"), 0 if there is none. Errors:
	// ErrUnavailable.
	OldestUser(ctx context.Context, deployment string) (int64, error)
	// OtherPasskeys returns how many passkeys of a deployment ("namespace/name") belong to each relying party other than
	// the given id, in the order of their ids. Errors: ErrUnavailable.
	OtherPasskeys(ctx context.Context, deployment, relyingParty string) ([]people.RelyingPartyCount, error)
}

// Feed is the server's side of the store.
type Feed interface {
	// Load returns every document and their feed position, from one consistent read.
	Load(ctx context.Context) ([]Document, Position, error)
	// Changes returns the changes after a position and the new position, from one consistent read. They are in revision
	// order, each identity at most once with its last state. ErrFeedLost if the position is not in the log.
	Changes(ctx context.Context, after Position) ([]Change, Position, error)
	// Signals returns a channel that receives after a commit that changed the feed, here or in another process. It is only
	// an accelerator: signals may be lost or spurious, so callers must also poll Changes. It ends with ctx.
	Signals(ctx context.Context) <-chan struct{}
}

// Terms is how an operator becomes, stays and stops being the only writer.
type Terms interface {
	// Installed returns the install that last marked the store, "" if none did. Errors: ErrSchema or ErrUnavailable.
	Installed(ctx context.Context) (string, error)
	// Acquire ends every earlier term and begins one for an install (the id of a cluster). If another install marked
	// the store, Acquire watches that install's heartbeat for the duration of patience. If the heartbeat does not
	// change, Acquire takes the store over; otherwise it returns ErrForeignInstall. The same install never waits.
	Acquire(ctx context.Context, install string, patience time.Duration) (Term, error)
	// Heartbeat records that the term's install is alive. ErrFenced if the term is no longer the store's.
	Heartbeat(ctx context.Context, term Term) error
	// Prune deletes feed entries older than the age, never the newest one. ErrFenced as with every write.
	Prune(ctx context.Context, term Term, age time.Duration) error
}

// Schema migrates and checks the tables.
type Schema interface {
	// Migrate brings the tables to this binary's schema. It only moves forward, and takes turns with other processes that
	// migrate.
	Migrate(ctx context.Context) error
	// CheckSchema returns nil if the tables are at this binary's schema or a newer one, ErrSchema if they are older
	// or missing.
	CheckSchema(ctx context.Context) error
}

// Store is the whole store. Consumers depend on the part that they use.
type Store interface {
	Documents
	Feed
	Terms
	Schema
	Erasure
	Tenants
	people.Store
	// Close ends every connection and background task. Waiting writes return ErrUnavailable.
	Close() error
}

var (
	// ErrFenced means that the writer's term is not the store's: another operator took over, or the store was replaced.
	ErrFenced = errors.New("the store is written by another operator or was replaced: this operator's term is over")
	// ErrStale means that the document changed since the writer read it; read it again.
	ErrStale = errors.New("the document changed since it was read")
	// ErrFeedLost means that the position is not in the feed's log; load everything again.
	ErrFeedLost = errors.New("the feed position is not in the log (an old reader or a restored store)")
	// ErrForeignInstall means that another live cluster writes this store.
	ErrForeignInstall = errors.New("the store belongs to another live install: give each cluster a store of its own, or stop the other operator")
	// ErrSchema means that the tables are missing or older than this binary.
	ErrSchema = errors.New("the store's schema is missing or older than this binary: run `cardea migrate`")
	// ErrInvalid means that the call breaks a bound stated in this package; the same call can never succeed.
	ErrInvalid = errors.New("the call breaks a bound of the store")
	// ErrPooled means that a pooler in transaction mode is between the server and PostgreSQL, and the store's URL does not
	// say so.
	ErrPooled = errors.New("a pooler in transaction mode is between this process and PostgreSQL: add default_query_exec_mode=exec to the store's URL, or let the pooler use session mode")
	// ErrUnavailable wraps every failure of the engine itself (connection, disk, timeout): try again later.
	ErrUnavailable = errors.New("the store is unavailable")
)

// ReservedError means that a reservation of the put belongs to another document, which the put may not displace.
type ReservedError struct {
	// Reservations maps each refused reservation to the owner that holds it.
	Reservations map[string]Owner
}

// Error names each refused reservation and its holder, in the order of the reservations.
func (e *ReservedError) Error() string {
	parts := make([]string, 0, len(e.Reservations))
	for _, key := range slices.Sorted(maps.Keys(e.Reservations)) {
		parts = append(parts, fmt.Sprintf("%s is held by %s", key, e.Reservations[key].Identity))
	}
	return strings.Join(parts, "; ")
}
