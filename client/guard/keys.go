package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/decision"
)

// Away is what happens to requests while Cardea does not answer.
type Away int

const (
	// Refuse answers 503 with Retry-After: without a decision, no request is admitted.
	Refuse Away = iota
	// Admit lets requests through without an identity: From is nil, and no permission was checked. It is for a limiter
	// in front of public handlers. After a response that is not Cardea's, requests are still refused: it means a wrong
	// URL, not an outage.
	Admit
)

// KeysOptions configure a guard of API keys. URL is required, and Deployment unless URL names it.
type KeysOptions struct {
	// URL is the URL of the decision listener, such as http://cardea-decision.cardea-system:8082. It may end with
	// /deployments/<id> or /deployments/<namespace>/<name> in place of Deployment.
	URL string
	// Deployment is the IdentityDeployment whose keys are accepted, by its id or as "namespace/name".
	Deployment string
	// App is the slug of the APIAuthApp whose keys are accepted; absent: every app of the deployment.
	App string
	// Timeout bounds the wait for a decision; 0: one second.
	Timeout time.Duration
	// WhenAway says what happens while Cardea does not answer; absent: Refuse.
	WhenAway Away
	// ClientAddress returns the client's address, which rate limits use and to which a key may be bound. Absent: the
	// address of the connection. Behind a proxy, use Behind.
	ClientAddress func(*http.Request) netip.Addr
	// Resource returns the path that is matched with the rules. Absent: the path as the client sent it, even if a
	// router has stripped a part of it.
	Resource func(*http.Request) string
	// HTTPClient sends the requests; nil: a client that keeps connections. Redirects are not followed.
	HTTPClient *http.Client
	// Refused answers in place of the guard, such as with a page; nil: Refusal.Send.
	Refused func(http.ResponseWriter, *http.Request, *Refusal)
	// OnAway is called each time that no decision was available, for logs and metrics; nil: no call. The error
	// contains no credential.
	OnAway func(*http.Request, error)
}

// Keys lets requests of API keys through as Cardea decides.
type Keys struct {
	KeysOptions
	decisions *decision.Client
}

// maxAnswer bounds a decision's body, in bytes: metadata has at most 4 KiB.
const maxAnswer = 1 << 20

// maxPath is the longest path that Cardea decides about, in bytes.
const maxPath = 8 << 10

// maxPermissions is how many permissions one request may require.
const maxPermissions = 64

// NewKeys returns a guard of API keys. It makes no request: a service may start before Cardea.
func NewKeys(options KeysOptions) (*Keys, error) {
	if options.Deployment == "" && !strings.Contains(options.URL, "/deployments/") {
		return nil, errors.New(`guard: Deployment is missing: give the deployment's id or "namespace/name", so that other deployments' keys are refused`)
	}
	if options.Timeout < 0 {
		return nil, errors.New("guard: Timeout must not be negative; 0 is one second")
	}
	if options.Timeout == 0 {
		options.Timeout = time.Second
	}
	if options.WhenAway != Refuse && options.WhenAway != Admit {
		return nil, errors.New("guard: WhenAway must be Refuse or Admit")
	}
	if options.ClientAddress == nil {
		options.ClientAddress = peer
	}
	if options.Resource == nil {
		options.Resource = sentPath
	}
	if options.Refused == nil {
		options.Refused = func(w http.ResponseWriter, r *http.Request, refusal *Refusal) { refusal.Send(w, r) }
	}
	if options.HTTPClient == nil {
		options.HTTPClient = newHTTPClient()
	}
	decisions, err := decision.New(options.URL, client.WithHTTPClient(options.HTTPClient), client.WithMaxBody(maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("guard: URL of the decision listener: %w", err)
	}
	return &Keys{options, decisions}, nil
}

// newHTTPClient returns a client that keeps up to 256 idle connections. A new connection for each request would cost
// more than the decision.
func newHTTPClient() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 256, 256
	return &http.Client{Transport: transport}
}

// sentPath is the path as the client sent it.
func sentPath(r *http.Request) string {
	if sent, err := url.ParseRequestURI(r.RequestURI); err == nil {
		return sent.EscapedPath()
	}
	return r.URL.EscapedPath() // RequestURI is only set if a server read the request
}

// Require returns middleware that lets a request through if its key has all of the permissions and is within its rate
// limits. Without permissions, every valid key passes. Require panics if there are more than 64 permissions, which is
// Cardea's limit for a request.
func (k *Keys) Require(permissions ...string) func(http.Handler) http.Handler {
	if len(permissions) > maxPermissions {
		panic(fmt.Sprintf("guard: Require has %d permissions: use at most %d", len(permissions), maxPermissions))
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			who, header, refusal := k.decide(r, permissions)
			for name, values := range header {
				w.Header()[name] = values
			}
			if refusal != nil {
				k.Refused(w, r, refusal)
				return
			}
			admit(next, w, r, who)
		})
	}
}

// decide requests the decision for a request. If it returns neither identity nor refusal, the request is admitted
// without an identity.
func (k *Keys) decide(r *http.Request, permissions []string) (*Identity, http.Header, *Refusal) {
	key := bearer(r.Header, true)
	if key == "" {
		return nil, nil, unauthorized(challengeNone)
	}
	question := decision.AuthzCheck{Method: r.Method, Resource: k.Resource(r)}
	if len(question.Resource) > maxPath {
		return nil, nil, &Refusal{Status: http.StatusBadRequest, Message: fmt.Sprintf("the path has more than %d bytes", maxPath)}
	}
	question.Principal.Type, question.Principal.Value = decision.ApiKey, key
	if address := k.ClientAddress(r); address.IsValid() {
		text := address.WithZone("").String()
		question.ClientIp = &text
	}
	if k.Deployment != "" {
		question.Deployment = &k.Deployment
	}
	if k.App != "" {
		question.App = &k.App
	}
	if len(permissions) > 0 {
		question.RequiredPermissions = &permissions
	}
	ctx, cancel := context.WithTimeout(r.Context(), k.Timeout)
	defer cancel()
	made, err := k.decisions.CheckAuthz(ctx, decision.CheckAuthzParams{}, question)
	if err != nil {
		return k.notJudged(r, err)
	}
	return k.made(r, made)
}

// errForm reports a response that is not a decision of Cardea.
var errForm = errors.New("the response is not a decision: set URL to Cardea's decision listener")

// made returns the result for a request that Cardea decided about.
func (k *Keys) made(r *http.Request, made *decision.AuthzDecision) (*Identity, http.Header, *Refusal) {
	if made.RequestId == "" || made.Allowed && (made.Identity == nil || made.Reason != nil) {
		return k.notJudged(r, errForm)
	}
	header := limits(made.Headers)
	switch {
	case made.Allowed:
		return identityOf(made), header, nil
	case made.Identity == nil:
		refusal := unauthorized(challengeBad)
		refusal.RequestID = made.RequestId
		return nil, header, refusal
	}
	refusal := &Refusal{Status: http.StatusForbidden, Message: "the request is not permitted", RequestID: made.RequestId, Header: http.Header{}}
	if made.Message != nil {
		refusal.Message = *made.Message
	}
	if made.Reason != nil && *made.Reason == decision.AuthzDecisionReasonRateLimited {
		refusal.Status = http.StatusTooManyRequests
		if made.RetryAfter != nil {
			refusal.Header.Set("Retry-After", strconv.Itoa(*made.RetryAfter))
		}
	} else {
		refusal.Header.Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
	}
	return nil, header, refusal
}

// limits returns the headers of a decision that are for the client. No other header of the decision is passed on.
func limits(of map[string]string) http.Header {
	header := http.Header{}
	for _, name := range []string{"RateLimit", "RateLimit-Policy", "Retry-After"} {
		if value, told := of[name]; told {
			header.Set(name, value)
		}
	}
	return header
}

func identityOf(made *decision.AuthzDecision) *Identity {
	text := func(p *string) string {
		if p == nil {
			return ""
		}
		return *p
	}
	of := made.Identity
	return &Identity{
		KeyID: of.KeyId, KeyName: of.KeyName, App: of.AppSlug, DeploymentID: of.DeploymentId, Metadata: made.Metadata,
		Subject: text(of.OwnerUserId), UserID: text(of.OwnerUserId), OrganizationID: text(of.OrganizationId), WorkspaceID: text(of.WorkspaceId), Permissions: made.Permissions,
	}
}

// notJudged returns the result for a request that Cardea did not decide about.
func (k *Keys) notJudged(r *http.Request, err error) (*Identity, http.Header, *Refusal) {
	refused := (*client.Error)(nil)
	answered := errors.As(err, &refused)
	if answered && refused.Code == "" && len(refused.Faults) > 0 { // in Cardea's form
		switch refused.Status {
		case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
			return nil, nil, &Refusal{Status: http.StatusBadRequest, Message: refused.Message, RequestID: refused.RequestID}
		case http.StatusTooManyRequests: // too many bad credentials from this address
			wait := max(1, int64((refused.RetryAfter+time.Second-1)/time.Second))
			return nil, nil, &Refusal{
				Status: http.StatusTooManyRequests, Message: refused.Message, RequestID: refused.RequestID,
				Header: http.Header{"Retry-After": {strconv.FormatInt(wait, 10)}},
			}
		}
	}
	if r.Context().Err() == nil && k.OnAway != nil {
		k.OnAway(r, err)
	}
	if k.WhenAway == Admit && isAway(err, refused) {
		return nil, nil, nil
	}
	return nil, nil, unavailable("no decision is available now: try again")
}

// isAway reports whether an error is an outage: no response, or a status of 500 or more. Other errors mean that URL is
// wrong.
func isAway(err error, answered *client.Error) bool {
	return errors.Is(err, client.ErrUnreachable) || answered != nil && answered.Status >= 500
}
