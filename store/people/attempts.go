package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// The kinds of attempts.
const (
	AttemptSignUp         = "signup"
	AttemptSignIn         = "signin"
	AttemptResetPassword  = "reset_password"
	AttemptReauthenticate = "reauthenticate"
)

// Attempt is a sign-up, a sign-in or another proof of identity that waits for a code.
type Attempt struct {
	ID, Session  int64
	Kind, Method string
	// Email is the address as typed; addresses are compared in the folded form.
	Email string
	// User is the account of the attempt; 0: unknown, or not created yet.
	User                int64
	FirstName, LastName string
	// PasswordHash, OrganizationName and Invitation are the input of a sign-up.
	PasswordHash         string
	OrganizationName     string
	Invitation           int64
	Completed            bool
	CreatedAt, ExpiresAt time.Time
	// ProvedAt is when the first proof was right, for an attempt that continues after it, zero: not yet.
	ProvedAt time.Time
	// Proofs are what was shown in the attempt.
	Proofs assurance.Proofs
}
