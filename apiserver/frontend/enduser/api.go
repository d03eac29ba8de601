// Package enduser serves the end-user API: sign-up, sign-in, sessions, phone verification, organizations. One listener
// serves all deployments; the request's host selects the deployment. Every response has the envelope. Every request
// goes through the checks in this order: host, route, cookies, 415, 413, Origin, 401, assurance, body, object, state,
// limits.
package enduser

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

// Options configures an API.
type Options struct {
	Snapshots *snapshot.Follower
	Store     people.Store
	// Keyring opens secrets that the operator sealed, and seals messages in the outbox. With an empty keyring, no
	// message is sent and no token is signed.
	Keyring *seal.Keyring
	// Signer signs session tokens.
	Signer *tokensigner.Signer
	Hasher *password.Hasher
	// Providers sends requests to the identity providers of connections.
	Providers *upstream.Providers
	// Keys generates the keys of connections; nil: this API's own.
	Keys *connections.Keys
	// Evaluations admits the evaluations of messages of SAML; nil: NewEvaluations.
	Evaluations *egress.Slots
	// Domains looks the records of organizations' domains up.
	Domains *domain.Resolver
	// Proxies determine the client's address.
	Proxies credential.Proxies
	Clock   func() time.Time
	// Random is the source of tokens, codes and ids; default crypto/rand.
	Random io.Reader
	// Languages are the languages of the pages as BCP 47 tags, the default language first.
	Languages []string
	// OnEnqueue is called after a message was put into the outbox, so that the message does not wait for the
	// dispatcher's next poll.
	OnEnqueue func()
	Log       logr.Logger
	Metrics   *Metrics
}

// API serves the end-user operations.
type API struct {
	Options
	router     *httpapi.Router
	codes      *verification.Codes
	challenges *passkey.Challenges
	sso        *connection.Secrets
	// messages admits messages of SAML.
	messages *egress.Slots
}

// operations maps every operation of enduser.yaml to its function. The document declares the session that an operation
// needs, whether it writes, and its daily limit per user.
var operations = map[string]func(*call) (reply, error){
	"POST /auth/signup":                                                       signUp,
	"POST /auth/signin":                                                       signIn,
	"POST /auth/prepare-verification":                                         prepareAttempt,
	"POST /auth/attempt-verification":                                         attemptVerification,
	"POST /auth/forgot-password":                                              forgotPassword,
	"POST /auth/reset-password":                                               resetPassword,
	"GET /auth/config":                                                        getConfig,
	"POST /auth/sso/discover":                                                 discover,
	"POST /auth/sso":                                                          beginSSO,
	"GET /sso/{connection_id}/start":                                          startSSO,
	"GET /sso/{connection_id}/callback":                                       ssoCallback,
	"GET /me/identities":                                                      listIdentities,
	"DELETE /me/identities/{id}":                                              removeIdentity,
	"POST /auth/passkey-options":                                              passkeyOptions,
	"POST /auth/prepare-second-factor":                                        prepareSecondFactor,
	"POST /auth/attempt-second-factor":                                        attemptSecondFactor,
	"POST /session/reauthentication-options":                                  reauthenticationOptions,
	"GET /session/assurance":                                                  getAssurance,
	"GET /me/second-factors":                                                  listFactors,
	"PATCH /me/second-factors":                                                changeTwoStep,
	"POST /me/second-factors/totp":                                            addAuthenticator,
	"POST /me/second-factors/totp/{id}/confirm":                               confirmAuthenticator,
	"DELETE /me/second-factors/totp/{id}":                                     removeAuthenticator,
	"POST /me/second-factors/sms":                                             addTextFactor,
	"DELETE /me/second-factors/sms/{id}":                                      removeTextFactor,
	"POST /me/second-factors/recovery-codes":                                  makeRecoveryCodes,
	"GET /me/passkeys":                                                        listPasskeys,
	"POST /me/passkeys":                                                       addPasskey,
	"POST /me/passkeys/options":                                               newPasskeyOptions,
	"PATCH /me/passkeys/{id}":                                                 renamePasskey,
	"DELETE /me/passkeys/{id}":                                                removePasskey,
	"GET /session":                                                            getSession,
	"GET /session/accounts":                                                   listAccounts,
	"GET /session/authorizations/{request}":                                   readAuthorization,
	"POST /session/authorizations/{request}":                                  decideAuthorization,
	"POST /session/devices":                                                   claimUserCode,
	"GET /me/oauth-grants":                                                    listGrants,
	"DELETE /me/oauth-grants/{id}":                                            removeGrant,
	"POST /session/reauthenticate":                                            reauthenticate,
	"POST /session/token":                                                     issueToken,
	"POST /session/sign-out":                                                  signOut,
	"POST /session/switch-sign-in":                                            switchSignIn,
	"POST /session/switch-organization":                                       switchOrganization,
	"POST /session/switch-workspace":                                          switchWorkspace,
	"GET /me":                                                                 me,
	"PATCH /me":                                                               renameMe,
	"DELETE /me/account":                                                      deleteAccount,
	"POST /me/update-password":                                                updatePassword,
	"DELETE /me/password":                                                     removePassword,
	"GET /me/email-addresses":                                                 listEmails,
	"POST /me/email-addresses":                                                addEmail,
	"POST /me/email-addresses/{id}/prepare-verification":                      prepareEmail,
	"POST /me/email-addresses/{id}/attempt-verification":                      verifyEmail,
	"POST /me/email-addresses/{id}/make-primary":                              makeEmailPrimary,
	"DELETE /me/email-addresses/{id}":                                         removeEmail,
	"GET /me/signins":                                                         listOwnSignIns,
	"PATCH /me/signins/{id}/signout":                                          signOutElsewhere,
	"POST /me/signins/signout-others":                                         signOutOthers,
	"GET /me/phone-numbers":                                                   listPhones,
	"POST /me/phone-numbers":                                                  addPhone,
	"POST /me/phone-numbers/{id}/prepare-verification":                        preparePhone,
	"POST /me/phone-numbers/{id}/attempt-verification":                        verifyPhone,
	"POST /me/phone-numbers/{id}/make-primary":                                makePhonePrimary,
	"DELETE /me/phone-numbers/{id}":                                           removePhone,
	"GET /me/api-keys":                                                        listAPIKeys,
	"POST /me/api-keys":                                                       addAPIKey,
	"DELETE /me/api-keys/{id}":                                                removeAPIKey,
	"GET /me/api-key-apps":                                                    listKeyApps,
	"GET /me/tool-approvals":                                                  listApprovals,
	"GET /me/tool-approvals/{id}":                                             getApproval,
	"POST /me/tool-approvals/{id}/approve":                                    approveCall,
	"POST /me/tool-approvals/{id}/deny":                                       denyCall,
	"GET /me/organization-memberships":                                        listOrganizationMemberships,
	"DELETE /me/organization-memberships/{id}":                                leaveOrganization,
	"GET /me/workspace-memberships":                                           listWorkspaceMemberships,
	"POST /organizations":                                                     createOrganization,
	"PATCH /organizations/{id}":                                               changeOrganization,
	"DELETE /organizations/{id}":                                              deleteOrganization,
	"GET /organizations/{id}/members":                                         listMembers,
	"PATCH /organizations/{id}/members/{membership_id}":                       changeMember,
	"DELETE /organizations/{id}/members/{membership_id}":                      removeMember,
	"GET /organizations/{id}/roles":                                           listRoles,
	"POST /setup/prepare-verification":                                        prepareSetup,
	"POST /setup/attempt-verification":                                        verifySetup,
	"GET /setup":                                                              getSetup,
	"GET /organizations/{id}/setup-links":                                     listSetupLinks,
	"POST /organizations/{id}/setup-links":                                    makeSetupLink,
	"DELETE /organizations/{id}/setup-links/{setup_link_id}":                  removeSetupLink,
	"GET /organizations/{id}/connections":                                     listOrganizationConnections,
	"POST /organizations/{id}/connections":                                    addOrganizationConnection,
	"GET /organizations/{id}/connections/{connection_id}":                     getOrganizationConnection,
	"PATCH /organizations/{id}/connections/{connection_id}":                   changeOrganizationConnection,
	"DELETE /organizations/{id}/connections/{connection_id}":                  removeOrganizationConnection,
	"GET /organizations/{id}/connections/{connection_id}/failures":            listOrganizationConnectionFailures,
	"GET /organizations/{id}/directories":                                     listOrganizationDirectories,
	"POST /organizations/{id}/directories":                                    addOrganizationDirectory,
	"GET /organizations/{id}/directories/{directory_id}":                      getOrganizationDirectory,
	"PATCH /organizations/{id}/directories/{directory_id}":                    changeOrganizationDirectory,
	"DELETE /organizations/{id}/directories/{directory_id}":                   removeOrganizationDirectory,
	"POST /organizations/{id}/directories/{directory_id}/tokens":              makeDirectoryToken,
	"DELETE /organizations/{id}/directories/{directory_id}/tokens/{token_id}": removeDirectoryToken,
	"GET /organizations/{id}/domains":                                         listDomains,
	"POST /organizations/{id}/domains":                                        addDomain,
	"DELETE /organizations/{id}/domains/{domain_id}":                          removeDomain,
	"POST /organizations/{id}/domains/{domain_id}/verify":                     verifyDomain,
	"GET /organizations/{id}/workspaces":                                      listWorkspaces,
	"GET /organizations/{id}/invitations":                                     listInvitations,
	"POST /organizations/{id}/invitations":                                    invite,
	"POST /organizations/invitations/accept":                                  acceptInvitation,
	"DELETE /organizations/{id}/invitations/{invitation_id}":                  revokeInvitation,
	"POST /organizations/{id}/invitations/{invitation_id}/resend":             resendInvitation,
	"POST /organizations/invitations/lookup":                                  lookUpInvitation,
	"PATCH /workspaces/{id}":                                                  renameWorkspace,
	"GET /workspaces/{id}/members":                                            listWorkspaceMembers,
	"POST /workspaces/{id}/members":                                           addWorkspaceMember,
	"PATCH /workspaces/{id}/members/{membership_id}":                          changeWorkspaceMember,
	"DELETE /workspaces/{id}/members/{membership_id}":                         removeWorkspaceMember,
	"POST /workspaces":                                                        createWorkspace,
}

// public maps each operation that reads no session and sets no cookie to its function.
var public = map[string]func(*call) error{
	"GET /.well-known/jwks.json":                   keySet,
	"GET /.well-known/webauthn":                    relatedOrigins,
	"GET /.well-known/webhook-keys.json":           webhookKeys,
	"POST /sso/{connection_id}/callback":           ssoPost,
	"POST /sso/{connection_id}/backchannel-logout": backchannelLogout,
	"POST /sso/{connection_id}/acs":                samlResponse,
	"POST /sso/{connection_id}/slo":                samlLogout,
	"GET /sso/{connection_id}/slo":                 samlLogoutReturn,
	"GET /sso/{connection_id}/metadata":            samlMetadata,
	"GET /sso/{connection_id}/request":             samlForm,
}

// New returns the handler of the end-user listener. It fails if an operation of enduser.yaml has no function, or a
// function has no operation.
func New(opts Options) (http.Handler, error) {
	document, err := openapi.LoadEndUser()
	if err != nil {
		return nil, err
	}
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Keys == nil {
		opts.Keys = connections.NewKeys(opts.Clock)
	}
	if opts.Evaluations == nil {
		opts.Evaluations = NewEvaluations(opts.Clock)
	}
	if opts.OnEnqueue == nil {
		opts.OnEnqueue = func() {}
	}
	api := &API{
		Options: opts, codes: &verification.Codes{Binder: verification.NewBinder(opts.Keyring), BudgetSpent: opts.Metrics.BudgetExhausted}, challenges: passkey.NewChallenges(opts.Keyring),
		sso: connection.NewSecrets(opts.Keyring), messages: egress.NewSlots(messageBounds, opts.Clock),
	}
	api.router = httpapi.New(api.unrouted)
	routes := document.Routes()
	for pattern, needs := range routes {
		if err := api.handle(pattern, needs); err != nil {
			return nil, err
		}
	}
	if served := len(operations) + len(public); served != len(routes) {
		return nil, fmt.Errorf("%d end-user operations are served, and %d documented", served, len(routes))
	}
	return api, nil
}

// handle registers the function of an operation. The functions of operations that use no session are in public, all
// others in operations. An operation that writes for signed-in users must declare its daily limit.
func (a *API) handle(pattern string, needs openapi.Route) error {
	if needs.Write && needs.Session >= openapi.SignedIn && needs.DailyLimit == 0 {
		return fmt.Errorf("%s writes: declare x-cardea-daily-limit in enduser.yaml, a number or none", pattern)
	}
	if needs.Session == openapi.NoSession {
		serve, found := public[pattern]
		if !found {
			return fmt.Errorf("%s needs no session, and is not in the table of public operations", pattern)
		}
		a.route(pattern, serve)
		return nil
	}
	serve, found := operations[pattern]
	if !found {
		return fmt.Errorf("%s is documented and not served", pattern)
	}
	a.route(pattern, func(c *call) error { return c.run(needs, serve) })
	return nil
}

// route registers a function under its method and path.
func (a *API) route(pattern string, serve func(*call) error) {
	a.Metrics.Expect(pattern)
	a.router.HandleFunc(pattern, func(_ http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		c.r = r // with its pattern and path values
		if err := serve(c); err != nil {
			c.Refuse(err)
		}
	})
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}
