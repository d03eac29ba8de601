package enduser

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/directories"
	"github.com/cardea-iam/cardea/apiserver/users/factors"
	"github.com/cardea-iam/cardea/apiserver/users/passkey"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store"
)

// wordings are the responses to the errors of the packages account, verification and consent. The wait of a temporary
// refusal comes from its account.WaitError.
var wordings = []struct {
	refused error
	status  int
	code    string
	message string
}{
	{account.ErrEmailTaken, http.StatusBadRequest, "EMAIL_EXISTS", "an account with this email already exists: sign in instead"},
	{account.ErrUserUnknown, http.StatusUnauthorized, "NOT_AUTHENTICATED", "you are not signed in: sign in, and send the session cookie"},
	{account.ErrUserDisabled, http.StatusForbidden, "USER_DISABLED", "this account is disabled: ask the operator of the service"},
	{account.ErrInvalidCredentials, http.StatusUnauthorized, "INVALID_CREDENTIALS", "the email or the password is wrong"},
	{account.ErrTooManyFailures, http.StatusTooManyRequests, "RATE_LIMITED", "too many failed sign-ins: wait before you try again"},
	{account.ErrOrganizationsDisabled, http.StatusForbidden, "ORGANIZATIONS_DISABLED", "organizations are disabled in this deployment: enable them in its B2B settings"},
	{account.ErrOrganizationRequired, http.StatusBadRequest, "ORGANIZATION_REQUIRED", "this deployment takes sign-ups only into an organization: send organization_name or invitation_token"},
	{account.ErrTooManyOrganizations, http.StatusBadRequest, "ORGANIZATION_LIMIT_REACHED", "you own as many organizations as one user may: use one of them"},
	{account.ErrTooManyWorkspaces, http.StatusBadRequest, "WORKSPACE_LIMIT_REACHED", "the organization has as many workspaces as it may: use one of them"},
	{account.ErrNotMember, http.StatusForbidden, "NOT_MEMBER", "you are not a member of this organization"},
	{account.ErrAlreadyMember, http.StatusBadRequest, "ALREADY_MEMBER", "the user is a member of this organization already"},
	{account.ErrOwnerLeaves, http.StatusBadRequest, "OWNER_REMOVAL", "the last owner of an organization cannot leave it: make another member an owner first"},
	{account.ErrOnlyOwner, http.StatusBadRequest, "OWNER_REMOVAL", "you are the only owner of an organization with other members: make another member an owner, or delete it, first"},
	{account.ErrAssuranceOff, http.StatusForbidden, "ASSURANCE_OFF", "the service does not let organizations require anything of their own"},
	{account.ErrAssuranceClosed, http.StatusForbidden, "SECOND_FACTORS_DISABLED", "this deployment does not take second factors yet: its operator must be upgraded"},
	{account.ErrUnreachable, http.StatusBadRequest, "FACTOR_UNAVAILABLE", "no factor that is enabled here reaches this level: require a lower one"},
	{account.ErrManagedAccount, http.StatusForbidden, "MANAGED_ACCOUNT", "your organization's directory manages this account: ask its administrator to remove you there"},
	{account.ErrSuspended, http.StatusForbidden, "MEMBERSHIP_SUSPENDED", "the organization's directory deactivated you: ask its administrator to activate you there"},
	{account.ErrOwnersOnly, http.StatusForbidden, "PERMISSION_DENIED", "only an owner of the organization may do this"},
	{account.ErrInvalidRole, http.StatusBadRequest, "INVALID_ROLE", "role_id is not the id of a role of this level in the deployment: list the roles"},
	{account.ErrMembershipUnknown, http.StatusNotFound, "MEMBERSHIP_NOT_FOUND", "there is no such membership here: list the members"},
	{account.ErrWorkspaceUnknown, http.StatusNotFound, "WORKSPACE_NOT_FOUND", "you are not in this workspace: /me/workspace-memberships lists yours"},
	{account.ErrEmailUnknown, http.StatusNotFound, "EMAIL_NOT_FOUND", "you have no such email address: /me/email-addresses lists yours"},
	{account.ErrOwnEmail, http.StatusBadRequest, "EMAIL_EXISTS", "you already have this email address"},
	{account.ErrEmailVerified, http.StatusBadRequest, "ALREADY_VERIFIED", "this email address is already verified"},
	{account.ErrEmailUnverified, http.StatusBadRequest, "EMAIL_NOT_VERIFIED", "this email address is not verified yet: verify it first"},
	{account.ErrEmailPrimary, http.StatusBadRequest, "CANNOT_REMOVE_PRIMARY_EMAIL", "this is your primary email address: make another one primary first"},
	{account.ErrTooManyEmails, http.StatusBadRequest, "EMAIL_LIMIT_REACHED", "you have as many email addresses as one user may: remove one first"},
	{account.ErrTooManyChanges, http.StatusTooManyRequests, "RATE_LIMITED", "your account was changed too often today: wait before you change it again"},
	{account.ErrTooManyCodes, http.StatusTooManyRequests, "RATE_LIMITED", "too many codes were sent to your addresses today: wait before you request another"},
	{account.ErrWorkspacesClosed, http.StatusForbidden, "WORKSPACE_CREATION_DISABLED", "workspace creation is disabled in this deployment: enable it in its B2B settings"},
	{account.ErrRoleUnknown, http.StatusBadRequest, "VALIDATION_ERROR", "role_id is not the id of a role of organizations in this deployment"},
	{account.ErrInvalidInvitation, http.StatusBadRequest, "INVALID_INVITATION", "this invitation is unknown, already accepted or revoked, expired, or for another email"},
	{account.ErrInvitationUnknown, http.StatusNotFound, "INVITATION_NOT_FOUND", "the organization has no such open invitation: list its invitations"},
	{account.ErrTooManyInvitations, http.StatusTooManyRequests, "RATE_LIMITED", "too many invitations were sent to this email, or by you: wait before you send another"},
	{verification.ErrExpired, http.StatusBadRequest, "EXPIRED_CODE", "there is no valid code: request a new one"},
	{verification.ErrTooManySends, http.StatusTooManyRequests, "RATE_LIMITED", "too many codes were requested: wait before you request another"},
	{verification.ErrTooManyTries, http.StatusTooManyRequests, "TOO_MANY_ATTEMPTS", "too many wrong codes: wait, then request a new code"},
	{verification.ErrBudgetSpent, http.StatusTooManyRequests, "RATE_LIMITED", "the deployment sends no more texts to this country today"},
	{account.ErrKeyUnknown, http.StatusNotFound, "API_KEY_NOT_FOUND", "you have no such API key: /me/api-keys lists yours"},
	{account.ErrTooManyKeys, http.StatusBadRequest, "API_KEY_LIMIT_REACHED", "you have as many API keys of this app as one user may: delete one first"},
	{factors.ErrDisabled, http.StatusForbidden, "SECOND_FACTORS_DISABLED", "this deployment does not take second factors yet: its operator must be upgraded"},
	{factors.ErrPasskeysDisabled, http.StatusForbidden, "PASSKEYS_DISABLED", "this deployment has no passkeys: use another way"},
	{factors.ErrTextsDisabled, http.StatusForbidden, "SMS_DISABLED", "this deployment sends no texts as a second factor: use another factor"},
	{factors.ErrUnavailable, http.StatusBadRequest, "FACTOR_UNAVAILABLE", "this account has no such factor, or this deployment does not enable it: use another one"},
	{factors.ErrUnknown, http.StatusNotFound, "FACTOR_NOT_FOUND", "you have no such factor: /me/second-factors lists yours"},
	{factors.ErrPasskeyUnknown, http.StatusNotFound, "PASSKEY_NOT_FOUND", "you have no such passkey: /me/passkeys lists yours"},
	{factors.ErrPasskeyExists, http.StatusBadRequest, "PASSKEY_EXISTS", "this passkey is registered already"},
	{factors.ErrPhoneUnverified, http.StatusBadRequest, "PHONE_NOT_VERIFIED", "this phone number is not verified yet: verify it first"},
	{factors.ErrRequired, http.StatusBadRequest, "FACTOR_REQUIRED", "the account needs a usable factor for this: add another one first"},
	{factors.ErrTooManyFactors, http.StatusBadRequest, "FACTOR_LIMIT_REACHED", "you have as many factors of this kind as one user may: remove one first"},
	{factors.ErrTooManySignIns, http.StatusTooManyRequests, "RATE_LIMITED", "you signed in by passkey too often today: use a session that you have, or wait"},
	{factors.ErrTooManyChanges, http.StatusTooManyRequests, "RATE_LIMITED", "you added too many factors today: wait before you add another"},
	{factors.ErrTooManyTries, http.StatusTooManyRequests, "TOO_MANY_ATTEMPTS", "too many wrong codes: wait, or use a passkey"},
	{factors.ErrAttemptOver, http.StatusTooManyRequests, "TOO_MANY_ATTEMPTS", "too many wrong codes: sign in again from the beginning"},
	{factors.ErrUsed, http.StatusBadRequest, "CODE_USED", "this code was used already: wait for the next one, or use another code"},
	{factors.ErrExpired, http.StatusBadRequest, "EXPIRED_CODE", "there is no valid code: begin again"},
	{factors.ErrSpent, http.StatusBadRequest, "EXPIRED_CHALLENGE", "the challenge was answered already: get new options"},
	{account.ErrIdentityExists, http.StatusBadRequest, "IDENTITY_EXISTS", "another account signs in with this: sign in to that account, and remove it there first"},
	{account.ErrTooManyIdentities, http.StatusBadRequest, "IDENTITY_LIMIT_REACHED", "you have as many connected identities as one user may: remove one first"},
	{account.ErrIdentityUnknown, http.StatusNotFound, "IDENTITY_NOT_FOUND", "you have no such identity: /me/identities lists yours"},
	{account.ErrOnlyWayIn, http.StatusBadRequest, "NO_ALTERNATIVE_AUTH", "without it you could not sign in: add a passkey, or set a password, first"},
	{account.ErrNotProvisioned, http.StatusForbidden, "SSO_NOT_PROVISIONED", "your account is not set up for this sign-in: ask your administrator"},
	{account.ErrConnectionUnknown, http.StatusNotFound, "CONNECTION_NOT_FOUND", "there is no such connection here, or it is inactive: GET /auth/config and POST /auth/sso/discover list them"},
	{connections.ErrInvalidLink, http.StatusBadRequest, "INVALID_SETUP_LINK", "this setup link is unknown, deleted or expired, or its maker no longer manages the organization's connections: ask for another"},
	{connections.ErrTooManyLinks, http.StatusTooManyRequests, "RATE_LIMITED", "too many setup links were made for the organization today: wait before you make another"},
	{connections.ErrUnknown, http.StatusNotFound, "CONNECTION_NOT_FOUND", "the organization has no such connection: list its connections"},
	{connections.ErrClosed, http.StatusForbidden, "SELF_SERVICE_DISABLED", "this deployment has only the connections that its owner declares: its owner must set spec.connections"},
	{connections.ErrDeclared, http.StatusConflict, "CONFLICT", "the service declares this connection: ask its operator to change it"},
	{connections.ErrChanged, http.StatusConflict, "CONNECTION_CHANGED", "the connection was changed after expected_updated_at, and this change was not made: get the connection, and send the change again"},
	{connections.ErrTypeClosed, http.StatusForbidden, "SELF_SERVICE_DISABLED", "organizations of this deployment may not set up connections of this type: its owner must add it to spec.connections.types"},
	{connections.ErrTooMany, http.StatusBadRequest, "CONNECTION_LIMIT_REACHED", "the organization has as many connections as it may: delete one first"},
	{connections.ErrTooManyKeys, http.StatusTooManyRequests, "RATE_LIMITED", "the organization set up too many connections of type SAML today: wait before you set up another"},
	{connections.ErrIncomplete, http.StatusBadRequest, "VALIDATION_ERROR", "a connection without issuer, client_id and client_secret, or of type SAML without metadata_url, metadata_xml or entity_id, cannot be active: send them"},
	{connections.ErrOtherType, http.StatusBadRequest, "VALIDATION_ERROR", "issuer, client_id and client_secret are for connections of type OIDC, and metadata_url, metadata_xml, entity_id, sso_url and certificate for those of type SAML: omit those of the other type"},
	{connections.ErrNoHost, http.StatusBadRequest, "VALIDATION_ERROR", "the deployment has no frontend host for a connection of type SAML: its operator must declare spec.frontendHosts"},
	{connections.ErrNotTested, http.StatusBadRequest, "SSO_NOT_TESTED", "sign in by this connection first, as it is now, so that it locks no member out: a sign-in of yours within 24 hours counts"},
	{connections.ErrUnconfirmed, http.StatusBadRequest, "VALIDATION_ERROR", "another issuer, entity ID or metadata_url ends all sign-ins by the connection and deletes its identities: repeat the current display_name in confirmation"},
	{connections.ErrOpenProvider, http.StatusBadRequest, "VALIDATION_ERROR", "everybody can get an account at this provider, and would become a member: set just_in_time to false"},
	{connections.ErrOrganizationOnly, http.StatusBadRequest, "VALIDATION_ERROR", "enforcement, just_in_time and role_mappings are for connections of an organization"},
	{account.ErrSelfServiceDisabled, http.StatusForbidden, "SELF_SERVICE_DISABLED", "organizations of this deployment do not manage their own connections: its owner must set spec.connections.selfService"},
	{account.ErrDirectoryUnknown, http.StatusNotFound, "DIRECTORY_NOT_FOUND", "the organization has no such directory: list its directories"},
	{directories.ErrDeclared, http.StatusConflict, "CONFLICT", "the service declares this directory: ask its operator to change it"},
	{directories.ErrChanged, http.StatusConflict, "DIRECTORY_CHANGED", "the directory was changed after expected_updated_at, and nothing was done: get the directory, and send the change again"},
	{directories.ErrDisabled, http.StatusForbidden, "SELF_SERVICE_DISABLED", "organizations of this deployment may not set up directories: its owner must set spec.connections.directories"},
	{directories.ErrTooMany, http.StatusBadRequest, "DIRECTORY_LIMIT_REACHED", "the organization has as many directories as it may: delete one first"},
	{directories.ErrTooManyToday, http.StatusTooManyRequests, "RATE_LIMITED", "the organization set up too many directories today: wait before you set up another"},
	{directories.ErrTooManyTokens, http.StatusBadRequest, "DIRECTORY_LIMIT_REACHED", "the directory has as many tokens as it may: revoke one first"},
	{directories.ErrTokenUnknown, http.StatusNotFound, "TOKEN_NOT_FOUND", "the directory has no such token: get the directory to see its tokens"},
	{domain.ErrUnknown, http.StatusNotFound, "DOMAIN_NOT_FOUND", "the organization has no such domain: list its domains"},
	{domain.ErrExists, http.StatusBadRequest, "DOMAIN_EXISTS", "the organization has this domain already: list its domains"},
	{domain.ErrTooMany, http.StatusBadRequest, "DOMAIN_LIMIT_REACHED", "the organization has as many domains as it may: remove one first"},
	{domain.ErrTaken, http.StatusBadRequest, "DOMAIN_TAKEN", "your record was found, but another organization has the domain and its record is there too: remove that record first"},
	{domain.ErrTooManyLookups, http.StatusTooManyRequests, "RATE_LIMITED", "this domain was looked up too often: wait; it is also looked up without a request"},
	{domain.ErrBusy, http.StatusTooManyRequests, "RATE_LIMITED", "too many domains are being looked up at once: wait, and try again"},
	{consent.ErrRequestUnknown, http.StatusNotFound, "AUTHORIZATION_NOT_FOUND", "this authorization has ended or was already decided: begin again at the app you came from"},
	{consent.ErrPlace, http.StatusBadRequest, "INVALID_PLACE", "you cannot grant all of this there: choose an organization and a workspace where nothing is missing"},
	{consent.ErrUserCode, http.StatusBadRequest, "INVALID_USER_CODE", "no device waits with this code: check the code, or begin again on the device"},
	{consent.ErrTooManyUserCodes, http.StatusTooManyRequests, "RATE_LIMITED", "too many unknown codes came from your network: wait before you try another"},
}

// The refusals of the end-user API itself, in addition to wordings.
var (
	errInvalidAttempt      = apierror.Bad("INVALID_ATTEMPT", "this attempt is unknown, completed, expired, or of another session: begin again")
	errTooManyPending      = apierror.Coded(http.StatusTooManyRequests, "RATE_LIMITED", "too many sign-ups and sign-ins are pending from your address: finish one, or wait")
	errEmailDisabled       = apierror.Coded(http.StatusForbidden, "EMAIL_DISABLED", "this deployment sends no mail: its owner must declare spec.email")
	errTextsDisabled       = apierror.Coded(http.StatusForbidden, "SMS_DISABLED", "this deployment sends no texts: its owner must declare spec.sms")
	errPhoneUnknown        = apierror.Coded(http.StatusNotFound, "PHONE_NOT_FOUND", "you have no such phone number: /me/phone-numbers lists yours")
	errPhoneTaken          = apierror.Bad("PHONE_EXISTS", "this phone number is already in use")
	errPhoneVerified       = apierror.Bad("ALREADY_VERIFIED", "this phone number is already verified")
	errPhoneUnverified     = apierror.Bad("PHONE_NOT_VERIFIED", "this phone number is not verified yet: verify it first")
	errPhonePrimary        = apierror.Bad("PRIMARY_PHONE_REMOVAL", "this is your primary phone number: make another one primary first")
	errTooManyPhones       = apierror.Bad("PHONE_LIMIT_REACHED", "you have as many phone numbers as one user may: remove one first")
	errKeysOften           = apierror.Coded(http.StatusTooManyRequests, "RATE_LIMITED", "you created too many API keys today: wait before you create another")
	errGrantUnknown        = apierror.Coded(http.StatusNotFound, "GRANT_NOT_FOUND", "you have no such grant: /me/oauth-grants lists yours")
	errAppClosed           = apierror.Bad("INVALID_APP", "there is no such app for which you can create API keys")
	errSignInUnknown       = apierror.Bad("INVALID_SIGNIN", "this session has no such sign-in: its sign-ins are in the session of every response")
	errNotInOrganization   = apierror.Bad("INVALID_ORGANIZATION", "you are not a member of this organization: /me/organization-memberships lists yours")
	errNotInWorkspace      = apierror.Bad("INVALID_WORKSPACE", "you are not a member of this workspace in the active organization: /me/workspace-memberships lists yours")
	errMembershipUnknown   = apierror.Coded(http.StatusNotFound, "MEMBERSHIP_NOT_FOUND", "you have no such membership")
	errOrganizationUnknown = apierror.Coded(http.StatusNotFound, "ORGANIZATION_NOT_FOUND", "you are not in this organization: /me/organization-memberships lists yours")
	errEmailTaken          = apierror.Bad("EMAIL_EXISTS", "this email address is already in use")
	errInvalidCredential   = apierror.Coded(http.StatusUnauthorized, "INVALID_CREDENTIALS", "this passkey was not accepted: try again, or use another way")
	errExpiredChallenge    = apierror.Bad("EXPIRED_CHALLENGE", "the challenge has expired: get new options")
	errInvalidPasskey      = apierror.Bad("INVALID_PASSKEY", "this passkey was not accepted: get new options, and try again")
	errOtherOrganization   = apierror.Coded(http.StatusConflict, "ACTIVE_ORGANIZATION_CHANGED", "another organization is active now, and nothing was done: read the session again")
	errOtherAccount        = apierror.Coded(http.StatusConflict, "ACTIVE_ACCOUNT_CHANGED", "another account is active now, and nothing was done: read the session, or the authorization, again")
	errPasswordsDisabled   = apierror.Coded(http.StatusForbidden, "PASSWORDS_DISABLED", "this deployment has no passwords: sign in by an emailed code")
	errWrongCurrent        = apierror.Bad("INVALID_CURRENT_PASSWORD", "the current password is wrong")
	errSamePassword        = apierror.Bad("SAME_PASSWORD", "this is your current password: choose another")
	errNoOtherWayIn        = apierror.Bad("NO_ALTERNATIVE_AUTH", "without a password you could not sign in: this deployment has no emailed codes")
	errCurrentSignIn       = apierror.Bad("CURRENT_SESSION_SIGNOUT", "this is the sign-in you are using: sign out by POST /session/sign-out")
	errOwnSignInUnknown    = apierror.Coded(http.StatusNotFound, "SIGNIN_NOT_FOUND", "you have no such active sign-in: /me/signins lists yours")
	errApprovalUnknown     = apierror.Coded(http.StatusNotFound, "APPROVAL_NOT_FOUND", "there is no such approval for you: /me/tool-approvals lists yours")
	errApprovalDecided     = apierror.Bad("APPROVAL_DECIDED", "this approval was decided already: read it again")
	errApprovalExpired     = apierror.Bad("APPROVAL_EXPIRED", "this approval has ended, or its tool was changed, and nothing was decided: let the agent ask again")
	errOtherIdentity       = apierror.Bad("IDENTITY_EXISTS", "you authenticated as another user: choose the identity of this account")
	errNoAddressStep       = apierror.Invalid(apierror.Fault{Pointer: "/email", Message: "is only for an attempt at the step enter_email: omit it"})
	errTooManyDiscoveries  = apierror.Coded(http.StatusTooManyRequests, "RATE_LIMITED", "too many addresses were looked up from your network: wait before you look up another")
	errConfirmation        = apierror.Bad("INVALID_CONFIRMATION", "confirmation is wrong: send exactly the text that the operation documents")
)

// answerTo returns the response to an error. An error that is already a response stays as it is, except for the wait of
// a WaitError. An unexpected error stays as it is too, so that it can be logged.
func (c *call) answerTo(err error) error {
	if err == nil {
		return nil
	}
	if refused := apierror.Of(err); apierror.Is(err) {
		return waiting(err, refused)
	}
	if refused := cmp.Or(connectionRefusal(err), recordRefusal(err)); refused != nil {
		return refused
	}
	var wrong *verification.WrongCodeError
	var wrongFactor *factors.WrongCodeError
	var assured *account.AssuranceError
	var permission *account.PermissionError
	switch {
	case errors.As(err, &wrong):
		answer := apierror.Bad("INVALID_CODE", "this is not the code that was sent: check the newest message")
		answer.AttemptsLeft = ptr.To(wrong.Left)
		return answer
	case errors.As(err, &wrongFactor):
		answer := apierror.Bad("INVALID_CODE", "this code is wrong: check it, and the time of the device that shows it")
		if wrongFactor.Left >= 0 {
			answer.AttemptsLeft = &wrongFactor.Left
		}
		return answer
	case errors.As(err, &assured):
		if assured.Required != assurance.None {
			c.Metrics.AssuranceRefused(cmp.Or(string(assured.By), "request"), assured.Required.String())
		}
		return assuranceAnswer(assured)
	case errors.As(err, &permission) && permission.Granting:
		return apierror.Coded(http.StatusForbidden, "PERMISSION_DENIED", "your role lacks %s, which this role has: to grant or remove a role, you need all its permissions", permission.Permission)
	case errors.As(err, &permission):
		return apierror.Coded(http.StatusForbidden, "PERMISSION_DENIED", "your role in the organization lacks the permission %s", permission.Permission)
	case errors.Is(err, password.ErrBusy):
		answer := apierror.Unavailable(err, "too many passwords are being checked at once: try again")
		answer.RetryAfter = 2 * time.Second
		return answer
	case errors.Is(err, connections.ErrKeysBusy):
		return apierror.Unavailable(err, "too many connections of type SAML are being set up at once: try again")
	case errors.Is(err, account.ErrCannotSeal), errors.Is(err, verification.ErrNoKey), errors.Is(err, passkey.ErrNoKey):
		// The log names the missing key; the response says that the user is not at fault.
		return apierror.Unavailable(err, "this deployment cannot send codes yet: its server has no root key")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return apierror.Unavailable(err, "the store is unavailable: try again; if this request changes something, check first whether it did")
	}
	for _, wording := range wordings {
		if errors.Is(err, wording.refused) {
			return waiting(err, apierror.Coded(wording.status, wording.code, "%s", wording.message))
		}
	}
	return err
}

// assuranceAnswer returns the response to an operation that needs more of the user.
func assuranceAnswer(e *account.AssuranceError) error {
	answer := apierror.Coded(http.StatusForbidden, "REAUTHENTICATION_REQUIRED", "authenticate again with POST /session/reauthenticate, and retry")
	switch e.Reason {
	case account.ErrConfined:
		answer.Message = "your organization's identity provider signed you in, which counts in that organization alone: authenticate as the owner of the account with POST /session/reauthenticate, and retry"
	case account.ErrStepUp:
		answer = apierror.Coded(http.StatusForbidden, "STEP_UP_REQUIRED", "show a stronger factor with POST /session/reauthenticate, and retry")
	case account.ErrEnroll:
		answer = apierror.Coded(http.StatusForbidden, "ENROLLMENT_REQUIRED", "add one of the factors in enroll first, by /me/second-factors or /me/passkeys, and retry")
		answer.Enroll = append([]string{}, e.Enroll...)
	}
	if e.Required != assurance.None {
		answer.RequiredAssurance = e.Required.String()
	}
	if len(e.Strategies) > 0 {
		answer.Strategies = append([]string{}, e.Strategies...)
	}
	return answer
}

// waiting returns the response to an error, with the wait that the error states.
func waiting(err error, refused *apierror.Error) error {
	var wait *account.WaitError
	if !errors.As(err, &wait) {
		return refused
	}
	answer := *refused
	answer.RetryAfter = max(wait.Wait, time.Second)
	return &answer
}

// unexpected reports whether an error is a failure of the server, not a refusal.
func unexpected(err error) bool { return apierror.Of(err).Status >= http.StatusInternalServerError }
