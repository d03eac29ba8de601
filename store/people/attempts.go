package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
)

// Attempts are sign-ups and sign-ins that wait for a code.
type Attempts interface {
	InsertAttempt(Attempt) error
	Attempt(id int64) (Attempt, bool, error)
	// AttemptsOf returns a session's attempts that are neither completed nor expired, the oldest first.
	AttemptsOf(session int64, now time.Time) ([]Attempt, error)
	// CompleteAttempt marks an attempt as completed, and reports whether this call did.
	CompleteAttempt(id int64) (bool, error)
	// ProveAttempt records that the code of an attempt was right, for attempts that continue after the code, and all
	// proofs of the attempt.
	ProveAttempt(id int64, proofs assurance.Proofs, now time.Time) error
	// UpdateAttempt writes Email, User, FirstName, LastName and Proofs of an attempt that is neither completed nor proven,
	// and reports whether there was one.
	UpdateAttempt(Attempt) (bool, error)
	// EndAttemptsOf ends the uncompleted attempts on an account, except sign-ups. It makes their mailed codes void,
	// deletes proven attempts, and detaches the others from the account.
	EndAttemptsOf(user int64) error
}

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
