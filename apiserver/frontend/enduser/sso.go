package enduser

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/text"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// ssoStartsPerHour is how many sign-ins by connections one client network may begin in an hour.
	ssoStartsPerHour = 300
	// maxOwnSSOAttempts is how many attempts of one session may wait for a provider; the oldest end.
	maxOwnSSOAttempts = 5
	// maxLoginHint bounds the parameter login_hint, in bytes.
	maxLoginHint = 320
)

// ssoRequest is the body of POST /auth/sso.
type ssoRequest struct {
	connection                          int64
	intent                              string
	continueAt, loginHint               string
	invitation, organization            string
	organizationSent, invitationPresent bool
}

func readSSO(c *call) (q ssoRequest, err error) {
	q.intent = people.IntentSignIn
	err = c.parse(func(o *body.Object) {
		q.connection = required(o, "connection_id", input.ID)
		if intent, sent := o.String("intent"); sent {
			if q.intent = intent; !slices.Contains([]string{people.IntentSignIn, people.IntentLink, people.IntentReauthenticate}, intent) {
				o.Fault("intent", "must be sign_in, link or reauthenticate")
			}
		}
		if at, sent := o.String("continue"); sent {
			var ok bool
			if q.continueAt, ok = site.Target(c.request.Settings, at); !ok {
				o.Fault("continue", "must be a path of this host or a page of an origin in allowedOrigins")
			}
		}
		if hint, sent := o.String("login_hint"); sent {
			if q.loginHint = hint; len(hint) > maxLoginHint || !utf8.ValidString(hint) {
				o.Fault("login_hint", "must have at most %d bytes", maxLoginHint)
			}
		}
		q.organization, q.organizationSent = ptr.Deref(input.Name(o, "organization_name"), ""), o.Has("organization_name")
		q.invitation, q.invitationPresent = o.String("invitation_token")
		if q.organizationSent && o.Has("invitation_token") {
			o.Fault("invitation_token", "and organization_name exclude each other: send one of them")
		}
		if q.intent != people.IntentSignIn && (q.organizationSent || o.Has("invitation_token")) {
			o.Fault("intent", "must be sign_in with organization_name or invitation_token")
		}
	})
	return q, err
}

// beginSSO begins a sign-in by a connection, the link of an identity to the signed-in account, or its
// reauthentication. The browser must then go to the returned address.
func beginSSO(c *call) (reply, error) {
	q, err := readSSO(c)
	if err != nil {
		return reply{}, err
	}
	start, err := startAttempt(c, q)
	if err != nil {
		return reply{}, err
	}
	return reply{data: enduserapi.SSOStart{
		AuthorizationUrl: start.url, AttemptId: format(start.attempt), ExpiresIn: int(connection.AttemptLifetime.Seconds()),
	}}, nil
}

// startSSO is beginSSO for links and buttons: it redirects the browser to the provider at once. The request is a GET
// that any site may link to, so it begins only sign-ins.
func startSSO(c *call) (reply, error) {
	q := ssoRequest{intent: people.IntentSignIn}
	var err error
	if q.connection, err = ids.Parse(c.r.PathValue("connection_id")); err != nil {
		return reply{}, c.answerTo(account.ErrConnectionUnknown)
	}
	sent := c.r.URL.Query()
	for _, name := range []string{"continue", "target_link_uri"} {
		if at, ok := site.Target(c.request.Settings, sent.Get(name)); ok && q.continueAt == "" {
			q.continueAt = at
		}
	}
	if hint := sent.Get("login_hint"); len(hint) <= maxLoginHint && utf8.ValidString(hint) {
		q.loginHint = hint
	}
	if issuer := sent.Get("iss"); issuer != "" {
		conn, err := activeConnection(c, q.connection)
		if err != nil {
			return reply{}, err
		}
		if issuer != conn.Provider.Issuer {
			return reply{}, apierror.Invalid(apierror.Fault{Pointer: "?iss", Message: "must be the issuer of the connection, or absent"})
		}
	}
	start, err := startAttempt(c, q)
	return reply{location: start.url}, err
}

// activeConnection returns an active connection. Unknown and inactive ones get the same response. It reads the store
// only for a connection that is not declared.
func activeConnection(c *call, id int64) (conn account.Connection, err error) {
	conn, err = c.request.DeclaredConnection(id)
	if !errors.Is(err, account.ErrConnectionUnknown) {
		return conn, c.answerTo(err)
	}
	err = c.view(func(u *account.Unit) (err error) {
		conn, err = account.FindConnection(u, id)
		return err
	})
	return conn, err
}

func upstreamOf(c *call, conn account.Connection) upstream.Connection {
	return upstream.Connection{Deployment: c.request.Key(), ID: conn.ID, Runtime: conn.Runtime, Connection: conn.Connection}
}

// redirectURI returns the address at which a connection's provider sends the browser back, on the host where the
// browser is.
func redirectURI(c *call, id int64) string {
	return site.Origin(c.request.Settings, c.r) + connectionPath(id) + "/callback"
}

func connectionPath(id int64) string { return "/sso/" + format(id) }

// requireNoConnection refuses an operation for an address whose domain's users must sign in by connections. It runs
// before any account is looked at, so that the response does not show whether there is one.
func requireNoConnection(c *call, email string) error {
	return c.view(func(u *account.Unit) error { return account.RequireNoConnection(u, email, 0) })
}

// ssoStart is a sign-in by a connection that has begun.
type ssoStart struct {
	url     string
	attempt int64
}

// startAttempt records an attempt, and returns the address of the provider to which the browser must go.
func startAttempt(c *call, q ssoRequest) (start ssoStart, err error) {
	conn, err := activeConnection(c, q.connection)
	if err != nil {
		return start, err
	}
	if q.organizationSent {
		if err := c.answerTo(c.request.RequireOwnable()); err != nil {
			return start, err
		}
	}
	state, err := c.sso.NewState(c.Random)
	if err != nil {
		return start, c.answerTo(err)
	}
	if conn.SAML != nil {
		return startSAML(c, q, conn, state)
	}
	metadata, err := c.Providers.Metadata(c.r.Context(), upstreamOf(c, conn))
	if err != nil {
		return start, c.answerTo(err)
	}
	start.attempt, err = transact(c, func(u *unit) (int64, error) { return insertSSO(u, c, q, conn, state, "") })
	if err != nil {
		return start, err
	}
	nonce, _ := c.sso.Nonce(state) // a new state has a key of the ring
	verifier, _ := c.sso.Verifier(state)
	start.url, err = connection.AuthorizationURL(conn.Connection, connection.Request{
		URL: metadata.AuthorizationURL, RedirectURI: redirectURI(c, q.connection), State: state, Nonce: nonce, Verifier: verifier, LoginHint: q.loginHint,
		Reauthenticate: q.intent == people.IntentReauthenticate, StepUp: conn.RequestsACR,
	})
	return start, err
}

// insertSSO records an attempt that waits for a connection's provider, and returns its id. request is the id that the
// response must repeat, "" for OpenID Connect.
func insertSSO(u *unit, c *call, q ssoRequest, conn account.Connection, state, request string) (_ int64, err error) {
	if err := countStart(u.Unit); err != nil {
		return 0, err
	}
	if conn.Organization != "" && !conn.Runtime {
		if _, found, err := u.Organizations().OrganizationBySlug(conn.Organization); err != nil || !found {
			return 0, account.FirstOf(err, account.ErrConnectionUnknown)
		}
	}
	row := people.SSOAttempt{
		Connection: q.connection, State: connection.HashState(state), RequestID: request, Host: c.host, Intent: q.intent, Continue: q.continueAt, OrganizationName: q.organization,
		CreatedAt: u.Now, ExpiresAt: u.Now.Add(connection.AttemptLifetime),
	}
	a := people.Attempt{Kind: people.AttemptSignIn, Method: people.MethodSSO, CreatedAt: u.Now, ExpiresAt: row.ExpiresAt}
	if q.intent != people.IntentSignIn {
		if err := requireOwn(u, q.intent); err != nil {
			return 0, err
		}
		g := u.signedIn()
		a.Kind, a.User, row.User, row.SignIn = people.AttemptReauthenticate, g.User, g.User, g.ID
	}
	if q.invitationPresent {
		i, err := account.InvitationByToken(u.Unit, q.invitation)
		if err != nil {
			return 0, err
		}
		row.Invitation = i.ID
	}
	if err := u.beginAttempt(c.presented, a.User); err != nil {
		return 0, err
	}
	if err := trimSSO(u); err != nil {
		return 0, err
	}
	if a.ID, err = u.NewID(); err != nil {
		return 0, err
	}
	a.Session, row.Attempt = u.session.ID, a.ID
	if err := u.Attempts().InsertAttempt(a); err != nil {
		return 0, err
	}
	return a.ID, u.Connections().InsertSSOAttempt(row)
}

// countStart bounds the sign-ins by connections that one client network begins.
func countStart(u *account.Unit) error {
	n, err := u.Limits().Count("sso-starts", u.Client.WideNetwork, u.Now, u.Now.Add(time.Hour))
	if err == nil && n.Count > ssoStartsPerHour {
		err = &account.WaitError{Reason: errTooManyStarts, Wait: n.Ends.Sub(u.Now)}
	}
	return err
}

// requireOwn refuses to link an identity, or to reauthenticate, unless the sign-in may: both need a signed-in user, and
// a link is a change of the account.
func requireOwn(u *unit, intent string) error {
	g := u.signedIn()
	if g == nil {
		return apierror.NotAuthenticated()
	}
	if intent != people.IntentLink {
		return nil
	}
	if err := account.CheckConfined(u.Unit, g); err != nil {
		return err
	}
	if err := u.CheckHeld(g); err != nil {
		return err
	}
	return u.requireFresh()
}

// trimSSO ends the oldest attempts of the session that wait for a provider, so that a further one may begin.
func trimSSO(u *unit) error {
	open, err := u.Attempts().AttemptsOf(u.session.ID, u.Now)
	if err != nil {
		return err
	}
	open = slices.DeleteFunc(open, func(a people.Attempt) bool { return stepOf(a) != stepSSO })
	for _, oldest := range open[:max(len(open)+1-maxOwnSSOAttempts, 0)] {
		if _, err := u.Attempts().CompleteAttempt(oldest.ID); err != nil {
			return err
		}
		if _, err := u.Connections().DeleteSSOAttempt(oldest.ID); err != nil {
			return err
		}
	}
	return nil
}

// The responses to sign-ins by connections.
var (
	errResponseInvalid       = apierror.Bad("SSO_RESPONSE_INVALID", "the response of the identity provider was not accepted: sign in again, or show the request id to your administrator")
	errTooManyStarts         = apierror.Coded(http.StatusTooManyRequests, "RATE_LIMITED", "too many sign-ins began in your network: wait before you begin another")
	errConnectionUnavailable = apierror.Coded(http.StatusServiceUnavailable, "CONNECTION_UNAVAILABLE", "the identity provider does not answer: try again")
)

// connectionRefusal returns the response to an error of a sign-in by a connection, nil for any other error.
func connectionRefusal(err error) error {
	var fault *connection.Fault
	var required *account.ConnectionRequiredError
	switch {
	case errors.Is(err, upstream.ErrUnavailable):
		answer := *errConnectionUnavailable
		answer.Cause, answer.RetryAfter = err, 5*time.Second
		return &answer
	case errors.As(err, &fault):
		answer := *errResponseInvalid
		return &answer
	case errors.Is(err, connection.ErrNoKey):
		return apierror.Unavailable(err, "this deployment cannot sign in by connections yet: its server has no root key")
	case errors.As(err, &required):
		answer := apierror.Coded(http.StatusForbidden, "SSO_REQUIRED", "sign in with the identity provider of your organization: POST /auth/sso with one of the connections")
		for _, conn := range required.Connections {
			answer.Connections = append(answer.Connections, offerOf(conn))
		}
		return answer
	}
	return nil
}

// offerOf returns a connection as responses offer it.
func offerOf(c account.Connection) apierror.Connection {
	return apierror.Connection{ID: format(c.ID), Slug: c.Slug, Type: c.Type, Name: c.Name, LogoURL: c.LogoURL}
}

// failureOf returns a failure for the admins of a connection, and false for an error that is not theirs to fix.
func failureOf(err error) (people.ConnectionFailure, bool) {
	var fault *connection.Fault
	if !errors.As(err, &fault) {
		return people.ConnectionFailure{}, false
	}
	return people.ConnectionFailure{Reason: fault.Reason, Expected: clipText(fault.Expected), Got: clipText(fault.Got)}, true
}

// maxFailureText bounds a text of a failure, in bytes.
const maxFailureText = 256

func clipText(s string) string {
	if len(s) > maxFailureText {
		s = s[:maxFailureText]
	}
	return text.Printable(strings.ToValidUTF8(s, ""))
}
