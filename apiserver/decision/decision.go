// Package decision serves the decision API: may this credential make this request now? An application asks by POST
// /v1/authz/check, a gateway by the convention that it supports (forward.go), Envoy by ext_authz (extauthz.go). Each
// handler calls decide, which authenticates the credential, then evaluates permissions, then limits. A refusal consumes
// no limit.
package decision

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/reference"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

// Options configures an API.
type Options struct {
	Snapshots     *snapshot.Follower
	Authenticator *credential.Authenticator
	Limiter       *limits.Limiter
	// People reads the runtime keys for explanations.
	People people.Store
	// Tokens reads access tokens of OAuth apps.
	Tokens *bearer.AccessTokens
	// MaxStaleness is how long the snapshot may be stale before decisions get a 503; 0 means no bound.
	MaxStaleness time.Duration
	Clock        func() time.Time
	Log          logr.Logger
	Metrics      *httpapi.Metrics
	Registry     prometheus.Registerer
	// AnyDeployment allows decisions without a deployment although several deployments are served.
	AnyDeployment bool
	// Journal records samples of decisions; nil records none.
	Journal *Journal
	// Tracer makes a span of each decision; nil makes none.
	Tracer *tracing.Tracer
}

// API serves decisions.
type API struct {
	Options
	cache     *decisionCache
	attempts  *credential.Attempts
	outcomes  *outcomes
	decisions sync.Pool
	document  *openapi.Document
	pages     *reference.Pages
}

// New returns an API.
func New(opts Options) (*API, error) {
	document, err := openapi.LoadDecision()
	if err != nil {
		return nil, err
	}
	pages, err := reference.New([]reference.Document{{Name: "Decisions", Page: reference.Page, JSON: "/openapi.json"}})
	if err != nil {
		return nil, err
	}
	for path := range handlers {
		opts.Metrics.Expect(path)
	}
	remembered := newDecisionCache(maxCacheBytes)
	opts.Registry.MustRegister(remembered)
	attempts := opts.Authenticator.Attempts
	if attempts == nil {
		attempts = credential.NewAttempts()
	}
	return &API{
		Options: opts, cache: remembered, attempts: attempts, outcomes: newOutcomes(opts.Registry),
		decisions: sync.Pool{New: func() any { return &decision{} }}, document: document, pages: pages,
	}, nil
}

// Evicted returns how many cached credentials were evicted.
func (a *API) Evicted() uint64 { return a.cache.evicted() }

// question is the input of a decision.
type question struct {
	// credential is the presented credential of the kind, "" for none.
	credential string
	kind       kind
	// scope selects the accepted credentials.
	scope scope
	// audience is the caller's resource, "" if it does not name one.
	audience string
	method   string
	// path is the path as the client sent it.
	path   string
	client netip.Addr
	// peer is the address of the caller, which may choose the client's address itself.
	peer netip.Addr
	// permissions must all be granted.
	permissions []string
	// wanted is what the user of the credential must have proven.
	wanted assurance.Wanted
}

// reason is why a request is refused.
type reason string

const (
	permissionDenied reason = "permission_denied"
	rateLimited      reason = "rate_limited"
	// insufficientProof: the user must show a stronger or more recent proof (RFC 9470).
	insufficientProof reason = "insufficient_user_authentication"
)

// decision is the result of a question.
type decision struct {
	allowed bool
	reason  reason
	subject *subject
	limits  engine.Result
	// missing is the first required permission that is not granted.
	missing string
	// challenge is the value of WWW-Authenticate for insufficientProof.
	challenge string
}

// refusal returns a refusal as an error response.
func (v *decision) refusal() *apierror.Error {
	refused := apierror.New(v.status(), "%s", v.message())
	if v.reason == insufficientProof {
		refused.Header = http.Header{"Www-Authenticate": {v.challenge}}
	}
	return refused
}

// status returns the HTTP status of a decision.
func (v *decision) status() int {
	switch v.reason {
	case permissionDenied:
		return http.StatusForbidden
	case insufficientProof:
		return http.StatusUnauthorized
	case rateLimited:
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// message returns a refusal as a sentence.
func (v *decision) message() string {
	switch v.reason {
	case permissionDenied:
		return "the credential lacks the permission " + v.missing + ": grant it to the key and to its app"
	case insufficientProof:
		return assurance.InsufficientMessage
	case rateLimited:
		return "the limit " + v.limits.Rules[v.limits.Blocked].Rule.Text + " is used up: try again after the number of seconds in Retry-After"
	}
	return ""
}

// decide evaluates a question, within a span if tracing is on. Errors: a 400, 401, 429 (too many failed attempts) or
// 503.
func (a *API) decide(ctx context.Context, q *question, v *decision) error {
	if a.Tracer.On() {
		return a.decideTraced(ctx, q, v)
	}
	return a.evaluate(ctx, q, v)
}

// evaluate is decide without the span.
func (a *API) evaluate(ctx context.Context, q *question, v *decision) error {
	s := a.Snapshots.Current()
	if err := credential.Fresh(a.Snapshots, a.MaxStaleness); err != nil {
		return err
	}
	if q.scope.deployment.none() && !a.AnyDeployment && s.Deployments() > 1 {
		return errDeploymentRequired()
	}
	path, err := engine.CanonicalPath(q.path)
	if err != nil {
		refused := apierror.New(http.StatusBadRequest, "%s", err.Error())
		refused.Code = pathRefused
		return refused
	}
	if v.subject, err = a.authenticate(ctx, s, q); err != nil {
		return err
	}
	v.allowed, v.reason, v.limits.Rules = true, "", v.limits.Rules[:0]
	for _, permission := range q.permissions {
		if !v.subject.principal.Grants(permission) {
			v.allowed, v.reason, v.missing = false, permissionDenied, permission
			a.outcomes.denied.Inc()
			return nil
		}
	}
	if !q.wanted.Met(v.subject.acr, v.subject.provenAt, a.Clock()) {
		v.allowed, v.reason, v.challenge = false, insufficientProof, q.wanted.Challenge()
		a.outcomes.insufficient.Inc()
		return nil
	}
	a.Limiter.Decide(ctx, &v.subject.binding, q.method, path, engine.AddressOf(q.client), &v.limits)
	if !v.limits.Allowed {
		v.allowed, v.reason = false, rateLimited
		a.outcomes.limited.Inc()
		return nil
	}
	a.outcomes.allowed.Inc()
	return nil
}

// pathRefused is the error code of a path that has no canonical form. Gateways get it with the status that their
// convention supports.
const pathRefused = "PATH_REFUSED"

// authenticate returns the subject of a question's credential. A cached credential needs no other lookup under the same
// configuration.
func (a *API) authenticate(ctx context.Context, s *snapshot.Snapshot, q *question) (*subject, error) {
	if q.credential == "" {
		a.outcomes.unauthenticated.Inc()
		return nil, apierror.Unauthorized()
	}
	found, err := a.find(ctx, s, q)
	if err == nil && q.scope.admits(found, q.kind) {
		return found, nil
	}
	if err == nil {
		err = apierror.InvalidToken()
	}
	switch apierror.Of(err).Status {
	case http.StatusUnauthorized:
		if !errors.Is(err, credential.ErrExpired) {
			a.attempts.Failed(q.client, q.peer)
		}
		a.outcomes.unauthenticated.Inc()
	case http.StatusTooManyRequests:
		a.outcomes.unauthenticated.Inc()
	default:
		a.outcomes.unavailable.Inc()
	}
	return nil, err
}

func (a *API) find(ctx context.Context, s *snapshot.Snapshot, q *question) (*subject, error) {
	switch q.kind {
	case kindAccessToken:
		return a.byAccessToken(ctx, s, q.credential, q.audience, q.client)
	case kindSession:
		return a.bySession(ctx, s, q.credential, q.client)
	}
	digest, fits := apikey.DigestOf(q.credential)
	if !fits {
		return nil, apierror.InvalidToken()
	}
	now := a.Clock()
	known := a.cache.get(digest, s)
	if known != nil && known.principal.Declared != nil {
		if !known.live(now) || !known.principal.Declared.Credential.AllowsFrom(q.client) {
			return nil, apierror.InvalidToken()
		}
		return known, nil
	}
	given, held := a.Authenticator.Keys.Cached(digest)
	if known != nil && held && known.principal.Runtime == given {
		if !known.live(now) {
			return nil, apierror.InvalidToken()
		}
		a.Authenticator.Keys.Used(given, now)
		return known, nil
	}
	key, err := apikey.Read(q.credential) // not before: a cached credential was read when it was cached
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	if _, declared := credential.Declared(s, key); !declared && !held && a.attempts.TooMany(q.client, q.peer) {
		return nil, credential.TooManyAttempts()
	}
	principal, err := a.Authenticator.ByAPIKey(ctx, s, key, q.client)
	if err != nil {
		return nil, err
	}
	return a.remember(s, digest, principal)
}

// remember binds a principal to its limits and caches it.
func (a *API) remember(s *snapshot.Snapshot, digest apikey.Digest, principal *credential.Principal) (*subject, error) {
	binding, err := a.Limiter.Bind(s, principal)
	if missing := (*limits.MissingError)(nil); errors.As(err, &missing) {
		return nil, apierror.Unavailable(err, "the credential's limits are not known here yet: try again")
	}
	if err != nil {
		return nil, err
	}
	found := newSubject(s, principal, binding)
	a.cache.put(digest, found)
	return found, nil
}
