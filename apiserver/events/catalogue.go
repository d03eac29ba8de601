// Package events is the catalogue of what programs learn of a deployment's changes: the types of events with the form
// of their data, filters, and cursors. Package account records events with the changes, package sequencer numbers them,
// and package backend serves them.
package events

import (
	"cmp"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/store/people"
)

// Type is the type of an event, such as "user.created". Its subject is what comes before the first dot, or in subjects.
type Type string

// The types of events.
const (
	UserCreated             Type = "user.created"
	UserUpdated             Type = "user.updated"
	UserDisabled            Type = "user.disabled"
	UserEnabled             Type = "user.enabled"
	UserDeleted             Type = "user.deleted"
	UserPasswordChanged     Type = "user.password_changed"
	UserPasswordRemoved     Type = "user.password_removed"
	UserPasswordReset       Type = "user.password_reset"
	UserEmailAdded          Type = "user.email_added"
	UserEmailVerified       Type = "user.email_verified"
	UserEmailPrimaryChanged Type = "user.email_primary_changed"
	UserEmailRemoved        Type = "user.email_removed"
	UserPhoneAdded          Type = "user.phone_added"
	UserPhoneVerified       Type = "user.phone_verified"
	UserPhonePrimaryChanged Type = "user.phone_primary_changed"
	UserPhoneRemoved        Type = "user.phone_removed"
	SessionCreated          Type = "session.created"
	SessionEnded            Type = "session.ended"
	SessionRevoked          Type = "session.revoked"
	SessionSwitched         Type = "session.organization_switched"
	SigninFailing           Type = "signin.failing"
	OrganizationCreated     Type = "organization.created"
	OrganizationUpdated     Type = "organization.updated"
	OrganizationDeleted     Type = "organization.deleted"
	WorkspaceCreated        Type = "workspace.created"
	WorkspaceUpdated        Type = "workspace.updated"
	MembershipCreated       Type = "membership.created"
	MembershipUpdated       Type = "membership.updated"
	MembershipDeleted       Type = "membership.deleted"
	InvitationCreated       Type = "invitation.created"
	InvitationAccepted      Type = "invitation.accepted"
	InvitationRevoked       Type = "invitation.revoked"
	InvitationExpired       Type = "invitation.expired"
	APIKeyCreated           Type = "api_key.created"
	APIKeyUpdated           Type = "api_key.updated"
	APIKeyRotated           Type = "api_key.rotated"
	APIKeyRevoked           Type = "api_key.revoked"
	APIKeyExpired           Type = "api_key.expired"
	OAuthClientCreated      Type = "oauth.client.created"
	OAuthClientUpdated      Type = "oauth.client.updated"
	OAuthClientRotated      Type = "oauth.client.secret_rotated"
	OAuthClientDeleted      Type = "oauth.client.deleted"
	OAuthGrantCreated       Type = "oauth.grant.created"
	OAuthGrantRevoked       Type = "oauth.grant.revoked"
	OAuthGrantLapsed        Type = "oauth.grant.lapsed"
	OAuthCodeReplayed       Type = "oauth.code_replayed"
	OAuthTokenReused        Type = "oauth.refresh_token_reused"
	ImportCompleted         Type = "import.completed"
	ApprovalRequested       Type = "agent.approval.requested"
	ApprovalApproved        Type = "agent.approval.approved"
	ApprovalDenied          Type = "agent.approval.denied"
	ApprovalExpired         Type = "agent.approval.expired"
	ConfigurationCreated    Type = people.ConfigurationCreated
	ConfigurationUpdated    Type = people.ConfigurationUpdated
	ConfigurationDeleted    Type = people.ConfigurationDeleted
	ToolCallCompleted       Type = "agent.tool_call.completed"
	RateLimitExceeded       Type = "rate_limit.exceeded"
	EndpointFailing         Type = "webhook_endpoint.failing"
	EndpointRecovered       Type = "webhook_endpoint.recovered"
	EndpointDisabled        Type = "webhook_endpoint.disabled"
	EndpointEnabled         Type = "webhook_endpoint.enabled"
	EndpointBacklogExpired  Type = "webhook_endpoint.backlog_expired"
)

// subjects has the kinds of the changed entities that the types do not begin with, by the type or by what it begins
// with.
var subjects = map[string]string{
	string(SigninFailing): "user", "oauth.client": "oauth_client", "oauth.grant": "oauth_grant", "agent.approval": "agent_approval", string(OAuthCodeReplayed): "oauth_grant", string(OAuthTokenReused): "oauth_grant",
	"agent.tool_call": "agent_tool_call", "rate_limit": "rate_limit_scheme",
}

// Subject is the kind of the changed entity, such as "user".
func (t Type) Subject() string {
	last := strings.LastIndex(string(t), ".")
	if subject := cmp.Or(subjects[string(t)], subjects[string(t[:max(last, 0)])]); subject != "" {
		return subject
	}
	subject, _, _ := strings.Cut(string(t), ".")
	return subject
}

// Entry describes a type of events.
type Entry struct {
	Type Type
	// Version counts the incompatible changes of the data's form.
	Version int64
	// Description says when the event happens.
	Description string
	// Members are the members that the data has, in the order in which they are described.
	Members []Member
}

// Member is a member of an event's data.
type Member struct {
	Name string
	// Of is the form of the value.
	Of Form
	// Values are the only values of a Text; nil: any.
	Values []string
	// Optional reports whether an event may lack it.
	Optional    bool
	Description string
	// of returns the value in an event's data, and whether the data have it.
	of func(*Data) (any, bool)
}

// Form is the form of a member's value.
type Form int

// The forms of values.
const (
	// ID is a decimal id, as a text.
	ID Form = iota
	// Text is a short text, one of the member's Values if it has them.
	Text
	// Names are names of members that changed.
	Names
	// Truth is true or false.
	Truth
	// Count is a number of things.
	Count
	// Texts are short texts.
	Texts
)

// Catalogue has all types, in the order in which they are documented.
var Catalogue = []Entry{
	{UserCreated, 1, "A user has an account: after a sign-up, a first sign-in by a connection, a directory, a backend or an import.", []Member{signUpMethod}},
	{UserUpdated, 1, "The profile of a user changed.", []Member{changed}},
	{UserDisabled, 1, "A user can no longer sign in.", nil},
	{UserEnabled, 1, "A disabled user can sign in again.", nil},
	{UserDeleted, 1, "A user was deleted, with all memberships.", nil},
	{UserPasswordChanged, 1, "A user has a new password.", []Member{sessionsEnded}},
	{UserPasswordRemoved, 1, "A user has no password any more.", []Member{sessionsEnded}},
	{UserPasswordReset, 1, "A user who forgot the password has a new one, by a code.", []Member{sessionsEnded}},
	{UserEmailAdded, 1, "A user added an address, which is not verified yet.", []Member{ofEmail}},
	{UserEmailVerified, 1, "An address of a user was verified.", []Member{ofEmail}},
	{UserEmailPrimaryChanged, 1, "Another address is the primary one of a user.", []Member{ofEmail}},
	{UserEmailRemoved, 1, "An address of a user was removed.", []Member{ofEmail}},
	{UserPhoneAdded, 1, "A user added a phone number, which is not verified yet.", []Member{ofPhone}},
	{UserPhoneVerified, 1, "A phone number of a user was verified.", []Member{ofPhone}},
	{UserPhonePrimaryChanged, 1, "Another phone number is the primary one of a user.", []Member{ofPhone}},
	{UserPhoneRemoved, 1, "A phone number of a user was removed.", []Member{ofPhone}},
	{SessionCreated, 1, "A user signed in. A session can have sign-ins of several users: each has its events.", signIns},
	{SessionEnded, 1, "A sign-in ended: its user signed out, or its time was over.", endedSignIns},
	{SessionRevoked, 1, "A sign-in was ended for another reason.", endedSignIns},
	{SessionSwitched, 1, "Another organization, which the event names, is the active one of a sign-in.", []Member{ofUser, ofSignIn}},
	{SigninFailing, 1, "The owner of an account is notified of failing sign-ins, at most once a day. The subject is the user.", []Member{stepOf}},
	{OrganizationCreated, 1, "An organization was created.", nil},
	{OrganizationUpdated, 1, "The profile or the requirements of an organization changed.", []Member{changed}},
	{OrganizationDeleted, 1, "An organization was deleted, with its workspaces, memberships and invitations.", nil},
	{WorkspaceCreated, 1, "A workspace of an organization was created.", nil},
	{WorkspaceUpdated, 1, "The profile of a workspace changed.", []Member{changed}},
	{MembershipCreated, 1, "A user is a member of an organization, or of a workspace: then the subject is a `workspace_membership`.", memberships},
	{MembershipUpdated, 1, "The role of a member changed, or whether the member is an owner.", memberships},
	{MembershipDeleted, 1, "A user is no longer a member of an organization, and of its workspaces; or of a workspace. Deletions of the user, or of the organization, have no such event.", []Member{ofUser, levelOf}},
	{InvitationCreated, 1, "A member invited an address to an organization.", ofInvitation},
	{InvitationAccepted, 1, "An invitation was accepted.", append(slices.Clip(ofInvitation), ofUser.saying("the user who accepted"))},
	{InvitationRevoked, 1, "An invitation was revoked.", ofInvitation},
	{InvitationExpired, 1, "An invitation was deleted that was neither accepted nor revoked: a day after its end, or later.", ofInvitation},
	{APIKeyCreated, 1, "A backend, a user or an import added an API key, or a declared one took effect.", ofKey},
	{APIKeyUpdated, 1, "An API key changed.", append(slices.Clip(ofKey), changed)},
	{APIKeyRotated, 1, "An API key was replaced by another, which has the same rights. It ends at once, or after an overlap.", append(slices.Clip(ofKey), nextKey)},
	{APIKeyRevoked, 1, "An API key was revoked, or deleted by its user; or a declared one was deleted.", ofKey},
	{APIKeyExpired, 1, "The lifetime of an API key is over: recorded some minutes later. Keys that were revoked or replaced before have no such event.", ofKey},
	{OAuthClientCreated, 1, "A backend created a client of an OAuth app, a client registered itself, or a declared one took effect.", ofClient},
	{OAuthClientUpdated, 1, "The metadata of a client changed, or whether it is active.", ofClient},
	{OAuthClientRotated, 1, "A client has another secret.", ofClient},
	{OAuthClientDeleted, 1, "A client was deleted, with the grants that it had.", ofClient},
	{OAuthGrantCreated, 1, "A user granted a client access, or more access than before: `scopes` is all that is granted.", append(slices.Clip(ofGrant), scopesOf, scopesLeft)},
	{OAuthGrantRevoked, 1, "A grant was revoked with its tokens: by its user, a backend, a directory, or the reset of a password.", ofGrant},
	{OAuthGrantLapsed, 1, "Tokens of a grant ended when they were renewed: nothing was left of what they were for.", ofGrant},
	{OAuthCodeReplayed, 1, "An authorization code was redeemed twice. The tokens that came from it ended.", ofGrant},
	{OAuthTokenReused, 1, "A copy of a refresh token was used. The tokens that came from the same code ended.", ofGrant},
	{ImportCompleted, 1, "The last batch of a file was imported. The subject is the file, by its SHA-256.", []Member{rowsOf}},
	{ApprovalRequested, 1, "A call of an agent's tool waits for a user's approval.", ofApproval},
	{ApprovalApproved, 1, "A user approved the call.", ofApproval},
	{ApprovalDenied, 1, "A user denied the call, or the client declined for the user.", ofApproval},
	{ApprovalExpired, 1, "No user decided in time, or the approved call was not made in time.", ofApproval},
	{ConfigurationCreated, 1, "A resource of the deployment is in effect: it was declared, or created by a backend.", append(slices.Clip(ofResource), resourceSource)},
	{ConfigurationUpdated, 1, "A change of a resource's spec is in effect.", append(slices.Clip(ofResource), resourceSource)},
	{ConfigurationDeleted, 1, "A resource is no longer in effect: it was deleted, or another one took its slug.", ofResource},
	{ToolCallCompleted, 1, "A call of an agent's tool ended, or was refused.", ofCall},
	{RateLimitExceeded, 1, "A rule of a rate-limit scheme refused requests: reported by each server, at most once in 5 minutes for the same rule and subject. The subject is the scheme.", ofLimit},
	{EndpointFailing, 1, "No request to a webhook endpoint has succeeded for ten minutes, or for half of the time after which it is disabled.", []Member{failureOf, sinceOf}},
	{EndpointRecovered, 1, "A request to a webhook endpoint succeeded, which failed for more than ten minutes.", nil},
	{EndpointDisabled, 1, "A webhook endpoint was disabled. Its events wait within their retention.", []Member{causeOf, sinceOf}},
	{EndpointEnabled, 1, "A disabled webhook endpoint is enabled again.", nil},
	{EndpointBacklogExpired, 1, "Events were deleted because of their age before they were sent to a webhook endpoint.", []Member{fromOf, toOf}},
}

// Find returns the entry of a type.
func Find(t Type) (Entry, bool) {
	at := slices.IndexFunc(Catalogue, func(e Entry) bool { return e.Type == t })
	if at < 0 {
		return Entry{}, false
	}
	return Catalogue[at], true
}
