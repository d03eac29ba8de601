package enduser

import (
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// call is one request with what the checks found out.
type call struct {
	*API
	httpapi.Exchange
	r *http.Request
	// now is the one time of the request.
	now time.Time
	// request is what the request's transactions share: the deployment that declares its host, the client, the actor.
	request *account.Request
	host    string
	policy  session.Policy
	raw     []byte
	// needs is what the operation's document requires.
	needs openapi.Route
	// fresh requires that the active sign-in proved itself within the deployment's bound.
	fresh bool
	// assertedUser and assertedOrganization are the account and the organization that the request says are active, nil where it says nothing.
	assertedUser, assertedOrganization *int64

	// presented is the cookie's value, and hash its hash; nil if it has not the form of a token.
	presented string
	hash      []byte
	// browser is the state that the answer tells and the cookie follows. An operation's transaction replaces it whole, once it is
	// committed.
	browser
}

// browser is what a browser holds after an operation.
type browser struct {
	// session is nil where there is none. Its sign-ins and token are as the store holds them.
	session *people.Session
	// attempts are the session's that are not completed.
	attempts []people.Attempt
	// cookie is a new token for the browser, "" if it keeps its own; clear takes it away.
	cookie string
	clear  bool
}

// signedIn returns the active sign-in, nil if there is none.
func (b *browser) signedIn() *people.SignIn {
	if b.session == nil || b.session.Anonymous {
		return nil
	}
	return b.session.Active()
}

// reply is an operation's outcome.
type reply struct {
	// data is the envelope's.
	data any
}

// ServeHTTP finds the deployment, then the route.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{API: a}
	c.Begin(w, r, a.Metrics.Metrics, a.Clock)
	c.now = c.Received.UTC().Truncate(time.Microsecond)
	r = r.WithContext(withCall(r.Context(), c))
	c.r = r
	defer c.End(r, c)
	if err := c.findDeployment(); err != nil {
		c.Refuse(err)
		return
	}
	a.router.ServeHTTP(c, r)
}

// findDeployment finds the deployment by the request's host, lower-cased, without port and trailing dot.
func (c *call) findDeployment() error {
	select {
	case <-c.Snapshots.Loaded():
	default:
		return apierror.Unavailable(nil, "the configuration is not loaded yet: try again")
	}
	configuration := c.Snapshots.Current()
	c.host = site.Host(c.r)
	entry, found := configuration.ByHost(c.host)
	if !found {
		return apierror.Coded(http.StatusNotFound, "DEPLOYMENT_NOT_FOUND", "no deployment has this host: declare it in frontendHosts")
	}
	c.request = &account.Request{
		Tenant: account.NewTenant(configuration, entry), Store: c.Store, Keyring: c.Keyring, Random: c.Random, Now: c.now,
		Client: account.NewClient(c.Proxies.ClientAddress(c.r), c.r.UserAgent()), Actor: "anonymous", OnEnqueue: c.OnEnqueue,
	}
	c.request.Base = site.Base(c.request.Settings, c.r)
	c.policy = session.PolicyOf(c.request.Settings)
	return nil
}

// unrouted answers 405 where another method would match, else 404; and a browser's preflight, which asks about a path.
func (a *API) unrouted(_ http.ResponseWriter, r *http.Request, allow string) {
	c := callOf(r)
	if r.Method == http.MethodOptions && allow != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		c.preflight(allow)
		return
	}
	if allow != "" {
		c.Refuse(apierror.MethodNotAllowed(r.Method, allow))
		return
	}
	c.Refuse(apierror.NoSuchPath(""))
}

// run checks a request and runs its operation.
func (c *call) run(needs openapi.Route, serve func(*call) (reply, error)) error {
	if err := c.check(needs); err != nil {
		return err
	}
	out, err := serve(c)
	if err != nil {
		return err
	}
	c.answer(out.data)
	return nil
}

// check runs the checks in their order, up to 401.
func (c *call) check(needs openapi.Route) error {
	c.needs, c.fresh = needs, needs.Session == openapi.Fresh
	cookies := c.r.CookiesNamed(site.SessionCookie)
	if len(cookies) > 1 {
		// One of them was set by somebody else, and nothing tells which: all are taken away, so that the next sign-in works.
		site.ClearPlanted(c.Header(), c.request.Settings, c.r)
		return apierror.Coded(http.StatusUnauthorized, "NOT_AUTHENTICATED", "more than one %s cookie was sent: clear the cookies of this site and its parent domains", site.SessionCookie)
	}
	if err := c.readBody(); err != nil {
		return err
	}
	if err := c.checkOrigin(); err != nil {
		return err
	}
	if len(cookies) == 1 {
		if err := c.resolve(cookies[0].Value, needs.Write); err != nil {
			return err
		}
	}
	if needs.Session >= openapi.SignedIn && c.signedIn() == nil {
		return apierror.NotAuthenticated()
	}
	if err := c.readAssertions(); err != nil {
		return err
	}
	return c.answerTo(c.checkAssertions(c.signedIn()))
}

// activeOrganizationHeader asserts which organization is active: a tab that shows one does nothing in another, to which a tab beside it
// switched.
const activeOrganizationHeader = "X-Active-Organization"

func (c *call) readAssertions() (err error) {
	if c.assertedUser, err = c.readAssertion(site.ActiveUserHeader, "a user"); err != nil {
		return err
	}
	c.assertedOrganization, err = c.readAssertion(activeOrganizationHeader, "an organization")
	return err
}

// readAssertion reads a header that holds the id of something, nil where it is absent.
func (c *call) readAssertion(header, of string) (*int64, error) {
	asserted := c.r.Header.Get(header)
	if asserted == "" {
		return nil, nil
	}
	id, err := ids.Parse(asserted)
	if err != nil {
		return nil, apierror.Bad("VALIDATION_ERROR", "the header %s must be the id of %s: send the one that the page shows, or leave it out", header, of)
	}
	return &id, nil
}

// checkAssertions refuses a request that says another account or organization is active than is. A request for which nobody is signed in
// is not refused here.
func (c *call) checkAssertions(g *people.SignIn) error {
	switch {
	case g == nil:
		return nil
	case c.assertedUser != nil && *c.assertedUser != g.User:
		return errOtherAccount
	case c.assertedOrganization != nil && *c.assertedOrganization != g.Organization:
		return errOtherOrganization
	}
	return nil
}

// readBody reads a body where the method has one or one was sent.
func (c *call) readBody() error {
	r := c.r
	sent := r.ContentLength != 0
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete:
		if !sent {
			return nil
		}
	}
	if err := body.RequireJSON(r); err != nil {
		return err
	}
	raw, err := body.Read(r, body.MaxEndUserBytes)
	c.raw = raw
	return err
}

// parse reads the body's object by read, which notes what is wrong with members; an absent body is an empty object where nothing
// is required.
func (c *call) parse(read func(*body.Object)) error {
	raw := c.raw
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	object, err := body.Parse(raw)
	if err != nil {
		return err
	}
	read(object)
	object.Close()
	return object.Err()
}
