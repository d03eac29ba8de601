package account

import (
	"errors"
	"fmt"
	"time"
)

// Errors of the rules. Each listener maps them to its own responses.
var (
	ErrEmailTaken            = errors.New("an account with this email exists already")
	ErrUserUnknown           = errors.New("there is no such user")
	ErrUserDisabled          = errors.New("the account is disabled")
	ErrInvalidCredentials    = errors.New("the email or the password is wrong")
	ErrTooManyFailures       = errors.New("too many wrong passwords")
	ErrOrganizationsDisabled = errors.New("organizations are disabled in this deployment")
	ErrOrganizationRequired  = errors.New("a sign-up needs an organization or an invitation")
	ErrNotMember             = errors.New("the user is not a member of the organization")
	ErrAlreadyMember         = errors.New("the user is a member of the organization already")
	ErrOwnerLeaves           = errors.New("the last owner of an organization cannot leave it")
	ErrInvalidRole           = errors.New("there is no such role of this level")
	ErrMembershipUnknown     = errors.New("there is no such membership")
	ErrEmailUnknown          = errors.New("the user has no such email")
	ErrEmailVerified         = errors.New("the email is verified already")
	ErrEmailUnverified       = errors.New("the email is not verified")
	ErrEmailPrimary          = errors.New("the email is the primary one")
	ErrTooManyEmails         = errors.New("the user has too many emails")
	ErrOwnEmail              = errors.New("the user has this email already")
	ErrTooManyChanges        = errors.New("too many changes of one account")
	ErrTooManyCodes          = errors.New("too many codes for the addresses of one account")
	ErrOnlyOwner             = errors.New("the user is the only owner among other members")
	ErrOwnersOnly            = errors.New("only an owner may do this")
	ErrWorkspacesClosed      = errors.New("workspace creation is disabled in this deployment")
	ErrInvalidInvitation     = errors.New("the invitation cannot be accepted")
	ErrInvitationUnknown     = errors.New("there is no such open invitation")
	ErrTooManyInvitations    = errors.New("too many invitations")
	ErrRoleUnknown           = errors.New("there is no such role of organizations")
	// ErrTooManyOrganizations and ErrTooManyWorkspaces are returned in a LimitError.
	ErrTooManyOrganizations = errors.New("the user owns too many organizations")
	ErrTooManyWorkspaces    = errors.New("the organization has too many workspaces")
	// ErrCannotSeal: the server was started without a root key, which seals the messages in the outbox.
	ErrCannotSeal = errors.New("messages need a root key: start the server with --root-key")
)

// WaitError refuses a request that may succeed after a wait.
type WaitError struct {
	// Reason is the limit or state that the caller waits for.
	Reason error
	Wait   time.Duration
}

func (e *WaitError) Error() string { return fmt.Sprintf("%v: wait %s", e.Reason, e.Wait) }

// Unwrap returns the reason.
func (e *WaitError) Unwrap() error { return e.Reason }

// LimitError refuses an addition that would exceed a limit.
type LimitError struct {
	Reason error
	// Have is the current number, and Most the limit.
	Have, Most int64
}

func (e *LimitError) Error() string { return fmt.Sprintf("%v: %d of %d", e.Reason, e.Have, e.Most) }

// Unwrap returns the reason.
func (e *LimitError) Unwrap() error { return e.Reason }

// PermissionError refuses an action that a member's role does not permit.
type PermissionError struct {
	// Permission is the missing permission.
	Permission string
	// Granting reports that the member may not grant the permission to another user.
	Granting bool
}

func (e *PermissionError) Error() string { return "the role lacks the permission " + e.Permission }
