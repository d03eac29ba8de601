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

// call is one request with the results of its checks.
type call struct {
	*API
	httpapi.Exchange
	r *http.Request
	// now is the time of the request.
	now time.Time
	// request is the common data of the request's transactions: the deployment of its host, the client, the actor.
	request *account.Request
	host    string
	policy  session.Policy
	raw     []byte
	// needs are the requirements that enduser.yaml declares for the operation.
	needs openapi.Route
	// setup reports that the session's setup link permits the operation, so that it needs no signed-in user.
	setup bool
	// fresh requires that the active sign-in was proven within the deployment's bound.
	fresh bool
	// assertedUser and assertedOrganization are the account and organization that the request asserts as active, nil for
	// no assertion.
	assertedUser, assertedOrganization *int64

	// presented is the cookie's value, and hash its hash; both are empty for a malformed token.
	presented string
	hash      []byte
	// browser is the state for the response and the cookie. An operation's transaction replaces it as a whole after its
	// commit.
	browser
}

// browser is the state of a browser after an operation.
type browser struct {
	// session is nil if there is none. Its sign-ins and token are as stored.
	session *people.Session
	// attempts are the session's open attempts.
	attempts []people.Attempt
	// cookie is a new token for the browser, "" to keep the current one. clear deletes the cookie.
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

// reply is the result of an operation.
type reply struct {
	// data is the data of the envelope.
	data any
	// location, if not "", is where the response redirects the browser; it has no envelope then.
	location string
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

// findDeployment finds the deployment by the request's host in lower case, without port and trailing dot.
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

// unrouted responds with 405 if another method matches the path, else with 404. It also serves preflight requests.
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
	if out.location != "" {
		c.redirectTo(out.location)
		return nil
	}
	c.answer(out.data)
	return nil
}

// check runs the checks that precede the operation, in the order of the package comment: cookies, 415, 413, Origin, 401
// and assurance. It then checks the asserted account and organization.
func (c *call) check(needs openapi.Route) error {
	c.needs, c.fresh = needs, needs.Session == openapi.Fresh
	cookies := c.r.CookiesNamed(site.SessionCookie)
	if len(cookies) > 1 {
		// One of the cookies was set by another host, and the request does not show which one. All are deleted, so that
		// the next sign-in works.
		site.ClearPlanted(c.Header(), c.request.Settings, c.r)
		return apierror.Coded(http.StatusUnauthorized, "NOT_AUTHENTICATED", "more than one %s cookie was sent: clear the cookies of this site and its parent domains", site.SessionCookie)
	}
	if err := c.readBody(); err != nil {
		return err
	}
	if err := c.checkOrigin(); err != nil && !needs.CrossSite {
		return err
	}
	if len(cookies) == 1 {
		if err := c.resolve(cookies[0].Value, needs.Write); err != nil {
			return err
		}
	}
	if err := findSetup(c); err != nil {
		return err
	}
	if needs.Session >= openapi.SignedIn && !c.setup {
		if c.signedIn() == nil {
			return apierror.NotAuthenticated()
		}
		if err := c.checkHeld(); err != nil {
			return err
		}
		if err := requireUnconfined(c); err != nil {
			return err
		}
	}
	if err := c.readAssertions(); err != nil {
		return err
	}
	return c.answerTo(c.checkAssertions(c.signedIn()))
}

// checkHeld refuses an operation that is not open to a sign-in below what its account and deployment require.
func (c *call) checkHeld() error {
	g := c.signedIn()
	if c.needs.Held || !c.held(g) {
		return nil
	}
	return c.view(func(u *account.Unit) error { return u.CheckHeld(g) })
}

// checkConfined refuses an operation on the account, or outside of the organization, to a sign-in that is confined to
// an organization.
func requireUnconfined(c *call) error {
	g := c.signedIn()
	if c.needs.Confined || g.Upstream.ConfinedTo == 0 {
		return nil
	}
	return c.view(func(u *account.Unit) error { return account.CheckConfined(u, g) })
}

// held reports whether a sign-in is below what its account and deployment require.
func (c *call) held(g *people.SignIn) bool {
	return g.Proven().Level() < c.request.RequiredBelow(g, c.now).Level
}

// activeOrganizationHeader asserts the active organization. A request of one browser tab then has no effect in an
// organization to which another tab switched.
const activeOrganizationHeader = "X-Active-Organization"

func (c *call) readAssertions() (err error) {
	if c.assertedUser, err = c.readAssertion(site.ActiveUserHeader, "a user"); err != nil {
		return err
	}
	c.assertedOrganization, err = c.readAssertion(activeOrganizationHeader, "an organization")
	return err
}

// readAssertion returns the id in a header, nil if the header is absent.
func (c *call) readAssertion(header, of string) (*int64, error) {
	asserted := c.r.Header.Get(header)
	if asserted == "" {
		return nil, nil
	}
	id, err := ids.Parse(asserted)
	if err != nil {
		return nil, apierror.Bad("VALIDATION_ERROR", "the header %s must be the id of %s: send the id that the page shows, or omit the header", header, of)
	}
	return &id, nil
}

// checkAssertions refuses a request that asserts another account or organization than the active ones. It does not
// refuse a request without a sign-in.
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

// readBody reads the body. GET, HEAD and DELETE requests may have none.
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

// parse parses the body's object with read, which records the faults of members. An absent body counts as an empty
// object.
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
