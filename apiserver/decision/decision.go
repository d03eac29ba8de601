// Package decision serves the decision API: may this credential make this request now? An application asks by POST
// /v1/authz/check, a gateway by the convention that it supports (forward.go), Envoy by ext_authz (extauthz.go). All
// of them call judge: it authenticates, then evaluates permissions, then limits. A refusal consumes no limit.
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
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

// Options are what an API needs.
type Options struct {
	Snapshots     *snapshot.Follower
	Authenticator *credential.Authenticator
	Limiter       *limits.Limiter
	// People finds the runtime keys that an explanation is asked about.
	People people.Store
	// Tokens reads access tokens of OAuth apps.
	Tokens *bearer.AccessTokens
	// MaxStaleness turns decisions into 503 when the snapshot was not known to be current for longer; 0: never.
	MaxStaleness time.Duration
	Clock        func() time.Time
	Log          logr.Logger
	Metrics      *httpapi.Metrics
	Registry     prometheus.Registerer
	// AnyDeployment answers decisions that name no deployment also where several deployments are served.
	AnyDeployment bool
	// Journal takes samples of decisions, nil: none are kept.
	Journal *Journal
	// Tracer makes a span of each decision; nil: none.
	Tracer *tracing.Tracer
}

// API decides.
type API struct {
	Options
	subjects *subjects
	attempts *credential.Attempts
	outcomes *outcomes
	verdicts sync.Pool
	document *openapi.Document
	pages    *reference.Pages
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
	remembered := newSubjects(subjectBytes)
	opts.Registry.MustRegister(remembered)
	attempts := opts.Authenticator.Attempts
	if attempts == nil {
		attempts = credential.NewAttempts()
	}
	return &API{
		Options: opts, subjects: remembered, attempts: attempts, outcomes: newOutcomes(opts.Registry),
		verdicts: sync.Pool{New: func() any { return &verdict{} }}, document: document, pages: pages,
	}, nil
}

// Evicted returns how many remembered credentials were dropped for want of room.
func (a *API) Evicted() uint64 { return a.subjects.evicted() }

// question is what a decision is asked for.
type question struct {
	// credential is what was presented, of the kind; "" is none.
	credential string
	kind       kind
	// scope says whose credentials are accepted.
	scope scope
	// audience is the resource that the asker is, "" where it does not say.
	audience string
	method   string
	// path is as the client sent it.
	path   string
	client netip.Addr
	// peer asks the question: it may choose the client itself.
	peer netip.Addr
	// permissions must all be granted.
	permissions []string
}

// reason is why a request is refused.
type reason string

const (
	permissionDenied reason = "permission_denied"
	rateLimited      reason = "rate_limited"
)

// verdict is a decision.
type verdict struct {
	allowed bool
	reason  reason
	subject *subject
	limits  engine.Result
	// missing is the first permission that was asked for and is not granted.
	missing string
}

// status is the HTTP status that says the same.
func (v *verdict) status() int {
	switch v.reason {
	case permissionDenied:
		return http.StatusForbidden
	case rateLimited:
		return http.StatusTooManyRequests
	}
	return http.StatusOK
}

// message says a refusal in a sentence.
func (v *verdict) message() string {
	switch v.reason {
	case permissionDenied:
		return "the credential lacks the permission " + v.missing + ": grant it to the key and to its app"
	case rateLimited:
		return "the limit " + v.limits.Rules[v.limits.Blocked].Rule.Text + " is used up: try again after the seconds that Retry-After says"
	}
	return ""
}

// judge evaluates a question. Errors: a 400, 401, 429 (too many bad keys) or 503.
func (a *API) judge(ctx context.Context, q *question, v *verdict) error {
	if a.Tracer.On() {
		return a.judgeTraced(ctx, q, v)
	}
	return a.reach(ctx, q, v)
}

// reach is judge without its span.
func (a *API) reach(ctx context.Context, q *question, v *verdict) error {
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
	a.Limiter.Decide(ctx, &v.subject.binding, q.method, path, engine.AddressOf(q.client), &v.limits)
	if !v.limits.Allowed {
		v.allowed, v.reason = false, rateLimited
		a.outcomes.limited.Inc()
		return nil
	}
	a.outcomes.allowed.Inc()
	return nil
}

// pathRefused is the code of a path that is refused: proxies turn it into what they understand.
const pathRefused = "PATH_REFUSED"

// authenticate finds who presents a credential, by the shortest way: a key that was met under the same configuration is known.
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
	key, err := apikey.Read(q.credential)
	if err != nil {
		return nil, apierror.InvalidToken()
	}
	now := a.Clock()
	known := a.subjects.get(key.Digest(), s)
	if known != nil && known.principal.Declared != nil {
		if !known.live(now) || !known.principal.Declared.Credential.AllowsFrom(q.client) {
			return nil, apierror.InvalidToken()
		}
		return known, nil
	}
	given, held := a.Authenticator.Keys.Cached(key)
	if known != nil && held && known.principal.Given == given {
		if !known.live(now) {
			return nil, apierror.InvalidToken()
		}
		a.Authenticator.Keys.Used(given, now)
		return known, nil
	}
	if _, declared := credential.Declared(s, key); !declared && !held && a.attempts.TooMany(q.client, q.peer) {
		return nil, credential.TooManyAttempts()
	}
	principal, err := a.Authenticator.ByAPIKey(ctx, s, key, q.client)
	if err != nil {
		return nil, err
	}
	return a.meet(s, key.Digest(), principal)
}

// meet prepares a principal for its further requests.
func (a *API) meet(s *snapshot.Snapshot, digest apikey.Digest, principal *credential.Principal) (*subject, error) {
	binding, err := a.Limiter.Bind(s, principal)
	if missing := (*limits.MissingError)(nil); errors.As(err, &missing) {
		return nil, apierror.Unavailable(err, "the credential's limits are not known here yet: try again")
	}
	if err != nil {
		return nil, err
	}
	found := newSubject(s, principal, binding)
	a.subjects.put(digest, found)
	return found, nil
}
