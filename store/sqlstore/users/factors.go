package users

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

func (tx txFactors) SetTwoStep(user int64, on bool) error {
	return tx.Exec(`UPDATE users SET two_step = ? WHERE id = ? AND deployment = :deployment`, db.Flag(on), user)
}

func (tx txFactors) SetSecondFactorPhone(phone int64, since time.Time) error {
	return tx.Exec(`UPDATE phones SET second_factor_at = ? WHERE id = ? AND deployment = :deployment`, db.Micros(since), phone)
}

const authenticatorColumns = `id, user_id, signin_id, name, sealed, algorithm, digits, period_s, last_step, confirmed_at, created_at, used_at`

func readAuthenticator(row *sql.Rows, a *people.Authenticator) error {
	var seconds int64
	err := row.Scan(&a.ID, &a.User, &a.SignIn, &a.Name, &a.Sealed, &a.Algorithm, &a.Digits, &seconds, &a.LastStep,
		db.At{To: &a.ConfirmedAt}, db.At{To: &a.CreatedAt}, db.At{To: &a.UsedAt})
	a.Period = time.Duration(seconds) * time.Second
	return err
}

func (tx txFactors) AuthenticatorsOf(user int64) ([]people.Authenticator, error) {
	return db.List(tx.Tx, readAuthenticator, `SELECT `+authenticatorColumns+` FROM totp_authenticators WHERE deployment = :deployment AND user_id = ?
		ORDER BY created_at, id`, user)
}

func (tx txFactors) InsertAuthenticator(a people.Authenticator) error {
	return tx.Exec(`INSERT INTO totp_authenticators (deployment, `+authenticatorColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.User, a.SignIn, a.Name, a.Sealed, a.Algorithm, a.Digits, int64(a.Period/time.Second), a.LastStep,
		db.Micros(a.ConfirmedAt), db.Micros(a.CreatedAt), db.Micros(a.UsedAt))
}

func (tx txFactors) ConfirmAuthenticator(id, step int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE totp_authenticators SET confirmed_at = ?, used_at = ?, last_step = ? WHERE confirmed_at = 0 AND last_step < ? AND id = ?
		AND deployment = :deployment`, db.Micros(now), db.Micros(now), step, step, id)
	return n == 1, err
}

func (tx txFactors) SpendStep(id, step int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE totp_authenticators SET used_at = ?, last_step = ? WHERE last_step < ? AND id = ? AND deployment = :deployment`,
		db.Micros(now), step, step, id)
	return n == 1, err
}

func (tx txFactors) ResealAuthenticator(id int64, from, to string) (bool, error) {
	n, err := tx.Affected(`UPDATE totp_authenticators SET sealed = ? WHERE sealed = ? AND id = ? AND deployment = :deployment`, to, from, id)
	return n == 1, err
}

// SealedSecrets implements people.Upkeep.
func (s *Rows) SealedSecrets(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
	var secrets []people.SealedSecret
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var one people.SealedSecret
		err := row.Scan(&one.Deployment, &one.ID, &one.Sealed)
		secrets = append(secrets, one)
		return err
	}, `SELECT deployment, id, sealed FROM totp_authenticators WHERE (deployment, id) > (?, ?) ORDER BY deployment, id LIMIT ?`,
		after.Deployment, after.ID, limit)
	if err != nil {
		return nil, fmt.Errorf("list sealed secrets of authenticators: %w", err)
	}
	return secrets, nil
}

func (tx txFactors) DeleteAuthenticator(id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM totp_authenticators WHERE deployment = :deployment AND id = ?`, id)
	return n == 1, err
}

const passkeyColumns = `id, user_id, rp_id, credential_id, user_handle, public_key, sign_count, backup_eligible, backed_up, verified, second_factor_only,
	transports, aaguid, name, created_at, used_at`

func readPasskey(row *sql.Rows, p *people.Passkey) error {
	var transports string
	err := row.Scan(&p.ID, &p.User, &p.RelyingParty, &p.Credential, &p.Handle, &p.PublicKey, &p.SignCount, &p.BackupEligible, &p.BackedUp, &p.Verified,
		&p.SecondFactorOnly, &transports, &p.AAGUID, &p.Name, db.At{To: &p.CreatedAt}, db.At{To: &p.UsedAt})
	p.Transports = strings.Fields(transports)
	return err
}

func (tx txFactors) PasskeysOf(user int64) ([]people.Passkey, error) {
	return db.List(tx.Tx, readPasskey, `SELECT `+passkeyColumns+` FROM passkeys WHERE deployment = :deployment AND user_id = ? ORDER BY created_at, id`, user)
}

// decoyPasskey is the row that a query for an unknown credential reads: its values have the lengths of those of most
// passkeys, so that the time of the query does not reveal whether the credential exists.
var decoyPasskey = `0, 0, 'acme.example', '\x` + strings.Repeat("00", 32) + `', '\x` + strings.Repeat("00", 32) + `', '\x` + strings.Repeat("00", 77) + `', 0, 1, 1, 1, 0,
	'internal hybrid', '\x` + strings.Repeat("00", 16) + `', 'Passkey', 1700000000000000, 1700000000000000`

func (tx txFactors) PasskeyByCredential(relyingParty string, credential []byte) (people.Passkey, bool, error) {
	p, _, err := db.First(tx.Tx, readPasskey, `SELECT `+passkeyColumns+` FROM passkeys WHERE deployment = :deployment AND rp_id = ? AND credential_id = ?
		UNION ALL SELECT `+decoyPasskey+` ORDER BY 1 DESC LIMIT 1`, relyingParty, db.BytesOf(credential))
	if err != nil || p.ID == 0 {
		return people.Passkey{}, false, err
	}
	return p, true, nil
}

func (tx txFactors) InsertPasskey(p people.Passkey) error {
	return tx.Exec(`INSERT INTO passkeys (deployment, `+passkeyColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		p.ID, p.User, p.RelyingParty, db.BytesOf(p.Credential), db.BytesOf(p.Handle), db.BytesOf(p.PublicKey), p.SignCount, p.BackupEligible,
		db.Flag(p.BackedUp), db.Flag(p.Verified), db.Flag(p.SecondFactorOnly), strings.Join(p.Transports, " "), db.BytesOf(p.AAGUID), p.Name,
		db.Micros(p.CreatedAt), db.Micros(p.UsedAt))
}

func (tx txFactors) UsePasskey(p people.Passkey) error {
	return tx.Exec(`UPDATE passkeys SET sign_count = ?, backup_eligible = ?, backed_up = ?, verified = ?, used_at = ? WHERE id = ? AND deployment = :deployment`,
		p.SignCount, p.BackupEligible, db.Flag(p.BackedUp), db.Flag(p.Verified), db.Micros(p.UsedAt), p.ID)
}

func (tx txFactors) RenamePasskey(id int64, name string) error {
	return tx.Exec(`UPDATE passkeys SET name = ? WHERE id = ? AND deployment = :deployment`, name, id)
}

func (tx txFactors) DeletePasskey(id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM passkeys WHERE deployment = :deployment AND id = ?`, id)
	return n == 1, err
}

func (tx txFactors) SpendChallenge(hash []byte, expires time.Time) (bool, error) {
	n, err := tx.Affected(`INSERT INTO spent_challenges (deployment, hash, expires_at) VALUES (:deployment, ?, ?) ON CONFLICT (deployment, hash) DO NOTHING`,
		hash, db.Micros(expires))
	return n == 1, err
}

func (tx txFactors) RecoveryCodesOf(user int64) (codes people.RecoveryCodes, err error) {
	_, err = tx.Get([]any{&codes.Left, db.At{To: &codes.CreatedAt}}, `SELECT COALESCE(SUM(CASE WHEN used_at = 0 THEN 1 ELSE 0 END), 0), COALESCE(MAX(created_at), 0)
		FROM recovery_codes WHERE deployment = :deployment AND user_id = ?`, user)
	return codes, err
}

func (tx txFactors) ReplaceRecoveryCodes(user int64, hashes [][]byte, now time.Time) error {
	if err := tx.Exec(`DELETE FROM recovery_codes WHERE deployment = :deployment AND user_id = ?`, user); err != nil {
		return err
	}
	for _, hash := range hashes {
		err := tx.Exec(`INSERT INTO recovery_codes (deployment, user_id, hash, used_at, created_at) VALUES (:deployment, ?, ?, 0, ?)`, user, hash, db.Micros(now))
		if err != nil {
			return err
		}
	}
	return nil
}

func (tx txFactors) SpendRecoveryCode(user int64, hash []byte, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE recovery_codes SET used_at = ? WHERE used_at = 0 AND hash = ? AND user_id = ? AND deployment = :deployment`,
		db.Micros(now), hash, user)
	return n == 1, err
}

func (tx txFactors) HasRecoveryCode(user int64, hash []byte) (found, used bool, err error) {
	found, err = tx.Get([]any{&used}, `SELECT CASE WHEN used_at > 0 THEN 1 ELSE 0 END FROM recovery_codes WHERE deployment = :deployment AND user_id = ? AND hash = ?`,
		user, hash)
	return found, used, err
}

func (tx txFactors) PutTemporaryCode(c people.TemporaryCode) error {
	return tx.Exec(`INSERT INTO temporary_codes (deployment, user_id, id, salt, mac, key_id, created_at, expires_at) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (deployment, user_id) DO UPDATE SET id = excluded.id, salt = excluded.salt, mac = excluded.mac, key_id = excluded.key_id,
			created_at = excluded.created_at, expires_at = excluded.expires_at`,
		c.User, c.ID, db.BytesOf(c.Salt), db.BytesOf(c.MAC), c.KeyID, db.Micros(c.CreatedAt), db.Micros(c.ExpiresAt))
}

func (tx txFactors) TemporaryCode(user int64) (people.TemporaryCode, bool, error) {
	return db.First(tx.Tx, func(row *sql.Rows, c *people.TemporaryCode) error {
		return row.Scan(&c.User, &c.ID, &c.Salt, &c.MAC, &c.KeyID, db.At{To: &c.CreatedAt}, db.At{To: &c.ExpiresAt})
	}, `SELECT user_id, id, salt, mac, key_id, created_at, expires_at FROM temporary_codes WHERE deployment = :deployment AND user_id = ?`, user)
}

func (tx txFactors) DeleteTemporaryCode(user, id int64) (bool, error) {
	n, err := tx.Affected(`DELETE FROM temporary_codes WHERE deployment = :deployment AND user_id = ? AND id = ?`, user, id)
	return n == 1, err
}

// factorCondition returns the condition that selects users u by their factors, with its parameters. For each user it
// looks up at most one index entry of each table and the user's few rows.
func factorCondition(f people.FactorFilter) (condition string, args []any) {
	const passkey = `EXISTS (SELECT 1 FROM passkeys k WHERE k.deployment = u.deployment AND k.user_id = u.id AND k.rp_id = ?`
	var usable, resistant []string
	if f.RelyingParty != "" {
		usable, args = append(usable, passkey+`)`), append(args, f.RelyingParty)
	}
	if f.Authenticators {
		usable = append(usable, `EXISTS (SELECT 1 FROM totp_authenticators t WHERE t.deployment = u.deployment AND t.user_id = u.id AND t.confirmed_at > 0)`)
	}
	if f.Texts {
		usable = append(usable, `EXISTS (SELECT 1 FROM phones p WHERE p.deployment = u.deployment AND p.user_id = u.id AND p.second_factor_at > 0 AND p.verified_at > 0)`)
	}
	if f.Level == assurance.None {
		return `NOT ` + either(usable), args
	}
	if f.RelyingParty != "" {
		verifying := `k.verified = 1 OR k.second_factor_only = 0`
		if f.Passwords {
			verifying += ` OR EXISTS (SELECT 1 FROM credentials c WHERE c.deployment = u.deployment AND c.user_id = u.id AND c.kind = '` + people.CredentialPassword + `')`
		}
		resistant = append(resistant, passkey+` AND (`+verifying+`))`)
	}
	if f.Level == assurance.PhishingResistant {
		return either(resistant), args
	}
	if f.RelyingParty != "" {
		args = append(args, f.RelyingParty)
	}
	return `(` + either(usable) + ` AND NOT ` + either(resistant) + `)`, args
}

// either returns the disjunction of conditions, false if there are none.
func either(conditions []string) string {
	if len(conditions) == 0 {
		return `(1 = 0)`
	}
	return `(` + strings.Join(conditions, ` OR `) + `)`
}
