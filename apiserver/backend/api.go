// Package backend serves the backend API: one listener with the same order of checks for every request. It writes
// configuration to the custom resources, and users' rows to the store.
package backend

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/events/sequencer"
	"github.com/cardea-iam/cardea/apiserver/events/webhooks"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/queries"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

// Options are the dependencies and settings of an API.
type Options struct {
	Snapshots *snapshot.Follower
	// Kubernetes is the client for writes.
	Kubernetes Kubernetes
	// LiveReads limits reads of resources for their conditions; nil: this API's own limit.
	LiveReads *LiveReads
	// Keys generates the keys of connections; nil: this API's own.
	Keys *connections.Keys
	// Queries bounds the time of analytics; nil: this API's own bound.
	Queries *queries.Queries
	// Authenticator authenticates the caller of a request.
	Authenticator *credential.Authenticator
	// Limiter limits the requests of API keys by their schemes.
	Limiter *limits.Limiter
	// Tools are the tools of agents.
	Tools *toolset.Sets
	// Callers identifies the callers of agents' tools.
	Callers *caller.Resolver
	// CallTool performs a call of an agent's tool.
	CallTool func(*httpapi.Exchange, *http.Request, toolset.Call) (*backendapi.ToolCallResult, error)
	// MaxStaleness is the age of the snapshot beyond which authenticated requests get a 503; 0: no bound.
	MaxStaleness time.Duration
	Clock        func() time.Time
	Log          logr.Logger
	Metrics      *httpapi.Metrics
	// People is the store of users, organizations, analytics and the audit of every write.
	People people.Store
	// Events lets requests wait for events; nil: no request waits.
	Events *sequencer.Worker
	// TestWebhook sends the example of a type of events to a webhook endpoint.
	TestWebhook func(ctx context.Context, deployment string, endpoint int64, entry events.Entry) (webhooks.Tested, error)
	// WakeWebhooks, if set, is called with a deployment whose endpoints have something to send.
	WakeWebhooks func(deployment string)
	// Hasher hashes the passwords of users that backends create.
	Hasher *password.Hasher
	// Keyring seals the mails to users and binds temporary codes; it may be empty.
	Keyring *seal.Keyring
	// OnEnqueue, if set, is called after messages to users were committed.
	OnEnqueue func()
	// FactorsRemoved, if set, is called with a kind of factors (totp, sms, passkey) and how many were removed.
	FactorsRemoved func(kind string, n int)
	// Random is the source of ids and salts.
	Random io.Reader
	// OnImported, if set, is called with the deployment of each completed import that has imported rows.
	OnImported func(deployment string)

	// patience is how long a write waits until this server applies it; 0: syncPatience.
	patience time.Duration
}

// API implements the operations of the OpenAPI document.
type API struct {
	Options
	writer   *writer
	bindings *limits.Bindings
	// reads are the turns of requests that read events.
	reads *egress.Slots
	// codes binds temporary codes.
	codes *verification.Binder
	// builtIn are the permissions that the operations require, sorted.
	builtIn []string
	// started is when this server began to count decisions of rules.
	started time.Time
}

// New returns the handler of the backend listener.
func New(opts Options) (http.Handler, error) {
	document, err := openapi.Load()
	if err != nil {
		return nil, err
	}
	opts.LiveReads = cmp.Or(opts.LiveReads, NewLiveReads(opts.Clock))
	opts.Queries = cmp.Or(opts.Queries, queries.New())
	opts.Keys = cmp.Or(opts.Keys, connections.NewKeys(opts.Clock))
	api := &API{Options: opts, started: opts.Clock().UTC().Truncate(time.Microsecond), bindings: limits.NewBindings(opts.Limiter), codes: verification.NewBinder(opts.Keyring), reads: egress.NewSlots(eventReads, opts.Clock), writer: &writer{
		kubernetes: patient{opts.Kubernetes, egress.NewSlots(writeBounds, opts.Clock)}, snapshots: opts.Snapshots, patience: cmp.Or(opts.patience, syncPatience),
	}}
	pipeline, err := newPipeline(api)
	if err != nil {
		return nil, err
	}
	documented, served := document.Routes(), api.operations()
	for _, needs := range documented {
		api.builtIn = append(api.builtIn, needs.Permissions...)
	}
	slices.Sort(api.builtIn)
	api.builtIn = slices.Compact(api.builtIn)
	for pattern, needs := range documented {
		serve, found := served[pattern]
		if !found {
			return nil, fmt.Errorf("%s is documented and not served", pattern)
		}
		pipeline.handle(pattern, needs, serve)
	}
	if len(served) != len(documented) {
		return nil, fmt.Errorf("%d operations are served, and %d documented", len(served), len(documented))
	}
	return pipeline, pipeline.handlePages(document)
}

// operations maps each documented operation to its implementation. The document says what each requires of a request.
func (a *API) operations() map[string]operation {
	return map[string]operation{
		"GET /analytics":              getAnalytics,
		"GET /analytics/export":       exportAnalytics,
		"GET /analytics/verification": verifyAnalytics,

		"GET /audit": listAudit,

		"GET /events":              listEvents,
		"GET /events/types":        listEventTypes,
		"GET /events/types/{type}": getEventType,
		"GET /events/{event_id}":   getEvent,

		"GET /webhooks/endpoints":                                    listWebhookEndpoints,
		"GET /webhooks/endpoints/{endpoint_id}":                      getWebhookEndpoint,
		"GET /webhooks/endpoints/{endpoint_id}/deliveries":           listWebhookDeliveries,
		"GET /webhooks/deliveries/{delivery_id}":                     getWebhookDelivery,
		"POST /webhooks/endpoints/{endpoint_id}/replay":              replayWebhookDeliveries,
		"GET /webhooks/endpoints/{endpoint_id}/replays":              listWebhookReplays,
		"GET /webhooks/endpoints/{endpoint_id}/replays/{task_id}":    getWebhookReplay,
		"DELETE /webhooks/endpoints/{endpoint_id}/replays/{task_id}": cancelWebhookReplay,
		"POST /webhooks/endpoints/{endpoint_id}/test":                testWebhookEndpoint,
		"POST /webhooks/endpoints/{endpoint_id}/reactivate":          reactivateWebhookEndpoint,

		"GET /decisions/summary": summarizeDecisions,

		"GET /resources": listResources,

		"GET /api-auth/rate-limit-schemes":           listSchemes,
		"POST /api-auth/rate-limit-schemes":          createScheme,
		"GET /api-auth/rate-limit-schemes/{slug}":    getScheme,
		"PATCH /api-auth/rate-limit-schemes/{slug}":  updateScheme,
		"DELETE /api-auth/rate-limit-schemes/{slug}": deleteScheme,

		"GET /api-auth/apps":                          listAuthApps,
		"POST /api-auth/apps":                         createAuthApp,
		"GET /api-auth/apps/{slug}":                   getAuthApp,
		"PATCH /api-auth/apps/{slug}":                 updateAuthApp,
		"DELETE /api-auth/apps/{slug}":                deleteAuthApp,
		"GET /api-auth/apps/{slug}/keys":              listKeys,
		"POST /api-auth/apps/{slug}/keys":             createKey,
		"GET /api-auth/apps/{slug}/keys/{id}":         getKey,
		"PATCH /api-auth/apps/{slug}/keys/{id}":       updateKey,
		"POST /api-auth/apps/{slug}/keys/{id}/rotate": rotateKey,
		"POST /api-auth/apps/{slug}/keys/{id}/revoke": revokeKey,

		"GET /imports/{file}":          getImport,
		"POST /imports/{file}/batches": importBatch,

		"GET /oauth/apps":                                                                      listOAuthApps,
		"GET /oauth/apps/{oauth_app_slug}":                                                     getOAuthApp,
		"PATCH /oauth/apps/{oauth_app_slug}/scopes/{scope}":                                    updateScope,
		"POST /oauth/apps/{oauth_app_slug}/scopes/{scope}/archive":                             archiveScope,
		"POST /oauth/apps/{oauth_app_slug}/scopes/{scope}/unarchive":                           unarchiveScope,
		"GET /oauth/apps/{oauth_app_slug}/clients":                                             listOAuthClients,
		"POST /oauth/apps/{oauth_app_slug}/clients":                                            createOAuthClient,
		"PATCH /oauth/apps/{oauth_app_slug}/clients/{oauth_client_id}":                         updateOAuthClient,
		"DELETE /oauth/apps/{oauth_app_slug}/clients/{oauth_client_id}":                        deleteOAuthClient,
		"POST /oauth/apps/{oauth_app_slug}/clients/{oauth_client_id}/rotate-secret":            rotateOAuthClientSecret,
		"GET /oauth/apps/{oauth_app_slug}/clients/{oauth_client_id}/grants":                    listGrantsOfOAuthClient,
		"POST /oauth/apps/{oauth_app_slug}/clients/{oauth_client_id}/grants/{grant_id}/revoke": revokeOAuthGrant,
		"GET /oauth/apps/{oauth_app_slug}/grants":                                              listOAuthGrants,
		"POST /oauth/apps/{oauth_app_slug}/grants/{grant_id}/revoke":                           revokeOAuthGrant,
		"GET /oauth/apps/{oauth_app_slug}/signing-keys":                                        listOAuthSigningKeys,
		"POST /oauth/apps/{oauth_app_slug}/signing-keys/rotate":                                rotateOAuthSigningKeys,
		"PATCH /deployments/{deployment_id}/oauth/apps/{oauth_app_slug}/scopes/{scope}":        updateScopeOfDeployment,

		"GET /ai-tools":                    listTools,
		"GET /ai/tools":                    listTools,
		"GET /jwt-templates":               listTemplates,
		"GET /jwt-templates/{template_id}": getTemplate,
		"GET /ai-tools/{tool_id}":          getTool,
		"GET /ai/tools/{tool_id}":          getToolMerged,
		"GET /ai-agents":                   listAgents,
		"GET /ai/agents":                   listAgentsByOffset,
		"GET /ai/agents/{agent_id}/tools":  listToolsOfAgent,

		"GET /ai/mcp-servers":                          listMCPServers,
		"GET /ai/agents/{agent_id}/mcp":                getMCPServer,
		"GET /ai/agents/{agent_id}/analytics":          getAgentAnalytics,
		"GET /ai/tool-calls":                           listToolCalls,
		"GET /ai/tool-calls/{tool_call_id}":            getToolCall,
		"POST /ai/agents/{agent_id}/tools/{tool}/call": callTool,
		"GET /ai/agents/{agent_id}/tool-definitions":   listToolDefinitions,
		"GET /ai/tool-approvals":                       listToolApprovals,

		"GET /settings/b2b-settings":   getB2BSettings,
		"GET /settings/b2b":            getB2BSettings,
		"PATCH /settings/b2b-settings": updateB2BSettings,
		"PATCH /settings/b2b":          updateB2BSettings,

		"GET /users":                                listUsers,
		"POST /users":                               createUser,
		"GET /users/{user_id}":                      getUser,
		"PATCH /users/{user_id}":                    updateUser,
		"DELETE /users/{user_id}":                   deleteUser,
		"PUT /users/{user_id}/password":             setPassword,
		"DELETE /users/{user_id}/password":          removePassword,
		"GET /users/{user_id}/sessions":             listUserSessions,
		"POST /users/{user_id}/sessions/revoke-all": revokeUserSessions,

		"GET /users/{user_id}/second-factors":              getUserFactors,
		"DELETE /users/{user_id}/second-factors/totp/{id}": removeUserAuthenticator,
		"DELETE /users/{user_id}/passkeys/{id}":            removeUserPasskey,
		"POST /users/{user_id}/second-factors/reset":       resetUserFactors,
		"POST /users/{user_id}/temporary-code":             createTemporaryCode,

		"GET /users/{user_id}/identities":         listUserIdentities,
		"DELETE /users/{user_id}/identities/{id}": removeUserIdentity,

		"GET /settings/social-connections":                listSocialConnections,
		"GET /users/{user_id}/social-connections":         listUserSocialConnections,
		"DELETE /users/{user_id}/social-connections/{id}": removeUserIdentity,

		"GET /organizations/{organization_id}/setup-links":                    listSetupLinks,
		"POST /organizations/{organization_id}/setup-links":                   createSetupLink,
		"DELETE /organizations/{organization_id}/setup-links/{setup_link_id}": deleteSetupLink,

		"GET /connections":                          listConnections,
		"POST /connections":                         createConnection,
		"PATCH /connections/{connection_id}":        updateConnection,
		"DELETE /connections/{connection_id}":       deleteConnection,
		"GET /connections/{connection_id}":          getConnection,
		"GET /connections/{connection_id}/failures": listConnectionFailures,

		"GET /directories":                                     listDirectories,
		"POST /directories":                                    createDirectory,
		"GET /directories/{directory_id}":                      getDirectory,
		"PATCH /directories/{directory_id}":                    updateDirectory,
		"DELETE /directories/{directory_id}":                   deleteDirectory,
		"POST /directories/{directory_id}/tokens":              createDirectoryToken,
		"DELETE /directories/{directory_id}/tokens/{token_id}": deleteDirectoryToken,
		"GET /directories/{directory_id}/users":                listDirectoryUsers,

		"GET /organizations":                                          listOrganizations,
		"POST /organizations":                                         createOrganization,
		"GET /organizations/{organization_id}/domains":                listDomains,
		"POST /organizations/{organization_id}/domains":               addDomain,
		"PATCH /organizations/{organization_id}/domains/{domain_id}":  updateDomain,
		"DELETE /organizations/{organization_id}/domains/{domain_id}": removeDomain,
		"POST /organizations/{organization_id}/members":               addOrganizationMember,
		"DELETE /organizations/{organization_id}/members/{user_id}":   removeOrganizationMember,
	}
}
