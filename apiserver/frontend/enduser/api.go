// Package enduser serves the end-user API: sign-up, sign-in, sessions, phone verification, organizations. One listener serves every
// deployment; the request's host says which. Every answer is in the envelope, and every request goes through the same order of
// checks: host, route, cookies, 415, 413, Origin, 401, body, object, state, limits.
package enduser

import (
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

// Options are what an API needs.
type Options struct {
	Snapshots *snapshot.Follower
	Store     people.Store
	// Keyring opens what the operator sealed, and seals what waits in the outbox. It may be empty: nothing is sent or signed then.
	Keyring *seal.Keyring
	Hasher  *password.Hasher
	// Proxies tell the client's address.
	Proxies credential.Proxies
	Clock   func() time.Time
	// Random makes tokens, codes and ids; default crypto/rand.
	Random io.Reader
	// Languages are those of the pages, as BCP 47 writes them, the one of everybody else first.
	Languages []string
	// Posted is called after a message was put into the outbox, so that it need not wait for the dispatcher's next look.
	Posted  func()
	Log     logr.Logger
	Metrics *Metrics
}

// API serves the end-user operations.
type API struct {
	Options
	router  *httpapi.Router
	codes   *verification.Codes
	signers sync.Map // parsed signing keys by their id
}

// endpoint is one operation.
type endpoint struct {
	serve func(*call) (reply, error)
	// signedIn requires a session with an active sign-in.
	signedIn bool
	// fresh requires that the active sign-in proved itself within the deployment's bound.
	fresh bool
	// changes reports that the operation writes in a transaction, which can also write down that the session is in use.
	changes bool
	// perDay is how often a day one user's requests may succeed; 0: othersADay, where the operation changes something for who is signed in.
	perDay int
	// public, in place of serve, answers by itself: without envelope, session and cookies.
	public func(*call) error
}

// endpoints is the one list of operations.
var endpoints = map[string]endpoint{
	"POST /auth/signup":                                           {serve: signUp, changes: true},
	"POST /auth/signin":                                           {serve: signIn, changes: true},
	"POST /auth/prepare-verification":                             {serve: prepareAttempt, changes: true},
	"POST /auth/attempt-verification":                             {serve: attemptVerification, changes: true},
	"POST /auth/forgot-password":                                  {serve: forgotPassword, changes: true},
	"POST /auth/reset-password":                                   {serve: resetPassword, changes: true},
	"GET /auth/config":                                            {serve: getConfig},
	"GET /session":                                                {serve: getSession},
	"GET /session/accounts":                                       {serve: listAccounts, signedIn: true},
	"GET /session/authorizations/{request}":                       {serve: readAuthorization},
	"POST /session/authorizations/{request}":                      {serve: decideAuthorization, changes: true, perDay: othersADay},
	"POST /session/devices":                                       {serve: claimUserCode, signedIn: true, changes: true},
	"GET /me/oauth-grants":                                        {serve: listGrants, signedIn: true},
	"DELETE /me/oauth-grants/{id}":                                {serve: removeGrant, signedIn: true, changes: true},
	"POST /session/reauthenticate":                                {serve: reauthenticate, signedIn: true, changes: true, perDay: ownADay},
	"POST /session/token":                                         {serve: issueToken, signedIn: true},
	"GET /.well-known/jwks.json":                                  {public: keySet},
	"POST /session/sign-out":                                      {serve: signOut, signedIn: true, changes: true, perDay: unbounded},
	"POST /session/switch-sign-in":                                {serve: switchSignIn, signedIn: true, changes: true, perDay: unbounded},
	"POST /session/switch-organization":                           {serve: switchOrganization, signedIn: true, changes: true, perDay: unbounded},
	"POST /session/switch-workspace":                              {serve: switchWorkspace, signedIn: true, changes: true, perDay: unbounded},
	"GET /me":                                                     {serve: me, signedIn: true},
	"PATCH /me":                                                   {serve: renameMe, signedIn: true, changes: true, perDay: ownADay},
	"DELETE /me/account":                                          {serve: deleteAccount, signedIn: true, fresh: true, changes: true},
	"POST /me/update-password":                                    {serve: updatePassword, signedIn: true, changes: true, perDay: ownADay},
	"DELETE /me/password":                                         {serve: removePassword, signedIn: true, changes: true},
	"GET /me/email-addresses":                                     {serve: listEmails, signedIn: true},
	"POST /me/email-addresses":                                    {serve: addEmail, signedIn: true, fresh: true, changes: true},
	"POST /me/email-addresses/{id}/prepare-verification":          {serve: prepareEmail, signedIn: true, changes: true},
	"POST /me/email-addresses/{id}/attempt-verification":          {serve: verifyEmail, signedIn: true, changes: true},
	"POST /me/email-addresses/{id}/make-primary":                  {serve: makeEmailPrimary, signedIn: true, fresh: true, changes: true},
	"DELETE /me/email-addresses/{id}":                             {serve: removeEmail, signedIn: true, fresh: true, changes: true},
	"GET /me/signins":                                             {serve: listOwnSignIns, signedIn: true},
	"PATCH /me/signins/{id}/signout":                              {serve: signOutElsewhere, signedIn: true, changes: true, perDay: ownADay},
	"POST /me/signins/signout-others":                             {serve: signOutOthers, signedIn: true, changes: true, perDay: ownADay},
	"GET /me/phone-numbers":                                       {serve: listPhones, signedIn: true},
	"POST /me/phone-numbers":                                      {serve: addPhone, signedIn: true, fresh: true, changes: true},
	"POST /me/phone-numbers/{id}/prepare-verification":            {serve: preparePhone, signedIn: true, changes: true},
	"POST /me/phone-numbers/{id}/attempt-verification":            {serve: verifyPhone, signedIn: true, changes: true},
	"POST /me/phone-numbers/{id}/make-primary":                    {serve: makePhonePrimary, signedIn: true, fresh: true, changes: true},
	"DELETE /me/phone-numbers/{id}":                               {serve: removePhone, signedIn: true, fresh: true, changes: true},
	"GET /me/api-keys":                                            {serve: listAPIKeys, signedIn: true},
	"POST /me/api-keys":                                           {serve: addAPIKey, signedIn: true, fresh: true, changes: true, perDay: ownADay},
	"DELETE /me/api-keys/{id}":                                    {serve: removeAPIKey, signedIn: true, changes: true, perDay: ownADay},
	"GET /me/api-key-apps":                                        {serve: listKeyApps, signedIn: true},
	"GET /me/organization-memberships":                            {serve: listOrganizationMemberships, signedIn: true},
	"DELETE /me/organization-memberships/{id}":                    {serve: leaveOrganization, signedIn: true, changes: true},
	"GET /me/workspace-memberships":                               {serve: listWorkspaceMemberships, signedIn: true},
	"POST /organizations":                                         {serve: createOrganization, signedIn: true, changes: true, perDay: createdADay},
	"PATCH /organizations/{id}":                                   {serve: changeOrganization, signedIn: true, changes: true, perDay: ownADay},
	"DELETE /organizations/{id}":                                  {serve: deleteOrganization, signedIn: true, fresh: true, changes: true, perDay: createdADay},
	"GET /organizations/{id}/members":                             {serve: listMembers, signedIn: true},
	"PATCH /organizations/{id}/members/{membership_id}":           {serve: changeMember, signedIn: true, changes: true},
	"DELETE /organizations/{id}/members/{membership_id}":          {serve: removeMember, signedIn: true, changes: true},
	"GET /organizations/{id}/roles":                               {serve: listRoles, signedIn: true},
	"GET /organizations/{id}/workspaces":                          {serve: listWorkspaces, signedIn: true},
	"GET /organizations/{id}/invitations":                         {serve: listInvitations, signedIn: true},
	"POST /organizations/{id}/invitations":                        {serve: invite, signedIn: true, changes: true},
	"POST /organizations/invitations/accept":                      {serve: acceptInvitation, signedIn: true, changes: true},
	"DELETE /organizations/{id}/invitations/{invitation_id}":      {serve: revokeInvitation, signedIn: true, changes: true},
	"POST /organizations/{id}/invitations/{invitation_id}/resend": {serve: resendInvitation, signedIn: true, changes: true},
	"POST /organizations/invitations/lookup":                      {serve: lookUpInvitation},
	"PATCH /workspaces/{id}":                                      {serve: renameWorkspace, signedIn: true, changes: true, perDay: ownADay},
	"GET /workspaces/{id}/members":                                {serve: listWorkspaceMembers, signedIn: true},
	"POST /workspaces/{id}/members":                               {serve: addWorkspaceMember, signedIn: true, changes: true},
	"PATCH /workspaces/{id}/members/{membership_id}":              {serve: changeWorkspaceMember, signedIn: true, changes: true},
	"DELETE /workspaces/{id}/members/{membership_id}":             {serve: removeWorkspaceMember, signedIn: true, changes: true},
	"POST /workspaces":                                            {serve: createWorkspace, signedIn: true, changes: true, perDay: ownADay},
}

// New returns the handler of the end-user listener.
func New(opts Options) http.Handler {
	if opts.Random == nil {
		opts.Random = rand.Reader
	}
	if opts.Posted == nil {
		opts.Posted = func() {}
	}
	api := &API{Options: opts, codes: &verification.Codes{Binder: verification.NewBinder(opts.Keyring), BudgetSpent: opts.Metrics.BudgetExhausted}}
	api.router = httpapi.New(api.unrouted)
	for pattern, e := range endpoints {
		opts.Metrics.Expect(pattern)
		api.router.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { api.serve(w, r, e) })
	}
	return api
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

func withCall(ctx context.Context, c *call) context.Context {
	return context.WithValue(ctx, callKey{}, c)
}
