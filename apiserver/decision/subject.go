package decision

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/apiserver/authn"
	"github.com/cardea-iam/cardea/apiserver/limiter"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
)

// subject is a credential that was accepted under one state of the configuration, with all that its decisions need ready to be
// sent.
type subject struct {
	// under is the state of the configuration: its position alone, so that no old state is kept.
	under     store.Position
	principal *authn.Principal
	binding   limiter.Binding
	// expires is when the credential ends, zero: never.
	expires time.Time
	// judged is when it was found out what an access token stands for; zero for others, who are known by the configuration alone.
	judged time.Time
	// identity, permissions and metadata are JSON as it is answered.
	identity, permissions, metadata []byte
	// Of the identity headers, each in the form of a header's values.
	keyID, app, deployment, permissionList, owner []string
	// envoy are the identity headers as fields of Envoy's answer.
	envoy []byte
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

func newSubject(s *snapshot.Snapshot, p *authn.Principal, binding limiter.Binding) *subject {
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
func newSessionSubject(s *snapshot.Snapshot, token *authn.SessionToken, binding limiter.Binding) *subject {
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
	s.keyID, s.app, s.deployment = []string{who.KeyID}, []string{who.AppSlug}, []string{who.DeploymentID}
	s.permissionList, s.owner = []string{strings.Join(permissions, ",")}, []string{who.OwnerUserID}
	header := http.Header{}
	s.writeIdentity(header)
	for name, values := range header {
		s.envoy = appendHeaderOption(s.envoy, 2, name, values[0])
	}
}

func idOrNone(id int64) string {
	if id == 0 {
		return ""
	}
	return ids.Format(id)
}

// subjects remembers who was met, at most subjectShards times subjectsMost. What was met under another state of the
// configuration counts for nothing, and gives way first when somebody asks for it.
type subjects struct {
	shards [subjectShards]subjectShard
}

const (
	subjectShards = 64
	subjectsMost  = 1024
)

type subjectShard struct {
	sync.RWMutex
	known map[apikey.Digest]*subject
}

func newSubjects() *subjects {
	s := &subjects{}
	for i := range s.shards {
		s.shards[i].known = map[apikey.Digest]*subject{}
	}
	return s
}

// get returns who was met with a credential under a state of the configuration, nil if nobody was.
func (s *subjects) get(digest apikey.Digest, under *snapshot.Snapshot) *subject {
	shard := &s.shards[digest[0]%subjectShards]
	shard.RLock()
	found := shard.known[digest]
	shard.RUnlock()
	if found == nil || found.under != under.Position() {
		return nil
	}
	return found
}

// put remembers one; where there is no room, any other is forgotten.
func (s *subjects) put(digest apikey.Digest, met *subject) {
	shard := &s.shards[digest[0]%subjectShards]
	shard.Lock()
	defer shard.Unlock()
	if _, known := shard.known[digest]; !known && len(shard.known) >= subjectsMost {
		for other := range shard.known {
			delete(shard.known, other)
			break
		}
	}
	shard.known[digest] = met
}
