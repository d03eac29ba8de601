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

// subject is a credential that was accepted under one state of the configuration, with all that its decisions need ready to be
// sent.
type subject struct {
	// under is the state of the configuration: its position alone, so that no old state is kept.
	under     store.Position
	principal *credential.Principal
	binding   limits.Binding
	// oauthApp is the slug of the app that issued an access token, "" for other credentials.
	oauthApp string
	// expires is when the credential ends, zero: never.
	expires time.Time
	// evaluated is when an access token was evaluated; zero for other credentials, which the configuration alone decides.
	evaluated time.Time
	// identity, permissions and metadata are JSON as it is answered.
	identity, permissions, metadata []byte
	// Of the identity headers, each in the form of a header's values.
	keyID, app, deployment, permissionList, owner []string
	// envoy are the identity headers as fields of Envoy's answer, nil where the permissions are long: then envoyFields makes them, and
	// writeIdentity the header of the permissions.
	envoy []byte

	shares.Item[apikey.Digest]
}

func (s *subject) live(now time.Time) bool { return s.expires.IsZero() || now.Before(s.expires) }

// identity is who a credential stands for, as decisions answer it. An id that does not apply is left out.
type identity struct {
	KeyID          string `json:"key_id"`
	DeploymentID   string `json:"deployment_id"`
	AppSlug        string `json:"app_slug"`
	KeyName        string `json:"key_name"`
	OwnerUserID    string `json:"owner_user_id,omitempty"`
	OrganizationID string `json:"organization_id,omitempty"`
	WorkspaceID    string `json:"workspace_id,omitempty"`
}

// principalType is what an identity's principal is, in the metadata.
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
	case p.Given != nil:
		who.KeyName, found.expires = p.Given.Name, p.Given.ExpiresAt
		who.OwnerUserID, who.OrganizationID, who.WorkspaceID = idOrNone(p.Given.OwnerUserID), idOrNone(p.Given.OrganizationID), idOrNone(p.Given.WorkspaceID)
		if p.Given.Metadata != nil {
			metadata = p.Given.Metadata
		}
	}
	found.describe(who, p.Permissions(), metadata)
	return found
}

// newSessionSubject is newSubject for a session's token.
func newSessionSubject(s *snapshot.Snapshot, token *credential.SessionToken, binding limits.Binding) *subject {
	found := &subject{under: s.Position(), principal: token.Principal, binding: binding, expires: token.ExpiresAt}
	found.describe(identity{
		DeploymentID: ids.Format(token.Principal.Deployment.ID), OwnerUserID: token.Principal.Subject,
		OrganizationID: token.Organization, WorkspaceID: token.Workspace,
	}, token.Principal.Permissions(), json.RawMessage(`{"principal_type":"`+typeSessionToken+`"}`))
	return found
}

// describe writes the answer's lasting parts.
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

// longPermissions is the length of a list of permissions, in bytes, beyond which it is held once, and each answer makes its form.
const longPermissions = 1 << 10

// permissionValues is the list of permissions as a header's values.
func (s *subject) permissionValues() []string {
	if s.permissionList != nil {
		return s.permissionList
	}
	return []string{strings.Join(s.principal.Permissions(), ",")}
}

// envoyFields are the identity headers as fields of Envoy's answer.
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

// size estimates what a subject takes in memory, from above.
func (s *subject) size() int64 {
	const ofSubject, ofPermission = 1024, 40
	size := ofSubject + cap(s.identity) + cap(s.permissions) + cap(s.metadata) + cap(s.envoy)
	for _, values := range [][]string{s.keyID, s.app, s.deployment, s.permissionList, s.owner} {
		for _, value := range values {
			size += len(value)
		}
	}
	if s.principal.Declared == nil { // a declared key's permissions are the configuration's
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

// subjects is the decision cache: accepted credentials, in at most subjectBytes with an equal share for each
// deployment. An entry of another state of the configuration is not used.
type subjects struct {
	shards [subjectShards]subjectShard
}

const (
	subjectShards = 64
	// subjectBytes bounds the memory: about 55,000 keys with few permissions.
	subjectBytes = 80 << 20
)

type subjectShard struct {
	sync.RWMutex
	known *shares.Set[apikey.Digest, *subject]
}

func newSubjects(maxBytes int64) *subjects {
	s := &subjects{}
	for i := range s.shards {
		s.shards[i].known = shares.New[apikey.Digest, *subject](shares.Bounds{Bytes: maxBytes / subjectShards})
	}
	return s
}

// Describe implements prometheus.Collector.
func (s *subjects) Describe(to chan<- *prometheus.Desc) { to <- subjectsHeld; to <- subjectsBytes }

// Collect implements prometheus.Collector.
func (s *subjects) Collect(to chan<- prometheus.Metric) {
	held, bytes := s.held()
	to <- prometheus.MustNewConstMetric(subjectsHeld, prometheus.GaugeValue, float64(held))
	to <- prometheus.MustNewConstMetric(subjectsBytes, prometheus.GaugeValue, float64(bytes))
}

var (
	subjectsHeld  = prometheus.NewDesc("cardea_decision_cached", "Credentials remembered with their decisions' lasting parts.", nil, nil)
	subjectsBytes = prometheus.NewDesc("cardea_decision_cache_bytes", "Memory of the credentials remembered for decisions.", nil, nil)
)

// held returns how many credentials are remembered, and their bytes.
func (s *subjects) held() (count int, bytes int64) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.RLock()
		count += shard.known.Len()
		bytes += shard.known.Bytes()
		shard.RUnlock()
	}
	return count, bytes
}

// evicted returns how many credentials were dropped for want of room.
func (s *subjects) evicted() (sum uint64) {
	for i := range s.shards {
		shard := &s.shards[i]
		shard.RLock()
		sum += shard.known.Evicted()
		shard.RUnlock()
	}
	return sum
}

// get returns what is remembered of a credential under a state of the configuration, nil for nothing.
func (s *subjects) get(digest apikey.Digest, under *snapshot.Snapshot) *subject {
	shard := &s.shards[digest[0]%subjectShards]
	shard.RLock()
	found, _ := shard.known.Get(digest)
	shard.RUnlock()
	if found == nil || found.under != under.Position() {
		return nil
	}
	return found
}

// put remembers a credential. Where there is no room, another of its deployment is forgotten, if that exceeds its share.
func (s *subjects) put(digest apikey.Digest, met *subject) {
	shard := &s.shards[digest[0]%subjectShards]
	shard.Lock()
	defer shard.Unlock()
	shard.known.Put(digest, met, met.principal.Deployment.Deployment, met.size())
}
