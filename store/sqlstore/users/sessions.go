package users

import (
	"bytes"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const sessionByToken = `SELECT t.hash, t.parent, t.created_at, t.used_at, t.dies_at, t.replaced,
		s.id, s.anonymous, s.active_signin, s.attempting, s.address, s.user_agent, s.created_at, s.used_at, s.expires_at,
		COALESCE(g.id, 0), COALESCE(g.user_id, 0), COALESCE(g.method, ''), COALESCE(g.organization_id, 0), COALESCE(g.workspace_id, 0),
		COALESCE(g.created_at, 0), COALESCE(g.proved_at, 0), COALESCE(g.proofs, ''),
		COALESCE(g.connection_id, 0), COALESCE(g.identity_id, 0), COALESCE(g.confined_organization, 0), COALESCE(g.ends_at, 0),
		COALESCE(u.two_step, 0), COALESCE(u.created_at, 0)
	FROM session_tokens t
	JOIN sessions s ON s.deployment = t.deployment AND s.id = t.session_id
	LEFT JOIN signins g ON g.deployment = s.deployment AND g.session_id = s.id
	LEFT JOIN users u ON u.deployment = g.deployment AND u.id = g.user_id
	WHERE t.deployment = :deployment AND t.hash = ? ORDER BY g.created_at, g.id`

func (tx txSessions) SessionByToken(hash []byte) (people.Session, bool, error) {
	var s people.Session
	var signIns []people.SignIn
	found := false
	_, err := db.List(tx.Tx, func(row *sql.Rows, g *people.SignIn) error {
		found = true
		err := row.Scan(&s.Token.Hash, &s.Token.Parent, db.At{To: &s.Token.CreatedAt}, db.At{To: &s.Token.UsedAt}, db.At{To: &s.Token.DiesAt}, &s.Token.Replaced,
			&s.ID, &s.Anonymous, &s.ActiveSignIn, &s.Attempting, &s.Address, &s.UserAgent,
			db.At{To: &s.CreatedAt}, db.At{To: &s.UsedAt}, db.At{To: &s.ExpiresAt},
			&g.ID, &g.User, &g.Method, &g.Organization, &g.Workspace, db.At{To: &g.CreatedAt}, db.At{To: &g.ProvedAt},
			proofs{&g.Proofs}, &g.Upstream.Connection, &g.Upstream.Identity, &g.Upstream.ConfinedTo, db.At{To: &g.Upstream.EndsAt},
			&g.TwoStep, db.At{To: &g.UserCreatedAt})
		if g.Session = s.ID; g.ID != 0 {
			signIns = append(signIns, *g)
		}
		return err
	}, sessionByToken, hash)
	s.Token.Session, s.SignIns = s.ID, signIns
	return s, found && err == nil, err
}

// LockSession locks in a statement of its own, so that the next statement sees the writes of the previous lock holder.
func (tx txSessions) LockSession(hash []byte) (people.Session, bool, error) {
	if err := tx.Writable(); err != nil {
		return people.Session{}, false, err
	}
	if tx.Lock() != "" {
		var locked int64
		found, err := tx.Get([]any{&locked}, `SELECT s.id FROM session_tokens t
			JOIN sessions s ON s.deployment = t.deployment AND s.id = t.session_id
			WHERE t.deployment = :deployment AND t.hash = ?`+tx.Lock()+` OF s`, hash)
		if err != nil || !found {
			return people.Session{}, false, err
		}
	}
	return tx.SessionByToken(hash)
}

func (tx txSessions) InsertSession(s people.Session) error {
	return tx.Exec(`INSERT INTO sessions (deployment, id, anonymous, active_signin, attempting, address, user_agent, created_at, used_at, expires_at)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.ID, db.Flag(s.Anonymous), s.ActiveSignIn, db.Flag(s.Attempting), s.Address, s.UserAgent, db.Micros(s.CreatedAt), db.Micros(s.UsedAt), db.Micros(s.ExpiresAt))
}

func (tx txSessions) UpdateSession(s people.Session) error {
	return tx.Exec(`UPDATE sessions SET anonymous = ?, active_signin = ?, attempting = ?, used_at = ?, expires_at = ?
		WHERE id = ? AND deployment = :deployment`,
		db.Flag(s.Anonymous), s.ActiveSignIn, db.Flag(s.Attempting), db.Micros(s.UsedAt), db.Micros(s.ExpiresAt), s.ID)
}

func (tx txSessions) EndSession(id int64) error {
	if err := keepEnded(tx.peopleTx, `g.session_id = ?`, id); err != nil {
		return err
	}
	for _, statement := range []string{
		`DELETE FROM sso_attempts WHERE deployment = :deployment AND attempt_id IN (SELECT a.id FROM attempts a WHERE a.deployment = :deployment AND a.session_id = ?)`,
		`DELETE FROM sessions WHERE deployment = :deployment AND id = ?`,
		`DELETE FROM session_tokens WHERE deployment = :deployment AND session_id = ?`,
		`DELETE FROM signins WHERE deployment = :deployment AND session_id = ?`,
		`DELETE FROM attempts WHERE deployment = :deployment AND session_id = ?`,
	} {
		if err := tx.Exec(statement, id); err != nil {
			return err
		}
	}
	return nil
}

func (tx txSessions) EndSessionsOf(user int64) ([]people.SignIn, error) {
	signIns, err := tx.SignInsOf(user)
	if err != nil {
		return nil, err
	}
	for _, g := range signIns {
		if err := tx.LeaveSession(g); err != nil {
			return nil, err
		}
	}
	return signIns, nil
}

func (tx txSessions) LeaveSession(g people.SignIn) error {
	var locked int64
	if _, err := tx.Get([]any{&locked}, `SELECT id FROM sessions WHERE deployment = :deployment AND id = ?`+tx.Lock(), g.Session); err != nil {
		return err
	}
	if err := tx.DeleteSignIn(g.ID); err != nil {
		return err
	}
	var next int64
	others, err := tx.Get([]any{&next}, `SELECT id FROM signins WHERE deployment = :deployment AND session_id = ? ORDER BY created_at DESC, id DESC LIMIT 1`, g.Session)
	if err != nil {
		return err
	}
	if !others {
		return tx.EndSession(g.Session)
	}
	return tx.Exec(`UPDATE sessions SET active_signin = ? WHERE active_signin = ? AND id = ? AND deployment = :deployment`, next, g.ID, g.Session)
}

func (tx txSessions) PendingFrom(address string, now time.Time) (int, error) {
	var n int
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM sessions WHERE deployment = :deployment AND address = ? AND anonymous = 1 AND expires_at > ?`, address, db.Micros(now))
	return n, err
}

func (tx txSessions) InsertToken(t people.Token) error {
	return tx.Exec(`INSERT INTO session_tokens (deployment, hash, session_id, parent, created_at, used_at, dies_at, replaced) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?)`,
		t.Hash, t.Session, db.BytesOf(t.Parent), db.Micros(t.CreatedAt), db.Micros(t.UsedAt), db.Micros(t.DiesAt), db.Flag(t.Replaced))
}

func (tx txSessions) UseToken(t people.Token, now, parentDies time.Time) error {
	err := tx.Exec(`UPDATE session_tokens SET used_at = ? WHERE used_at = 0 AND hash = ? AND deployment = :deployment`, db.Micros(now), t.Hash)
	if err != nil || len(t.Parent) == 0 {
		return err
	}
	return tx.Exec(`UPDATE session_tokens SET dies_at = ? WHERE (dies_at = 0 OR dies_at > ?) AND hash = ? AND deployment = :deployment`,
		db.Micros(parentDies), db.Micros(parentDies), t.Parent)
}

func (tx txSessions) ReplaceTokens(session int64, now time.Time) error {
	return tx.Exec(`UPDATE session_tokens SET dies_at = ?, replaced = 1 WHERE replaced = 0 AND session_id = ? AND deployment = :deployment`, db.Micros(now), session)
}

// maxDeadTokens bounds the dead tokens kept per session, so that a session with many replaced tokens stays fast.
const maxDeadTokens = 64

func (tx txSessions) TrimTokens(session int64, presented []byte, most int, now, diedBefore time.Time) error {
	type token struct {
		hash []byte
		dies time.Time
	}
	// In the order of keeping: the presented token, live ones without a time of death, the rest; the newest first.
	// TrimTokens deletes from the end.
	tokens, err := db.List(tx.Tx, func(row *sql.Rows, t *token) error { return row.Scan(&t.hash, db.At{To: &t.dies}) },
		`SELECT hash, dies_at FROM session_tokens WHERE deployment = :deployment AND session_id = ?
		ORDER BY CASE WHEN hash = ? THEN 0 WHEN dies_at = 0 THEN 1 ELSE 2 END, created_at DESC`, session, db.BytesOf(presented))
	if err != nil {
		return err
	}
	live, dead := 0, 0
	for _, t := range tokens {
		var over bool
		if t.dies.IsZero() || t.dies.After(now) {
			live++
			over = live > most
		} else {
			dead++
			over = t.dies.Before(diedBefore) || dead > maxDeadTokens
		}
		if !over || bytes.Equal(t.hash, presented) {
			continue
		}
		if err := tx.Exec(`DELETE FROM session_tokens WHERE deployment = :deployment AND hash = ?`, t.hash); err != nil {
			return err
		}
	}
	return nil
}

const signInColumns = `id, session_id, user_id, method, organization_id, workspace_id, created_at, proved_at, proofs, connection_id, identity_id, confined_organization, ends_at`

// proofs reads the stored form of proofs.
type proofs struct{ to *assurance.Proofs }

// Scan implements sql.Scanner.
func (p proofs) Scan(value any) (err error) {
	var stored sql.NullString
	if err := stored.Scan(value); err != nil {
		return err
	}
	*p.to, err = assurance.ParseProofs(stored.String)
	return err
}

func readSignIn(row *sql.Rows, g *people.SignIn) error {
	return row.Scan(&g.ID, &g.Session, &g.User, &g.Method, &g.Organization, &g.Workspace, db.At{To: &g.CreatedAt}, db.At{To: &g.ProvedAt}, proofs{&g.Proofs},
		&g.Upstream.Connection, &g.Upstream.Identity, &g.Upstream.ConfinedTo, db.At{To: &g.Upstream.EndsAt})
}

func (tx txSessions) InsertSignIn(g people.SignIn) error {
	return tx.Exec(`INSERT INTO signins (deployment, `+signInColumns+`, upstream_sid, id_token) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		g.ID, g.Session, g.User, g.Method, g.Organization, g.Workspace, db.Micros(g.CreatedAt), db.Micros(g.ProvedAt), g.Proofs.String(),
		g.Upstream.Connection, g.Upstream.Identity, g.Upstream.ConfinedTo, db.Micros(g.Upstream.EndsAt), g.Upstream.SessionID, g.Upstream.IDToken)
}

func (tx txSessions) ProveSignIn(id int64, proofs assurance.Proofs, now time.Time) error {
	return tx.Exec(`UPDATE signins SET proved_at = ?, proofs = ? WHERE id = ? AND deployment = :deployment`, db.Micros(now), proofs.String(), id)
}

func (tx txSessions) DeleteSignIn(id int64) error {
	if err := keepEnded(tx.peopleTx, `g.id = ?`, id); err != nil {
		return err
	}
	return tx.Exec(`DELETE FROM signins WHERE deployment = :deployment AND id = ?`, id)
}

// keepEnded records as ended the sign-ins that a condition on g (signins) selects, and records the clients to notify.
// It must run before these sign-ins are deleted.
func keepEnded(tx *peopleTx, which string, of int64) error {
	if err := recordLogouts(tx, which, of); err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO ended_signins (deployment, user_id, id, method, proofs, address, user_agent, created_at, used_at)
		SELECT g.deployment, g.user_id, g.id, g.method, g.proofs, s.address, s.user_agent, g.created_at, s.used_at
		FROM signins g JOIN sessions s ON s.deployment = g.deployment AND s.id = g.session_id WHERE g.deployment = :deployment AND `+which+`
		ON CONFLICT (deployment, user_id, id) DO NOTHING`, of)
}

func (tx txSessions) EndedSignIns(user int64, limit int) ([]people.EndedSignIn, error) {
	return db.List(tx.Tx, func(row *sql.Rows, g *people.EndedSignIn) error {
		return row.Scan(&g.ID, &g.User, &g.Method, proofs{&g.Proofs}, &g.Address, &g.UserAgent, db.At{To: &g.CreatedAt}, db.At{To: &g.UsedAt})
	}, `SELECT id, user_id, method, proofs, address, user_agent, created_at, used_at FROM ended_signins
		WHERE deployment = :deployment AND user_id = ? ORDER BY created_at DESC, id DESC LIMIT ?`, user, limit)
}

func (tx txSessions) SetActiveOrganization(id, organization, workspace int64) error {
	return tx.Exec(`UPDATE signins SET organization_id = ?, workspace_id = ? WHERE id = ? AND deployment = :deployment`, organization, workspace, id)
}

func (tx txSessions) SignInsOf(user int64) ([]people.SignIn, error) {
	return db.List(tx.Tx, readSignIn, `SELECT `+signInColumns+` FROM signins WHERE deployment = :deployment AND user_id = ? ORDER BY created_at, id`, user)
}

func (tx txSessions) SessionsOf(user int64) ([]people.Session, error) {
	return db.List(tx.Tx, func(row *sql.Rows, s *people.Session) error {
		var g people.SignIn
		err := row.Scan(&s.ID, &s.Address, &s.UserAgent, db.At{To: &s.CreatedAt}, db.At{To: &s.UsedAt}, db.At{To: &s.ExpiresAt},
			&g.ID, &g.User, &g.Method, &g.Organization, &g.Workspace, db.At{To: &g.CreatedAt}, db.At{To: &g.ProvedAt}, proofs{&g.Proofs},
			&g.Upstream.Connection, &g.Upstream.Identity, &g.Upstream.ConfinedTo, db.At{To: &g.Upstream.EndsAt})
		g.Session = s.ID
		s.SignIns = []people.SignIn{g}
		return err
	}, `SELECT s.id, s.address, s.user_agent, s.created_at, s.used_at, s.expires_at,
			g.id, g.user_id, g.method, g.organization_id, g.workspace_id, g.created_at, g.proved_at, g.proofs,
			g.connection_id, g.identity_id, g.confined_organization, g.ends_at
		FROM signins g JOIN sessions s ON s.deployment = g.deployment AND s.id = g.session_id
		WHERE g.deployment = :deployment AND g.user_id = ? ORDER BY g.created_at DESC, g.id DESC`, user)
}

func (tx txSessions) LeaveOrganization(user, organization int64) error {
	return tx.Exec(`UPDATE signins SET organization_id = 0, workspace_id = 0 WHERE user_id = ? AND organization_id = ? AND deployment = :deployment`, user, organization)
}

const attemptColumns = `id, session_id, kind, method, email, folded, user_id, first_name, last_name, password_hash, organization_name,
	invitation_id, completed, created_at, expires_at, proved_at, proofs`

func readAttempt(row *sql.Rows, a *people.Attempt) error {
	var folded string
	return row.Scan(&a.ID, &a.Session, &a.Kind, &a.Method, &a.Email, &folded, &a.User, &a.FirstName, &a.LastName, &a.PasswordHash, &a.OrganizationName,
		&a.Invitation, &a.Completed, db.At{To: &a.CreatedAt}, db.At{To: &a.ExpiresAt}, db.At{To: &a.ProvedAt}, proofs{&a.Proofs})
}

func (tx txAttempts) InsertAttempt(a people.Attempt) error {
	return tx.Exec(`INSERT INTO attempts (deployment, `+attemptColumns+`) VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.ID, a.Session, a.Kind, a.Method, a.Email, people.FoldEmail(a.Email), a.User, a.FirstName, a.LastName, a.PasswordHash, a.OrganizationName,
		a.Invitation, db.Flag(a.Completed), db.Micros(a.CreatedAt), db.Micros(a.ExpiresAt), db.Micros(a.ProvedAt), a.Proofs.String())
}

func (tx txAttempts) Attempt(id int64) (people.Attempt, bool, error) {
	return db.First(tx.Tx, readAttempt, `SELECT `+attemptColumns+` FROM attempts WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txAttempts) AttemptsOf(session int64, now time.Time) ([]people.Attempt, error) {
	return db.List(tx.Tx, readAttempt, `SELECT `+attemptColumns+` FROM attempts WHERE deployment = :deployment AND session_id = ? AND completed = 0 AND expires_at > ?
		ORDER BY created_at, id`, session, db.Micros(now))
}

func (tx txAttempts) CompleteAttempt(id int64) (bool, error) {
	n, err := tx.Affected(`UPDATE attempts SET completed = 1, password_hash = '' WHERE completed = 0 AND id = ? AND deployment = :deployment`, id)
	return n == 1, err
}

func (tx txAttempts) ProveAttempt(id int64, proofs assurance.Proofs, now time.Time) error {
	return tx.Exec(`UPDATE attempts SET proved_at = ?, proofs = ? WHERE id = ? AND deployment = :deployment`, db.Micros(now), proofs.String(), id)
}

func (tx txAttempts) UpdateAttempt(a people.Attempt) (bool, error) {
	n, err := tx.Affected(`UPDATE attempts SET email = ?, user_id = ?, first_name = ?, last_name = ?, proofs = ?
		WHERE id = ? AND completed = 0 AND proved_at = 0 AND deployment = :deployment`, a.Email, a.User, a.FirstName, a.LastName, a.Proofs.String(), a.ID)
	return n == 1, err
}

// EndAttemptsOf keeps attempts that are not proven, without their account: an unknown client that sees its attempt
// vanish would learn that the account existed.
func (tx txAttempts) EndAttemptsOf(user int64) error {
	type attempt struct {
		id   int64
		kind string
	}
	attempts, err := db.List(tx.Tx, func(row *sql.Rows, a *attempt) error { return row.Scan(&a.id, &a.kind) },
		`SELECT id, kind FROM attempts WHERE completed = 0 AND kind <> '`+people.AttemptSignUp+`' AND user_id > 0 AND user_id = ? AND deployment = :deployment`, user)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		err := tx.Exec(`UPDATE challenges SET mac = ? WHERE superseded = 0 AND consumed_at = 0 AND channel = '`+people.ChannelMail+`' AND deployment = :deployment
			AND purpose = ? AND subject_id = ?`, make([]byte, 32), a.kind, a.id)
		if err != nil {
			return err
		}
	}
	for _, statement := range []string{
		`DELETE FROM sso_attempts WHERE deployment = :deployment AND user_id <> 0 AND user_id = ?`,
		`DELETE FROM sso_attempts WHERE deployment = :deployment AND attempt_id IN (SELECT a.id FROM attempts a
			WHERE a.deployment = :deployment AND a.proved_at > 0 AND a.completed = 0 AND a.kind <> '` + people.AttemptSignUp + `' AND a.user_id > 0 AND a.user_id = ?)`,
	} {
		if err := tx.Exec(statement, user); err != nil {
			return err
		}
	}
	err = tx.Exec(`DELETE FROM attempts WHERE proved_at > 0 AND completed = 0 AND kind <> '`+people.AttemptSignUp+`' AND user_id > 0 AND user_id = ?
		AND deployment = :deployment`, user)
	if err != nil {
		return err
	}
	return tx.Exec(`UPDATE attempts SET user_id = 0, password_hash = '' WHERE completed = 0 AND kind <> '`+people.AttemptSignUp+`' AND user_id > 0 AND user_id = ?
		AND deployment = :deployment`, user)
}
