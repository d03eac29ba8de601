package users

import (
	"database/sql"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const grantColumns = `id, app_id, client, user_id, organization_id, workspace_id, scopes, resources, created_at, updated_at`

func readGrant(row *sql.Rows, g *people.Grant) error {
	return row.Scan(&g.ID, &g.App, &g.Client, &g.User, &g.Organization, &g.Workspace, words{&g.Scopes}, words{&g.Resources}, db.At{To: &g.CreatedAt}, db.At{To: &g.UpdatedAt})
}

func (tx txOAuth) PutGrant(g people.Grant, most int) (int64, error) {
	before, found, err := db.First(tx.Tx, readGrant, `SELECT `+grantColumns+` FROM oauth_grants
		WHERE deployment = :deployment AND user_id = ? AND app_id = ? AND client = ? AND organization_id = ? AND workspace_id = ?`+tx.Lock(),
		g.User, g.App, g.Client, g.Organization, g.Workspace)
	if err != nil {
		return 0, err
	}
	if found {
		var stands bool
		if _, stands, err = tx.Grant(before.ID); err == nil && !stands { // it has ended, and its rows are not purged yet
			found, err = false, ended(tx.DeleteGrant(before.ID))
		}
		if err != nil {
			return 0, err
		}
	}
	if found {
		return before.ID, tx.Exec(`UPDATE oauth_grants SET scopes = ?, resources = ?, updated_at = ? WHERE id = ? AND deployment = :deployment`,
			wordsOf(g.Scopes), wordsOf(g.Resources), db.Micros(g.UpdatedAt), before.ID)
	}
	err = tx.Exec(`INSERT INTO oauth_grants (deployment, `+grantColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		g.ID, g.App, g.Client, g.User, g.Organization, g.Workspace, wordsOf(g.Scopes), wordsOf(g.Resources), db.Micros(g.CreatedAt), db.Micros(g.UpdatedAt))
	if err != nil {
		return 0, err
	}
	return g.ID, trimGrants(tx.peopleTx, g.User, g.ID, most)
}

// trimGrants deletes a user's grants beyond the bound, the least recently used first, and never the one just written.
func trimGrants(tx *peopleTx, user, written int64, most int) error {
	var count int
	if _, err := tx.Get([]any{&count}, `SELECT COUNT(*) FROM oauth_grants WHERE deployment = :deployment AND user_id = ?`, user); err != nil || count <= most {
		return err
	}
	beyond, err := db.List(tx.Tx, readID, `SELECT g.id FROM oauth_grants g WHERE g.deployment = :deployment AND g.user_id = ? AND g.id <> ?
		ORDER BY COALESCE((SELECT MAX(f.used_at) FROM oauth_families f WHERE f.deployment = :deployment AND f.grant_id = g.id), g.updated_at), g.id LIMIT ?`,
		user, written, count-most)
	if err != nil {
		return err
	}
	for _, id := range beyond {
		if _, err := tx.OAuth().DeleteGrant(id); err != nil {
			return err
		}
	}
	return nil
}

// ended returns the error of a deletion whose count does not matter.
func ended(_ bool, err error) error { return err }

// notEnded is the end of a SELECT of oauth_grants that excludes grants that ended with their client or app.
const notEnded = ` AND NOT EXISTS (SELECT 1 FROM oauth_endings e WHERE e.deployment = :deployment AND e.app_id = oauth_grants.app_id
	AND e.client IN ('', oauth_grants.client) AND e.ended_at >= oauth_grants.created_at)`

func (tx txOAuth) Grant(id int64) (people.Grant, bool, error) {
	return db.First(tx.Tx, readGrant, `SELECT `+grantColumns+` FROM oauth_grants WHERE deployment = :deployment AND id = ?`+notEnded, id)
}

func (tx txOAuth) GrantsOf(user int64) ([]people.Grant, error) {
	return db.List(tx.Tx, readGrant, `SELECT `+grantColumns+` FROM oauth_grants WHERE deployment = :deployment AND user_id = ?`+notEnded+`
		ORDER BY updated_at DESC, id DESC`, user)
}

func (tx txOAuth) ListGrants(filter people.GrantFilter, limit int) ([]people.Grant, error) {
	where, args := `app_id = ?`, []any{filter.App}
	also := func(condition string, value any) {
		where += " AND " + condition
		args = append(args, value)
	}
	if filter.Client != "" {
		also(`client = ?`, filter.Client)
	}
	if filter.User != 0 {
		also(`user_id = ?`, filter.User)
	}
	if filter.Before != 0 {
		also(`id < ?`, filter.Before)
	}
	return db.List(tx.Tx, readGrant, `SELECT `+grantColumns+` FROM oauth_grants WHERE deployment = :deployment AND `+where+notEnded+`
		ORDER BY id DESC LIMIT ?`, append(args, limit)...)
}

func (tx txOAuth) DeleteGrant(id int64) (bool, error) {
	// Lock the families first, in the order of redemption and refresh: then no deadlock occurs, and their writes are
	// visible below.
	families, err := db.List(tx.Tx, readID,
		`SELECT id FROM oauth_families WHERE deployment = :deployment AND grant_id = ? ORDER BY id`+tx.Lock(), id)
	if err != nil {
		return false, err
	}
	for _, family := range families {
		if _, err := tx.EndTokenFamily(family); err != nil {
			return false, err
		}
	}
	n, err := tx.Affected(`DELETE FROM oauth_grants WHERE id = ? AND deployment = :deployment`, id)
	return n == 1, err
}

// deleteGrantsOf deletes all grants of a user.
func deleteGrantsOf(tx *peopleTx, user int64) error {
	const batch = 100
	for {
		grants, err := db.List(tx.Tx, readID, `SELECT id FROM oauth_grants WHERE deployment = :deployment AND user_id = ? LIMIT ?`, user, batch)
		if err != nil {
			return err
		}
		for _, id := range grants {
			if _, err := tx.OAuth().DeleteGrant(id); err != nil {
				return err
			}
		}
		if len(grants) < batch {
			return nil
		}
	}
}
