package events

import (
	"slices"
	"strings"
	"testing"
)

// audited says which events programs get of what the audit records as an action. Exactly one of the two is set.
type audited struct {
	// types are those of the events that say what the action says. A change has one of them, several, or none if there
	// is nothing to report. Other events of the same change, such as those of sign-ins that end with it, are not listed.
	types []Type
	// reason says why there is no type.
	reason string
}

func as(types ...Type) audited      { return audited{types: types} }
func without(reason string) audited { return audited{reason: reason} }

// The reasons why an action has no type.
const (
	ofFactors     = "Factors of users, their codes, and further proofs of a sign-in have no events."
	ofIdentities  = "Identities at providers have no events."
	ofConnections = "Domains, connections and directories of organizations, and the links to set them up, have no events."
	ofDirectories = "Users and groups of a directory have no events: those of accounts and memberships say what changed."
	ofRefusals    = "Refusals, and locks after wrong tries, change no entity."
	ofOmissions   = "The record says that further records are left out."
	ofTokens      = "The client gave its tokens back: the grant remains."
	ofPlaces      = "The active organization of each sign-in is the same as before."
	ofReplays     = "A replay sends earlier events again: the endpoint does not change."
	ofKeys        = "The spec of the resource is the same: only its keys are new."
)

// auditActions has every action of audit records. An action that ends with "*" stands for all that begin so. Of a
// resource, the API records the action, and the operator the event, once the change is in effect.
var auditActions = map[string]audited{
	"user.created":                as(UserCreated),
	"user.updated":                as(UserUpdated),
	"user.renamed":                as(UserUpdated),
	"user.disabled":               as(UserDisabled),
	"user.enabled":                as(UserEnabled),
	"user.deleted":                as(UserDeleted),
	"user.password_set":           as(UserPasswordChanged),
	"user.password_changed":       as(UserPasswordChanged),
	"user.password_removed":       as(UserPasswordRemoved),
	"user.password_reset":         as(UserPasswordReset),
	"user.sessions_revoked":       as(SessionRevoked),
	"user.factor_removed":         without(ofFactors),
	"user.factors_reset":          without(ofFactors),
	"user.temporary_code_created": without(ofFactors),

	"email.added":        as(UserEmailAdded),
	"email.verified":     as(UserEmailVerified, UserEmailPrimaryChanged),
	"email.made_primary": as(UserEmailPrimaryChanged),
	"email.removed":      as(UserEmailRemoved),
	"email.displaced":    as(UserEmailRemoved, UserEmailPrimaryChanged),
	"phone.added":        as(UserPhoneAdded),
	"phone.verified":     as(UserPhoneVerified, UserPhonePrimaryChanged),
	"phone.made_primary": as(UserPhonePrimaryChanged),
	"phone.removed":      as(UserPhoneRemoved),
	"identity.linked":    without(ofIdentities),
	"identity.unlinked":  without(ofIdentities),

	"session.signed_in":             as(SessionCreated),
	"session.signed_out":            as(SessionEnded, SessionRevoked),
	"session.evicted":               as(SessionRevoked),
	"session.ended_upstream":        as(SessionRevoked),
	"session.token_reused":          as(SessionRevoked),
	"session.switched_organization": as(SessionSwitched),
	"session.switched_signin":       without(ofPlaces),
	"session.switched_workspace":    without(ofPlaces),
	"session.reauthenticated":       without(ofFactors),
	"session.stepped_up":            without(ofFactors),
	"signin.failing":                as(SigninFailing),
	"second_factor.failing":         as(SigninFailing),
	"second_factor.locked":          without(ofRefusals),
	"verification.locked":           without(ofRefusals),

	"totp.added":                without(ofFactors),
	"totp.removed":              without(ofFactors),
	"passkey.added":             without(ofFactors),
	"passkey.removed":           without(ofFactors),
	"passkey.renamed":           without(ofFactors),
	"passkey.backup_changed":    without(ofFactors),
	"passkey.counter_regressed": without(ofFactors),
	"sms_factor.added":          without(ofFactors),
	"sms_factor.removed":        without(ofFactors),
	"two_step.on":               without(ofFactors),
	"two_step.off":              without(ofFactors),
	"recovery_codes.created":    without(ofFactors),
	"recovery_code.used":        without(ofFactors),
	"temporary_code.used":       without(ofFactors),

	"organization.created":            as(OrganizationCreated),
	"organization.changed":            as(OrganizationUpdated),
	"organization.assurance_changed":  as(OrganizationUpdated),
	"organization.deleted":            as(OrganizationDeleted),
	"organization.joined":             as(MembershipCreated, InvitationAccepted),
	"organization.left":               as(MembershipDeleted),
	"organization.member_added":       as(MembershipCreated),
	"organization.member_changed":     as(MembershipUpdated),
	"organization.member_removed":     as(MembershipDeleted),
	"organization.invited":            as(InvitationCreated),
	"organization.invitation_revoked": as(InvitationRevoked),
	"workspace.created":               as(WorkspaceCreated),
	"workspace.changed":               as(WorkspaceUpdated),
	"workspace.member_added":          as(MembershipCreated),
	"workspace.member_changed":        as(MembershipUpdated),
	"workspace.member_removed":        as(MembershipDeleted),

	"scim.user.created":   as(UserCreated),
	"scim.user.changed":   as(UserCreated, UserUpdated),
	"scim.user.tied":      as(MembershipCreated, MembershipUpdated),
	"scim.user.suspended": as(MembershipDeleted),
	"scim.user.restored":  as(MembershipCreated),
	"scim.user.deleted":   without(ofDirectories),
	"scim.group.created":  without(ofDirectories),
	"scim.group.changed":  without(ofDirectories),
	"scim.group.deleted":  without(ofDirectories),

	"connection.created":            without(ofConnections),
	"connection.changed":            without(ofConnections),
	"connection.deleted":            without(ofConnections),
	"connection.certificates_added": without(ofConnections),
	"directory.created":             without(ofConnections),
	"directory.changed":             without(ofConnections),
	"directory.deleted":             without(ofConnections),
	"directory.token_created":       without(ofConnections),
	"directory.token_deleted":       without(ofConnections),
	"setup_link.created":            without(ofConnections),
	"setup_link.opened":             without(ofConnections),
	"setup_link.deleted":            without(ofConnections),
	"domain.added":                  without(ofConnections),
	"domain.verified":               without(ofConnections),
	"domain.withdrawn":              without(ofConnections),
	"domain.failing":                without(ofConnections),
	"domain.lapsed":                 without(ofConnections),
	"domain.expired":                without(ofConnections),
	"domain.transferred":            without(ofConnections),
	"domain.displaced":              without(ofConnections),
	"domain.removed":                without(ofConnections),

	"api_key.created": as(APIKeyCreated),
	"api_key.updated": as(APIKeyUpdated),
	"api_key.rotated": as(APIKeyRotated),
	"api_key.revoked": as(APIKeyRevoked),
	"api_key.deleted": as(APIKeyRevoked),

	"oauth.client_created":        as(OAuthClientCreated),
	"oauth.client_registered":     as(OAuthClientCreated),
	"oauth.client_changed":        as(OAuthClientUpdated),
	"oauth.client_secret_rotated": as(OAuthClientRotated),
	"oauth.client_deleted":        as(OAuthClientDeleted),
	"oauth.registrations":         without(ofOmissions),
	"oauth.granted":               as(OAuthGrantCreated),
	"oauth.grant_revoked":         as(OAuthGrantRevoked),
	"oauth.grant_lapsed":          as(OAuthGrantLapsed),
	"oauth.code_replayed":         as(OAuthCodeReplayed),
	"oauth.refresh_token_reused":  as(OAuthTokenReused),
	"oauth.token_revoked":         without(ofTokens),
	"oauth.denied":                without(ofRefusals),
	"oauth.refused":               without(ofOmissions),
	"oauth.refused.*":             without(ofRefusals),

	"import.completed":                  as(ImportCompleted),
	"tool_approval.approved":            as(ApprovalApproved),
	"tool_approval.denied":              as(ApprovalDenied),
	"webhook_endpoint.enabled":          as(EndpointEnabled),
	"webhook_endpoint.replay":           without(ofReplays),
	"webhook_endpoint.replay_cancelled": without(ofReplays),

	"api_auth_app.created":           as(ConfigurationCreated),
	"api_auth_app.updated":           as(ConfigurationUpdated),
	"api_auth_app.deleted":           as(ConfigurationDeleted),
	"rate_limit_scheme.created":      as(ConfigurationCreated),
	"rate_limit_scheme.updated":      as(ConfigurationUpdated),
	"rate_limit_scheme.deleted":      as(ConfigurationDeleted),
	"b2b_settings.created":           as(ConfigurationCreated),
	"b2b_settings.updated":           as(ConfigurationUpdated),
	"oauth_scope.updated":            as(ConfigurationUpdated),
	"oauth_scope.archived":           as(ConfigurationUpdated),
	"oauth_scope.unarchived":         as(ConfigurationUpdated),
	"oauth_app.signing_keys_rotated": without(ofKeys),
}

// The reasons why a type has no audit action.
const (
	byTime   = "The audit does not record what expires."
	byCalls  = "Calls of tools, and requests for approvals of calls, have records of their own."
	bySender = "A server notices it while it sends webhooks."
	byLimits = "Refused requests are only counted."
)

// unaudited are the types that no action has, with the reason for each.
var unaudited = map[Type]string{
	InvitationExpired:      byTime,
	APIKeyExpired:          byTime,
	ApprovalExpired:        byTime,
	ApprovalRequested:      byCalls,
	ToolCallCompleted:      byCalls,
	EndpointFailing:        bySender,
	EndpointRecovered:      bySender,
	EndpointDisabled:       bySender,
	EndpointBacklogExpired: bySender,
	RateLimitExceeded:      byLimits,
}

// TestEachAuditActionHasItsTypesOrAReason compares the table with the actions that the source records (auditSource).
func TestEachAuditActionHasItsTypesOrAReason(t *testing.T) {
	t.Parallel()
	recorded := map[string]bool{}
	for action, path := range newAuditSource(t).actions(t) {
		key := action
		if _, listed := auditActions[action]; !listed {
			key = action[:strings.LastIndex(action, ".")+1] + anyText
		}
		if recorded[key] = true; auditActions[key].types == nil && auditActions[key].reason == "" {
			t.Errorf("%s: the audit action %s has no types in the table, and no reason", path, action)
		}
	}
	for action, a := range auditActions {
		if !recorded[action] {
			t.Errorf("%s does not have to be listed: the source does not record it", action)
		}
		if (len(a.types) == 0) == (a.reason == "") {
			t.Errorf("%s has types and a reason, or neither", action)
		}
		for _, listed := range a.types {
			if _, found := Find(listed); !found {
				t.Errorf("%s has the type %s, which the catalogue lacks", action, listed)
			}
		}
	}
}

// TestEachTypeHasAnAuditActionOrAReason is the reverse of TestEachAuditActionHasItsTypesOrAReason.
func TestEachTypeHasAnAuditActionOrAReason(t *testing.T) {
	t.Parallel()
	named := map[Type]bool{}
	for _, a := range auditActions {
		for _, listed := range a.types {
			named[listed] = true
		}
	}
	for _, e := range Catalogue {
		if named[e.Type] == (unaudited[e.Type] != "") {
			t.Errorf("%s has an audit action and a reason to have none, or neither", e.Type)
		}
	}
	for listed := range unaudited {
		if !slices.ContainsFunc(Catalogue, func(e Entry) bool { return e.Type == listed }) {
			t.Errorf("%s is no type of the catalogue", listed)
		}
	}
}
