package decision

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/internal/assurance"
)

// Bounds of a check.
const (
	maxBody        = 16 << 10
	maxPermissions = 64
)

// check serves POST /v1/authz/check.
func (a *API) check(c *call) error {
	if err := body.RequireJSON(c.r); err != nil {
		return err
	}
	raw, err := body.Read(c.r, maxBody)
	if err != nil {
		return err
	}
	q, err := readCheck(raw)
	if err != nil {
		return err
	}
	if q.scope.deployment, err = a.oneDeployment(c.deployment, q.scope.deployment, "/deployment"); err != nil {
		return err
	}
	q.peer = credential.Peer(c.r)
	if !q.client.IsValid() {
		q.client = a.Authenticator.Proxies.ClientAddress(c.r)
	}
	mirror, err := mirrorsStatus(c.r)
	if err != nil {
		return err
	}
	v := a.decisions.Get().(*decision)
	defer a.decisions.Put(v)
	if err := a.decide(c.r.Context(), &q, v); err != nil {
		if refused := apierror.Of(err); refused.Status == http.StatusUnauthorized {
			c.sendCheck(refused.Status, unauthenticated(c.ID[0], notAccepted), refused.Header)
			return nil
		} else if refused.Code == pathRefused {
			return atResource(refused)
		}
		return err
	}
	a.Journal.note(c.Received, c.ID[0], &q, v)
	status := http.StatusOK
	if mirror {
		status = v.status()
		limits.WriteFields(c.Header(), &v.limits)
		if v.reason == insufficientProof {
			c.Header()["Www-Authenticate"] = []string{v.challenge}
		}
	}
	c.sendCheck(status, v.appendJSON(make([]byte, 0, 1024), c.ID[0]), nil)
	return nil
}

// atResource returns the refusal of a path as a fault of the request member that has the path.
func atResource(refused *apierror.Error) *apierror.Error {
	at := *refused
	at.Message, at.Faults = "", []apierror.Fault{{Pointer: "/resource", Message: refused.Message}}
	return &at
}

// notAccepted is the message for every credential that is not accepted.
const notAccepted = "the principal's credential is not accepted: it must be known, active, not expired, and used from an allowed address"

// mirrorsStatus reads ?status=http, which requests 401, 403 and 429 instead of 200.
func mirrorsStatus(r *http.Request) (bool, error) {
	if r.URL.RawQuery == "" {
		return false, nil
	}
	switch asked := r.URL.Query()["status"]; {
	case len(asked) == 0:
		return false, nil
	case len(asked) == 1 && asked[0] == "http":
		return true, nil
	}
	refused := apierror.New(http.StatusBadRequest, "")
	refused.Faults = []apierror.Fault{{Pointer: "?status", Message: "must be http, sent once, or absent"}}
	return false, refused
}

// readCheck reads the body of a check.
func readCheck(raw []byte) (question, error) {
	if q, usual := readFast(raw); usual {
		return q, nil
	}
	return readStrict(raw)
}

// readStrict parses the body of a check and returns all its faults.
func readStrict(raw []byte) (q question, err error) {
	o, err := body.Parse(raw)
	if err != nil {
		return q, err
	}
	if o.Require("principal") {
		if principal, ok := o.Object("principal"); ok {
			readPrincipal(principal, &q)
		}
	}
	q.path = require(o, "resource")
	q.method = require(o, "method")
	if q.method != "" && !validMethod(q.method) {
		o.Fault("method", "must be an HTTP method in upper case, such as GET")
	}
	if text, ok := o.String("client_ip"); ok {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			o.Fault("client_ip", "must be an IPv4 or IPv6 address")
		}
		q.client = address.Unmap()
	}
	o.String("user_agent")
	if text, ok := o.String("deployment"); ok {
		if q.scope.deployment, err = parseDeployment(text); err != nil {
			o.Fault("deployment", "%s", err.Error())
		}
	}
	if text, ok := o.String("app"); ok {
		if text == "" {
			o.Fault("app", "must not be empty: leave it out to accept keys of every app")
		}
		q.scope.apps = []string{text}
	}
	if q.permissions, _ = o.Strings("required_permissions"); len(q.permissions) > maxPermissions {
		o.Fault("required_permissions", "has %d entries: at most %d are allowed", len(q.permissions), maxPermissions)
	}
	readWanted(o, &q)
	o.Close()
	return q, o.Err()
}

// readWanted reads what the user of the credential must have proven.
func readWanted(o *body.Object, q *question) {
	acr, age := assurance.Wanted{}, assurance.Wanted{}
	if text, ok := o.String("required_acr"); ok {
		var err error
		if acr, err = assurance.ParseWanted(text, ""); err != nil || text == "" {
			o.Fault("required_acr", "must be one of 1, 2 and phr")
		}
	}
	if seconds, ok := o.Integer("max_age"); ok {
		var err error
		if age, err = assurance.ParseWanted("", strconv.FormatInt(seconds, 10)); err != nil {
			o.Fault("max_age", "%s", err.Error())
		}
	}
	q.wanted = assurance.Wanted{Level: acr.Level, MaxAge: age.MaxAge, Aged: age.Aged}
}

func readPrincipal(o *body.Object, q *question) {
	switch kind := require(o, "type"); kind {
	case "", typeAPIKey:
	case typeSessionToken:
		q.kind = kindSession
	case typeAccessToken:
		q.kind = kindAccessToken
		q.audience, _ = o.String("audience")
	default:
		o.Fault("type", "must be %s, %s or %s", typeAPIKey, typeSessionToken, typeAccessToken)
	}
	q.credential = require(o, "value")
	o.Close()
}

// require reads a mandatory member, which must not be empty.
func require(o *body.Object, member string) string {
	if !o.Require(member) {
		return ""
	}
	text, ok := o.String(member)
	if ok && text == "" {
		o.Fault(member, "must not be empty")
	}
	return text
}

// validMethod reports whether a method consists of 1 to 32 capital letters and dashes, as the methods of RFC 9110 and
// of WebDAV do.
func validMethod(method string) bool {
	if method == "" || len(method) > 32 {
		return false
	}
	return strings.Trim(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-") == ""
}

// unauthenticated returns the response to a credential that is not accepted, the same for every reason.
func unauthenticated(requestID, message string) []byte {
	out := appendQuoted([]byte(`{"request_id":`), requestID)
	out = append(out, `,"allowed":false,"reason":null,"blocked_rule":null,"identity":null,"permissions":[],"metadata":{},"rate_limits":[],"retry_after":null,"headers":{},"message":`...)
	return append(appendQuoted(out, message), '}')
}

// appendJSON appends the response to a check.
func (v *decision) appendJSON(out []byte, requestID string) []byte {
	out = appendQuoted(append(out, `{"request_id":`...), requestID)
	out = strconv.AppendBool(append(out, `,"allowed":`...), v.allowed)
	out = append(out, `,"reason":`...)
	if v.reason == "" {
		out = append(out, "null"...)
	} else {
		out = append(append(append(out, '"'), v.reason...), '"')
	}
	out = append(out, `,"blocked_rule":`...)
	if v.reason == rateLimited {
		out = append(append(append(out, '"'), v.limits.Rules[v.limits.Blocked].Rule.Text...), '"')
	} else {
		out = append(out, "null"...)
	}
	out = append(append(out, `,"identity":`...), v.subject.identity...)
	out = append(append(out, `,"permissions":`...), v.subject.permissions...)
	out = append(append(out, `,"metadata":`...), v.subject.metadata...)
	out = v.appendLimits(append(out, `,"rate_limits":[`...))
	out = append(out, `],"retry_after":`...)
	if v.reason == rateLimited {
		out = strconv.AppendInt(out, limits.RetrySeconds(&v.limits), 10)
	} else {
		out = append(out, "null"...)
	}
	out = v.appendHeaders(append(out, `,"headers":{`...))
	out = append(out, '}')
	if message := v.message(); message != "" {
		out = appendQuoted(append(out, `,"message":`...), message)
	}
	return append(out, '}')
}

func (v *decision) appendLimits(out []byte) []byte {
	for i := range v.limits.Rules {
		state := &v.limits.Rules[i]
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(out, `{"rule":"`...), state.Rule.Text...) // digits, letters, a slash and an underscore
		out = strconv.AppendInt(append(out, `","limit":`...), state.Rule.Limit, 10)
		out = strconv.AppendInt(append(out, `,"remaining":`...), state.Remaining, 10)
		out = append(out, '}')
	}
	return out
}

// appendHeaders appends the headers that the application may send to its client.
func (v *decision) appendHeaders(out []byte) []byte {
	if v.reason == insufficientProof {
		return appendQuoted(append(out, `"WWW-Authenticate":`...), v.challenge)
	}
	if len(v.limits.Rules) == 0 {
		return out
	}
	var buffer [256]byte
	out = appendQuoted(append(out, `"RateLimit":`...), limits.AppendLimit(buffer[:0], &v.limits))
	out = appendQuoted(append(out, `,"RateLimit-Policy":`...), limits.AppendPolicy(buffer[:0], &v.limits))
	if v.reason == rateLimited {
		out = append(out, `,"Retry-After":"`...)
		out = append(strconv.AppendInt(out, limits.RetrySeconds(&v.limits), 10), '"')
	}
	return out
}

// appendQuoted appends text as a JSON string. encoding/json writes any text that is not plain ASCII.
func appendQuoted[T string | []byte](out []byte, text T) []byte {
	begin := len(out)
	out = append(out, '"')
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c < ' ' || c > '~' || c == '<' || c == '>' || c == '&':
			raw, _ := json.Marshal(string(text)) // a string cannot fail
			return append(out[:begin], raw...)
		case c == '"' || c == '\\':
			out = append(out, '\\', c)
		default:
			out = append(out, c)
		}
	}
	return append(out, '"')
}
