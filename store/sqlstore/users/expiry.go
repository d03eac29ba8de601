package users

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// This file ends rows whose end has an event: each end and its event are one transaction.

// purgeSessions ends expired sessions, each with all its rows.
func purgeSessions(ctx context.Context, s *Rows, log people.ExpiryEvents, now time.Time, limit int) (int64, error) {
	type expired struct {
		deployment string
		id         int64
	}
	var over []expired
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var e expired
		err := row.Scan(&e.deployment, &e.id)
		over = append(over, e)
		return err
	}, `SELECT deployment, id FROM sessions WHERE expires_at < ? ORDER BY expires_at LIMIT ?`, db.Micros(now), limit)
	if err != nil {
		return 0, err
	}
	return forEach(ctx, over, func(e expired) (int64, error) {
		return 1, change(ctx, s, e.deployment, func(tx *peopleTx) error { return tx.endExpired(e.id, log, now) })
	})
}

// mostErrors is how many errors of one kind of rows upkeep returns, so that its line in the log stays short.
const mostErrors = 10

// forEach does one step of upkeep after another, and adds up how many rows the completed ones changed. It continues
// after an error, so that a row of one deployment does not stop the deletion of the rows of others. Only the end of the
// context and an outage of the store end it. The error joins those of the first mostErrors steps that failed.
func forEach[T any](ctx context.Context, steps []T, do func(T) (int64, error)) (changed int64, err error) {
	failures := 0
	for _, step := range steps {
		n, failed := do(step)
		if failed == nil {
			changed += n
			continue
		}
		if failures++; failures <= mostErrors {
			err = errors.Join(err, failed)
		}
		if ctx.Err() != nil || errors.Is(failed, store.ErrUnavailable) {
			break
		}
	}
	return changed, err
}

// endExpired ends a session unless it was prolonged after it was found expired.
func (tx *peopleTx) endExpired(session int64, log people.ExpiryEvents, now time.Time) error {
	var locked int64
	over, err := tx.Get([]any{&locked}, `SELECT id FROM sessions WHERE deployment = :deployment AND id = ? AND expires_at < ?`+tx.Lock(), session, db.Micros(now))
	if err != nil || !over {
		return err
	}
	if err := logExpired(tx, log, `session_id = ?`, session); err != nil {
		return err
	}
	return tx.Sessions().EndSession(session)
}

// logExpired records the events of the sign-ins that a condition selects, before they end.
func logExpired(tx *peopleTx, log people.ExpiryEvents, which string, of int64) error {
	if log == nil {
		return nil
	}
	signIns, err := db.List(tx.Tx, readSignIn, `SELECT `+signInColumns+` FROM signins WHERE deployment = :deployment AND `+which+` ORDER BY id`, of)
	if err != nil || len(signIns) == 0 {
		return err
	}
	events := make([]people.LoggedEvent, len(signIns))
	for i, g := range signIns {
		if events[i], err = log.SignIn(g); err != nil {
			return err
		}
	}
	return tx.Records().LogEvents(events)
}

// purgeInvitations deletes invitations that were neither accepted nor revoked, forgetAfter after their end.
func purgeInvitations(ctx context.Context, s *Rows, log people.ExpiryEvents, now time.Time, limit int) (purged int64, err error) {
	before := db.Micros(now.Add(-forgetAfter))
	return byDeployment(ctx, s, func(tx *peopleTx, ids []int64) (int64, error) { return tx.deleteInvitations(ids, log, before) },
		`SELECT deployment, id FROM invitations WHERE accepted_at = 0 AND revoked_at = 0 AND expires_at < ? ORDER BY expires_at LIMIT ?`, before, limit)
}

// byDeployment runs a query for rows that are due, and changes those of each deployment in a transaction. It returns
// how many were changed, and the errors of the deployments whose rows were not.
func byDeployment(ctx context.Context, s *Rows, do func(tx *peopleTx, ids []int64) (int64, error), query string, args ...any) (int64, error) {
	due := map[string][]int64{}
	err := s.db.Reads().Query(ctx, func(row *sql.Rows) error {
		var deployment string
		var id int64
		err := row.Scan(&deployment, &id)
		due[deployment] = append(due[deployment], id)
		return err
	}, query, args...)
	if err != nil {
		return 0, err
	}
	return forEach(ctx, slices.Sorted(maps.Keys(due)), func(deployment string) (n int64, err error) {
		err = change(ctx, s, deployment, func(tx *peopleTx) (err error) {
			n, err = do(tx, due[deployment])
			return err
		})
		return n, err
	})
}

// deleteInvitations deletes those of some invitations that ended before a time and are still open. The deletion of
// their organization can have revoked them meanwhile.
func (tx *peopleTx) deleteInvitations(ids []int64, log people.ExpiryEvents, before int64) (deleted int64, err error) {
	var events []people.LoggedEvent
	for _, id := range ids {
		i, found, err := tx.Organizations().Invitation(id)
		if err != nil {
			return deleted, err
		}
		if !found {
			continue
		}
		n, err := tx.Affected(`DELETE FROM invitations WHERE deployment = :deployment AND id = ? AND accepted_at = 0 AND revoked_at = 0 AND expires_at < ?`, id, before)
		if err != nil {
			return deleted, err
		}
		if deleted += n; n == 0 || log == nil {
			continue
		}
		e, err := log.Invitation(i)
		if err != nil {
			return deleted, err
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return deleted, nil
	}
	return deleted, tx.Records().LogEvents(events)
}

// purgeApprovals frees the keys of approvals that were not decided, or not used, by their end.
func purgeApprovals(ctx context.Context, s *Rows, log people.ExpiryEvents, now time.Time, limit int) (purged int64, err error) {
	return byDeployment(ctx, s, func(tx *peopleTx, ids []int64) (int64, error) { return tx.expireApprovals(ids, log, now) },
		`SELECT deployment, id FROM tool_approvals WHERE ends_at <= ? AND arguments IS NOT NULL AND live <> '' AND status <> '`+people.ApprovalDenied+`'
		ORDER BY ends_at LIMIT ?`, db.Micros(now), limit)
}

// expireApprovals frees the keys of those of some approvals that another transaction did not free meanwhile. A decision
// comes before the end.
func (tx *peopleTx) expireApprovals(ids []int64, log people.ExpiryEvents, now time.Time) (freed int64, err error) {
	var events []people.LoggedEvent
	for _, id := range ids {
		a, found, err := tx.Approvals().Approval(id)
		if err != nil {
			return freed, err
		}
		if !found {
			continue
		}
		this, err := tx.Approvals().FreeApproval(id, now)
		if err != nil {
			return freed, err
		}
		if !this {
			continue
		}
		if freed++; log == nil {
			continue
		}
		e, err := log.Approval(a)
		if err != nil {
			return freed, err
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return freed, nil
	}
	return freed, tx.Records().LogEvents(events)
}

// expireKeys records the events of API keys whose lifetime is over. The keys stay, and are refused by their times.
func expireKeys(ctx context.Context, s *Rows, log people.ExpiryEvents, now time.Time, limit int) (int64, error) {
	return byDeployment(ctx, s, func(tx *peopleTx, ids []int64) (int64, error) { return tx.expireKeys(ids, log, now) },
		`SELECT deployment, id FROM api_keys WHERE expires_at > 0 AND expiry_seen = 0 AND expires_at <= ? ORDER BY expires_at LIMIT ?`, db.Micros(now), limit)
}

// expireKeys looks at the end of those of some keys that another transaction did not prolong or delete meanwhile. Keys
// that ended earlier, because they were revoked or replaced, have no event.
func (tx *peopleTx) expireKeys(ids []int64, log people.ExpiryEvents, now time.Time) (seen int64, err error) {
	var events []people.LoggedEvent
	for _, id := range ids {
		n, err := tx.Affected(`UPDATE api_keys SET expiry_seen = 1
			WHERE deployment = :deployment AND id = ? AND expires_at > 0 AND expiry_seen = 0 AND expires_at <= ?`, id, db.Micros(now))
		if err != nil {
			return seen, err
		}
		if seen += n; n == 0 || log == nil {
			continue
		}
		k, found, err := tx.APIKeys().APIKey(id)
		if err != nil {
			return seen, err
		}
		if !found || !k.RevokedAt.IsZero() && k.RevokedAt.Before(k.ExpiresAt) || !k.EndsAt().Equal(k.ExpiresAt) {
			continue
		}
		e, err := log.Key(k)
		if err != nil {
			return seen, err
		}
		events = append(events, e)
	}
	if len(events) == 0 {
		return seen, nil
	}
	return seen, tx.Records().LogEvents(events)
}
