// Package provisioning serves SCIM 2.0 (RFC 7644) to the identity providers of organizations, under /scim/v2/{id} of a
// deployment's frontend hosts. Its responses have the forms of that standard, without Cardea's envelope, cookies and
// CORS. Package scim has the protocol, and package users/provisioning the changes.
//
// A request is authenticated before anything else: everything that is wrong with the directory or the token gets the
// same 401. Changes of one directory take turns before they take a connection of the store.
package provisioning

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/shares"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/internal/turns"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// prefix begins the paths of directories.
	prefix = "/scim/v2/"
	// requestsPerSecond and requestBurst bound the requests of one directory at one server.
	requestsPerSecond, requestBurst = 500, 1000
	// maxBody bounds a body, in bytes.
	maxBody = 1 << 20
	// patience bounds a request, which waits for its turn. The listener ends responses after 30 s: a change must not be
	// committed after that.
	patience = 25 * time.Second
	// rowsOfRequest and bytesOfRequest are how many rows a request may read or change, and how long its body may be,
	// before it counts as another request. So a directory cannot use more of the server by fewer, larger requests.
	rowsOfRequest, bytesOfRequest = 20, 4 << 10
	// mediaType is the media type of SCIM.
	mediaType = "application/scim+json"
)

// bodyBounds bound the requests whose bodies, of up to maxBody and parsed some 15 times that, are in memory: in all, of
// one deployment, and of one directory. More wait.
var bodyBounds = egress.Bounds{AtOnce: 16, DeploymentAtOnce: 8, SourceAtOnce: 2}

// requestBounds bound the requests that are in progress, which read the store: in all, of one deployment, and of one
// directory. More wait. What a request costs counts only at its end.
var requestBounds = egress.Bounds{AtOnce: 128, DeploymentAtOnce: 16, SourceAtOnce: 4}

// lookupBounds bound the requests whose tokens are looked up in the store: in all, of one deployment, and of one
// network. More wait. Requests to declared directories need no lookup.
// Beyond the number that may wait, they are refused: a client without a token must not fill the queue.
var lookupBounds = egress.Bounds{AtOnce: 16, DeploymentAtOnce: 8, SourceAtOnce: 2, DeploymentWaiting: 512, SourceWaiting: 64}

// Options configures a Server.
type Options struct {
	Snapshots *snapshot.Follower
	Store     people.Store
	// Keyring seals messages.
	Keyring *seal.Keyring
	Proxies credential.Proxies
	// OnEnqueue, if not nil, is called after a message was put into the outbox.
	OnEnqueue func()
	Clock     func() time.Time
	Log       logr.Logger
	Metrics   *httpapi.Metrics
	// Requests counts the requests of directories.
	Requests *Metrics
}

// Server serves the directories of all deployments.
type Server struct {
	Options
	router *httpapi.Router
	// budget bounds the requests of each directory, running those in progress, bodies those in memory, and lookups those
	// whose token is looked up. changing and scanning let one change, and one comparison with many resources, of a
	// directory run at a time.
	budget             *shares.Budget
	running, bodies    *egress.Slots
	lookups            *egress.Slots
	changing, scanning turns.Turns
}

// New returns a Server.
func New(opts Options) *Server {
	s := &Server{Options: opts, budget: shares.NewBudget(requestsPerSecond, requestBurst), running: egress.NewSlots(requestBounds, opts.Clock), bodies: egress.NewSlots(bodyBounds, opts.Clock),
		lookups: egress.NewSlots(lookupBounds, opts.Clock),
	}
	s.router = httpapi.New(func(_ http.ResponseWriter, r *http.Request, allow string) {
		c := callOf(r.Context())
		if allow != "" {
			c.w.Header().Set("Allow", allow)
			c.Refuse(&scim.Error{Status: http.StatusMethodNotAllowed, Detail: "this endpoint takes " + allow})
			return
		}
		c.Refuse(&scim.Error{Status: http.StatusNotFound, Detail: "there is no such endpoint"})
	})
	for pattern, serve := range map[string]func(*call) error{
		"GET /Users":                 listUsers,
		"POST /Users":                createUser,
		"GET /Users/{id}":            readUser,
		"PUT /Users/{id}":            replaceUser,
		"PATCH /Users/{id}":          patchUser,
		"DELETE /Users/{id}":         deleteUser,
		"GET /Groups":                listGroups,
		"POST /Groups":               createGroup,
		"GET /Groups/{id}":           readGroup,
		"PUT /Groups/{id}":           replaceGroup,
		"PATCH /Groups/{id}":         patchGroup,
		"DELETE /Groups/{id}":        deleteGroup,
		"GET /ServiceProviderConfig": discover(scim.ServiceProviderConfig),
		"GET /Schemas":               discover(scim.Schemas),
		"GET /Schemas/{id}":          discoverOne(scim.SchemaByID),
		"GET /ResourceTypes":         discover(scim.ResourceTypes),
		"GET /ResourceTypes/{id}":    discoverOne(scim.ResourceTypeByID),
		"/Bulk":                      notImplemented,
		"/Me":                        notImplemented,
	} {
		s.router.HandleFunc(withMethod(pattern, prefix+"{directory}"), func(_ http.ResponseWriter, r *http.Request) {
			c := callOf(r.Context())
			c.r = r
			if err := serve(c); err != nil {
				c.Refuse(err)
			}
		})
		opts.Metrics.Expect(withMethod(pattern, prefix+"{directory}"))
	}
	return s
}

// withMethod puts a prefix before the path of a pattern.
func withMethod(pattern, prefix string) string {
	if method, path, found := strings.Cut(pattern, " "); found {
		return method + " " + prefix + path
	}
	return prefix + pattern
}

// Handler serves the paths of directories.
func (s *Server) Handler(r *http.Request) (http.Handler, bool) {
	if !strings.HasPrefix(r.URL.Path, prefix) {
		return nil, false
	}
	return http.HandlerFunc(s.serve), true
}

// call is one request of a directory.
type call struct {
	*Server
	httpapi.Exchange
	w http.ResponseWriter
	r *http.Request
	// directory is the authenticated directory, the zero value before.
	directory directory
	now       time.Time
	// rows counts the rows that the request read or changed, and bytes is the length of its body.
	rows, bytes int
	// streaming reports that a part of the response was sent.
	streaming bool
}

type callKey struct{}

func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// serve authenticates a request and routes it.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	c := &call{Server: s}
	outer := r
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	r = r.WithContext(context.WithValue(ctx, callKey{}, c))
	defer func() { outer.Pattern = r.Pattern }()
	c.Begin(w, r, s.Metrics, s.Clock)
	c.w, c.r, c.now = &c.Recorder, r, c.Received.UTC().Truncate(time.Microsecond)
	defer c.finish(r)
	defer c.End(r, c)
	var err error
	if c.directory, err = s.authenticate(r); err != nil {
		c.Refuse(err)
		return
	}
	if !c.directory.Active {
		c.Refuse(account.ErrDirectoryInactive)
		return
	}
	if !s.budget.Take(c.directory.key(), 1, c.now) {
		wait := max(int(math.Ceil(s.budget.Delay(c.directory.key(), c.now).Seconds())), 1)
		c.w.Header().Set("Retry-After", strconv.Itoa(wait))
		c.Refuse(tooMany())
		return
	}
	done, err := s.running.Begin(ctx, c.asker())
	if err != nil {
		c.Refuse(err)
		return
	}
	defer done()
	s.router.ServeHTTP(c.w, r)
}

// asker names the directory for the bounds of a deployment and of a directory within it.
func (c *call) asker() egress.Asker {
	return egress.Asker{Deployment: c.directory.deployment.Deployment, Source: c.directory.key()}
}

// finish counts the request of an authenticated directory, and what it cost.
func (c *call) finish(r *http.Request) {
	if c.directory.key() != "" {
		c.budget.Spend(c.directory.key(), c.rows/rowsOfRequest+c.bytes/bytesOfRequest, c.now)
		c.Requests.observe(c.directory.deployment.Deployment, r.Pattern, r.Method, c.Status)
	}
}

func tooMany() error {
	return &scim.Error{Status: http.StatusTooManyRequests, Detail: "too many or too large requests in a short time: try again after Retry-After"}
}

func unauthorized() error {
	return &scim.Error{Status: http.StatusUnauthorized, Detail: "the directory or its token is unknown, or the token has expired"}
}

// Refuse writes the response of an error, and logs unexpected errors.
func (c *call) Refuse(err error) {
	refused := c.refusal(err)
	if wait := (*account.WaitError)(nil); errors.As(err, &wait) {
		c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Wait.Seconds()))))
	}
	if refused.Status == http.StatusUnauthorized {
		c.w.Header().Set("WWW-Authenticate", "Bearer")
	}
	if refused.Status == http.StatusTooManyRequests && c.w.Header().Get("Retry-After") == "" {
		c.w.Header().Set("Retry-After", "1")
	}
	if refused.Status == http.StatusServiceUnavailable {
		c.w.Header().Set("Retry-After", "1")
	}
	c.respond(refused.Status, refused.Body())
}

// refusal returns the error of a response.
func (c *call) refusal(err error) *scim.Error {
	var refused *scim.Error
	switch {
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, egress.ErrTooManyWaiting):
		errors.As(tooMany(), &refused)
		return refused
	case errors.Is(err, account.ErrDirectoryUnknown):
		errors.As(unauthorized(), &refused)
		return refused
	case errors.Is(err, account.ErrDirectoryInactive):
		return &scim.Error{Status: http.StatusForbidden, Detail: "the directory is inactive: activate it first"}
	case errors.Is(err, account.ErrOrganizationsDisabled):
		return &scim.Error{Status: http.StatusForbidden, Detail: "organizations are disabled in this deployment"}
	case errors.Is(err, account.ErrNoOrganization):
		return &scim.Error{Status: http.StatusNotFound, Detail: "the organization of this directory does not exist"}
	case errors.Is(err, account.ErrTooManyChanges):
		return &scim.Error{Status: http.StatusTooManyRequests, Detail: "the address of this account changed too often today: try again tomorrow"}
	case errors.Is(err, account.ErrOwnerLeaves):
		return &scim.Error{Status: http.StatusConflict, Detail: "the user is the last owner of the organization: make another member an owner first"}
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &scim.Error{Status: http.StatusServiceUnavailable, Detail: "the store is unavailable: try again"}
	}
	tracing.Logger(c.r.Context(), c.Log).Error(err, "A SCIM request failed", "route", c.r.Pattern, "directory", c.directory.key())
	return &scim.Error{Status: http.StatusInternalServerError, Detail: "something failed here: try again"}
}

// respond writes a response with a body, nil for none.
func (c *call) respond(status int, body []byte) {
	header := c.w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if body != nil {
		header.Set("Content-Type", mediaType+"; charset=utf-8")
	}
	c.w.WriteHeader(status)
	_, _ = c.w.Write(body) // an error means that the client is disconnected
}

// discover returns an endpoint that describes the server.
func discover(describe func(base string) []byte) func(*call) error {
	return func(c *call) error {
		c.respond(http.StatusOK, describe(c.directory.base))
		return nil
	}
}

// discoverOne is discover for one description.
func discoverOne(describe func(base, id string) ([]byte, bool)) func(*call) error {
	return func(c *call) error {
		body, found := describe(c.directory.base, c.r.PathValue("id"))
		if !found {
			return &scim.Error{Status: http.StatusNotFound, Detail: "there is no such description"}
		}
		c.respond(http.StatusOK, body)
		return nil
	}
}

func notImplemented(*call) error {
	return &scim.Error{Status: http.StatusNotImplemented, Detail: "this server does not implement this endpoint"}
}
