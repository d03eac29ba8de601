package enduser

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

// envelope is the body of every response except those of public: data, session and errors. enduser.yaml has its schema.
type envelope struct {
	Status  int                        `json:"status"`
	Message string                     `json:"message"`
	Data    any                        `json:"data"`
	Session enduserapi.SessionSnapshot `json:"session"`
	Errors  []enduserapi.EndUserFault  `json:"errors"`
}

func format(id int64) string { return ids.Format(id) }

// sessionSnapshot returns the session for the response: its own attempts and sign-ins, and nothing of other sessions.
func (c *call) sessionSnapshot() enduserapi.SessionSnapshot {
	out := enduserapi.SessionSnapshot{
		SigninAttempts: []enduserapi.SignInAttempt{}, Signins: []enduserapi.SignInEntry{}, SignupAttempts: []enduserapi.SignUpAttempt{},
	}
	if c.session == nil {
		return out
	}
	for _, a := range slices.Backward(c.attempts) { // newest first, so that the attempt of this request leads
		if a.Kind == people.AttemptSignUp {
			out.SignupAttempts = append(out.SignupAttempts, enduserapi.SignUpAttempt{Id: format(a.ID), Email: a.Email, CurrentStep: "verify_email", CreatedAt: a.CreatedAt})
			continue
		}
		out.SigninAttempts = append(out.SigninAttempts, enduserapi.SignInAttempt{
			Id: format(a.ID), Method: a.Method, CurrentStep: stepOf(a), Completed: a.Completed, CreatedAt: a.CreatedAt,
		})
	}
	for _, g := range c.session.SignIns {
		view := enduserapi.SignInEntry{Id: format(g.ID), UserId: format(g.User), CreatedAt: g.CreatedAt}
		out.Signins = append(out.Signins, view)
		if g.ID == c.session.ActiveSignIn {
			out.ActiveSignin = &view
		}
	}
	return out
}

// The steps of sign-ins by connections, before those of all sign-ins.
const (
	// stepSSO waits for the response of the provider.
	stepSSO = "sso"
	// stepEnterEmail waits for an address, and stepVerifyEmail for the code that was mailed there.
	stepEnterEmail  = "enter_email"
	stepVerifyEmail = "verify_email"
)

// stepOf returns the step that an attempt waits for.
func stepOf(a people.Attempt) string {
	switch answered := a.Proofs.Has(assurance.SSO, assurance.SSOMultiFactor); {
	case !a.ProvedAt.IsZero():
	case a.Method != people.MethodSSO:
	case !answered:
		return stepSSO
	case a.Email == "":
		return stepEnterEmail
	default:
		return stepVerifyEmail
	}
	switch {
	case a.ProvedAt.IsZero():
		return "verify_email_otp"
	case a.Kind == people.AttemptResetPassword:
		return "new_password"
	}
	return "second_factor"
}

// answer sends a success.
func (c *call) answer(data any) {
	c.send(envelope{Status: http.StatusOK, Data: data, Session: c.sessionSnapshot(), Errors: []enduserapi.EndUserFault{}})
}

// Refuse sends a failure. An unexpected error becomes a plain 500, and its text is only logged.
func (c *call) Refuse(err error) {
	refused := apierror.Of(c.answerTo(err))
	out := envelope{Status: refused.Status, Session: c.sessionSnapshot(), Errors: errorViews(refused)}
	messages := make([]string, len(out.Errors))
	for i, view := range out.Errors {
		messages[i] = view.Message
	}
	out.Message = strings.Join(messages, "; ")
	for name, values := range refused.Header {
		c.Header()[name] = values
	}
	if refused.RetryAfter > 0 {
		c.Header().Set("Retry-After", strconv.Itoa(refused.RetrySeconds()))
	}
	if refused.Status >= 500 && !outage.Quiet(refused) && c.r.Context().Err() == nil {
		tracing.Logger(c.r.Context(), c.Log).Error(refused, "A request failed", "method", c.r.Method, "route", c.r.Pattern, "request_id", c.ID[0])
	}
	c.send(out)
}

// errorViews returns the errors of a response, at least one. Only the first one has the wait, the number of
// remaining attempts, and what the user must show.
func errorViews(refused *apierror.Error) []enduserapi.EndUserFault {
	code := refused.EffectiveCode()
	views := []enduserapi.EndUserFault{}
	for _, fault := range refused.Faults {
		message := fault.Message
		if fault.Pointer != "" {
			message = strings.TrimLeft(fault.Pointer, "/?") + " " + message
		}
		views = append(views, enduserapi.EndUserFault{Code: code, Message: message})
	}
	if len(views) == 0 {
		views = append(views, enduserapi.EndUserFault{Code: code, Message: refused.Text()})
	}
	if refused.RetryAfter > 0 {
		views[0].RetryAfterSeconds = ptr.To(int64(refused.RetrySeconds()))
	}
	if refused.AttemptsLeft != nil {
		views[0].AttemptsRemaining = ptr.To(int64(*refused.AttemptsLeft))
	}
	if refused.RequiredAssurance != "" {
		views[0].RequiredAssurance = &refused.RequiredAssurance
	}
	if refused.Strategies != nil {
		views[0].Strategies = &refused.Strategies
	}
	if refused.Enroll != nil {
		views[0].Enroll = &refused.Enroll
	}
	if refused.Reason != "" {
		views[0].Reason = &refused.Reason
	}
	if refused.Connections != nil {
		views[0].Connections = ptr.To(viewConnections(refused.Connections))
	}
	if !refused.LookedUpAt.IsZero() {
		views[0].Seen, views[0].LookedUpAt = &refused.Seen, &refused.LookedUpAt
	}
	return views
}

// setHeader sets the header of every response with the session.
func setHeader(c *call, header http.Header) {
	c.setCookie(header)
	c.allowOrigin(header)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if c.request != nil && !c.plainLocalhost() {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
}

// redirectTo redirects the browser. The address can have secrets of the flow, which must not reach another site.
func (c *call) redirectTo(location string) {
	header := c.Header()
	setHeader(c, header)
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Location", location)
	c.WriteHeader(http.StatusSeeOther)
}

func (c *call) send(out envelope) {
	header := c.Header()
	setHeader(c, header)
	header.Set("Content-Type", "application/json")
	raw, err := json.Marshal(out)
	if err != nil {
		tracing.Logger(c.r.Context(), c.Log).Error(err, "Encoding a response as JSON failed", "route", c.r.Pattern, "request_id", c.ID[0])
		c.WriteHeader(http.StatusInternalServerError)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	c.WriteHeader(out.Status)
	if c.r.Method != http.MethodHead {
		_, _ = c.Write(raw) // an error means that the client disconnected
	}
}
