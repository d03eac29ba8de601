package users

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// forgetAfter is how long the records that bound sending and failed attempts are kept: longer than the longest window
// in which they count.
const forgetAfter = 25 * time.Hour

// usedCodesFor is how long a used recovery code is kept, so that its second use is recognized.
const usedCodesFor = 90 * 24 * time.Hour

// Tables are all tables of users' rows, with the columns that identify a row besides the deployment.
var Tables = []struct{ Name, Key string }{
	{"session_tokens", "hash"}, {"sessions", "id"}, {"signins", "id"}, {"ended_signins", "user_id, id"}, {"attempts", "id"}, {"sso_attempts", "attempt_id"}, {"challenges", "id"}, {"outbox", "id"},
	{"failures", "scope, subject"}, {"counters", "scope, subject"}, {"sends", "id"}, {"known_clients", "user_id, client"}, {"invitations", "id"}, {"workspace_memberships", "id"}, {"organization_memberships", "id"},
	{"workspaces", "id"}, {"organizations", "id"}, {"organization_slugs", "slug"}, {"credentials", "user_id, kind"}, {"totp_authenticators", "id"}, {"passkeys", "id"}, {"recovery_codes", "user_id, hash"}, {"temporary_codes", "user_id"},
	{"spent_challenges", "hash"}, {"identities", "id"}, {"connections", "id"}, {"upstream_documents", "connection_id, kind"},
	{"ended_connections", "connection_id"}, {"connection_failures", "connection_id, at, id"}, {"domains", "id"}, {"setup_links", "id"}, {"phones", "id"}, {"emails", "id"}, {"users", "id"},
	{"events", "kind, at, id"}, {"past_events", "kind, at, id"}, {"recent_events", "kind, at, id"}, {"sealed_days", "day"}, {"sealed_months", "month"},
	{"sealed_totals", "what"}, {"user_ordinals", "user_id"}, {"audit", "at, id"}, {"event_log_new", "id"}, {"event_log", "sequence"}, {"webhook_deliveries", "id"},
	{"webhook_replays", "id"}, {"webhook_states", "endpoint_id"}, {"api_keys", "id"}, {"imports", "file"},
	{"imported_rows", "kind, external_id"}, {"oauth_requests", "hash"}, {"oauth_grants", "id"}, {"oauth_families", "id"}, {"oauth_codes", "hash"},
	{"oauth_refresh_tokens", "hash"}, {"oauth_devices", "hash"}, {"oauth_clients", "app_id, client"},
	{"oauth_logouts", "app_id, client, user_id, session_id"}, {"oauth_endings", "app_id, client"}, {"tool_calls", "id"}, {"tool_approvals", "id"},
	{"scim_members", "directory_id, group_id, member_id"}, {"scim_users", "directory_id, id"}, {"scim_groups", "directory_id, id"}, {"directories", "id"},
	{"runtime_directories", "id"}, {"directory_tokens", "directory_id, id"},
	{"suspended_workspace_memberships", "organization_id, user_id, id"}, {"suspended_memberships", "organization_id, user_id"}, {"directory_accounts", "user_id"},
}

// Erase implements store.Erasure.
func (s *Rows) Erase(ctx context.Context, term store.Term, deployment string, limit int) (erased int64, err error) {
	var keys pendingKeys
	err = s.db.Write(ctx, func(on db.Session, row db.StoreRow) (bool, error) {
		erased, keys = 0, pendingKeys{}
		if row.Term != term {
			return false, store.ErrFenced
		}
		for _, table := range Tables {
			n, err := on.Exec(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE deployment = ? AND (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE deployment = ? LIMIT ?)`,
				table.Name, table.Key), deployment, deployment, limit)
			if err != nil {
				return false, err
			}
			erased += n
			keys.all = keys.all || table.Name == "api_keys" && n > 0
		}
		return true, keys.publish(ctx, on, s.db.Clock())
	})
	if err == nil {
		wake(s, &keys)
	}
	return erased, err
}

// purge deletes up to a number of rows of one kind that are due.
type purge func(ctx context.Context, s *Rows, limit int) (int64, error)

// Purge implements people.Upkeep. An error of one kind of rows does not stop the deletion of the others.
func (s *Rows) Purge(ctx context.Context, now time.Time, keep people.Retention, limit int) (int64, error) {
	var all []purge
	for _, expire := range []func(context.Context, *Rows, people.ExpiryEvents, time.Time, int) (int64, error){purgeSessions, purgeEndedSignIns, purgeInvitations, purgeApprovals, purgeIdleClients, expireKeys} {
		all = append(all, func(ctx context.Context, s *Rows, limit int) (int64, error) {
			return expire(ctx, s, keep.Events, now, limit)
		})
	}
	for _, over := range []struct {
		before time.Time
		purge  func(context.Context, *Rows, time.Time, int) (int64, error)
	}{
		{now, purgeEndings}, {now.Add(-keep.ToolCalls), purgeToolCalls}, {now.Add(-keep.Audit), purgeAudit}, {now.Add(-people.CallBodiesFor), purgeCallBodies},
		{now.Add(-people.ApprovalArgumentsFor), purgeApprovalArguments},
	} {
		all = append(all, func(ctx context.Context, s *Rows, limit int) (int64, error) {
			return over.purge(ctx, s, over.before, limit)
		})
	}
	all = append(all, purgesByTime(now, keep)...)
	purged, err := forEach(ctx, all, func(of purge) (int64, error) { return of(ctx, s, limit) })
	return purged, errors.Join(err, pruneKeyLog(ctx, s, now))
}

// purgesByTime deletes rows whose end needs nothing else.
func purgesByTime(now time.Time, keep people.Retention) (all []purge) {
	forgotten := db.Micros(now.Add(-forgetAfter))
	for _, over := range []struct {
		table, key, where string
		before            int64
	}{
		{"attempts", "deployment, id", "expires_at < ?", db.Micros(now)},
		{"sso_attempts", "deployment, attempt_id", "expires_at < ?", db.Micros(now)},
		{"setup_links", "deployment, id", "expires_at < ?", db.Micros(now)},
		{"upstream_documents", "deployment, connection_id, kind", "tried_at < ?", db.Micros(now.Add(-people.UpstreamDocumentKeptFor))},
		{"connection_failures", "deployment, connection_id, at, id", "at < ?", db.Micros(now.Add(-people.ConnectionFailureKeptFor))},
		{"invitations", "deployment, id", "(accepted_at > 0 OR revoked_at > 0) AND expires_at < ?", forgotten},
		{"challenges", "deployment, id", "created_at < ?", forgotten},
		{"sends", "deployment, id", "created_at < ?", forgotten},
		{"failures", "deployment, scope, subject", "updated_at < ?", forgotten},
		{"counters", "deployment, scope, subject", "ends_at < ?", db.Micros(now)},
		{"known_clients", "deployment, user_id, client", "seen_at < ?", db.Micros(now.Add(-people.KnownFor))},
		{"outbox", "deployment, id", "state <> '" + people.MessagePending + "' AND created_at < ?", forgotten},
		{"oauth_requests", "deployment, hash", "expires_at < ?", db.Micros(now)},
		// For an hour after its end, a code that is redeemed again still ends its token family.
		{"oauth_codes", "deployment, hash", "expires_at < ?", db.Micros(now.Add(-time.Hour))},
		{"oauth_refresh_tokens", "deployment, hash", "expires_at < ?", db.Micros(now)},
		{"oauth_families", "deployment, id", "expires_at < ?", db.Micros(now)},
		{"oauth_devices", "deployment, hash", "expires_at < ?", db.Micros(now)},
		{"oauth_grants", "deployment, id", "updated_at < ? AND NOT EXISTS (SELECT 1 FROM oauth_families f WHERE f.deployment = oauth_grants.deployment AND f.grant_id = oauth_grants.id)",
			db.Micros(now.Add(-people.GrantKeptFor))},
		{"oauth_clients", "deployment, app_id, client", "used_at = 0 AND by_backend = 0 AND created_at < ?", db.Micros(now.Add(-people.UnusedClientFor))},
		{"totp_authenticators", "deployment, id", "confirmed_at = 0 AND created_at < ?", db.Micros(now.Add(-people.UnconfirmedFor))},
		{"recovery_codes", "deployment, user_id, hash", "used_at > 0 AND used_at < ?", db.Micros(now.Add(-usedCodesFor))},
		{"temporary_codes", "deployment, user_id", "expires_at < ?", db.Micros(now)},
		{"spent_challenges", "deployment, hash", "expires_at < ?", db.Micros(now)},
		{"tool_approvals", "deployment, id", "ends_at < ?", db.Micros(now.Add(-keep.ToolCalls))},
		{"imports", "deployment, file", "completed_at = 0 AND created_at < ?", db.Micros(now.Add(-people.UnfinishedImportFor))},
		// imported_rows stays: lines of a file that is sent again count as present.
		{"imports", "deployment, file", "completed_at > 0 AND completed_at < ?", db.Micros(now.Add(-keep.Audit))},
	} {
		all = append(all, func(ctx context.Context, s *Rows, limit int) (int64, error) {
			// The condition is there twice. After PostgreSQL has waited for a row, it checks only the condition outside
			// of the subquery again.
			return s.db.Writes().Exec(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE %[3]s AND (%[2]s) IN (SELECT %[2]s FROM %[1]s WHERE %[3]s LIMIT ?)`,
				over.table, over.key, over.where), over.before, over.before, limit)
		})
	}
	return all
}

// purgeAudit deletes audit records that are older than a time.
func purgeAudit(ctx context.Context, s *Rows, before time.Time, limit int) (int64, error) {
	return purgeOldest(ctx, s, "audit", "at", "at, id", db.Micros(before), limit)
}

// purgeOldest deletes up to limit rows of a table whose primary key is the deployment and then key, the oldest of each
// deployment first: those whose column, the first of key, is below a bound. It reads the rows that it deletes, and one
// of each deployment. A condition on the column alone would read the whole table whenever few rows are due. The
// condition is there twice, so that no plan reads more than the rows that are due.
func purgeOldest(ctx context.Context, s *Rows, table, column, key string, below int64, limit int) (purged int64, err error) {
	deployments, err := s.deployments(ctx, fmt.Sprintf(`WITH RECURSIVE d(deployment) AS (
			SELECT MIN(deployment) FROM %[1]s
			UNION ALL SELECT (SELECT MIN(c.deployment) FROM %[1]s c WHERE c.deployment > d.deployment) FROM d WHERE d.deployment IS NOT NULL
		) SELECT deployment FROM d WHERE (SELECT MIN(c.%[2]s) FROM %[1]s c WHERE c.deployment = d.deployment) < ?`, table, column), below)
	if err != nil {
		return 0, err
	}
	for _, deployment := range deployments {
		n, err := s.db.Writes().Exec(ctx, fmt.Sprintf(`DELETE FROM %[1]s WHERE deployment = ? AND %[3]s < ? AND (%[2]s) IN
			(SELECT %[2]s FROM %[1]s WHERE deployment = ? AND %[3]s < ? ORDER BY %[2]s LIMIT ?)`, table, key, column),
			deployment, below, deployment, below, int64(limit)-purged)
		purged += n
		if err != nil || purged >= int64(limit) {
			return purged, err
		}
	}
	return purged, nil
}
