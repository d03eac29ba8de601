package enduser

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/upstream"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// waitingAttempt is an attempt whose provider answers, with its connection.
type waitingAttempt struct {
	row  people.SSOAttempt
	conn account.Connection
}

// ssoCallback receives the response of a provider in the query of a GET request, or the evaluated response of a POST
// request by its attempt_id. Only the browser that began the attempt can complete it.
func ssoCallback(c *call) (reply, error) {
	values := c.r.URL.Query()
	var at waitingAttempt
	var evidence connection.Evidence
	var err error
	if values.Has("attempt_id") {
		at, evidence, err = storedEvidence(c, values)
	} else {
		at, evidence, err = evaluateQuery(c, values)
	}
	if err != nil {
		return reply{}, recordFailure(c, at, evidence, err)
	}
	done, err := transact(c, func(u *unit) (resolved, error) { return resolveSSO(u, c, at, evidence) })
	if err != nil {
		return reply{}, recordFailure(c, at, evidence, err)
	}
	c.Metrics.SSO(c.request.Key(), at.conn.Type, done.outcome)
	after := c.sessionSnapshot()
	return reply{data: enduserapi.SSOResult{
		SigninAttempts: after.SigninAttempts, Signins: after.Signins, SignupAttempts: after.SignupAttempts, ActiveSignin: after.ActiveSignin,
		AttemptId: format(at.row.Attempt), Intent: at.row.Intent, Continue: at.row.Continue, Completed: done.outcome != "pending",
	}}, nil
}

// evaluateQuery evaluates the response in a query. The attempt must be the browser's own before anything is sent to the
// provider, so that a response of another browser does not use up the attempt.
func evaluateQuery(c *call, values url.Values) (at waitingAttempt, e connection.Evidence, err error) {
	response, whole := connection.ReadResponse(values)
	if response.State == "" {
		return at, e, errInvalidAttempt
	}
	if at, err = findAttempt(c, response.State, true); err != nil {
		return at, e, err
	}
	e, err = evaluateResponse(c, at, response, whole)
	return at, e, err
}

// findAttempt returns the attempt of a state, which must wait for a response on this path and host. With own, it must
// also be the session's.
func findAttempt(c *call, state string, own bool) (at waitingAttempt, err error) {
	id, err := ids.Parse(c.r.PathValue("connection_id"))
	if err != nil {
		return at, account.ErrConnectionUnknown
	}
	err = c.view(func(u *account.Unit) error {
		row, found, err := u.Connections().SSOAttemptByState(connection.HashState(state))
		if err != nil {
			return err
		}
		if !found || row.Connection != id {
			return errInvalidAttempt
		}
		at, err = checkAttempt(c, u, row, own)
		return err
	})
	return at, err
}

// checkAttempt returns an attempt that waits for the response of its connection's provider.
func checkAttempt(c *call, u *account.Unit, row people.SSOAttempt, own bool) (at waitingAttempt, err error) {
	if row.Host != c.host || !row.CompletedAt.IsZero() || !u.Now.Before(row.ExpiresAt) {
		return at, errInvalidAttempt
	}
	if own {
		a, found, err := u.Attempts().Attempt(row.Attempt)
		if err != nil {
			return at, err
		}
		if !found || c.session == nil || a.Session != c.session.ID || a.Completed {
			return at, errInvalidAttempt
		}
	}
	conn, err := account.FindConnection(u, row.Connection)
	return waitingAttempt{row: row, conn: conn}, err
}

// errorPattern matches the error codes of providers that are passed on.
var errorPattern = regexp.MustCompile(`^[a-z_]{1,64}$`)

// evaluateResponse counts a try of an attempt, and evaluates a response. The try is given back if the provider's
// discovery document or key set is unavailable. The order is:
//  1. the parameter iss (RFC 9207);
//  2. the provider's error;
//  3. the code, which is redeemed once;
//  4. the ID token, and the claims of the userinfo endpoint.
func evaluateResponse(c *call, at waitingAttempt, response connection.Response, whole bool) (e connection.Evidence, err error) {
	if at.conn.SAML != nil {
		return e, errInvalidAttempt
	}
	if err := countResponse(c, at); err != nil {
		return e, err
	}
	if !whole {
		return e, &connection.Fault{Reason: connection.ReasonParameters}
	}
	of := upstreamOf(c, at.conn)
	metadata, err := c.Providers.Metadata(c.r.Context(), of)
	if err != nil {
		return e, account.FirstOf(returnTry(c, at), err)
	}
	if err := connection.CheckIssuer(at.conn.Connection, response, metadata.Issuer, metadata.IssInResponse); err != nil {
		return e, err
	}
	if response.Error != "" {
		return e, &providerError{code: response.Error, description: response.Description}
	}
	person, idToken, err := redeemCode(c, at, response)
	if err != nil {
		return e, err
	}
	e = connection.NewEvidence(at.conn.Connection, person, response.User, rolesOf(at.conn), c.now)
	e.RoleIDs = connection.MappedRoles(at.conn.Mappings, person.Claims)
	if at.conn.SignOutUpstream {
		e.IDToken = idToken
	}
	if at.row.Intent == people.IntentReauthenticate {
		err = e.Anew(at.row.CreatedAt)
	}
	return e, err
}

// redeemCode redeems the code of a response, and verifies who the provider says the user is.
func redeemCode(c *call, at waitingAttempt, response connection.Response) (person connection.Person, idToken string, err error) {
	of := upstreamOf(c, at.conn)
	verifier, derived := c.sso.Verifier(response.State)
	nonce, _ := c.sso.Nonce(response.State)
	if !derived {
		return person, "", errInvalidAttempt // the root key was removed meanwhile
	}
	tokens, err := c.Providers.Redeem(c.r.Context(), of, upstream.Redemption{
		Code: response.Code, Verifier: verifier, RedirectURI: redirectURI(c, at.row.Connection),
	})
	if err != nil {
		return person, "", err
	}
	if at.conn.Type == connection.TypeGitHub {
		claims, err := c.Providers.Userinfo(c.r.Context(), of, tokens.AccessToken, "")
		if err != nil {
			return person, "", err
		}
		return connection.GitHubPerson(at.conn.Connection, claims), "", nil
	}
	keys := func(ctx context.Context, issuer, keyID string) (*jose.JSONWebKey, error) {
		key, err := c.Providers.Key(ctx, of, issuer, keyID)
		if err != nil {
			err = account.FirstOf(returnTry(c, at), err)
		}
		return key, err
	}
	person, err = connection.VerifyIDToken(c.r.Context(), at.conn.Connection, tokens.IDToken, keys,
		connection.Expected{ClientID: at.conn.Client.ID, Nonce: nonce, AccessToken: tokens.AccessToken, ResponseIssuer: response.Issuer, Now: c.now})
	if err != nil {
		return person, "", err
	}
	return person, tokens.IDToken, addUserinfo(c, at, &person, tokens.AccessToken)
}

// addUserinfo adds the claims of the userinfo endpoint that the ID token does not have.
func addUserinfo(c *call, at waitingAttempt, person *connection.Person, accessToken string) error {
	_, has := person.Claims[at.conn.Attributes.Email]
	of := upstreamOf(c, at.conn)
	switch at.conn.Provider.Userinfo {
	case document.UserinfoNever:
		return nil
	case document.UserinfoIfMissing:
		metadata, err := c.Providers.Metadata(c.r.Context(), of)
		if err != nil || has || metadata.UserinfoURL == "" {
			return err
		}
	}
	subject, _ := person.Claims["sub"].(string)
	claims, err := c.Providers.Userinfo(c.r.Context(), of, accessToken, subject)
	if err != nil {
		return err
	}
	connection.AddClaims(person.Claims, claims, at.conn.Attributes.Email)
	return nil
}

// rolesOf returns the evaluation of a connection's role expression, nil if it has none. An expression that fails yields
// no role.
func rolesOf(conn account.Connection) func(map[string]any) []string {
	if conn.Role == nil {
		return nil
	}
	return func(claims map[string]any) []string {
		names, err := conn.Role.Permissions(claims)
		if err != nil || len(names) > maxRoles {
			return nil
		}
		return names
	}
}

// maxRoles is how many names of roles an expression may yield.
const maxRoles = 100

// providerError is the error that a provider returned in place of a code.
type providerError struct{ code, description string }

// Error returns the code and the description, for the connection's admins.
func (e *providerError) Error() string { return e.code + ": " + e.description }

// response returns the response to the user, with the code if it is well-formed.
func (e *providerError) response() error {
	answer := apierror.Bad("SSO_FAILED", "the identity provider did not sign you in: try again, or use another way")
	if answer.Reason = "error"; errorPattern.MatchString(e.code) {
		answer.Reason = e.code
	}
	return answer
}

// recordFailure records why a response was refused, for the admins of the connection, and returns the response to the
// user.
func recordFailure(c *call, at waitingAttempt, e connection.Evidence, err error) error {
	failed := new(providerError)
	failure, admins := failureOf(err)
	if errors.As(err, &failed) {
		failure, admins = people.ConnectionFailure{Reason: "provider", Got: clipText(failed.Error())}, true
		err = failed.response()
	}
	answer := c.answerTo(err)
	if at.conn.ID == 0 {
		return answer
	}
	refused := apierror.Of(answer)
	c.Metrics.SSO(c.request.Key(), at.conn.Type, outcomeOf(refused))
	if !admins {
		failure.Reason = refused.EffectiveCode()
	}
	c.Metrics.SSOFailed(c.request.Key(), at.conn.Type, failure.Reason)
	if refused.Status >= http.StatusInternalServerError && refused.EffectiveCode() != errConnectionUnavailable.Code {
		return answer
	}
	failure.Connection, failure.At, failure.RequestID, failure.Step = at.row.Connection, c.now, c.ID[0], "response"
	failure.Subject, failure.Email = clipText(e.Subject), clipText(e.Email)
	recordErr := c.request.Change(context.WithoutCancel(c.r.Context()), func(u *account.Unit) (err error) {
		if failure.ID, err = u.NewID(); err != nil {
			return err
		}
		return u.Connections().RecordConnectionFailure(failure)
	})
	if recordErr != nil && !unexpected(answer) {
		return c.answerTo(recordErr)
	}
	return answer
}

// outcomeOf returns the outcome of a refused sign-in in metrics.
func outcomeOf(refused *apierror.Error) string {
	if refused.Status >= http.StatusInternalServerError {
		return "unavailable"
	}
	return "refused"
}

// postedOutcome is an evaluated response that came in a form, as an attempt keeps it.
type postedOutcome struct {
	// Receipt is known only to the browser that posted the response.
	Receipt  string              `json:"receipt"`
	Evidence connection.Evidence `json:"evidence"`
}

// ssoPost receives the response of a provider in a form. The browser sends such a request without the session cookie,
// so the evaluated response waits in the attempt for the request of the browser's session, to which this response
// redirects. That request needs the cookie of the session that began the attempt, and the receipt: an
// attacker who sends another user to the address of an own attempt has the cookie alone.
func ssoPost(c *call) error {
	form, err := readForm(c, body.MaxEndUserBytes)
	if err != nil {
		return err
	}
	response, whole := connection.ReadResponse(form)
	if response.State == "" {
		return errInvalidAttempt
	}
	at, err := findAttempt(c, response.State, false)
	if err != nil {
		return err
	}
	evidence, err := evaluateResponse(c, at, response, whole)
	if err != nil {
		return recordFailure(c, at, evidence, err)
	}
	return keepPosted(c, at, evidence)
}

// keepPosted keeps an evaluated response in its attempt, and sends the browser that posted it to complete the attempt.
func keepPosted(c *call, at waitingAttempt, evidence connection.Evidence) error {
	receipt := rand.Text()
	raw, err := json.Marshal(postedOutcome{Receipt: receipt, Evidence: evidence})
	if err != nil {
		return err
	}
	stored := false
	err = c.request.Change(c.r.Context(), func(u *account.Unit) (err error) {
		stored, err = u.Connections().PutSSOOutcome(at.row.Attempt, sealAttempt(c, at.row.Attempt, raw), u.Now)
		return err
	})
	if err != nil || !stored {
		return c.answerTo(account.FirstOf(err, errInvalidAttempt))
	}
	to := connectionPath(at.row.Connection) + "/callback?attempt_id=" + format(at.row.Attempt) + "&receipt=" + receipt
	return toBrowser(c, to)
}

// storedEvidence returns the evaluated response of an attempt of the session, which the same browser posted.
func storedEvidence(c *call, values url.Values) (at waitingAttempt, e connection.Evidence, err error) {
	id, err := ids.Parse(values.Get("attempt_id"))
	if err != nil || c.session == nil {
		return at, e, errInvalidAttempt
	}
	err = c.view(func(u *account.Unit) error {
		row, found, err := u.Connections().SSOAttempt(id)
		if err != nil {
			return err
		}
		if !found || format(row.Connection) != c.r.PathValue("connection_id") || row.Outcome == "" {
			return errInvalidAttempt
		}
		at, err = checkAttempt(c, u, row, true)
		return err
	})
	if err != nil {
		return at, e, err
	}
	var posted postedOutcome
	if err := openAttempt(c, id, at.row.Outcome, &posted); err != nil {
		return at, e, err
	}
	if subtle.ConstantTimeCompare([]byte(values.Get("receipt")), []byte(posted.Receipt)) != 1 {
		return waitingAttempt{}, e, errInvalidAttempt
	}
	return at, posted.Evidence, nil
}

func sealAttempt(c *call, id int64, raw []byte) string {
	return c.Keyring.Seal(people.SealedSSOAttempt, people.SealedFor(c.request.Key(), id), raw)
}

// openAttempt opens what is sealed in an attempt.
func openAttempt(c *call, id int64, sealed string, to any) error {
	raw, err := c.Keyring.Open(people.SealedSSOAttempt, people.SealedFor(c.request.Key(), id), sealed)
	if err != nil {
		return errInvalidAttempt // the root key was removed meanwhile
	}
	return json.Unmarshal(raw, to)
}
