package users

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// LeaseMessages implements people.Messages. On PostgreSQL it skips rows that another dispatcher is claiming; on SQLite
// writes are exclusive. MATERIALIZED makes the database select the rows once, before it updates any: a query plan that
// ran the selection again could exceed the limit.
func (s *Rows) LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, claim people.Claim) ([]people.Message, error) {
	token := rand.Text()
	var claimed []people.Message
	on := s.db.Writes()
	wanted, args := wantedOf(claim)
	args = append(append([]any{db.Micros(now)}, args...), claim.Limit, token, db.Micros(now.Add(lease)))
	err := on.Query(ctx, func(row *sql.Rows) error {
		var m people.Message
		err := row.Scan(&m.Deployment, &m.ID, &m.Challenge, &m.Channel, &m.Recipient, &m.Sealed, &m.Tries, db.At{To: &m.CreatedAt}, db.At{To: &m.ExpiresAt}, &m.Trace, &m.Void)
		m.Lease = token
		claimed = append(claimed, m)
		return err
	}, `WITH due AS MATERIALIZED (SELECT deployment, id FROM outbox
			WHERE state = '`+people.MessagePending+`' AND next_at <= ?`+wanted+` ORDER BY next_at LIMIT ?`+s.db.Dialect.SkipLocked+`)
		UPDATE outbox SET lease = ?, next_at = ?, tries = tries + 1 WHERE (deployment, id) IN (SELECT deployment, id FROM due)
		RETURNING deployment, id, challenge_id, channel, recipient, sealed, tries, created_at, expires_at, trace,
			CASE WHEN EXISTS (SELECT 1 FROM challenges c WHERE c.deployment = outbox.deployment AND c.id = outbox.challenge_id
				AND (c.superseded = 1 OR c.consumed_at > 0)) THEN 1 ELSE 0 END`,
		on.Dialect.Variable(args)...)
	// The order of RETURNING depends on the engine.
	slices.SortFunc(claimed, func(a, b people.Message) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return claimed, err
}

// wantedOf returns the condition on messages of the outbox for a claim, beginning with AND, and its arguments.
func wantedOf(claim people.Claim) (condition string, args []any) {
	condition, args = exceptOf(claim.Except)
	switch {
	case claim.NoLogouts:
		condition += " AND channel <> '" + people.ChannelLogout + "'"
	case len(claim.ExceptLogouts) > 0:
		names, more := namesOf(claim.ExceptLogouts)
		condition, args = condition+" AND (channel <> '"+people.ChannelLogout+"' OR deployment NOT IN "+names+")", append(args, more...)
	}
	return condition, args
}

// exceptOf returns the condition, beginning with AND, that passes over deployments, and its arguments. It is "" for
// none.
func exceptOf(deployments []string) (condition string, args []any) {
	if len(deployments) == 0 {
		return "", nil
	}
	names, args := namesOf(deployments)
	return " AND deployment NOT IN " + names, args
}

// namesOf returns a list of placeholders for the names of deployments, at least one, and the names as arguments.
func namesOf(deployments []string) (list string, args []any) {
	for _, name := range deployments {
		args = append(args, name)
	}
	return "(?" + strings.Repeat(", ?", len(deployments)-1) + ")", args
}

// AckMessage implements people.Messages.
func (s *Rows) AckMessage(ctx context.Context, m people.Message, to people.Outcome) (bool, error) {
	on := s.db.Writes()
	if to.State == people.MessagePending {
		n, err := on.Exec(ctx, `UPDATE outbox SET lease = '', next_at = ?, reason = ? WHERE deployment = ? AND id = ? AND lease = ? AND state = '`+people.MessagePending+`'`,
			db.Micros(to.NextAt), to.Reason, m.Deployment, m.ID, m.Lease)
		return n == 1, err
	}
	n, err := on.Exec(ctx, `UPDATE outbox SET lease = '', sealed = '', state = ?, provider_id = ?, reason = ?
		WHERE deployment = ? AND id = ? AND lease = ? AND state = '`+people.MessagePending+`'`,
		to.State, to.ProviderID, to.Reason, m.Deployment, m.ID, m.Lease)
	return n == 1, err
}
