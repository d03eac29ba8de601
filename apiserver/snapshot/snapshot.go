// Package snapshot holds the configuration in memory, with an index for each lookup that requests need. A Snapshot
// never changes. A change of the store makes a new snapshot that shares the unchanged parts, so readers never block and
// always see one consistent state.
package snapshot

import (
	"encoding/binary"
	"net"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// Entry is one document, decoded.
type Entry struct {
	store.Owner
	Generation int64
	// Deployment is the "namespace/name" of the deployment the entry belongs to.
	Deployment string
	ID         int64
	Key        string
	Meta       document.Meta
	// Content is a pointer to the kind's type of package document, or to an App, Client, Tool or Agent.
	Content any
	// Body is the served JSON of a RateLimitScheme without its first member, deployment_id; nil for other kinds.
	Body []byte
	// refersTo are the identities that the content refers to.
	refersTo []store.Identity
}

// Key is an accepted API key: its entry and its verifier.
type Key struct {
	Entry    *Entry
	Content  *document.APIKey
	Verifier *document.Verifier
	// Credential is the key's permissions and address ranges.
	Credential Credential
}

// Snapshot is the configuration at one position of the feed.
type Snapshot struct {
	indexes
	position store.Position
	// deployments is how many IdentityDeployments there are.
	deployments int
	// tools is the state of all AI tools.
	tools *generation
	// prepared caches registered clients, which are rows and not documents.
	prepared *preparedClients
	// next is closed when a newer snapshot is current.
	next chan struct{}
}

func empty() *Snapshot {
	s := &Snapshot{tools: &generation{}, prepared: newPreparedClients(), next: make(chan struct{})}
	for _, index := range s.all() {
		index.begin()
		index.commit()
	}
	return s
}

// Position returns the feed position of the snapshot.
func (s *Snapshot) Position() store.Position { return s.position }

// Len returns the number of documents.
func (s *Snapshot) Len() int { return s.entries.tree.Len() }

// Get returns the entry of an identity.
func (s *Snapshot) Get(id store.Identity) (*Entry, bool) { return s.entries.Get(identityKey(id)) }

// Deployment returns a deployment by its "namespace/name".
func (s *Snapshot) Deployment(name string) (*Entry, bool) {
	namespace, name, _ := strings.Cut(name, "/")
	return s.Get(store.Identity{Kind: v1alpha1.KindIdentityDeployment, Namespace: namespace, Name: name})
}

// BySlug returns the entry of a kind in a deployment by its natural key.
func (s *Snapshot) BySlug(kind, deployment, slug string) (*Entry, bool) {
	return s.slugs.Get(joined(kind, deployment, slug))
}

// ByHost returns the deployment that declares a host.
func (s *Snapshot) ByHost(host string) (*Entry, bool) { return s.hosts.Get([]byte(host)) }

// AppByHost returns the OAuth app that issues tokens under a host of its own.
func (s *Snapshot) AppByHost(host string) (*Entry, bool) { return s.appAt(host, "") }

// AppByPath returns the OAuth app that issues tokens under a path of a host, such as "oauth/portal".
func (s *Snapshot) AppByPath(host, path string) (*Entry, bool) {
	if path == "" {
		return nil, false
	}
	return s.appAt(host, path)
}

// appAt returns the app whose issuer has a host and a path. While a change of the issuer is announced, the app still
// has the previous issuer, even if the declared hosts differ already. Under a host that a deployment declares, appAt
// returns only apps of that deployment, and only with a path.
func (s *Snapshot) appAt(host, path string) (*Entry, bool) {
	app, found := s.issuing.Get(joined(host, path))
	if !found {
		return nil, false
	}
	owner, owned := s.ByHost(host)
	return app, !owned || path != "" && owner.Deployment == app.Deployment
}

// AppByIssuer returns the OAuth app that issues tokens under an issuer.
func (s *Snapshot) AppByIssuer(issuer string) (*Entry, bool) {
	app, found := s.issuing.Get(issuingKey(issuer))
	if !found || ContentOf[document.OAuthApp](app).Issuer != issuer {
		return nil, false
	}
	_, rest, _ := strings.Cut(issuer, "://")
	host, path, _ := strings.Cut(rest, "/")
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return s.appAt(host, path)
}

// APIKey returns the accepted API key with a public id.
func (s *Snapshot) APIKey(publicID string) (*Key, bool) { return s.keys.Get([]byte(publicID)) }

// KeyOf returns the current key of an APIKey's entry.
func (s *Snapshot) KeyOf(e *Entry) (*Key, bool) {
	content := ContentOf[document.APIKey](e)
	if len(content.Verifiers) == 0 {
		return nil, false
	}
	return s.APIKey(content.Verifiers[0].ID)
}

// Issuer returns the declared token issuer with an issuer URL ("" for the Kubernetes API) and an audience.
func (s *Snapshot) Issuer(issuer, audience string) (*Issuer, bool) {
	return s.issuers.Get(joined(issuer, audience))
}

// Count returns how many entries of a kind a deployment has.
func (s *Snapshot) Count(kind, deployment string) int {
	count, _ := s.counts.Get(joined(kind, deployment))
	return count
}

// Deployments returns how many deployments are served.
func (s *Snapshot) Deployments() int { return s.deployments }

// State identifies one state of all entries of a deployment. Snapshots share it until one of them changes.
type State generation

// StateOf returns the state of a deployment, nil for one that does not exist.
func (s *Snapshot) StateOf(deployment string) *State {
	state, _ := s.states.Get([]byte(deployment))
	return state
}

// CountActiveAgents returns how many agents of a deployment are active.
func (s *Snapshot) CountActiveAgents(deployment string) int {
	count, _ := s.counts.Get(joined(v1alpha1.KindAIAgent, deployment, activeCount))
	return count
}

// ByID returns the entry of a kind with an id, if it belongs to the deployment.
func (s *Snapshot) ByID(kind, deployment string, id int64) (*Entry, bool) {
	e, found := s.ids.Get(idKey(kind, id))
	if !found || e.Deployment != deployment {
		return nil, false
	}
	return e, true
}

// unread names a document that cannot be read.
type unread struct {
	deployment string
	id         int64
}

// Declares reports whether the store has a document of a kind in a deployment, although it may not be served because it
// cannot be read.
func (s *Snapshot) Declares(kind, deployment string, id int64) (found bool) {
	if _, found = s.ByID(kind, deployment, id); found {
		return true
	}
	s.unread.WithPrefix(append(joined(kind), 0), func(u unread) bool {
		found = u == unread{deployment, id}
		return !found
	})
	return found
}

// Scopes returns the scopes of an OAuth app, in the order of their values.
func (s *Snapshot) Scopes(app *Entry) []*Entry {
	return scopesIn(&s.slugs, app)
}

// List calls visit for the entries of a kind in a deployment, newest first, until it returns false.
func (s *Snapshot) List(kind, deployment string, visit func(*Entry) bool) {
	s.ordered.WithPrefix(append(joined(kind, deployment), 0), visit)
}

// ListAll calls visit for the entries of a kind in all deployments, until it returns false.
func (s *Snapshot) ListAll(kind string, visit func(*Entry) bool) {
	s.ordered.WithPrefix(append(joined(kind), 0), visit)
}

// Referrers returns the entries that refer to an identity.
func (s *Snapshot) Referrers(id store.Identity) []*Entry {
	return referrersIn(&s.referrers, id)
}

// ContentOf returns an entry's content. The entry must be of the kind with that content type.
func ContentOf[T any](e *Entry) *T { return e.Content.(*T) }

// Superseded is closed when a newer snapshot is current.
func (s *Snapshot) Superseded() <-chan struct{} { return s.next }

// joined returns the parts with a NUL between them, in one allocation: every request looks up several.
func joined(parts ...string) []byte {
	size := len(parts)
	for _, part := range parts {
		size += len(part)
	}
	key := make([]byte, 0, size)
	for i, part := range parts {
		if i > 0 {
			key = append(key, 0)
		}
		key = append(key, part...)
	}
	return key
}

func identityKey(id store.Identity) []byte { return joined(id.Kind, id.Namespace, id.Name) }

// activeCount is the part of a count's key that selects active agents.
const activeCount = "active"

func idKey(kind string, id int64) []byte {
	return binary.BigEndian.AppendUint64(append(joined(kind), 0), uint64(id))
}

// orderKey sorts by creation time, newest first, then by id, highest first. Both are inverted, because a tree is walked
// in ascending order of its keys.
func orderKey(e *Entry) []byte {
	key := append(joined(e.Kind, e.Deployment), 0)
	key = binary.BigEndian.AppendUint64(key, ^uint64(e.Meta.CreatedAt.UnixMicro()))
	return binary.BigEndian.AppendUint64(key, ^uint64(e.ID))
}
