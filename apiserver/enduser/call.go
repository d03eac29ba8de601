package enduser

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/directory"
	"github.com/cardea-iam/cardea/apiserver/route"
	"github.com/cardea-iam/cardea/apiserver/session"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/document"
	"github.com/cardea-iam/cardea/store/people"
)

// call is one request with what the checks found out.
type call struct {
	*API
	route.Recorder
	r  *http.Request
	id string
	// now is the one time of the request.
	now      time.Time
	snapshot *snapshot.Snapshot
	// deployment is the one that declares the request's host, and settings its content.
	deployment *snapshot.Entry
	settings   *document.Deployment
	host       string
	policy     session.Policy
	// rules is what directory returns.
	rules *directory.Directory
	// address is the client's, and network what limits count: IPv6 clients own a /64.
	address, network string
	raw              []byte

	// presented is the cookie's value, and hash its hash; nil if it has not the form of a token.
	presented string
	hash      []byte
	// session is the state after the operation, nil where there is none. Its sign-ins and token are as the store holds them.
	session *people.Session
	// attempts are the session's that are not completed.
	attempts []people.Attempt
	// cookie is a new token for the browser, "" if it keeps its own; clear takes it away.
	cookie string
	clear  bool
}

// ServeHTTP finds the deployment, then the route.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{API: a, Recorder: route.Recorder{ResponseWriter: w, Status: http.StatusOK}, now: a.Clock().UTC().Truncate(time.Microsecond), id: route.RequestID(r)}
	w.Header()["X-Request-Id"] = []string{c.id}
	r = r.WithContext(withCall(r.Context(), c))
	c.r = r
	defer func() {
		switch fault := recover(); {
		case fault == http.ErrAbortHandler:
			panic(fault)
		case fault != nil:
			c.refuse(fmt.Errorf("panic: %v\n%s", fault, debug.Stack()))
		}
		a.Metrics.Observe(r, c.Status, a.Clock().Sub(c.now))
	}()
	if err := c.findDeployment(); err != nil {
		c.refuse(err)
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
	c.snapshot = c.Snapshots.Current()
	host := c.r.Host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	c.host = strings.TrimSuffix(strings.ToLower(host), ".")
	entry, found := c.snapshot.ByHost(c.host)
	if !found {
		return apierror.Coded(http.StatusNotFound, "DEPLOYMENT_NOT_FOUND", "no deployment has this host: declare it in frontendHosts")
	}
	c.deployment, c.settings = entry, entry.Content.(*document.Deployment)
	declared := c.settings.EffectiveSession()
	c.policy = session.Policy{Idle: declared.IdleTimeout(), Lifetime: declared.Lifetime(), MaxSignIns: declared.MaxSignIns}
	address := c.Proxies.ClientAddress(c.r)
	c.address, c.network = address.String(), networkOf(address)
	return nil
}

// networkOf is what limits count an address as: an IPv6 client can pick any address of its /64.
func networkOf(address netip.Addr) string {
	if address.Is6() {
		if prefix, err := address.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return address.String()
}

// unrouted answers 405 where another method would match, else 404; and a browser's preflight, which asks about a path.
func (a *API) unrouted(_ http.ResponseWriter, r *http.Request, allow string) {
	c := callOf(r)
	if r.Method == http.MethodOptions && allow != "" && r.Header.Get("Access-Control-Request-Method") != "" {
		c.preflight(allow)
		return
	}
	if allow != "" {
		c.Header().Set("Allow", allow)
		c.refuse(apierror.Coded(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED", "this path does not take %s: use %s", r.Method, allow))
		return
	}
	c.refuse(apierror.Coded(http.StatusNotFound, "NOT_FOUND", "there is no such path"))
}

// serve checks a request and runs its operation.
func (a *API) serve(_ http.ResponseWriter, r *http.Request, e endpoint) {
	c := callOf(r)
	c.r = r
	if e.public {
		if _, err := e.serve(c); err != nil {
			c.refuse(err)
		}
		return
	}
	if err := c.check(e); err != nil {
		c.refuse(err)
		return
	}
	data, err := e.serve(c)
	if err != nil {
		c.refuse(err)
		return
	}
	c.answer(data)
}

// check runs the checks in their order, up to 401.
func (c *call) check(e endpoint) error {
	cookies := c.r.CookiesNamed(cookieName)
	if len(cookies) > 1 {
		// One of them was set by somebody else, and nothing tells which.
		return apierror.Coded(http.StatusUnauthorized, "NOT_AUTHENTICATED", "more than one %s cookie was sent: clear the cookies of this site and its parent domains", cookieName)
	}
	if err := c.readBody(); err != nil {
		return err
	}
	if err := c.checkOrigin(); err != nil {
		return err
	}
	if len(cookies) == 1 {
		if err := c.resolve(cookies[0].Value, e.changes); err != nil {
			return err
		}
	}
	if e.signedIn && c.signedIn() == nil {
		return apierror.NotAuthenticated()
	}
	return nil
}

// signedIn returns the active sign-in, nil if there is none.
func (c *call) signedIn() *people.SignIn {
	if c.session == nil || c.session.Anonymous {
		return nil
	}
	return c.session.Active()
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

// resolve finds the session of a cookie. A dead cookie is cleared, and a reused one ends its session. Use is written down here, or
// in the transaction of an operation that has one anyway.
func (c *call) resolve(value string, changes bool) error {
	hash, formed := session.Hash(value)
	if !formed {
		c.clear = true
		return nil
	}
	c.presented, c.hash = value, hash
	var reused, justReplaced bool
	err := c.Store.View(c.r.Context(), c.deployment.Deployment, func(tx people.Tx) error {
		s, found, err := tx.SessionByToken(hash)
		if err != nil || !found {
			return err
		}
		switch session.Judge(s, c.policy, c.now) {
		case session.Live:
			c.session = &s
		case session.Reused:
			reused = true
		case session.Over:
			// The answer of a request that was under way beside the sign-in must not take the new cookie away.
			justReplaced = s.Token.Replaced && c.now.Before(s.Token.DiesAt.Add(session.Grace))
		}
		if s.Attempting && c.session != nil {
			c.attempts, err = tx.AttemptsOf(s.ID, c.now)
		}
		return err
	})
	if err == nil && (reused || c.session != nil && !changes && c.useDue(*c.session)) {
		err = c.recordUse()
	}
	if err != nil {
		return c.unavailable(err)
	}
	c.clear = c.session == nil && !justReplaced
	return nil
}

// useDue tells whether there is something to write down about the use of a session.
func (c *call) useDue(s people.Session) bool {
	return s.Token.UsedAt.IsZero() || session.TouchDue(s, c.policy, c.now)
}

// recordUse writes down, in a transaction of its own, that a session is in use, or ends one whose dead token came back.
func (c *call) recordUse() error {
	return c.Store.Change(c.r.Context(), c.deployment.Deployment, func(tx people.Tx) error {
		c.session = nil
		s, found, err := tx.LockSession(c.hash)
		if err != nil || !found {
			return err
		}
		switch session.Judge(s, c.policy, c.now) {
		case session.Over:
			return nil
		case session.Reused:
			if err := tx.EndSession(s.ID); err != nil {
				return err
			}
			return c.audit(tx, "system", "session.token_reused", "session:"+format(s.ID), s.ID)
		}
		if err := c.use(tx, &s); err != nil {
			return err
		}
		c.session = &s
		return nil
	})
}

// use writes down that a token was used for the first time, from when the one it replaced is about to die, and that the session is in
// use.
func (c *call) use(tx people.Tx, s *people.Session) error {
	if s.Token.UsedAt.IsZero() {
		if err := tx.UseToken(s.Token, c.now, c.now.Add(session.Grace)); err != nil {
			return err
		}
		s.Token.UsedAt = c.now
	}
	if !session.TouchDue(*s, c.policy, c.now) {
		return nil
	}
	s.UsedAt = c.now
	return tx.UpdateSession(*s)
}

// change runs do in one transaction, in which the session, if there is one, is locked and still lives. Signed-in operations keep
// their active sign-in: a session that was signed out meanwhile is refused.
func (c *call) change(do func(tx people.Tx) error) error {
	before, signedIn, clear := c.session, c.signedIn() != nil, c.clear
	ended := false
	err := c.Store.Change(c.r.Context(), c.deployment.Deployment, func(tx people.Tx) error {
		c.cookie, c.clear, ended = "", clear, false
		if before != nil {
			s, found, err := tx.LockSession(c.hash)
			if err != nil {
				return err
			}
			if !found || session.Judge(s, c.policy, c.now) != session.Live {
				ended = true
				return apierror.NotAuthenticated()
			}
			c.session = &s
			if signedIn && c.signedIn() == nil {
				return apierror.NotAuthenticated()
			}
			if err := c.use(tx, c.session); err != nil {
				return err
			}
		}
		if err := do(tx); err != nil {
			return err
		}
		if c.session == nil || !c.session.Attempting {
			c.attempts = nil
			return nil
		}
		var err error
		c.attempts, err = tx.AttemptsOf(c.session.ID, c.now)
		return err
	})
	if err == nil {
		return nil
	}
	// Nothing of it happened: the session is as it was, or gone.
	c.cookie, c.session, c.clear = "", before, clear
	if ended {
		c.session, c.clear = nil, true
	}
	var refused *apierror.Error
	if c.session != nil && errors.As(err, &refused) && c.useDue(*c.session) {
		// The use is a fact all the same.
		if useErr := c.recordUse(); useErr != nil {
			c.session = before
		}
	}
	return c.unavailable(err)
}

// view runs do on the deployment's rows.
func (c *call) view(do func(tx people.Tx) error) error {
	return c.unavailable(c.Store.View(c.r.Context(), c.deployment.Deployment, do))
}

// unavailable turns an error of the store into a 503; what is a refusal already stays one.
func (c *call) unavailable(err error) error {
	var refused *apierror.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return apierror.Unavailable(err, "the store is out of reach: try again; if this request changes something, look first whether it did")
	}
	return err
}

// directory returns the deployment's configuration as it binds people.
func (c *call) directory() *directory.Directory {
	if c.rules == nil {
		c.rules = directory.New(c.snapshot, c.deployment, c.Random, c.now)
	}
	return c.rules
}

func (c *call) origin() directory.Origin {
	return directory.Origin{Address: c.address, UserAgent: c.r.UserAgent()}
}

// actor names the active user for auditors.
func (c *call) actor() string {
	if g := c.signedIn(); g != nil {
		return "user:" + format(g.User)
	}
	return "anonymous"
}

func (c *call) audit(tx people.Tx, actor, action, object string, sessionID int64) error {
	id, err := c.directory().NewID()
	if err != nil {
		return err
	}
	return tx.RecordAudit(people.Audit{ID: id, At: c.now, Actor: actor, Action: action, Object: object, Session: sessionID, Address: c.address})
}
