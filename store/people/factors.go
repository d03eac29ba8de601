package people

import (
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/ids"
)

// Factors are the second factors, passkeys and recovery codes of accounts.
type Factors interface {
	// SetTwoStep writes whether a user wants to be asked for a second factor.
	SetTwoStep(user int64, on bool) error
	// SetSecondFactorPhone writes since when a phone is a second factor; the zero time: it is none.
	SetSecondFactorPhone(phone int64, since time.Time) error

	// AuthenticatorsOf returns a user's authenticator apps, confirmed or not, the oldest first.
	AuthenticatorsOf(user int64) ([]Authenticator, error)
	InsertAuthenticator(Authenticator) error
	// ConfirmAuthenticator marks an unconfirmed authenticator as confirmed by the code of a time step, and reports whether
	// this call did.
	ConfirmAuthenticator(id, step int64, now time.Time) (bool, error)
	// SpendStep records the use of a time step above the last one, and reports whether this call did.
	SpendStep(id, step int64, now time.Time) (bool, error)
	// ResealAuthenticator replaces the sealed secret of an authenticator if it still is the given one, and reports whether
	// this call did.
	ResealAuthenticator(id int64, from, to string) (bool, error)
	// DeleteAuthenticator reports whether there was one.
	DeleteAuthenticator(id int64) (bool, error)

	// PasskeysOf returns a user's passkeys of every relying party, the oldest first.
	PasskeysOf(user int64) ([]Passkey, error)
	// PasskeyByCredential returns the passkey of a relying party with a credential id.
	PasskeyByCredential(relyingParty string, credential []byte) (Passkey, bool, error)
	// InsertPasskey fails with ErrDuplicate if the relying party has a passkey with the credential id.
	InsertPasskey(Passkey) error
	// UsePasskey writes SignCount, BackupEligible, BackedUp, Verified and UsedAt.
	UsePasskey(Passkey) error
	RenamePasskey(id int64, name string) error
	// DeletePasskey reports whether there was one.
	DeletePasskey(id int64) (bool, error)
	// SpendChallenge records that a challenge was answered, and reports whether this call did. It waits for a concurrent
	// transaction that spends the same challenge.
	SpendChallenge(hash []byte, expires time.Time) (bool, error)

	// RecoveryCodesOf returns how many of a user's recovery codes are not used.
	RecoveryCodesOf(user int64) (RecoveryCodes, error)
	// ReplaceRecoveryCodes deletes all recovery codes of a user and inserts new ones by their hashes; none for nil.
	ReplaceRecoveryCodes(user int64, hashes [][]byte, now time.Time) error
	// SpendRecoveryCode uses a recovery code, and reports whether this call did.
	SpendRecoveryCode(user int64, hash []byte, now time.Time) (bool, error)
	// HasRecoveryCode reports whether a user has a recovery code, and whether it was used.
	HasRecoveryCode(user int64, hash []byte) (found, used bool, err error)

	// PutTemporaryCode replaces a user's temporary code.
	PutTemporaryCode(TemporaryCode) error
	// TemporaryCode returns a user's temporary code; it may have expired.
	TemporaryCode(user int64) (TemporaryCode, bool, error)
	// DeleteTemporaryCode deletes a user's temporary code by its id, and reports whether this call did.
	DeleteTemporaryCode(user, id int64) (bool, error)
}

// Authenticator is an authenticator app that computes time-based codes (RFC 6238).
type Authenticator struct {
	ID, User int64
	// SignIn is the sign-in that began the enrollment, 0 for an imported one.
	SignIn int64
	Name   string
	// Sealed is the secret, sealed for the object of the kind SealedAuthenticator with the id SealedFor.
	Sealed string
	// Algorithm is SHA1, SHA256 or SHA512.
	Algorithm string
	// Digits is 6 or 8, and Period the length of a time step, 30 or 60 seconds.
	Digits int
	Period time.Duration
	// LastStep is the highest time step whose code was accepted.
	LastStep int64
	// ConfirmedAt is zero until the user entered a code of the app.
	ConfirmedAt, CreatedAt time.Time
	// UsedAt is zero before the first use.
	UsedAt time.Time
}

// SealedAuthenticator is the kind that secrets of authenticators are sealed for.
const SealedAuthenticator = "totp"

// SealedFor returns the id of the object for which the secret of a deployment's authenticator is sealed.
func SealedFor(deployment string, authenticator int64) string {
	return deployment + "/" + ids.Format(authenticator)
}

// SealedSecret is the sealed secret of an authenticator.
type SealedSecret struct {
	Deployment string
	ID         int64
	Sealed     string
}

// UnconfirmedFor is how long an authenticator waits for its first code.
const UnconfirmedFor = 10 * time.Minute

// Passkey is a WebAuthn credential.
type Passkey struct {
	ID, User     int64
	RelyingParty string
	Credential   []byte // the credential id, at most 1,023 bytes
	Handle       []byte // the user handle, at most 64 bytes
	PublicKey    []byte // a COSE key
	SignCount    int64
	// BackupEligible is 1 if the credential can be synced, 0 if it stays on one device, -1 if that is not known, 2 if it
	// could be synced and stated the opposite last.
	BackupEligible int
	BackedUp       bool
	// Verified reports whether the device has ever verified the user with it.
	Verified bool
	// SecondFactorOnly credentials begin no sign-in.
	SecondFactorOnly bool
	Transports       []string
	AAGUID           []byte // 16 bytes
	Name             string
	CreatedAt        time.Time
	// UsedAt is zero before the first use.
	UsedAt time.Time
}

// RelyingPartyCount is how many passkeys of a deployment belong to a relying party.
type RelyingPartyCount struct {
	RelyingParty string
	Passkeys     int64
}

// RecoveryCodes are the recovery codes of a user that are not used.
type RecoveryCodes struct {
	Left int
	// CreatedAt is when the user's codes were made, zero if there are none.
	CreatedAt time.Time
}

// TemporaryCode is the stored part of a code that a backend made for a user that lost every factor.
type TemporaryCode struct {
	ID, User int64
	// Salt and MAC bind the code to this row; KeyID names the key.
	Salt, MAC            []byte
	KeyID                string
	CreatedAt, ExpiresAt time.Time
}

// Proven returns the proofs of a sign-in. A sign-in of an earlier version has the proof of its method.
func (g SignIn) Proven() assurance.Proofs {
	if len(g.Proofs) > 0 {
		return g.Proofs
	}
	return assurance.Proofs{}.With(assurance.Method(g.Method), g.ProvenAt())
}
