package decision

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/store"
)

// subject is an accepted credential under one state of the configuration, with the prepared parts of its responses.
type subject struct {
	// under is the state of the configuration: only its position, so that no old state is kept in memory.
	under     store.Position
	principal *credential.Principal
	binding   limits.Binding
	// oauthApp is the slug of the app that issued an access token, "" for other credentials.
	oauthApp string
	// expires is when the credential ends, zero for never.
	expires time.Time
	// evaluated is when an access token was evaluated. It is zero for other credentials, which depend only on the
	// configuration.
	evaluated time.Time
	// acr and provenAt are what the credential states about its user (RFC 9470); "" for API keys and clients' own tokens.
	acr      string
	provenAt time.Time
	// identity, permissions and metadata are JSON parts of the response.
	identity, permissions, metadata []byte
	// The identity headers, each as the values of a header.
	keyID, app, deployment, permissionList, owner []string
	// envoy are the identity headers as fields of Envoy's response. It is nil for a long list of permissions; envoyFields
	// and writeIdentity then build it for each response.
	envoy []byte

	shares.Item[apikey.Digest]
}

func (s *subject) live(now time.Time) bool { return s.expires.IsZero() || now.Before(s.expires) }

// identity is the identity of a credential in responses. Ids that do not apply are omitted.
type identity struct {
	KeyID          string `json:"key_id"`
	DeploymentID   string `json:"deployment_id"`
	AppSlug        string `json:"app_slug"`
	KeyName        string `json:"key_name"`
	OwnerUserID    string `json:"owner_user_id,omitempty"`
	OrganizationID string `json:"organization_id,omitempty"`
	WorkspaceID    string `json:"workspace_id,omitempty"`
}

// The values of principal_type in the metadata.
const (
	typeAPIKey       = "api_key"
	typeSessionToken = "session_token"
	typeAccessToken  = "oauth_access_token"
)

func newSubject(s *snapshot.Snapshot, p *credential.Principal, binding limits.Binding) *subject {
	who := identity{KeyID: p.KeyID, DeploymentID: ids.Format(p.Deployment.ID), AppSlug: p.App.Key}
	found := &subject{under: s.Position(), principal: p, binding: binding}
	metadata := json.RawMessage("{}")
	switch {
	case p.Declared != nil:
		who.KeyName = p.Declared.Content.Name
		if expires := p.Declared.Verifier.ExpiresAt; expires != nil {
			found.expires = *expires
		}
	case p.Runtime != nil:
		who.KeyName, found.expires = p.Runtime.Name, p.Runtime.ExpiresAt
		who.OwnerUserID, who.OrganizationID, who.WorkspaceID = idOrNone(p.Runtime.OwnerUserID), idOrNone(p.Runtime.OrganizationID), idOrNone(p.Runtime.WorkspaceID)
		if p.Runtime.Metadata != nil {
			metadata = p.Runtime.Metadata
		}
	}
	found.describe(who, p.Permissions(), metadata)
	return found
}

// newSessionSubject is newSubject for a session's token.
func newSessionSubject(s *snapshot.Snapshot, token *credential.SessionToken, binding limits.Binding) *subject {
	found := &subject{under: s.Position(), principal: token.Principal, binding: binding, expires: token.ExpiresAt, acr: token.ACR, provenAt: token.ProvenAt}
	found.describe(identity{
		DeploymentID: ids.Format(token.Principal.Deployment.ID), OwnerUserID: token.Principal.Subject,
		OrganizationID: token.Organization, WorkspaceID: token.Workspace,
	}, token.Principal.Permissions(), json.RawMessage(`{"principal_type":"`+typeSessionToken+`"}`))
	return found
}

// describe prepares the parts of responses that do not change.
func (s *subject) describe(who identity, permissions []string, metadata json.RawMessage) {
	s.identity, _ = json.Marshal(who) // strings cannot fail
	s.permissions, _ = json.Marshal(permissions)
	s.metadata = metadata
	s.keyID, s.app, s.deployment, s.owner = []string{who.KeyID}, []string{who.AppSlug}, []string{who.DeploymentID}, []string{who.OwnerUserID}
	if len(s.permissions) <= longPermissions {
		s.permissionList = []string{strings.Join(permissions, ",")}
		s.envoy = s.envoyFields()
	}
}

// longPermissions is the length, in bytes, above which a list of permissions is stored only as JSON. Each response then
// builds the headers with the list.
const longPermissions = 1 << 10

// permissionValues returns the list of permissions as a header's values.
func (s *subject) permissionValues() []string {
	if s.permissionList != nil {
		return s.permissionList
	}
	return []string{strings.Join(s.principal.Permissions(), ",")}
}

// envoyFields returns the identity headers as fields of Envoy's response.
func (s *subject) envoyFields() (fields []byte) {
	if s.envoy != nil {
		return s.envoy
	}
	header := http.Header{}
	s.writeIdentity(header)
	for name, values := range header {
		fields = appendHeaderOption(fields, 2, name, values[0])
	}
	return fields
}

// size returns an upper estimate of a subject's memory, in bytes.
func (s *subject) size() int64 {
	const ofSubject, ofPermission = 1024, 40
	size := ofSubject + cap(s.identity) + cap(s.permissions) + cap(s.metadata) + cap(s.envoy)
	for _, values := range [][]string{s.keyID, s.app, s.deployment, s.permissionList, s.owner} {
		for _, value := range values {
			size += len(value)
		}
	}
	if s.principal.Declared == nil { // a declared key shares its permissions with the configuration
		size += len(s.permissions) + ofPermission*(1+bytes.Count(s.permissions, []byte(`,`)))
	}
	return int64(size)
}

func idOrNone(id int64) string {
	if id == 0 {
		return ""
	}
	return ids.Format(id)
}

// decisionCache caches accepted credentials, in at most maxCacheBytes with an equal share for each deployment. An entry
// of another state of the configuration is not used.
type decisionCache struct {
	shards [cacheShards]cacheShard
}

const (
	cacheShards = 64
	// maxCacheBytes bounds the memory: about 55,000 keys with few permissions.
	maxCacheBytes = 80 << 20
)

type cacheShard struct {
	sync.RWMutex
	known *shares.Set[apikey.Digest, *subject]
}

func newDecisionCache(maxBytes int64) *decisionCache {
	s := &decisionCache{}
	for i := range s.shards {
		s.shards[i].known = shares.New[apikey.Digest, *subject](shares.Bounds{Bytes: maxBytes / cacheShards})
	}
	return s
}

// Describe implements prometheus.Collector.
func (s *decisionCache) Describe(to chan<- *prometheus.Desc) {
	to <- cachedCredentials
	to <- cacheBytes
}

// Collect implements prometheus.Collector.
func (s *decisionCache) Collect(to chan<- prometheus.Metric) {
	count, bytes := s.size()
	to <- prometheus.MustNewConstMetric(cachedCredentials, prometheus.GaugeValue, float64(count))
	to <- prometheus.MustNewConstMetric(cacheBytes, prometheus.GaugeValue, float64(bytes))
}

var (
	cachedCredentials = prometheus.NewDesc("cardea_decision_cached", "Credentials that are cached for decisions.", nil, nil)
	cacheBytes        = prometheus.NewDesc("cardea_decision_cache_bytes", "Memory of the credentials that are cached for decisions, in bytes.", nil, nil)
)

// size returns the number of cached credentials, and their bytes.
func (s *decisionCache) size() (count int, bytes int64) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.RLock()
		count += shard.known.Len()
		bytes += shard.known.Bytes()
		shard.RUnlock()
	}
	return count, bytes
}

// evicted returns how many credentials were evicted.
func (s *decisionCache) evicted() (sum uint64) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.RLock()
		sum += shard.known.Evicted()
		shard.RUnlock()
	}
	return sum
}

// get returns the cached credential under a state of the configuration, nil for none.
func (s *decisionCache) get(digest apikey.Digest, under *snapshot.Snapshot) *subject {
	shard := &s.shards[digest[0]%cacheShards]
	shard.RLock()
	found, _ := shard.known.Get(digest)
	shard.RUnlock()
	if found == nil || found.under != under.Position() {
		return nil
	}
	return found
}

// put caches a credential. If the cache is full, it evicts one of the deployment that exceeds its share.
func (s *decisionCache) put(digest apikey.Digest, entry *subject) {
	shard := &s.shards[digest[0]%cacheShards]
	shard.Lock()
	defer shard.Unlock()
	shard.known.Put(digest, entry, entry.principal.Deployment.Deployment, entry.size())
}
