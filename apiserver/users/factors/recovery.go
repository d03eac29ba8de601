package factors

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/verification"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// recoveryCodes is how many codes a set has.
	recoveryCodes = 10
	// recoveryLength and temporaryLength are the lengths of the codes, in characters of 5 bits: 120 bits, so that a
	// plain hash protects them, and 60 bits, which a keyed one protects for at most a day.
	recoveryLength, temporaryLength = 24, 12
	// alphabet is Crockford's base32, in lower case.
	alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
)

// The bounds of a temporary code's lifetime.
const (
	MinTemporary     = 10 * time.Minute
	MaxTemporary     = 24 * time.Hour
	DefaultTemporary = time.Hour
)

// newCode returns a random code of n characters in groups of four, such as k3pd-9x0m-....
func newCode(random io.Reader, n int) (string, error) {
	raw := make([]byte, n)
	if _, err := io.ReadFull(random, raw); err != nil {
		return "", fmt.Errorf("random code: %w", err)
	}
	var out strings.Builder
	for i, b := range raw {
		if i > 0 && i%4 == 0 {
			out.WriteByte('-')
		}
		out.WriteByte(alphabet[b%32]) // 256 is a multiple of 32: every character is equally likely
	}
	return out.String(), nil
}

// NormalizeRecovery returns the characters of an entered recovery code or temporary code. It ignores case, dashes and
// blanks, and reads O as 0, I and L as 1. It reports whether the code has the form of one of them.
func NormalizeRecovery(typed string) (string, bool) {
	if len(typed) > 4*recoveryLength {
		return "", false
	}
	out := make([]byte, 0, recoveryLength)
	for _, b := range []byte(strings.ToLower(typed)) {
		switch b {
		case ' ', '-', '\t', '\r', '\n':
			continue
		case 'o':
			b = '0'
		case 'i', 'l':
			b = '1'
		}
		if strings.IndexByte(alphabet, b) < 0 || len(out) == recoveryLength {
			return "", false
		}
		out = append(out, b)
	}
	return string(out), len(out) == recoveryLength || len(out) == temporaryLength
}

// hashRecovery returns the stored form of a normalized recovery code.
func hashRecovery(deployment string, user int64, code string) []byte {
	h := sha256.New()
	for _, part := range []string{"cardea recovery code v1", deployment, subject(user), code} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return h.Sum(nil)
}

// NewRecoveryCodes replaces a user's recovery codes and returns the new ones, which cannot be read again. The user is
// locked. ErrRequired: the account has no usable factor.
func NewRecoveryCodes(u *account.Unit, user int64) ([]string, error) {
	f, err := u.FactorsOf(user)
	if err != nil {
		return nil, err
	}
	if !f.Any() {
		return nil, ErrRequired
	}
	if err := countAdded(u, user); err != nil {
		return nil, err
	}
	codes, err := makeRecoveryCodes(u, user)
	if err != nil {
		return nil, err
	}
	return codes, u.Notify(user, messages.RecoveryCodesMade)
}

func makeRecoveryCodes(u *account.Unit, user int64) ([]string, error) {
	codes, hashes := make([]string, recoveryCodes), make([][]byte, recoveryCodes)
	for i := range codes {
		code, err := newCode(u.Random, recoveryLength)
		if err != nil {
			return nil, err
		}
		normalized, _ := NormalizeRecovery(code)
		codes[i], hashes[i] = code, hashRecovery(u.Key(), user, normalized)
	}
	if err := u.Factors().ReplaceRecoveryCodes(user, hashes, u.Now); err != nil {
		return nil, err
	}
	return codes, u.Audit("recovery_codes.created", object("user", user))
}

// Recovery is a recovery code or temporary code that was found right, and is not used yet.
type Recovery struct {
	hash []byte
	// temporary is the id of a temporary code, 0 for a recovery code.
	temporary int64
}

// FindRecovery compares a normalized code with a user's recovery codes, or with the temporary code if it has that
// length. ErrUsed: the recovery code was used. ErrExpired: the temporary code has expired. It reports false for a
// wrong code.
func FindRecovery(u *account.Unit, codes *verification.Codes, user int64, code string) (Recovery, bool, error) {
	if len(code) == recoveryLength {
		hash := hashRecovery(u.Key(), user, code)
		found, used, err := u.Factors().HasRecoveryCode(user, hash)
		if used {
			err = ErrUsed
		}
		return Recovery{hash: hash}, found, err
	}
	t, found, err := u.Factors().TemporaryCode(user)
	if err != nil || !found || !codes.Matches(t.ID, t.Salt, t.MAC, t.KeyID, code) {
		return Recovery{}, false, err
	}
	if !u.Now.Before(t.ExpiresAt) {
		return Recovery{}, true, ErrExpired
	}
	return Recovery{temporary: t.ID}, true, nil
}

// Spend uses a code, in the transaction that does the permitted action. ErrUsed: a concurrent request used it. The
// owner is notified.
func (r Recovery) Spend(u *account.Unit, user int64) error {
	if r.temporary != 0 {
		first, err := u.Factors().DeleteTemporaryCode(user, r.temporary)
		if err == nil && !first {
			err = ErrUsed
		}
		if err != nil {
			return err
		}
		if err := u.Audit("temporary_code.used", object("user", user)); err != nil {
			return err
		}
		return u.Notify(user, messages.TemporaryCodeUsed)
	}
	first, err := u.Factors().SpendRecoveryCode(user, r.hash, u.Now)
	if err == nil && !first {
		err = ErrUsed
	}
	if err != nil {
		return err
	}
	if err := u.Audit("recovery_code.used", object("user", user)); err != nil {
		return err
	}
	left, err := u.Factors().RecoveryCodesOf(user)
	if err != nil {
		return err
	}
	return u.Notify(user, messages.RecoveryCodeUsed(left.Left))
}

// NewTemporaryCode replaces a user's temporary code and returns the new one, which cannot be read again. The user is
// locked. Errors: ErrDisabled, verification.ErrNoKey.
func NewTemporaryCode(u *account.Unit, codes *verification.Binder, user int64, lifetime time.Duration) (string, time.Time, error) {
	if err := requireOpen(u); err != nil {
		return "", time.Time{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return "", time.Time{}, err
	}
	code, err := newCode(u.Random, temporaryLength)
	if err != nil {
		return "", time.Time{}, err
	}
	normalized, _ := NormalizeRecovery(code)
	t := people.TemporaryCode{ID: id, User: user, CreatedAt: u.Now, ExpiresAt: u.Now.Add(lifetime)}
	if t.Salt, t.MAC, t.KeyID, err = codes.Bind(id, normalized, u.Random); err != nil {
		return "", time.Time{}, err
	}
	if err := u.Factors().PutTemporaryCode(t); err != nil {
		return "", time.Time{}, err
	}
	if err := u.Audit("user.temporary_code_created", object("user", user)); err != nil {
		return "", time.Time{}, err
	}
	return code, t.ExpiresAt, u.Notify(user, messages.TemporaryCodeMade)
}
