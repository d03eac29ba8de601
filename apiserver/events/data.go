package events

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// Data are the members of an event's data beside the subject. It holds ids and names of states, but neither personal
// data nor secrets.
type Data struct {
	User, Email, Phone, Role int64
	Changed                  []string
	// RoleName is the name of the role.
	RoleName string
	// Level is LevelOrganization or LevelWorkspace.
	Level string
	Owner bool
	// SessionsEnded is how many sign-ins the change ended.
	SessionsEnded int64
	SignIn        int64
	// Method is how a user signed in or up, and Reason why a sign-in ended.
	Method string
	Reason Reason
	// Step is StepPassword or StepSecond.
	Step string
	// App is the slug of an APIAuthApp, Last4 the end of a key, and Next the key that replaces it.
	App, Last4 string
	Next       int64
	// Source is how an entity came into being: one of the sources of its type.
	Source string
	// Client is a client_id, OAuthApp the id of its app, and Scopes what is granted to it.
	Client   string
	OAuthApp int64
	Scopes   []string
	// Rows is how many rows were imported.
	Rows int64
	// Agent and Tool are the agent and the tool of a call.
	Agent, Tool int64
	// Kind, Name and Generation are those of a resource.
	Kind, Name string
	Generation int64
	// Call is a call of a tool, Decision, Outcome and Code what its record says of it, and Latency how long it took.
	Call                    int64
	Decision, Outcome, Code string
	Latency                 time.Duration
	// Cause is why a webhook endpoint was disabled or fails. Since is when it began to fail, or when the first of counted
	// refusals was.
	Cause string
	Since time.Time
	// Scheme is the slug of a rate-limit scheme, Rule the text of a rule, and Mode what it counts by. Key is an API key.
	Scheme, Rule, Mode string
	Key                int64
	// Count is how many requests were refused.
	Count int64
	// From and To are the first and the last number of events.
	From, To int64
}

// The values of Data.Source.
const (
	SourceHTTP = "http"
	// SourceDeclared is a resource that a manager other than the management API declares, and a key or a client that any
	// resource declares.
	SourceDeclared = "declared"
	SourceImport   = "import"
	// SourceBackend, SourceRegistered and SourceDocument are clients that a backend created, that registered themselves,
	// and that publish their metadata.
	SourceBackend    = "backend"
	SourceRegistered = "registered"
	SourceDocument   = "metadata_document"
)

// The values of Data.Level.
const (
	LevelOrganization = "organization"
	LevelWorkspace    = "workspace"
)

// The values of Data.Step.
const (
	StepPassword = "password"
	StepSecond   = "second_step"
)

// The values of Data.Cause of an endpoint that was disabled.
const (
	CauseSustained = "sustained_failure"
	CauseGone      = "gone"
)

// The values of Data.Cause of an endpoint that fails: how its last request ended.
const (
	CauseStatus       = "http_status"
	CauseTimeout      = "timeout"
	CauseTLS          = "tls"
	CauseNotPermitted = "address_not_permitted"
	CauseUnreachable  = "unreachable"
)

// Reason is why a sign-in ended.
type Reason string

// The reasons for which sign-ins end.
const (
	// SignedOut: its user signed out, in this session or from another one, or by an app.
	SignedOut Reason = "signed_out"
	// Expired: its time, or that of its session, was over.
	Expired Reason = "expired"
	// Replaced: the user signed in again in the same session.
	Replaced Reason = "replaced"
	// Evicted: there were too many newer sign-ins of the user, or in the session.
	Evicted Reason = "evicted"
	// TokenReused: a copy of the session's token was used.
	TokenReused Reason = "token_reused"
	// PasswordChanged: the password was changed, reset or removed.
	PasswordChanged Reason = "password_changed"
	// Claimed: the owner of the account's address proved it, and all that another person may have added ended.
	Claimed Reason = "claimed"
	// ByBackend: a backend signed the user out, or reset the second factors.
	ByBackend Reason = "backend"
	// Disabled and Deleted: a backend, or the user, did it to the account.
	Disabled Reason = "user_disabled"
	Deleted  Reason = "user_deleted"
	// ByDirectory: a directory deactivated the user.
	ByDirectory Reason = "directory"
	// ByConnection: the provider signed the user out, or its connection or the user's identity there was removed.
	ByConnection Reason = "connection"
)

// reasons are all reasons.
var reasons = []string{
	string(SignedOut), string(Expired), string(Replaced), string(Evicted), string(TokenReused), string(PasswordChanged), string(Claimed), string(ByBackend),
	string(Disabled), string(Deleted), string(ByDirectory), string(ByConnection),
}

// methods are the methods of sign-ins.
var methods = []string{people.MethodPassword, people.MethodEmailOTP, people.MethodPasskey, people.MethodSSO}

// id returns the value of a member with an id, which the data have unless it is 0.
func id(of func(*Data) int64) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return ids.Format(of(d)), of(d) != 0 }
}

// text returns the value of a member with a text, which the data have unless it is "".
func text(of func(*Data) string) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return of(d), of(d) != "" }
}

// always returns the value of a member that the data always have.
func always[T any](of func(*Data) T) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return of(d), true }
}

// moment returns the value of a member with a time, which the data have unless it is zero.
func moment(of func(*Data) time.Time) func(*Data) (any, bool) {
	return func(d *Data) (any, bool) { return of(d).UTC().Format(time.RFC3339), !of(d).IsZero() }
}

// changedNames returns the value of the member with the names of changed members.
func changedNames(d *Data) (any, bool) { return fitting(d.Changed), len(d.Changed) > 0 }

// omittedScopes returns the value of the member with the number of scopes that do not fit in an event.
func omittedScopes(d *Data) (any, bool) {
	omitted := int64(len(d.Scopes) - len(fitting(d.Scopes)))
	return omitted, omitted > 0
}

// encode returns the JSON of a value. It escapes no characters of HTML, which would take six bytes each.
func encode(value any) ([]byte, error) {
	var raw bytes.Buffer
	encoder := json.NewEncoder(&raw)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(value)
	return bytes.TrimSuffix(raw.Bytes(), []byte("\n")), err
}

// fitting returns the first texts of a list, at most maxList bytes of JSON: a long list must not fail a change.
func fitting(list []string) []string {
	size := len("[]")
	for i, text := range list {
		raw, _ := encode(text) // a text cannot fail
		if size += len(raw) + len(","); size > maxList {
			return list[:i]
		}
	}
	return list
}

// The members that types of events have.
var (
	ofUser  = Member{Name: "user_id", Of: ID, of: id(func(d *Data) int64 { return d.User }), Description: "the user"}
	ofEmail = Member{Name: "email_id", Of: ID, of: id(func(d *Data) int64 { return d.Email }), Description: "the address"}
	ofPhone = Member{Name: "phone_id", Of: ID, of: id(func(d *Data) int64 { return d.Phone }), Description: "the phone number"}
	ofRole  = Member{Name: "role_id", Of: ID, of: id(func(d *Data) int64 { return d.Role }), Optional: true}
	changed = Member{Name: "changed", Of: Names, of: changedNames, Description: "the names of the members that changed"}
	levelOf = Member{
		Name: "level", Of: Text, of: text(func(d *Data) string { return d.Level }), Values: []string{LevelOrganization, LevelWorkspace},
		Description: "what the user is a member of",
	}
	ownerOf       = Member{Name: "owner", Of: Truth, of: always(func(d *Data) bool { return d.Owner }), Description: "whether the member is an owner"}
	sourceOf      = Member{Name: "source", Of: Text, of: text(func(d *Data) string { return d.Source }), Description: "how it came into being"}
	sessionsEnded = Member{
		Name: "sessions_ended", Of: Count, of: always(func(d *Data) int64 { return d.SessionsEnded }), Description: "how many sign-ins of the user the change ended",
	}
	memberships = []Member{
		ofUser, levelOf, ownerOf, ofRole.saying("the role; absent for a member without one, and for an owner"),
		{Name: "role", Of: Text, Optional: true, of: text(func(d *Data) string { return d.RoleName }), Description: "the name of the role; absent for none, and for a role that was deleted"},
	}
	ofInvitation = []Member{ofRole.saying("the role that the invitation gives; absent for that of new members")}
	ofSignIn     = Member{Name: "signin_id", Of: ID, of: id(func(d *Data) int64 { return d.SignIn }), Description: "the sign-in in the session"}
	methodOf     = Member{Name: "method", Of: Text, of: text(func(d *Data) string { return d.Method }), Values: methods, Description: "how the user signed in"}
	signUpMethod = methodOf.among().saying("how the user signed up: as a sign-in; sso: and the slug of the connection; sso:scim for a directory; import for a backend and for an import")
	reasonOf     = Member{Name: "reason", Of: Text, of: text(func(d *Data) string { return string(d.Reason) }), Values: reasons, Description: "why it ended"}
	stepOf       = Member{
		Name: "step", Of: Text, of: text(func(d *Data) string { return d.Step }), Values: []string{StepPassword, StepSecond},
		Description: "what failed: the password, or the second step after the right first one",
	}
	signIns      = []Member{ofUser, ofSignIn, methodOf}
	endedSignIns = append(slices.Clip(signIns), reasonOf)
	ownerOfKey   = ofUser.saying("the user for whom the key acts; absent for a key of no user").optional()
	appSlug      = Member{Name: "app_slug", Of: Text, Optional: true, of: text(func(d *Data) string { return d.App }), Description: "the slug of the app; absent for a declared key whose app is gone"}
	keySource    = sourceOf.among(SourceHTTP, SourceImport, SourceDeclared)
	last4        = Member{Name: "last4", Of: Text, Optional: true, of: text(func(d *Data) string { return d.Last4 }), Description: "the last characters of the key; absent if unknown"}
	nextKey      = Member{Name: "next_id", Of: ID, Optional: true, of: id(func(d *Data) int64 { return d.Next }), Description: "the key that replaces it; absent for a declared key, which keeps its id"}
	ofKey        = []Member{ownerOfKey, appSlug, keySource, last4}
	oauthApp     = Member{Name: "app_id", Of: ID, of: id(func(d *Data) int64 { return d.OAuthApp }), Description: "the OAuth app"}
	clientID     = Member{Name: "client_id", Of: Text, of: text(func(d *Data) string { return d.Client }), Description: "the client_id of the client"}
	scopesOf     = Member{Name: "scopes", Of: Texts, of: always(func(d *Data) []string { return append([]string{}, fitting(d.Scopes)...) }), Description: "the names of the granted scopes"}
	scopesLeft   = Member{Name: "scopes_omitted", Of: Count, Optional: true, of: omittedScopes, Description: "how many more scopes are granted, whose names do not fit in the event; absent for none"}
	ofClient     = []Member{
		oauthApp.saying("the OAuth app; absent for a declared client whose app is gone").optional(), clientID, sourceOf.among(SourceBackend, SourceRegistered, SourceDocument, SourceDeclared),
	}
	ofGrant   = []Member{ofUser, oauthApp, clientID}
	rowsOf    = Member{Name: "rows", Of: Count, of: always(func(d *Data) int64 { return d.Rows }), Description: "how many rows the import added"}
	causeOf   = Member{Name: "reason", Of: Text, of: text(func(d *Data) string { return d.Cause }), Values: []string{CauseSustained, CauseGone}, Description: "why it was disabled"}
	failureOf = causeOf.saying("how the last request ended; absent in events of earlier versions").optional().among(CauseStatus, CauseTimeout, CauseTLS, CauseNotPermitted, CauseUnreachable)
	sinceOf   = Member{Name: "since", Of: Text, of: moment(func(d *Data) time.Time { return d.Since }), Description: "when the first of its failures happened (RFC 3339)"}
	fromOf    = Member{Name: "from_sequence", Of: ID, of: id(func(d *Data) int64 { return d.From }), Description: "the number of the first of these events"}
	toOf      = Member{Name: "to_sequence", Of: ID, of: id(func(d *Data) int64 { return d.To }), Description: "the number of the last of these events"}
	agentOf   = Member{Name: "agent_id", Of: ID, of: id(func(d *Data) int64 { return d.Agent }), Description: "the agent"}
	toolOf    = Member{Name: "tool_id", Of: ID, of: id(func(d *Data) int64 { return d.Tool }), Description: "the tool"}
	ofLimit   = []Member{
		{Name: "scheme", Of: Text, of: text(func(d *Data) string { return d.Scheme }), Description: "the slug of the scheme"},
		{Name: "rule", Of: Text, of: text(func(d *Data) string { return d.Rule }), Description: "the limit of the rule, such as 100/1min"},
		{Name: "mode", Of: Text, of: text(func(d *Data) string { return d.Mode }), Values: []string{"per_key", "per_app", "per_ip", "per_key_and_ip", "per_app_and_ip"}, Description: "what the rule counts by"},
		{Name: "key_id", Of: ID, Optional: true, of: id(func(d *Data) int64 { return d.Key }), Description: "the API key that the rule counts; absent for other credentials and other rules"},
		oauthApp.saying("the app that the rule counts; absent for other rules").optional(),
		{Name: "count", Of: Count, of: always(func(d *Data) int64 { return d.Count }), Description: "how many requests the rule refused at this server since window_started_at"},
		{Name: "window_started_at", Of: Text, of: moment(func(d *Data) time.Time { return d.Since }), Description: "when it refused the first of them (RFC 3339)"},
	}
	ofResource = []Member{
		{Name: "kind", Of: Text, of: text(func(d *Data) string { return d.Kind }), Description: "the kind of the resource"},
		{Name: "name", Of: Text, of: text(func(d *Data) string { return d.Name }), Description: "its name, in the namespace of the deployment"},
		{Name: "generation", Of: Count, of: always(func(d *Data) int64 { return d.Generation }), Description: "the generation of its spec that is, or was, in effect"},
	}
	resourceSource = sourceOf.among(SourceDeclared, SourceHTTP)
	ofCall         = []Member{
		{Name: "call_id", Of: ID, of: id(func(d *Data) int64 { return d.Call }), Description: "the call, as in GET /ai/tool-calls/{id}"},
		agentOf, toolOf, clientID.saying("the OAuth client that called; absent for none").optional(),
		{Name: "decision", Of: Text, of: text(func(d *Data) string { return d.Decision }), Values: people.CallDecisions(), Description: "whether the call was allowed, or why it was refused"},
		{Name: "outcome", Of: Text, Optional: true, of: text(func(d *Data) string { return d.Outcome }), Values: people.CallOutcomes(), Description: "how the call ended; absent for a call that was refused"},
		{Name: "code", Of: Text, Optional: true, of: text(func(d *Data) string { return d.Code }), Description: "the code of the refusal or of the failure; absent for success"},
		{Name: "latency_ms", Of: Count, of: always(func(d *Data) int64 { return d.Latency.Milliseconds() }), Description: "the time from the request to the result, in milliseconds"},
	}
	ofApproval = []Member{
		agentOf, toolOf,
		ofUser.saying("the user for whom the call is; absent for none").optional(), clientID.saying("the client that calls; absent for none").optional(),
	}
)

// saying returns the member with another description.
func (m Member) saying(description string) Member {
	m.Description = description
	return m
}

// optional returns the member of an event that may lack it.
func (m Member) optional() Member {
	m.Optional = true
	return m
}

// among returns the member with its only values.
func (m Member) among(values ...string) Member {
	m.Values = values
	return m
}
