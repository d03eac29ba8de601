package sqlstore

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

const oauthClientColumns = `app_id, client, content, fingerprint, manager, by_backend, created_at, updated_at, used_at, fresh_until`

func readOAuthClient(row *sql.Rows, c *people.OAuthClient) error {
	err := row.Scan(&c.App, &c.Client, &c.Content, &c.Fingerprint, &c.Manager, &c.ByBackend, moment{&c.CreatedAt}, moment{&c.UpdatedAt}, moment{&c.UsedAt}, moment{&c.FreshUntil})
	if len(c.Fingerprint) == 0 {
		c.Fingerprint = nil
	}
	if len(c.Manager) == 0 {
		c.Manager = nil
	}
	return err
}

func (tx *peopleTx) InsertOAuthClient(c people.OAuthClient) error {
	return tx.exec(`INSERT INTO oauth_clients (deployment, `+oauthClientColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.App, c.Client, c.Content, bytesOf(c.Fingerprint), bytesOf(c.Manager), flag(c.ByBackend), micros(c.CreatedAt), micros(c.UpdatedAt), micros(c.UsedAt), micros(c.FreshUntil))
}

func (tx *peopleTx) OAuthClient(app int64, client string) (people.OAuthClient, bool, error) {
	return first(tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND client = ?`, app, client)
}

func (tx *peopleTx) LockOAuthClient(app int64, client string) (people.OAuthClient, bool, error) {
	if tx.readOnly {
		return people.OAuthClient{}, false, errReadOnly
	}
	return first(tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND client = ?`+tx.lock(), app, client)
}

func (tx *peopleTx) ListOAuthClients(app int64, after people.OAuthClientPlace, limit int) ([]people.OAuthClient, error) {
	where, args := ``, []any{app}
	if !after.At.IsZero() {
		where, args = ` AND (created_at, client) < (?, ?)`, append(args, micros(after.At), after.Client)
	}
	return list(tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ?`+where+`
		ORDER BY created_at DESC, client DESC LIMIT ?`, append(args, limit)...)
}

func (tx *peopleTx) OAuthClientAlike(app int64, fingerprint []byte) (people.OAuthClient, bool, error) {
	return first(tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients
		WHERE deployment = :deployment AND app_id = ? AND length(fingerprint) > 0 AND fingerprint = ?`, app, bytesOf(fingerprint))
}

func (tx *peopleTx) UpdateOAuthClient(c people.OAuthClient) error {
	return tx.exec(`UPDATE oauth_clients SET content = ?, updated_at = ?, manager = ?, used_at = ?, fresh_until = ? WHERE app_id = ? AND client = ? AND deployment = :deployment`,
		c.Content, micros(c.UpdatedAt), bytesOf(c.Manager), micros(c.UsedAt), micros(c.FreshUntil), c.App, c.Client)
}

func (tx *peopleTx) RenewOAuthClient(app int64, client string, now time.Time) error {
	return tx.exec(`UPDATE oauth_clients SET created_at = ? WHERE used_at = 0 AND app_id = ? AND client = ? AND deployment = :deployment`, micros(now), app, client)
}

func (tx *peopleTx) DeleteOAuthClient(app int64, client string) (bool, error) {
	grants, err := list(tx, readGrant, `SELECT `+grantColumns+` FROM oauth_grants WHERE deployment = :deployment AND app_id = ? AND client = ?`, app, client)
	if err != nil {
		return false, err
	}
	for _, g := range grants {
		if _, err := tx.DeleteGrant(g.ID); err != nil {
			return false, err
		}
	}
	n, err := tx.affected(`DELETE FROM oauth_clients WHERE app_id = ? AND client = ? AND deployment = :deployment`, app, client)
	return n == 1, err
}

func (tx *peopleTx) UnusedOAuthClients(app int64) (int, people.OAuthClient, error) {
	var count int
	if _, err := tx.get([]any{&count}, `SELECT COUNT(*) FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND used_at = 0 AND by_backend = 0`, app); err != nil {
		return 0, people.OAuthClient{}, err
	}
	oldest, _, err := first(tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients
		WHERE deployment = :deployment AND app_id = ? AND used_at = 0 AND by_backend = 0 ORDER BY created_at, client LIMIT 1`, app)
	return count, oldest, err
}
