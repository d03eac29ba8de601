package events

import (
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// OfMember returns an event of a membership of an organization.
func OfMember(t Type, m people.Member) Event {
	return Event{Type: t, Subject: m.ID, Organization: m.Organization.ID, Data: Data{User: m.User, Level: LevelOrganization, Owner: m.Owner, Role: m.Role}}
}

// OfWorkspaceMember returns an event of a membership of a workspace.
func OfWorkspaceMember(t Type, m people.WorkspaceMember) Event {
	return Event{
		Type: t, Subject: m.ID, Organization: m.Workspace.Organization, Workspace: m.Workspace.ID,
		Data: Data{User: m.User, Level: LevelWorkspace, Owner: m.Owner, Role: m.Role},
	}
}

// OfUser returns an event of a user.
func OfUser(t Type, user int64, changed ...string) Event {
	return Event{Type: t, Subject: user, Data: Data{Changed: changed}}
}

// OfAccount returns the event of a new user, who signed up by a method.
func OfAccount(user int64, method string) Event {
	return Event{Type: UserCreated, Subject: user, Data: Data{Method: method}}
}

// OfEmail returns an event of an address of a user.
func OfEmail(t Type, user, email int64) Event {
	return Event{Type: t, Subject: user, Data: Data{Email: email}}
}

// OfOrganization returns an event of an organization.
func OfOrganization(t Type, organization int64, changed ...string) Event {
	return Event{Type: t, Subject: organization, Organization: organization, Data: Data{Changed: changed}}
}

// OfWorkspace returns an event of a workspace.
func OfWorkspace(t Type, w people.Workspace) Event {
	return Event{Type: t, Subject: w.ID, Organization: w.Organization, Workspace: w.ID}
}

// OfInvitation returns an event of an invitation.
func OfInvitation(t Type, i people.Invitation) Event {
	return Event{Type: t, Subject: i.ID, Organization: i.Organization, Data: Data{Role: i.Role}}
}

// OfPassword returns an event of the password of a user, with how many sign-ins ended by the change.
func OfPassword(t Type, user, ended int64) Event {
	return Event{Type: t, Subject: user, Data: Data{SessionsEnded: ended}}
}

// OfPhone returns an event of a phone number of a user.
func OfPhone(t Type, user, phone int64) Event {
	return Event{Type: t, Subject: user, Data: Data{Phone: phone}}
}

// OfSignIn returns an event of a sign-in.
func OfSignIn(t Type, g people.SignIn) Event {
	return Event{Type: t, Subject: g.Session, Data: Data{User: g.User, SignIn: g.ID, Method: g.Method}}
}

// OfEnd returns the event of a sign-in that ended.
func OfEnd(g people.SignIn, why Reason) Event {
	t := SessionRevoked
	if why == SignedOut || why == Expired || why == Replaced {
		t = SessionEnded
	}
	e := OfSignIn(t, g)
	e.Data.Reason = why
	return e
}

// OfSwitch returns the event of a sign-in with another active organization.
func OfSwitch(g people.SignIn) Event {
	e := OfSignIn(SessionSwitched, g)
	e.Organization, e.Workspace = g.Organization, g.Workspace
	return e
}

// Expiry makes the events of what upkeep ends at a time. It implements people.ExpiryEvents.
type Expiry struct{ At time.Time }

// SignIn implements people.ExpiryEvents.
func (x Expiry) SignIn(g people.SignIn) (people.LoggedEvent, error) {
	return OfEnd(g, Expired).Log(x.At, "system")
}

// Invitation implements people.ExpiryEvents.
func (x Expiry) Invitation(i people.Invitation) (people.LoggedEvent, error) {
	return OfInvitation(InvitationExpired, i).Log(x.At, "system")
}

// OfFailing returns the event of a notice to the owner of an account about failing sign-ins.
func OfFailing(user int64, step string) Event {
	return Event{Type: SigninFailing, Subject: user, Data: Data{Step: step}}
}

// OfKey returns an event of an API key.
func OfKey(t Type, k people.APIKey, changed ...string) Event {
	source := SourceHTTP
	if k.PublicID == "" { // of imported keys, only the digest is known
		source = SourceImport
	}
	return Event{
		Type: t, Subject: k.ID, Organization: k.Organization, Workspace: k.Workspace,
		Data: Data{User: k.Owner, App: k.App, Source: source, Last4: k.Suffix, Changed: changed},
	}
}

// Key implements people.ExpiryEvents.
func (x Expiry) Key(k people.APIKey) (people.LoggedEvent, error) {
	return OfKey(APIKeyExpired, k).Log(x.At, "system")
}

// OfRotation returns the event of an API key that another one replaces.
func OfRotation(k people.APIKey, next int64) Event {
	e := OfKey(APIKeyRotated, k)
	e.Data.Next = next
	return e
}

// OfClient returns an event of a client of an OAuth app that is not declared.
func OfClient(t Type, c people.OAuthClient) Event {
	source := SourceRegistered
	switch {
	case c.ByBackend:
		source = SourceBackend
	case !c.FreshUntil.IsZero():
		source = SourceDocument
	}
	return Event{Type: t, Named: c.Client, Data: Data{OAuthApp: c.App, Client: c.Client, Source: source}}
}

// OfGrant returns an event of a user's grant to a client.
func OfGrant(t Type, g people.Grant) Event {
	return Event{
		Type: t, Subject: g.ID, Organization: g.Organization, Workspace: g.Workspace, Data: Data{User: g.User, OAuthApp: g.App, Client: g.Client, Scopes: g.Scopes},
	}
}

// OfFamily returns an event of the grant of a token family.
func OfFamily(t Type, f people.TokenFamily) Event {
	return OfGrant(t, people.Grant{ID: f.Grant, App: f.App, Client: f.Client, User: f.User, Organization: f.Organization, Workspace: f.Workspace})
}

// OfImport returns the event of an import whose last batch was imported.
func OfImport(i people.Import) Event {
	return Event{Type: ImportCompleted, Named: i.File, Data: Data{Rows: i.Imported}}
}

// OfApproval returns an event of the approval of a call.
func OfApproval(t Type, a people.Approval) Event {
	return Event{
		Type: t, Subject: a.ID, Organization: a.Caller.Organization, Workspace: a.Caller.Workspace,
		Data: Data{Agent: a.Agent, Tool: a.Tool, User: a.Caller.User, Client: a.Caller.Client},
	}
}

// Approval implements people.ExpiryEvents.
func (x Expiry) Approval(a people.Approval) (people.LoggedEvent, error) {
	return OfApproval(ApprovalExpired, a).Log(x.At, "system")
}

// Client implements people.ExpiryEvents.
func (x Expiry) Client(c people.OAuthClient) (people.LoggedEvent, error) {
	return OfClient(OAuthClientDeleted, c).Log(x.At, "system")
}

// OfEndpoint returns an event of a webhook endpoint. cause is why it was disabled or fails, and since when it began to
// fail.
func OfEndpoint(t Type, endpoint int64, cause string, since time.Time) Event {
	return Event{Type: t, Subject: endpoint, Data: Data{Cause: cause, Since: since}}
}

// OfExpiredBacklog returns the event of an endpoint that did not get the events of a range of numbers.
func OfExpiredBacklog(endpoint, from, to int64) Event {
	return Event{Type: EndpointBacklogExpired, Subject: endpoint, Data: Data{From: from, To: to}}
}

// OfExceeded returns an event of refusals by a rate-limit scheme.
func OfExceeded(scheme int64, data Data) Event {
	return Event{Type: RateLimitExceeded, Subject: scheme, Data: data}
}

// OfCall returns the event of a call of a tool that has ended.
func OfCall(c people.ToolCall) Event {
	return Event{
		Type: ToolCallCompleted, Subject: c.ID, Organization: c.Caller.Organization, Workspace: c.Caller.Workspace,
		Data: Data{Call: c.ID, Agent: c.Agent, Tool: c.Tool, Client: c.Caller.Client, Decision: c.Decision, Outcome: c.Outcome, Code: c.Code, Latency: c.Latency},
	}
}
