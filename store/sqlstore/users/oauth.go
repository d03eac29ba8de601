package users

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// words scans a list that is stored as words separated by blanks. An empty list becomes nil.
type words struct{ to *[]string }

// Scan implements sql.Scanner.
func (w words) Scan(from any) error {
	var text sql.NullString
	err := text.Scan(from)
	*w.to = nil
	if err == nil && text.String != "" {
		*w.to = strings.Split(text.String, " ")
	}
	return err
}

func wordsOf(list []string) string { return strings.Join(list, " ") }

func (tx txOAuth) InsertAuthorizationRequest(r people.AuthorizationRequest, bounds people.WaitingBounds) error {
	err := tx.Exec(`INSERT INTO oauth_requests (deployment, hash, app_id, client, parameters, pushed, network, network_block, created_at, expires_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, r.Hash, r.App, r.Client, r.Parameters, db.Flag(r.Pushed), r.Network, r.NetworkBlock, db.Micros(r.CreatedAt), db.Micros(r.ExpiresAt))
	if err != nil {
		return err
	}
	return trimWaiting(tx.peopleTx, "oauth_requests", r.Hash, r.App, r.Network, r.NetworkBlock, bounds)
}

// trimWaiting deletes the oldest rows of a table of waiting requests or devices beyond the bounds. It never deletes the
// row that was just inserted, even if another server's clock is ahead.
func trimWaiting(tx *peopleTx, table string, inserted []byte, app int64, network, block string, bounds people.WaitingBounds) error {
	for _, of := range []struct {
		column, value string
		most          int
	}{{"network", network, bounds.Network}, {"network_block", block, bounds.NetworkBlock}} {
		err := tx.Exec(`DELETE FROM `+table+` WHERE deployment = :deployment AND hash IN (SELECT o.hash FROM `+table+` o
			WHERE o.deployment = :deployment AND o.`+of.column+` = ? AND o.hash <> ? ORDER BY o.created_at DESC, o.hash DESC LIMIT ? OFFSET ?)`,
			of.value, inserted, of.most, of.most-1)
		if err != nil {
			return err
		}
	}
	var one int
	full, err := tx.Get([]any{&one}, `SELECT 1 FROM `+table+` WHERE deployment = :deployment AND app_id = ? LIMIT 1 OFFSET ?`, app, bounds.App)
	if err != nil || !full {
		return err
	}
	return tx.Exec(`DELETE FROM `+table+` WHERE deployment = :deployment AND hash IN (SELECT o.hash FROM `+table+` o
		WHERE o.deployment = :deployment AND o.app_id = ? AND o.network_block = (SELECT b.network_block FROM `+table+` b
			WHERE b.deployment = :deployment AND b.app_id = ? AND b.hash <> ? GROUP BY b.network_block ORDER BY COUNT(*) DESC, b.network_block LIMIT 1)
		AND o.hash <> ? ORDER BY o.created_at, o.hash LIMIT 1)`, app, app, inserted, inserted)
}

func (tx txOAuth) AuthorizationRequest(hash []byte) (people.AuthorizationRequest, bool, error) {
	var r people.AuthorizationRequest
	found, err := tx.Get([]any{&r.Hash, &r.App, &r.Client, &r.Parameters, &r.Pushed, &r.Network, &r.NetworkBlock, db.At{To: &r.CreatedAt}, db.At{To: &r.ExpiresAt}},
		`SELECT hash, app_id, client, parameters, pushed, network, network_block, created_at, expires_at FROM oauth_requests WHERE deployment = :deployment AND hash = ?`, hash)
	return r, found, err
}

func (tx txOAuth) DeleteAuthorizationRequest(hash []byte) (bool, error) {
	n, err := tx.Affected(`DELETE FROM oauth_requests WHERE hash = ? AND deployment = :deployment`, hash)
	return n == 1, err
}

const familyColumns = `id, grant_id, app_id, client, user_id, organization_id, workspace_id, session_id, signin_id, scopes, resources, nonce, method,
	authenticated_at, acr, amr, offline, backchannel, created_at, used_at, expires_at, connection_id`

func readFamily(row *sql.Rows, f *people.TokenFamily) error {
	return row.Scan(&f.ID, &f.Grant, &f.App, &f.Client, &f.User, &f.Organization, &f.Workspace, &f.Session, &f.SignIn, words{&f.Scopes}, words{&f.Resources},
		&f.Nonce, &f.Method, db.At{To: &f.AuthenticatedAt}, acrOf{f}, words{&f.AMR}, &f.Offline, &f.Backchannel, db.At{To: &f.CreatedAt}, db.At{To: &f.UsedAt}, db.At{To: &f.ExpiresAt},
		&f.Connection)
}

// acrs returns the column acr of a family: what the sign-in had proven and, if it is another value, what tokens state.
func acrs(f people.TokenFamily) string {
	if f.StatedACR == "" || f.StatedACR == f.ACR {
		return f.ACR
	}
	return f.ACR + " " + f.StatedACR
}

// acrOf scans the column that acrs returns.
type acrOf struct{ to *people.TokenFamily }

// Scan implements sql.Scanner.
func (a acrOf) Scan(from any) error {
	var text sql.NullString
	err := text.Scan(from)
	own, stated, differs := strings.Cut(text.String, " ")
	if !differs {
		stated = own
	}
	a.to.ACR, a.to.StatedACR = own, stated
	return err
}

func (tx txOAuth) InsertTokenFamily(f people.TokenFamily, most int) error {
	err := tx.Exec(`INSERT INTO oauth_families (deployment, `+familyColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		f.ID, f.Grant, f.App, f.Client, f.User, f.Organization, f.Workspace, f.Session, f.SignIn, wordsOf(f.Scopes), wordsOf(f.Resources), f.Nonce, f.Method,
		db.Micros(f.AuthenticatedAt), acrs(f), wordsOf(f.AMR), db.Flag(f.Offline), db.Flag(f.Backchannel), db.Micros(f.CreatedAt), db.Micros(f.UsedAt), db.Micros(f.ExpiresAt),
		f.Connection)
	if err != nil {
		return err
	}
	beyond, err := db.List(tx.Tx, readID, `SELECT id FROM oauth_families WHERE deployment = :deployment AND grant_id = ? ORDER BY used_at DESC, id DESC LIMIT ? OFFSET ?`, f.Grant, most, most)
	if err != nil {
		return err
	}
	for _, family := range beyond {
		if _, err := tx.EndTokenFamily(family); err != nil {
			return err
		}
	}
	return nil
}

func readID(rows *sql.Rows, id *int64) error { return rows.Scan(id) }

func (tx txOAuth) TokenFamily(id int64) (people.TokenFamily, bool, error) {
	return db.First(tx.Tx, readFamily, `SELECT `+familyColumns+` FROM oauth_families WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txOAuth) LockTokenFamily(id int64) (people.TokenFamily, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.TokenFamily{}, false, err
	}
	return db.First(tx.Tx, readFamily, `SELECT `+familyColumns+` FROM oauth_families WHERE deployment = :deployment AND id = ?`+tx.Lock(), id)
}

func (tx txOAuth) UpdateTokenFamily(f people.TokenFamily) error {
	return tx.Exec(`UPDATE oauth_families SET scopes = ?, used_at = ?, expires_at = ? WHERE id = ? AND deployment = :deployment`,
		wordsOf(f.Scopes), db.Micros(f.UsedAt), db.Micros(f.ExpiresAt), f.ID)
}

func (tx txOAuth) EndTokenFamily(id int64) (bool, error) {
	ended, err := tx.Affected(`DELETE FROM oauth_families WHERE id = ? AND deployment = :deployment`, id)
	if err != nil {
		return false, err
	}
	for _, statement := range []string{
		`DELETE FROM oauth_refresh_tokens WHERE family_id = ? AND deployment = :deployment`,
		`DELETE FROM oauth_codes WHERE family_id = ? AND deployment = :deployment`,
	} {
		if err := tx.Exec(statement, id); err != nil {
			return false, err
		}
	}
	return ended == 1, nil
}

func (tx txOAuth) EndOfflineFamilies(user int64, since time.Time) (int, error) {
	families, err := db.List(tx.Tx, readID, `SELECT id FROM oauth_families WHERE deployment = :deployment AND user_id = ? AND offline = 1 AND created_at >= ?
		ORDER BY id`+tx.Lock(), user, db.Micros(since))
	if err != nil {
		return 0, err
	}
	for _, family := range families {
		if _, err := tx.EndTokenFamily(family); err != nil {
			return 0, err
		}
	}
	return len(families), nil
}

func (tx txOAuth) InsertAuthorizationCode(c people.AuthorizationCode) error {
	return tx.Exec(`INSERT INTO oauth_codes (deployment, hash, family_id, redirect_uri, challenge, created_at, expires_at, redeemed_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`, c.Hash, c.Family, c.RedirectURI, c.Challenge, db.Micros(c.CreatedAt), db.Micros(c.ExpiresAt), db.Micros(c.RedeemedAt))
}

func (tx txOAuth) AuthorizationCode(hash []byte) (people.AuthorizationCode, bool, error) {
	var c people.AuthorizationCode
	found, err := tx.Get([]any{&c.Hash, &c.Family, &c.RedirectURI, &c.Challenge, db.At{To: &c.CreatedAt}, db.At{To: &c.ExpiresAt}, db.At{To: &c.RedeemedAt}},
		`SELECT hash, family_id, redirect_uri, challenge, created_at, expires_at, redeemed_at FROM oauth_codes WHERE deployment = :deployment AND hash = ?`, hash)
	return c, found, err
}

func (tx txOAuth) RedeemAuthorizationCode(hash []byte, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE oauth_codes SET redeemed_at = ? WHERE redeemed_at = 0 AND expires_at > ? AND hash = ? AND deployment = :deployment`,
		db.Micros(now), db.Micros(now), hash)
	return n == 1, err
}

func (tx txOAuth) InsertRefreshToken(t people.RefreshToken) error {
	return tx.Exec(`INSERT INTO oauth_refresh_tokens (deployment, hash, family_id, parent, network, created_at, used_at, dies_at, expires_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?)`,
		t.Hash, t.Family, db.BytesOf(t.Parent), t.Network, db.Micros(t.CreatedAt), db.Micros(t.UsedAt), db.Micros(t.DiesAt), db.Micros(t.ExpiresAt))
}

func (tx txOAuth) RefreshToken(hash []byte) (people.RefreshToken, bool, error) {
	var t people.RefreshToken
	found, err := tx.Get([]any{&t.Hash, &t.Family, &t.Parent, &t.Network, db.At{To: &t.CreatedAt}, db.At{To: &t.UsedAt}, db.At{To: &t.DiesAt}, db.At{To: &t.ExpiresAt}, db.At{To: &t.ParentDiesAt}},
		`SELECT t.hash, t.family_id, t.parent, t.network, t.created_at, t.used_at, t.dies_at, t.expires_at,
			COALESCE((SELECT p.dies_at FROM oauth_refresh_tokens p WHERE p.deployment = t.deployment AND p.hash = t.parent), 0)
		FROM oauth_refresh_tokens t WHERE t.deployment = :deployment AND t.hash = ?`, hash)
	return t, found, err
}

func (tx txOAuth) UseRefreshToken(t people.RefreshToken, now, parentDies time.Time) error {
	err := tx.Exec(`UPDATE oauth_refresh_tokens SET used_at = ?, network = ? WHERE used_at = 0 AND hash = ? AND deployment = :deployment`, db.Micros(now), t.Network, t.Hash)
	if err != nil || len(t.Parent) == 0 {
		return err
	}
	return tx.Exec(`UPDATE oauth_refresh_tokens SET dies_at = ? WHERE (dies_at = 0 OR dies_at > ?) AND hash = ? AND deployment = :deployment`,
		db.Micros(parentDies), db.Micros(parentDies), t.Parent)
}

func (tx txOAuth) TrimRefreshTokens(family int64, presented []byte, bounds people.RefreshBounds) error {
	type token struct {
		hash              []byte
		usedAt, createdAt time.Time
	}
	tokens, err := db.List(tx.Tx, func(row *sql.Rows, t *token) error {
		return row.Scan(&t.hash, db.At{To: &t.usedAt}, db.At{To: &t.createdAt})
	},
		`SELECT hash, used_at, created_at FROM oauth_refresh_tokens WHERE deployment = :deployment AND family_id = ? AND hash <> ? ORDER BY created_at DESC, hash`,
		family, db.BytesOf(presented))
	if err != nil {
		return err
	}
	for _, t := range tokens {
		left := &bounds.Used
		switch {
		case !t.usedAt.IsZero():
		case t.createdAt.Before(bounds.YoungSince):
			left = &bounds.Unused
		default:
			left = &bounds.Young
		}
		if *left--; *left >= 0 {
			continue
		}
		if err := tx.Exec(`DELETE FROM oauth_refresh_tokens WHERE hash = ? AND deployment = :deployment`, t.hash); err != nil {
			return err
		}
	}
	return nil
}

const deviceColumns = `hash, user_code, app_id, client, parameters, network, network_block, state, family_id, polled_at, interval_s, created_at, expires_at`

func readDevice(row *sql.Rows, d *people.Device) error {
	var seconds int64
	err := row.Scan(&d.Hash, &d.UserCode, &d.App, &d.Client, &d.Parameters, &d.Network, &d.NetworkBlock, &d.State, &d.Family, db.At{To: &d.PolledAt}, &seconds, db.At{To: &d.CreatedAt}, db.At{To: &d.ExpiresAt})
	d.Interval = time.Duration(seconds) * time.Second
	return err
}

func (tx txOAuth) InsertDevice(d people.Device, bounds people.WaitingBounds) error {
	err := tx.Exec(`INSERT INTO oauth_devices (deployment, `+deviceColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		d.Hash, d.UserCode, d.App, d.Client, d.Parameters, d.Network, d.NetworkBlock, d.State, d.Family, db.Micros(d.PolledAt), int64(d.Interval/time.Second), db.Micros(d.CreatedAt), db.Micros(d.ExpiresAt))
	if err != nil {
		return err
	}
	return trimWaiting(tx.peopleTx, "oauth_devices", d.Hash, d.App, d.Network, d.NetworkBlock, bounds)
}

func (tx txOAuth) Device(hash []byte) (people.Device, bool, error) {
	return db.First(tx.Tx, readDevice, `SELECT `+deviceColumns+` FROM oauth_devices WHERE deployment = :deployment AND hash = ?`, hash)
}

func (tx txOAuth) LockDevice(hash []byte) (people.Device, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.Device{}, false, err
	}
	return db.First(tx.Tx, readDevice, `SELECT `+deviceColumns+` FROM oauth_devices WHERE deployment = :deployment AND hash = ?`+tx.Lock(), hash)
}

func (tx txOAuth) DeviceByUserCode(code string) (people.Device, bool, error) {
	return db.First(tx.Tx, readDevice, `SELECT `+deviceColumns+` FROM oauth_devices WHERE deployment = :deployment AND user_code = ?`, code)
}

func (tx txOAuth) UpdateDevice(d people.Device) error {
	return tx.Exec(`UPDATE oauth_devices SET state = ?, family_id = ?, polled_at = ?, interval_s = ? WHERE hash = ? AND deployment = :deployment`,
		d.State, d.Family, db.Micros(d.PolledAt), int64(d.Interval/time.Second), d.Hash)
}

func (tx txOAuth) DeleteDevice(hash []byte) error {
	return tx.Exec(`DELETE FROM oauth_devices WHERE hash = ? AND deployment = :deployment`, hash)
}

func (tx txOAuth) SessionOfSignIn(id int64) (people.Session, bool, error) {
	var s people.Session
	var g people.SignIn
	found, err := tx.Get([]any{&s.ID, &s.Anonymous, &s.ActiveSignIn, &s.Attempting, &s.Address, &s.UserAgent, db.At{To: &s.CreatedAt}, db.At{To: &s.UsedAt}, db.At{To: &s.ExpiresAt},
		&g.ID, &g.User, &g.Method, &g.Organization, &g.Workspace, db.At{To: &g.CreatedAt}, db.At{To: &g.ProvedAt},
		&g.Upstream.Connection, &g.Upstream.Identity, &g.Upstream.ConfinedTo, db.At{To: &g.Upstream.EndsAt}},
		`SELECT s.id, s.anonymous, s.active_signin, s.attempting, s.address, s.user_agent, s.created_at, s.used_at, s.expires_at,
			g.id, g.user_id, g.method, g.organization_id, g.workspace_id, g.created_at, g.proved_at,
			g.connection_id, g.identity_id, g.confined_organization, g.ends_at
		FROM signins g JOIN sessions s ON s.deployment = g.deployment AND s.id = g.session_id
		WHERE g.deployment = :deployment AND g.id = ?`, id)
	g.Session = s.ID
	if found {
		s.SignIns = []people.SignIn{g}
	}
	return s, found, err
}

// recordLogouts records which clients must be notified of the end of the sign-ins that a condition on g (signins)
// selects. It must run before these sign-ins are deleted.
func recordLogouts(tx *peopleTx, which string, of int64) error {
	return tx.Exec(`INSERT INTO oauth_logouts (deployment, app_id, client, user_id, session_id)
		SELECT DISTINCT f.deployment, f.app_id, f.client, f.user_id, f.session_id
		FROM signins g JOIN oauth_families f ON f.deployment = g.deployment AND f.signin_id = g.id AND f.backchannel = 1
		WHERE g.deployment = :deployment AND `+which+`
		ON CONFLICT (deployment, app_id, client, user_id, session_id) DO NOTHING`, of)
}

func (tx txOAuth) TakeLogouts(limit int) ([]people.Logout, error) {
	all, err := db.List(tx.Tx, func(row *sql.Rows, l *people.Logout) error { return row.Scan(&l.App, &l.Client, &l.User, &l.Session) },
		`SELECT app_id, client, user_id, session_id FROM oauth_logouts WHERE deployment = :deployment ORDER BY app_id, client, user_id, session_id LIMIT ?`, limit)
	if err != nil {
		return nil, err
	}
	var taken []people.Logout
	for _, l := range all {
		n, err := tx.Affected(`DELETE FROM oauth_logouts WHERE app_id = ? AND client = ? AND user_id = ? AND session_id = ? AND deployment = :deployment`, l.App, l.Client, l.User, l.Session)
		if err != nil {
			return nil, err
		}
		if n == 1 { // otherwise another server took it concurrently
			taken = append(taken, l)
		}
	}
	return taken, nil
}

// LogoutsWaiting implements people.Store.
func (s *Rows) LogoutsWaiting(ctx context.Context) (deployments []string, err error) {
	err = s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var deployment string
		err := row.Scan(&deployment)
		deployments = append(deployments, deployment)
		return err
	}, `SELECT DISTINCT deployment FROM oauth_logouts`)
	return deployments, err
}
