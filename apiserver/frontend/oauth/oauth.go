// Package oauth is the authorization server of a deployment's OAuthApps: OAuth 2.1 and OpenID Connect, over the
// configuration in memory and the rows of users. Its responses have the forms of those standards, without Cardea's
// envelope. It needs neither the operator nor the Kubernetes API.
//
// An app is served under its issuer: a host of its own, or a path of its deployment's first frontend host (site.go).
// client.go authenticates clients; grant.go and the files of the grant types issue tokens.
package oauth

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/credential/jwks"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

// Options configures an authorization server.
type Options struct {
	Snapshots *snapshot.Follower
	Store     people.Store
	// Keyring opens the signing keys that the operator sealed, and seals opaque access tokens and messages.
	Keyring *seal.Keyring
	// Tokens reads access tokens.
	Tokens *bearer.AccessTokens
	// Keys fetches the keys of trusted clients.
	Keys *jwks.Cache
	// Egress is the policy for addresses of client metadata.
	Egress  *egress.Policy
	Proxies credential.Proxies
	// Authenticator authenticates API keys that introspect tokens.
	Authenticator *credential.Authenticator
	// OnEnqueue, if not nil, is called after a message was put into the outbox.
	OnEnqueue func()
	Clock     func() time.Time
	Log       logr.Logger
	Metrics   *httpapi.Metrics
	// Pages has the page that shows users what is wrong with an authorization request: /authorize?problem=<what>.
	Pages interface {
		Handler(r *http.Request) (http.Handler, bool)
	}
}

// Server serves the authorization servers of all deployments.
type Server struct {
	Options
	router *httpapi.Router
	// signers caches the signers of opened keys, by signerName.
	signers        sync.Map
	secretAttempts *credential.SecretAttempts
	documents      *documents
	redemptions    *redemptions
	refusals       *refusals
	// registeredKeys caches the keys of clients that registered themselves. The cache is separate, so that these
	// clients cannot evict the keys of declared clients.
	registeredKeys *jwks.Cache
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{Options: opts, secretAttempts: credential.NewSecretAttempts(), redemptions: newRedemptions(), refusals: newRefusals(), documents: newDocuments(opts.Egress, opts.Clock), registeredKeys: jwks.New(opts.Clock, opts.Egress, jwks.Registered())}
	s.router = httpapi.New(func(w http.ResponseWriter, r *http.Request, allow string) {
		if allow != "" {
			w.Header().Set("Allow", allow)
			writeError(w, &Error{Status: http.StatusMethodNotAllowed, Code: "invalid_request", Description: "this endpoint takes " + allow})
			return
		}
		writeError(w, &Error{Status: http.StatusNotFound, Code: "invalid_request", Description: "there is no such endpoint"})
	})
	for pattern, serve := range map[string]func(*call) error{
		"GET /.well-known/openid-configuration":       metadata,
		"GET /.well-known/oauth-authorization-server": metadata,
		"GET /jwks":                                 keySet,
		"GET " + authorizePath:                      authorize,
		"POST " + authorizePath:                     authorizeByForm,
		"POST /par":                                 push,
		"POST /device_authorization":                authorizeDevice,
		"POST /register":                            register,
		"OPTIONS /register":                         preflight,
		"GET /register/{client}":                    readRegistration,
		"PUT /register/{client}":                    rewriteRegistration,
		"DELETE /register/{client}":                 removeRegistration,
		"GET " + logoutPath:                         logOut,
		"POST " + logoutPath:                        logOutByForm,
		"POST /token":                               token,
		"POST /introspect":                          introspect,
		"POST /revoke":                              revoke,
		"GET /userinfo":                             userinfo,
		"POST /userinfo":                            userinfo,
		"OPTIONS /.well-known/openid-configuration": preflight,
		"OPTIONS /.well-known/oauth-authorization-server": preflight,
		"OPTIONS /jwks":     preflight,
		"OPTIONS /token":    preflight,
		"OPTIONS /revoke":   preflight,
		"OPTIONS /userinfo": preflight,
	} {
		if forUsers[pattern] {
			serve = withUsers(serve)
		}
		s.router.HandleFunc(pattern, s.handle(serve))
		opts.Metrics.Expect(pattern)
	}
	return s
}

// forUsers are the endpoints for grants by users. An app of a deployment without frontend hosts has none of them.
var forUsers = map[string]bool{
	"GET " + authorizePath: true, "POST " + authorizePath: true, "POST /par": true, "POST /device_authorization": true, "POST /register": true,
	"GET " + logoutPath: true, "POST " + logoutPath: true, "GET /userinfo": true, "POST /userinfo": true,
}

func withUsers(serve func(*call) error) func(*call) error {
	return func(c *call) error {
		if c.Content.FrontendURL == "" {
			return noEndpoint()
		}
		return serve(c)
	}
}

// Handler serves requests for an app.
func (s *Server) Handler(r *http.Request) (http.Handler, bool) {
	found, served := s.find(r)
	if !served {
		return nil, false
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inner := r.Clone(withApp(r.Context(), found))
		inner.URL.Path, inner.URL.RawPath = found.path, ""
		s.router.ServeHTTP(w, inner)
		r.Pattern = inner.Pattern
	}), true
}

// call is one request for an app.
type call struct {
	*Server
	*app
	httpapi.Exchange
	w   http.ResponseWriter
	r   *http.Request
	now time.Time
	// began is the count of redemptions when the request arrived.
	began uint64
	// client is the authenticated client, nil for none.
	client *consent.Client
	// named is the id of the known client that the request names, "" for none. registers reports that the request
	// registers a client.
	named     string
	registers bool
	// audited reports that the refusal was audited.
	audited bool
}

// handle returns the handler of an endpoint.
func (s *Server) handle(serve func(*call) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Server: s, app: appOf(r.Context()), r: r, began: s.redemptions.begin()}
		c.Begin(w, r, s.Metrics, s.Clock)
		c.w, c.now = &c.Recorder, c.Received.UTC().Truncate(time.Microsecond)
		defer c.End(r, c)
		if err := serve(c); err != nil {
			c.Refuse(err)
		}
	}
}

// Refuse writes the response of an error, and logs unexpected errors.
func (c *call) Refuse(err error) {
	var refused *Error
	if !errors.As(err, &refused) {
		if c.r.Context().Err() == nil {
			tracing.Logger(c.r.Context(), c.Log).Error(err, "An OAuth request failed", "route", c.r.Pattern, "app", c.Entry.Identity.String())
		}
		refused = &Error{Status: http.StatusInternalServerError, Code: "server_error", Description: "something failed here: try again"}
	}
	auditError(c, refused)
	writeError(c.w, refused)
}

// settings returns the deployment's settings.
func (a *app) settings() *document.Deployment {
	return snapshot.ContentOf[document.Deployment](a.Deployment)
}
