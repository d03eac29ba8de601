package enduser

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// envelope is the form of every answer (data, session and errors of every operation; the document has its schema).
type envelope struct {
	Status  int             `json:"status"`
	Message string          `json:"message"`
	Data    any             `json:"data"`
	Session sessionSnapshot `json:"session"`
	Errors  []errorView     `json:"errors"`
}

type errorView struct {
	Code              string `json:"code"`
	Message           string `json:"message"`
	RetryAfterSeconds *int   `json:"retry_after_seconds,omitempty"`
	AttemptsRemaining *int   `json:"attempts_remaining,omitempty"`
}

type sessionSnapshot struct {
	SignInAttempts []signInAttemptView `json:"signin_attempts"`
	SignIns        []signInView        `json:"signins"`
	SignUpAttempts []signUpAttemptView `json:"signup_attempts"`
	ActiveSignIn   *signInView         `json:"active_signin"`
}

type signInAttemptView struct {
	ID          string    `json:"id"`
	Method      string    `json:"method"`
	CurrentStep string    `json:"current_step"`
	Completed   bool      `json:"completed"`
	CreatedAt   time.Time `json:"created_at"`
}

type signUpAttemptView struct {
	ID          string    `json:"id"`
	Email       string    `json:"email"`
	CurrentStep string    `json:"current_step"`
	CreatedAt   time.Time `json:"created_at"`
}

type signInView struct {
	ID        string    `json:"id"`
	UserID    string    `json:"user_id"`
	CreatedAt time.Time `json:"created_at"`
}

func format(id int64) string { return ids.Format(id) }

// sessionSnapshot is the session as its browser may see it: its own attempts and sign-ins, nothing of other sessions.
func (c *call) sessionSnapshot() sessionSnapshot {
	out := sessionSnapshot{SignInAttempts: []signInAttemptView{}, SignIns: []signInView{}, SignUpAttempts: []signUpAttemptView{}}
	if c.session == nil {
		return out
	}
	for _, a := range c.attempts {
		if a.Kind == people.AttemptSignUp {
			out.SignUpAttempts = append(out.SignUpAttempts, signUpAttemptView{format(a.ID), a.Email, "verify_email", a.CreatedAt})
			continue
		}
		out.SignInAttempts = append(out.SignInAttempts, signInAttemptView{format(a.ID), a.Method, "verify_email_otp", a.Completed, a.CreatedAt})
	}
	for _, g := range c.session.SignIns {
		view := signInView{format(g.ID), format(g.User), g.CreatedAt}
		out.SignIns = append(out.SignIns, view)
		if g.ID == c.session.ActiveSignIn {
			out.ActiveSignIn = &view
		}
	}
	return out
}

// answer sends a success.
func (c *call) answer(data any) {
	c.send(envelope{Status: http.StatusOK, Data: data, Session: c.sessionSnapshot(), Errors: []errorView{}})
}

// refuse sends a failure. An error that is no answer is a bare 500: what it says is for the log.
func (c *call) refuse(err error) {
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
	if refused.Status >= 500 && c.r.Context().Err() == nil {
		c.Log.Error(refused, "A request failed", "method", c.r.Method, "route", c.r.Pattern, "request_id", c.id)
	}
	c.send(out)
}

// errorViews are an answer's errors, at least one. The first carries what is told once.
func errorViews(refused *apierror.Error) []errorView {
	code := refused.EffectiveCode()
	views := []errorView{}
	for _, fault := range refused.Faults {
		message := fault.Message
		if fault.Pointer != "" {
			message = strings.TrimPrefix(fault.Pointer, "/") + " " + message
		}
		views = append(views, errorView{Code: code, Message: message})
	}
	if len(views) == 0 {
		views = append(views, errorView{Code: code, Message: refused.Text()})
	}
	if refused.RetryAfter > 0 {
		views[0].RetryAfterSeconds = ptr.To(refused.RetrySeconds())
	}
	views[0].AttemptsRemaining = refused.AttemptsLeft
	return views
}

func (c *call) send(out envelope) {
	header := c.Header()
	c.setCookie(header)
	c.allowOrigin(header)
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "application/json")
	header.Set("X-Content-Type-Options", "nosniff")
	if c.request != nil && !c.plainLocalhost() {
		header.Set("Strict-Transport-Security", "max-age=31536000")
	}
	raw, err := json.Marshal(out)
	if err != nil {
		c.Log.Error(err, "An answer cannot be written as JSON", "route", c.r.Pattern, "request_id", c.id)
		c.WriteHeader(http.StatusInternalServerError)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	c.WriteHeader(out.Status)
	if c.r.Method != http.MethodHead {
		_, _ = c.Write(raw) // the client is gone
	}
}
