package passkey

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"slices"

	"github.com/go-webauthn/webauthn/protocol"
)

// The values of backup eligibility, as the store keeps them.
const (
	// BackupUnknown is that of imported credentials whose source did not keep it.
	BackupUnknown = -1
	// NotBackupEligible is that of credentials that stay on one device.
	NotBackupEligible = 0
	// BackupEligible is that of credentials that may be synced between devices.
	BackupEligible = 1
	// FormerlyEligible is that of credentials that were BackupEligible and stated the opposite last. They count as
	// synced.
	FormerlyEligible = 2
)

// Stored is a credential as the store keeps it.
type Stored struct {
	CredentialID []byte
	// PublicKey is a COSE_Key.
	PublicKey  []byte
	UserHandle []byte
	// SignCount is the last counter that was not 0.
	SignCount uint32
	// BackupEligible is one of the values of backup eligibility.
	BackupEligible int
	BackedUp       bool

	decoy bool
}

// Verified is what a verified assertion proves, and what the caller writes to the credential's row.
type Verified struct {
	// UserVerified is the flag in the signed data.
	UserVerified bool
	// BackupEligible is NotBackupEligible, BackupEligible or FormerlyEligible: after a change, a credential counts as
	// synced forever.
	BackupEligible int
	BackedUp       bool
	// SignCount is the counter to store.
	SignCount uint32
	// BackupChanged reports that the credential stated another backup eligibility last: the caller audits it.
	BackupChanged bool
	// CounterRegressed reports that the counter is neither above the row's nor is 0 like the row's: the caller audits
	// it.
	CounterRegressed bool
	// Spent is the challenge, which the caller spends.
	Spent Spent
}

// Credential is a new credential.
type Credential struct {
	ID []byte
	// PublicKey is a COSE_Key that ValidateKey accepts.
	PublicKey []byte
	SignCount uint32
	// BackupEligible is NotBackupEligible or BackupEligible.
	BackupEligible         int
	BackedUp, UserVerified bool
	// AAGUID is the model of the authenticator, as it states: all zero for most.
	AAGUID     [16]byte
	Transports []string
}

// decoyKey is the COSE_Key of a P-256 point whose x coordinate is the SHA-256 of "cardea decoy passkey 1": its private
// key is not known.
var decoyKey, _ = hex.DecodeString("a501020326200121582059d54335d7834094e9e23f0b72d53228ff31526165fddd6fa0db6d0cea573bef22582029113539997086bb291d49c2ce970b68d165424659597745536514284aedcec4")

// Decoy returns the credential against which an assertion of an unknown credential is verified, so that the answer
// takes as long as for a known one. Every assertion is refused, with CheckUser.
func Decoy() Stored {
	return Stored{PublicKey: decoyKey, BackupEligible: BackupUnknown, decoy: true}
}

// challengeCheck verifies a challenge.
type challengeCheck func(challenge []byte) (Spent, error)

func (c *Challenges) check(r Request) challengeCheck {
	return func(challenge []byte) (Spent, error) { return c.verify(challenge, r.RelyingParty, r.Scope, r.Now) }
}

// Verify verifies an assertion of a stored credential (Web Authentication 7.2). The checks, in order:
//  1. The challenge: made by this server for this relying party and scope, and not expired.
//  2. The type, the origin, which is that of the header if the request has one, and that no other site frames the page.
//  3. The relying party's hash, user presence, user verification if required, and no backup without eligibility.
//  4. The credential's id and the user handle, which is required for SignIn.
//  5. The signature.
//  6. The counter, for credentials that cannot be synced. For others, Verified reports it.
//
// The error is ErrNoKey or a Refused. Together with a Refused of CheckCounter, Verified is returned as well: the caller
// spends its challenge, audits it and informs the account's owner.
func (c *Challenges) Verify(a *Assertion, stored Stored, r Request) (Verified, error) {
	return verifyAssertion(a, stored, r, c.check(r))
}

func verifyAssertion(a *Assertion, stored Stored, r Request, check challengeCheck) (Verified, error) {
	spent, err := checkClient(&a.client, protocol.AssertCeremony, r, check)
	if err != nil {
		return Verified{}, err
	}
	if err := checkData(&a.data, r); err != nil {
		return Verified{}, err
	}
	// The signature is verified even if the user is wrong, so that a wrong user and an unknown credential take as long
	// as a forged signature.
	owned := ownedBy(a, stored, r.Scope.Ceremony)
	clientHash := sha256.Sum256(a.clientJSON)
	key, err := parseKey(stored.PublicKey)
	signed := err == nil && verifySignature(key, slices.Concat(a.authenticator, clientHash[:]), a.signature)
	switch {
	case !owned:
		return Verified{}, refuse(CheckUser, "the credential or user handle is another one")
	case !signed:
		return Verified{}, refuse(CheckSignature, "the signature does not verify")
	}
	return checkCounter(a, stored, spent)
}

// Register verifies the answer to CreationOptions (Web Authentication 7.1), with the checks of Verify that apply, and
// returns the new credential. Its key must be one that ValidateKey accepts. The error is ErrNoKey or a Refused. The
// caller checks that the id is not registered yet.
func (c *Challenges) Register(a *Attestation, r Request) (Credential, Spent, error) {
	return register(a, r, c.check(r))
}

func register(a *Attestation, r Request, check challengeCheck) (Credential, Spent, error) {
	spent, err := checkClient(&a.client, protocol.CreateCeremony, r, check)
	if err != nil {
		return Credential{}, Spent{}, err
	}
	if err := checkData(&a.data, r); err != nil {
		return Credential{}, Spent{}, err
	}
	attested := a.data.AttData
	if !bytes.Equal(attested.CredentialID, a.CredentialID) {
		return Credential{}, Spent{}, refuse(CheckUser, "the signed credential id is another one")
	}
	if err := ValidateKey(attested.CredentialPublicKey); err != nil {
		return Credential{}, Spent{}, &Refused{CheckSignature, err}
	}
	return Credential{
		ID:             a.CredentialID,
		PublicKey:      attested.CredentialPublicKey,
		SignCount:      a.data.Counter,
		BackupEligible: eligible(a.data.Flags),
		BackedUp:       a.data.Flags.HasBackupState(),
		UserVerified:   a.data.Flags.UserVerified(),
		AAGUID:         [16]byte(attested.AAGUID),
		Transports:     a.Transports,
	}, spent, nil
}

// checkClient checks what the browser states.
func checkClient(c *client, kind protocol.CeremonyType, r Request, check challengeCheck) (Spent, error) {
	spent, err := check(c.challenge)
	switch {
	case err != nil:
		return Spent{}, err
	case c.kind != string(kind):
		return Spent{}, refuse(CheckChallenge, "the type is that of another ceremony")
	case r.RelyingParty.Allows == nil || !r.RelyingParty.Allows(c.origin):
		return Spent{}, refuse(CheckOrigin, "the origin is not allowed")
	case r.Origin != "" && r.Origin != c.origin:
		return Spent{}, refuse(CheckOrigin, "the origin differs from the request's")
	case c.crossOrigin || c.topOrigin:
		return Spent{}, refuse(CheckOrigin, "the page is in a frame of another site")
	}
	return spent, nil
}

// checkData checks what the authenticator states.
func checkData(data *protocol.AuthenticatorData, r Request) error {
	hash := sha256.Sum256([]byte(r.RelyingParty.ID))
	flags := data.Flags
	switch {
	case !bytes.Equal(data.RPIDHash, hash[:]):
		return refuse(CheckRelyingParty, "the credential belongs to another relying party")
	case !flags.UserPresent():
		return refuse(CheckUser, "the user was not present")
	case r.RequireUV && !flags.UserVerified():
		return refuse(CheckUser, "the user was not verified")
	case flags.HasBackupState() && !flags.HasBackupEligible():
		return refuse(CheckUser, "the credential is backed up but not eligible")
	}
	return nil
}

// ownedBy reports whether an assertion is of a stored credential and names its user.
func ownedBy(a *Assertion, stored Stored, ceremony Ceremony) bool {
	named := subtle.ConstantTimeCompare(a.UserHandle, stored.UserHandle) == 1
	if len(a.UserHandle) == 0 {
		named = ceremony != SignIn
	}
	return bytes.Equal(a.CredentialID, stored.CredentialID) && named && !stored.decoy
}

// checkCounter returns what a signed assertion proves. It refuses a counter that has not increased, unless the
// credential can be synced.
func checkCounter(a *Assertion, stored Stored, spent Spent) (Verified, error) {
	flags, count := a.data.Flags, a.data.Counter
	v := Verified{
		UserVerified:     flags.UserVerified(),
		BackupEligible:   eligible(flags),
		BackedUp:         flags.HasBackupState(),
		SignCount:        count,
		CounterRegressed: count <= stored.SignCount && (count != 0 || stored.SignCount != 0),
		Spent:            spent,
	}
	if v.BackupEligible == NotBackupEligible && stored.BackupEligible >= BackupEligible {
		v.BackupEligible = FormerlyEligible
	}
	v.BackupChanged = stored.BackupEligible != BackupUnknown && stored.BackupEligible != v.BackupEligible
	if count == 0 {
		v.SignCount = stored.SignCount
	}
	if v.CounterRegressed && v.BackupEligible == NotBackupEligible {
		v.SignCount = stored.SignCount
		return v, refuse(CheckCounter, "the counter has not increased: the credential may have been copied")
	}
	return v, nil
}

func eligible(flags protocol.AuthenticatorFlags) int {
	if flags.HasBackupEligible() {
		return BackupEligible
	}
	return NotBackupEligible
}
