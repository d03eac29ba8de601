// Package management serves the backend API: one listener, every request through the same order of checks, writes of configuration
// landing on the custom resources, those of people in the store.
package management

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/analytics"
	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/password"
	"github.com/cardea-iam/cardea/apiserver/route"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store/people"
)

// Kubernetes is what writes need of the Kubernetes API. Reads are live: a server caches no resources.
type Kubernetes interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
	Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error
}

// Options are what an API needs.
type Options struct {
	Snapshots *snapshot.Follower
	// Kubernetes is the client writes go through.
	Kubernetes Kubernetes
	// Analytics counts what end users did.
	Analytics people.Analytics
	// Authenticator tells who a request comes from.
	Authenticator *authn.Authenticator
	// MaxStaleness turns authenticated requests into 503 when the snapshot was not known to be current for longer; 0: never.
	MaxStaleness time.Duration
	Clock        func() time.Time
	Log          logr.Logger
	Metrics      *route.Metrics
	// People is where users and organizations live.
	People people.Store
	// Hasher hashes the passwords of users that backends create.
	Hasher *password.Hasher
	// Random makes ids and salts.
	Random io.Reader
}

// API implements the operations of the OpenAPI document.
type API struct {
	Options
	writer *writer
}

var _ openapi.ServerInterface = (*API)(nil)

// New returns the handler of the backend listener.
func New(opts Options) (http.Handler, error) {
	document, err := openapi.Load()
	if err != nil {
		return nil, err
	}
	api := &API{Options: opts, writer: &writer{kubernetes: opts.Kubernetes, snapshots: opts.Snapshots}}
	pipeline := newPipeline(api, document.Routes())
	openapi.HandlerWithOptions(api, openapi.StdHTTPServerOptions{BaseRouter: pipeline, ErrorHandlerFunc: api.badParameter})
	pipeline.handlePublic("GET /openapi.json", document.ServeJSON)
	pipeline.handlePublic("GET /docs", document.ServePage)
	return pipeline, nil
}

// badParameter answers a parameter that the generated code could not read.
func (a *API) badParameter(w http.ResponseWriter, r *http.Request, err error) {
	refused := parameterProblem(r.URL.Query(), err)
	if r.Pattern == analyticsRoute {
		if _, faults := analytics.ParsePeriod(r.URL.Query()); faults != nil {
			refused = apierror.Invalid(faults...)
		}
	}
	a.refuse(w, r, refused)
}
