package decision

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/internal/assurance"
)

// A convention is how a proxy describes the request that it asks about. Each convention has its own path, because a
// client could forge the headers from which a convention would be guessed.
type convention struct {
	// method and uri are the headers that name the request; both must be present exactly once. If they are "", the
	// proxy's request itself has the method, and the path of the request follows the convention's path.
	method, uri string
	// refused is the status of the response to a request that would get a 400: nginx only supports 401 and 403.
	refused int
}

const envoyPrefix = "/v1/forward/envoy"

var conventions = map[string]*convention{
	"/v1/forward/nginx":   {method: "X-Original-Method", uri: "X-Original-Uri", refused: http.StatusForbidden},
	"/v1/forward/traefik": {method: "X-Forwarded-Method", uri: "X-Forwarded-Uri", refused: http.StatusBadRequest},
	"/v1/forward/caddy":   {method: "X-Forwarded-Method", uri: "X-Forwarded-Uri", refused: http.StatusBadRequest},
	envoyPrefix:           {refused: http.StatusBadRequest},
}

// The identity headers of an allowed request. All of them are always set, so that a gateway that copies them overwrites
// the client's headers of these names.
const (
	headerKeyID       = "X-Cardea-Key-Id"
	headerApp         = "X-Cardea-App"
	headerDeployment  = "X-Cardea-Deployment-Id"
	headerPermissions = "X-Cardea-Permissions"
	headerOwner       = "X-Cardea-Owner-User-Id"
	// headerStatus has the actual status if the option deny=403 or unavailable=allow changed it.
	headerStatus = "X-Auth-Status"
)

// forwardOptions are the gateway's options, from the query of its configured path.
type forwardOptions struct {
	permissions []string
	wanted      assurance.Wanted
	scope       scope
	// deny403 turns every refusal except 401 into 403.
	deny403 bool
	// unavailable is the response if the server cannot decide: "" for 503, "allow" for 200, "deny" for 403.
	unavailable string
}

// forward serves a convention.
func (a *API) forward(c *call, as *convention) error {
	options, err := as.options(c.r)
	if err != nil {
		return err
	}
	if options.scope.deployment, err = a.oneDeployment(c.deployment, options.scope.deployment, "?deployment"); err != nil {
		return c.undecided(apierror.Of(err), as, options)
	}
	q, err := as.question(c)
	if err == nil {
		q.permissions, q.wanted, q.scope = options.permissions, options.wanted, options.scope
		q.peer, q.client = credential.Peer(c.r), a.Authenticator.Proxies.ClientAddress(c.r)
		v := a.decisions.Get().(*decision)
		defer a.decisions.Put(v)
		if err = a.decide(c.r.Context(), &q, v); err == nil {
			a.Journal.note(c.Received, c.ID[0], &q, v)
			c.sendDecision(v, options)
			return nil
		}
	}
	return c.undecided(apierror.Of(err), as, options)
}

// options reads the options in the gateway's URL. It refuses unknown ones: a misspelled option must not allow
// requests.
func (as *convention) options(r *http.Request) (o forwardOptions, err error) {
	if as.uri == "" || r.URL.RawQuery == "" { // the query that Envoy sends is the client's
		return o, nil
	}
	values, parseErr := url.ParseQuery(r.URL.RawQuery)
	if parseErr != nil {
		return o, apierror.New(as.refused, "the query of the gateway's configuration is malformed")
	}
	for name, sent := range values {
		switch {
		case name == "permission" && len(sent) <= maxPermissions:
			o.permissions = sent
		case name == "deployment" && len(sent) == 1:
			if o.scope.deployment, err = parseDeployment(sent[0]); err != nil {
				return o, apierror.New(as.refused, "?deployment %s", err.Error())
			}
		case name == "app" && len(sent) <= maxScopeApps && !slices.Contains(sent, ""):
			o.scope.apps = sent
		case name == "principal":
			if o.scope.kinds, err = parseKinds(sent); err != nil {
				return o, apierror.New(as.refused, "?principal %s", err.Error())
			}
		case (name == "acr" || name == "max_age") && len(sent) == 1 && sent[0] != "":
			if err := o.want(name, sent[0]); err != nil {
				return o, apierror.New(as.refused, "?%s %s", name, err.Error())
			}
		case name == "deny" && len(sent) == 1 && sent[0] == "403":
			o.deny403 = true
		case name == "unavailable" && len(sent) == 1 && (sent[0] == "allow" || sent[0] == "deny"):
			o.unavailable = sent[0]
		default:
			return o, apierror.New(as.refused, "the gateway's configuration asks for ?%s, which is none of deployment=... (once), app=..., principal=..., permission=..., acr=1|2|phr, max_age=<seconds>, deny=403, unavailable=allow|deny", name)
		}
	}
	return o, nil
}

// want adds an option about what the user must have proven.
func (o *forwardOptions) want(name, value string) error {
	acr, maxAge := value, ""
	if name == "max_age" {
		acr, maxAge = "", value
	}
	w, err := assurance.ParseWanted(acr, maxAge)
	if name == "acr" {
		o.wanted.Level = w.Level
	} else {
		o.wanted.MaxAge, o.wanted.Aged = w.MaxAge, w.Aged
	}
	return err
}

// question returns the question about the described request, with its credential.
func (as *convention) question(c *call) (q question, err error) {
	r := c.r
	if as.uri == "" {
		q.method, q.path = r.Method, strings.TrimPrefix(r.RequestURI, c.prefix+envoyPrefix)
	} else {
		method, uri := r.Header[as.method], r.Header[as.uri]
		if len(method) != 1 || len(uri) != 1 {
			return q, apierror.New(as.refused, "the gateway must send %s and %s exactly once", as.method, as.uri)
		}
		q.method, q.path = method[0], uri[0]
	}
	if !validMethod(q.method) {
		return q, apierror.New(as.refused, "the request's method is not an HTTP method in upper case")
	}
	q.credential, q.kind, err = presented(r.Header["Authorization"], r.Header["X-Api-Key"])
	return q, err
}

// presented reads the lines of `Authorization: Bearer` or `X-API-Key`, and classifies the credential. It refuses
// several credentials, because which of them the application would use is unknown.
func presented(authorization, apiKey []string) (value string, of kind, err error) {
	switch {
	case len(authorization)+len(apiKey) == 0:
		return "", kindAPIKey, nil
	case len(authorization)+len(apiKey) > 1:
		return "", kindAPIKey, apierror.InvalidToken()
	case len(apiKey) == 1:
		return apiKey[0], kindAPIKey, nil
	}
	scheme, token, found := strings.Cut(authorization[0], " ")
	if !found || !strings.EqualFold(scheme, "Bearer") {
		return "", kindAPIKey, nil
	}
	return token, kindOf(token), nil
}

// kindOf returns the kind of a bearer credential by its form. Gateways cannot send opaque access tokens: the server
// refuses these tokens as malformed API keys.
func kindOf(raw string) kind {
	switch bearer.Classify(raw) {
	case bearer.AccessToken:
		return kindAccessToken
	case bearer.SessionToken:
		return kindSession
	}
	return kindAPIKey
}

// sendDecision writes the response to a gateway.
func (c *call) sendDecision(v *decision, o forwardOptions) {
	header := c.Header()
	limits.WriteFields(header, &v.limits)
	if !v.allowed {
		c.deny(v.refusal(), o)
		return
	}
	v.subject.writeIdentity(header)
	c.WriteHeader(http.StatusOK)
}

func (s *subject) writeIdentity(header http.Header) {
	header[headerKeyID], header[headerApp], header[headerDeployment] = s.keyID, s.app, s.deployment
	header[headerPermissions], header[headerOwner] = s.permissionValues(), s.owner
}

// undecided writes the response to a request that got an error instead of a decision.
func (c *call) undecided(refused *apierror.Error, as *convention, o forwardOptions) error {
	if refused.Status == http.StatusBadRequest {
		refused.Status = as.refused
	}
	if refused.Status >= 500 {
		switch o.unavailable {
		case "allow":
			c.Header()[headerStatus] = []string{"503"}
			anonymous.writeIdentity(c.Header())
			c.WriteHeader(http.StatusOK)
			return nil
		case "deny":
			denied := *refused
			denied.Status = http.StatusForbidden
			refused = &denied
		}
	}
	c.deny(refused, o)
	return nil
}

// anonymous is the subject of a request that was allowed without a credential. Its identity headers are empty, so that
// no client can set them.
var anonymous = &subject{keyID: []string{""}, app: []string{""}, deployment: []string{""}, permissionList: []string{""}, owner: []string{""}}

// deny writes a refusal in the errors format. If the option deny=403 changes the status, X-Auth-Status has the actual
// one.
func (c *call) deny(refused *apierror.Error, o forwardOptions) {
	if o.deny403 && refused.Status != http.StatusUnauthorized {
		c.Header()[headerStatus] = []string{statusText(refused.Status)}
		as403 := *refused
		as403.Status = http.StatusForbidden
		refused = &as403
	}
	c.Refuse(refused)
}
