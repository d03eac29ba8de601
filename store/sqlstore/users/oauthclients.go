package users

import (
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const oauthClientColumns = `app_id, client, content, fingerprint, manager, by_backend, network, created_at, updated_at, used_at, fresh_until`

func readOAuthClient(row *sql.Rows, c *people.OAuthClient) error {
	err := row.Scan(&c.App, &c.Client, &c.Content, &c.Fingerprint, &c.Manager, &c.ByBackend, &c.Network, db.At{To: &c.CreatedAt}, db.At{To: &c.UpdatedAt}, db.At{To: &c.UsedAt}, db.At{To: &c.FreshUntil})
	if len(c.Fingerprint) == 0 {
		c.Fingerprint = nil
	}
	if len(c.Manager) == 0 {
		c.Manager = nil
	}
	return err
}

// ofLivingApp is the end of a SELECT of oauth_clients that excludes clients that ended with their app.
const ofLivingApp = ` AND NOT EXISTS (SELECT 1 FROM oauth_endings e WHERE e.deployment = :deployment AND e.app_id = oauth_clients.app_id
	AND e.client = '' AND e.ended_at >= oauth_clients.created_at)`

func (tx txOAuthClients) InsertOAuthClient(c people.OAuthClient) error {
	// Clients that ended with the app and are not purged yet must not block an insert.
	err := tx.Exec(`DELETE FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND (client = ? OR length(fingerprint) > 0 AND fingerprint = ?)
		AND EXISTS (SELECT 1 FROM oauth_endings e WHERE e.deployment = :deployment AND e.app_id = oauth_clients.app_id AND e.client = '' AND e.ended_at >= oauth_clients.created_at)`,
		c.App, c.Client, db.BytesOf(c.Fingerprint))
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO oauth_clients (deployment, `+oauthClientColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.App, c.Client, c.Content, db.BytesOf(c.Fingerprint), db.BytesOf(c.Manager), db.Flag(c.ByBackend), c.Network, db.Micros(c.CreatedAt), db.Micros(c.UpdatedAt), db.Micros(c.UsedAt), db.Micros(c.FreshUntil))
}

func (tx txOAuthClients) OAuthClient(app int64, client string) (people.OAuthClient, bool, error) {
	return db.First(tx.Tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND client = ?`+ofLivingApp, app, client)
}

func (tx txOAuthClients) LockOAuthClient(app int64, client string) (people.OAuthClient, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.OAuthClient{}, false, err
	}
	return db.First(tx.Tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND client = ?`+ofLivingApp+tx.Lock(), app, client)
}

func (tx txOAuthClients) ListOAuthClients(app int64, after people.OAuthClientPlace, limit int) ([]people.OAuthClient, error) {
	where, args := ``, []any{app}
	if !after.At.IsZero() {
		where, args = ` AND (created_at, client) < (?, ?)`, append(args, db.Micros(after.At), after.Client)
	}
	return db.List(tx.Tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ?`+where+ofLivingApp+`
		ORDER BY created_at DESC, client DESC LIMIT ?`, append(args, limit)...)
}

func (tx txOAuthClients) OAuthClientAlike(app int64, fingerprint []byte) (people.OAuthClient, bool, error) {
	return db.First(tx.Tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients
		WHERE deployment = :deployment AND app_id = ? AND length(fingerprint) > 0 AND fingerprint = ?`+ofLivingApp, app, db.BytesOf(fingerprint))
}

func (tx txOAuthClients) UpdateOAuthClient(c people.OAuthClient) error {
	return tx.Exec(`UPDATE oauth_clients SET content = ?, updated_at = ?, manager = ?, network = ?, used_at = ?, fresh_until = ? WHERE app_id = ? AND client = ? AND deployment = :deployment`,
		c.Content, db.Micros(c.UpdatedAt), db.BytesOf(c.Manager), c.Network, db.Micros(c.UsedAt), db.Micros(c.FreshUntil), c.App, c.Client)
}

func (tx txOAuthClients) RenewOAuthClient(app int64, client, network string, now time.Time) error {
	return tx.Exec(`UPDATE oauth_clients SET created_at = ?, network = ? WHERE used_at = 0 AND app_id = ? AND client = ? AND deployment = :deployment`,
		db.Micros(now), network, app, client)
}

func (tx txOAuthClients) DeleteOAuthClient(app int64, client string, now time.Time) (bool, error) {
	c, found, err := tx.LockOAuthClient(app, client)
	if err != nil || !found {
		return false, err
	}
	if err := tx.Exec(`DELETE FROM oauth_clients WHERE app_id = ? AND client = ? AND deployment = :deployment`, app, client); err != nil {
		return false, err
	}
	if c.UsedAt.IsZero() { // it has no grants
		return true, nil
	}
	return true, endGrants(tx.peopleTx, app, client, now)
}

// endGrants ends all grants of a client ("": of all clients of an app) made until a time. Purge deletes the rows,
// however many there are.
func endGrants(tx *peopleTx, app int64, client string, now time.Time) error {
	return tx.Exec(`INSERT INTO oauth_endings (deployment, app_id, client, ended_at, emptied) VALUES (:deployment, ?, ?, ?, 0)
		ON CONFLICT (deployment, app_id, client) DO UPDATE SET ended_at = excluded.ended_at, emptied = 0 WHERE oauth_endings.ended_at < excluded.ended_at`,
		app, client, db.Micros(now))
}

func (tx txOAuthClients) UnusedOAuthClients(app int64, network string) (int, people.OAuthClient, error) {
	return countedClients(tx.peopleTx, app, network, unusedClients, `created_at`)
}

func (tx txOAuthClients) UsedOAuthClients(app int64, network string) (int, people.OAuthClient, error) {
	return countedClients(tx.peopleTx, app, network, usedClients, `used_at`)
}

func (tx txOAuthClients) LargestClientNetwork(app int64, used bool) (network string, err error) {
	which := unusedClients
	if used {
		which = usedClients
	}
	_, err = tx.Get([]any{&network}, `SELECT network FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND network <> '' AND `+which+ofLivingApp+`
		GROUP BY network ORDER BY COUNT(*) DESC, network LIMIT 1`, app)
	return network, err
}

func (tx txOAuthClients) UngrantedOAuthClient(app int64) (people.OAuthClient, bool, error) {
	return db.First(tx.Tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND used_at > 0 AND by_backend = 0`+ofLivingApp+`
		AND NOT EXISTS (SELECT 1 FROM oauth_grants g WHERE g.deployment = :deployment AND g.app_id = oauth_clients.app_id AND g.client = oauth_clients.client)
		ORDER BY used_at, client LIMIT 1`, app)
}

// unusedClients and usedClients are the conditions for runtime clients that no backend created.
const unusedClients, usedClients = `used_at = 0 AND by_backend = 0`, `used_at > 0 AND by_backend = 0`

// countedClients counts the clients of an app, of a network or ("") of all, that match a condition. It also returns the
// first in an order.
func countedClients(tx *peopleTx, app int64, network, which, order string) (int, people.OAuthClient, error) {
	args := []any{app}
	if network != "" {
		which, args = which+` AND network = ?`, append(args, network)
	}
	var count int
	if _, err := tx.Get([]any{&count}, `SELECT COUNT(*) FROM oauth_clients WHERE deployment = :deployment AND app_id = ? AND `+which+ofLivingApp, args...); err != nil {
		return 0, people.OAuthClient{}, err
	}
	oldest, _, err := db.First(tx.Tx, readOAuthClient, `SELECT `+oauthClientColumns+` FROM oauth_clients
		WHERE deployment = :deployment AND app_id = ? AND `+which+ofLivingApp+` ORDER BY `+order+`, client LIMIT 1`, args...)
	return count, oldest, err
}
