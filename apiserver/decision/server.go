package decision

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
	"github.com/cardea-iam/cardea/apiserver/httpapi/reference"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// call is one request of the decision listener.
type call struct {
	httpapi.Exchange
	api *API
	r   *http.Request
	// prefix is the part of the path that names a deployment, "" if none does.
	prefix     string
	deployment deployment
}

// handler serves one path.
type handler struct {
	// methods are the accepted methods, "" for any.
	methods string
	serve   func(a *API, c *call) error
}

var handlers = func() map[string]handler {
	all := map[string]handler{
		"/v1/authz/check":   {http.MethodPost, (*API).check},
		"/v1/authz/explain": {http.MethodGet, (*API).explain},
	}
	for path, as := range conventions {
		all[path] = handler{"", func(a *API, c *call) error { return a.forward(c, as) }}
	}
	return all
}()

// ServeHTTP routes by the escaped path as received: Envoy appends the path of its client's request to its prefix, so no
// router may clean the path.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{api: a, r: r}
	c.Begin(w, r, a.Metrics, a.Clock)
	path := r.URL.EscapedPath()
	c.deployment, c.prefix, path = cutDeployment(path)
	if strings.HasPrefix(path, envoyPrefix+"/") {
		path = envoyPrefix
	}
	h, found := handlers[path]
	if r.Pattern = ""; found {
		r.Pattern = path
	}
	defer c.End(r, c)
	switch {
	case path == documentPath && r.Method == http.MethodGet:
		a.document.ServeJSON(c, r)
	case path == reference.Page && r.Method == http.MethodGet:
		a.pages.ServePage(c, r)
	case strings.HasPrefix(path, reference.Assets) && r.Method == http.MethodGet && a.pages.ServeAsset(c, r):
	case !found:
		c.Refuse(apierror.NoSuchPath("see /docs for the paths that are served"))
	case h.methods != "" && h.methods != r.Method:
		c.Refuse(apierror.MethodNotAllowed(r.Method, h.methods))
	default:
		if err := h.serve(a, c); err != nil {
			c.Refuse(err)
		}
	}
}

// documentPath serves the OpenAPI document.
const documentPath = "/openapi.json"

var contentTypeJSON = []string{"application/json"}

// sendCheck writes the response to a check.
func (c *call) sendCheck(status int, raw []byte, header http.Header) {
	to := c.Header()
	for name, values := range header {
		to[name] = values
	}
	to["Content-Type"] = contentTypeJSON
	c.WriteHeader(status)
	_, _ = c.Write(raw) // an error means that the client is disconnected
}

// Refuse writes the response of an error, and logs failures of the server.
func (c *call) Refuse(err error) {
	refused, id := apierror.Of(err), c.ID[0]
	if refused.Status >= 500 && !outage.Quiet(refused) && c.r.Context().Err() == nil {
		tracing.Logger(c.r.Context(), c.api.Log).Error(refused, "A decision failed", "method", c.r.Method, "path", c.r.Pattern, "request_id", id)
	}
	openapi.SendError(c, c.r, refused, id)
}

func statusText(status int) string { return strconv.Itoa(status) }
