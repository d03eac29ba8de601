package users

import (
	"database/sql"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const userColumns = `u.id, u.first_name, u.last_name, u.disabled, u.organization_id, u.two_step, u.created_at, u.updated_at,
	COALESCE((SELECT e.address FROM emails e WHERE e.deployment = u.deployment AND e.user_id = u.id AND e.is_primary = 1), ''), ` + primaryPhone

const primaryPhone = `COALESCE((SELECT p.number FROM phones p WHERE p.deployment = u.deployment AND p.user_id = u.id AND p.is_primary = 1), '')`

func readUser(row *sql.Rows, u *people.User) error {
	return row.Scan(&u.ID, &u.FirstName, &u.LastName, &u.Disabled, &u.Organization, &u.TwoStep, db.At{To: &u.CreatedAt}, db.At{To: &u.UpdatedAt}, &u.Email, &u.Phone)
}

func (tx txUsers) InsertUser(u people.User, e people.Email) error {
	err := tx.Exec(`INSERT INTO users (deployment, id, first_name, last_name, disabled, organization_id, created_at, updated_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`,
		u.ID, u.FirstName, u.LastName, db.Flag(u.Disabled), u.Organization, db.Micros(u.CreatedAt), db.Micros(u.CreatedAt))
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO emails (deployment, id, user_id, address, folded, is_primary, verified_at, created_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`,
		e.ID, u.ID, e.Address, people.FoldEmail(e.Address), db.Flag(e.Primary), db.Micros(e.CreatedAt), db.Micros(e.CreatedAt))
}

func (tx txUsers) User(id int64) (people.User, bool, error) {
	return db.First(tx.Tx, readUser, `SELECT `+userColumns+` FROM users u WHERE u.deployment = :deployment AND u.id = ?`, id)
}

// LockUser locks in a statement of its own, so that the next statement sees the writes of the previous lock holder.
func (tx txUsers) LockUser(id int64) (people.User, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.User{}, false, err
	}
	if tx.Lock() != "" {
		var locked int64
		found, err := tx.Get([]any{&locked}, `SELECT id FROM users WHERE deployment = :deployment AND id = ?`+tx.Lock(), id)
		if err != nil || !found {
			return people.User{}, false, err
		}
	}
	return tx.User(id)
}

func (tx txUsers) UserByEmail(folded string) (people.User, bool, error) {
	return db.First(tx.Tx, readUser, `SELECT `+userColumns+` FROM emails f JOIN users u ON u.deployment = f.deployment AND u.id = f.user_id
		WHERE f.deployment = :deployment AND f.folded = ? ORDER BY `+openingFirst+`, f.created_at, f.id LIMIT 1`, folded)
}

// openingFirst orders the accounts of an address: the account in which the address is verified or primary comes first.
// There is at most one.
const openingFirst = `CASE WHEN f.verified_at > 0 OR f.is_primary = 1 THEN 0 ELSE 1 END`

const emailColumns = `id, user_id, address, is_primary, created_at, verified_at`

func readEmail(row *sql.Rows, e *people.Email) error {
	return row.Scan(&e.ID, &e.User, &e.Address, &e.Primary, db.At{To: &e.CreatedAt}, db.At{To: &e.VerifiedAt})
}

func (tx txUsers) Email(folded string) (people.Email, bool, error) {
	return db.First(tx.Tx, readEmail, emailsAt+` LIMIT 1`, folded)
}

const emailsAt = `SELECT ` + emailColumns + ` FROM emails f WHERE f.deployment = :deployment AND f.folded = ? ORDER BY ` + openingFirst + `, f.created_at, f.id`

func (tx txUsers) EmailsAt(folded string) ([]people.Email, error) {
	return db.List(tx.Tx, readEmail, emailsAt, folded)
}

func (tx txUsers) DeleteEmail(id int64) error {
	return tx.Exec(`DELETE FROM emails WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txUsers) EmailsOf(user int64) ([]people.Email, error) {
	return db.List(tx.Tx, readEmail, `SELECT `+emailColumns+` FROM emails WHERE deployment = :deployment AND user_id = ? ORDER BY created_at, id`, user)
}

func (tx txUsers) VerifyEmail(id int64, now time.Time) error {
	return tx.Exec(`UPDATE emails SET verified_at = ? WHERE id = ? AND deployment = :deployment`, db.Micros(now), id)
}

func (tx txUsers) MakePrimaryEmail(user, id int64) error {
	return tx.Exec(`UPDATE emails SET is_primary = CASE WHEN id = ? THEN 1 ELSE 0 END WHERE user_id = ? AND deployment = :deployment`, id, user)
}

func (tx txUsers) UpdateUser(u people.User) error {
	if err := markKeysOf(tx.peopleTx, u.ID); err != nil {
		return err
	}
	return tx.Exec(`UPDATE users SET first_name = ?, last_name = ?, disabled = ?, updated_at = ? WHERE id = ? AND deployment = :deployment`,
		u.FirstName, u.LastName, db.Flag(u.Disabled), db.Micros(u.UpdatedAt), u.ID)
}

func (tx txUsers) SetLastOrganization(user, organization int64) error {
	return tx.Exec(`UPDATE users SET organization_id = ? WHERE id = ? AND deployment = :deployment`, organization, user)
}

func (tx txUsers) DeleteUser(id int64) error {
	if _, err := tx.Sessions().EndSessionsOf(id); err != nil {
		return err
	}
	// The roll-up locks the user while it links the user's events: after this lock its rows are visible below.
	if _, _, err := tx.LockUser(id); err != nil {
		return err
	}
	if err := deleteKeysOf(tx.peopleTx, id); err != nil {
		return err
	}
	if err := tx.Attempts().EndAttemptsOf(id); err != nil {
		return err
	}
	if err := deleteGrantsOf(tx.peopleTx, id); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM emails WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM phones WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM credentials WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM totp_authenticators WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM passkeys WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM recovery_codes WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM identities WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM setup_links WHERE deployment = :deployment AND created_by <> 0 AND created_by = ?`,
		`DELETE FROM temporary_codes WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM outbox WHERE deployment = :deployment AND challenge_id IN (SELECT c.id FROM challenges c
			WHERE c.deployment = :deployment AND c.user_id = ?)`,
		`DELETE FROM challenges WHERE deployment = :deployment AND user_id = ?`,
		// Sends of mail have no user. Sends of texts keep their network: they count toward its limits for a day.
		`UPDATE sends SET user_id = 0, recipient = '' WHERE deployment = :deployment AND channel = '` + people.ChannelSMS + `' AND user_id = ?`,
		`DELETE FROM known_clients WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM ended_signins WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM workspace_memberships WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM organization_memberships WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM suspended_workspace_memberships WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM suspended_memberships WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM directory_accounts WHERE deployment = :deployment AND user_id = ?`,
		// The directory keeps its user, which waits again.
		`UPDATE scim_users SET user_id = 0 WHERE user_id <> 0 AND user_id = ? AND deployment = :deployment`,
		`UPDATE events SET address = '', user_agent = '' WHERE deployment = :deployment AND user_id = ? AND (address <> '' OR user_agent <> '')`,
		// This statement comes after that on events, because the roll-up moves rows from events to recent_events.
		`DELETE FROM recent_events WHERE deployment = :deployment AND user_id = ?`,
		// Calls of tools stay counted. A client's id leads to no user.
		`UPDATE tool_calls SET user_id = 0, principal_id = CASE WHEN principal = '` + people.CallerClient + `' THEN principal_id ELSE '' END, address = '',
			arguments = NULL, result = NULL WHERE deployment = :deployment AND user_id > 0 AND user_id = ?`,
		`DELETE FROM tool_approvals WHERE deployment = :deployment AND user_id = ?`,
		`DELETE FROM users WHERE deployment = :deployment AND id = ?`,
	} {
		if err := tx.Exec(statement, id); err != nil {
			return err
		}
	}
	return nil
}

func (tx txUsers) ListUsers(filter people.UserFilter, limit, offset int) ([]people.User, int64, error) {
	where, args := ` FROM users u WHERE u.deployment = :deployment`, []any{}
	if filter.Search != "" {
		// Both engines lower-case ASCII letters, but SQLite no others. So the search also compares names as written.
		where += ` AND (LOWER(u.first_name || ' ' || u.last_name) LIKE ? ESCAPE '\' OR u.first_name || ' ' || u.last_name LIKE ? ESCAPE '\'
			OR EXISTS (SELECT 1 FROM emails e WHERE e.deployment = u.deployment AND e.user_id = u.id AND e.folded LIKE ? ESCAPE '\'))`
		pattern := containing(filter.Search)
		lower := strings.ToLower(pattern)
		args = append(args, lower, pattern, lower)
	}
	if filter.Factors != nil {
		condition, values := factorCondition(*filter.Factors)
		where, args = where+` AND `+condition, append(args, values...)
	}
	var total int64
	if _, err := tx.Get([]any{&total}, `SELECT COUNT(*)`+where, args...); err != nil {
		return nil, 0, err
	}
	users, err := db.List(tx.Tx, readUser, `SELECT `+userColumns+where+` ORDER BY u.created_at DESC, u.id DESC LIMIT ? OFFSET ?`,
		append(args, limit, offset)...)
	return users, total, err
}

func (tx txUsers) Credential(user int64, kind string) (string, bool, error) {
	var secret string
	found, err := tx.Get([]any{&secret}, `SELECT secret FROM credentials WHERE deployment = :deployment AND user_id = ? AND kind = ?`, user, kind)
	return secret, found, err
}

func (tx txUsers) PutCredential(user int64, kind, secret string, now time.Time) error {
	return tx.Exec(`INSERT INTO credentials (deployment, user_id, kind, secret, created_at, updated_at) VALUES (:deployment, ?, ?, ?, ?, ?)
		ON CONFLICT (deployment, user_id, kind) DO UPDATE SET secret = excluded.secret, updated_at = excluded.updated_at`,
		user, kind, secret, db.Micros(now), db.Micros(now))
}

func (tx txUsers) DeleteCredential(user int64, kind string) (bool, error) {
	n, err := tx.Affected(`DELETE FROM credentials WHERE deployment = :deployment AND user_id = ? AND kind = ?`, user, kind)
	return n == 1, err
}

const phoneColumns = `id, user_id, number, region, is_primary, created_at, verified_at, second_factor_at`

func readPhone(row *sql.Rows, p *people.Phone) error {
	return row.Scan(&p.ID, &p.User, &p.Number, &p.Region, &p.Primary, db.At{To: &p.CreatedAt}, db.At{To: &p.VerifiedAt}, db.At{To: &p.SecondFactorAt})
}

func (tx txPhones) InsertPhone(p people.Phone) error {
	return tx.Exec(`INSERT INTO phones (deployment, id, user_id, number, region, is_primary, verified_at, created_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`,
		p.ID, p.User, p.Number, p.Region, db.Flag(p.Primary), db.Micros(p.VerifiedAt), db.Micros(p.CreatedAt))
}

func (tx txPhones) Phone(id int64) (people.Phone, bool, error) {
	return db.First(tx.Tx, readPhone, `SELECT `+phoneColumns+` FROM phones WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txPhones) PhonesOf(user int64) ([]people.Phone, error) {
	return db.List(tx.Tx, readPhone, `SELECT `+phoneColumns+` FROM phones WHERE deployment = :deployment AND user_id = ? ORDER BY created_at, id`, user)
}

func (tx txPhones) PhoneOwner(number string) (int64, bool, error) {
	var owner int64
	found, err := tx.Get([]any{&owner}, `SELECT user_id FROM phones WHERE deployment = :deployment AND number = ? AND verified_at > 0`, number)
	return owner, found, err
}

func (tx txPhones) VerifyPhone(id int64, now time.Time) error {
	return tx.Exec(`UPDATE phones SET verified_at = ? WHERE id = ? AND deployment = :deployment`, db.Micros(now), id)
}

func (tx txPhones) MakePrimary(user, id int64) error {
	return tx.Exec(`UPDATE phones SET is_primary = CASE WHEN id = ? THEN 1 ELSE 0 END WHERE user_id = ? AND deployment = :deployment`, id, user)
}

func (tx txPhones) DeletePhone(id int64) error {
	return tx.Exec(`DELETE FROM phones WHERE deployment = :deployment AND id = ?`, id)
}
