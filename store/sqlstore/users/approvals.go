package users

import (
	"context"
	"database/sql"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const approvalColumns = `id, agent_id, agent, tool_id, tool, principal, principal_id, client, user_id, organization_id, workspace_id,
	permission, live, content, digest, status, requested_at, decided_at, decided_by, ends_at`

func approvalFields(a *people.Approval) []any {
	return []any{
		&a.ID, &a.Agent, &a.AgentName, &a.Tool, &a.ToolName, &a.Caller.Kind, &a.Caller.ID, &a.Caller.Client, &a.Caller.User, &a.Caller.Organization, &a.Caller.Workspace,
		&a.Permission, &a.Key, &a.Content, &a.Digest, &a.Status, db.At{To: &a.RequestedAt}, db.At{To: &a.DecidedAt}, &a.DecidedBy, db.At{To: &a.EndsAt},
	}
}

func readApproval(row *sql.Rows, a *people.Approval) error { return row.Scan(approvalFields(a)...) }

// readWholeApproval reads the arguments too.
func readWholeApproval(row *sql.Rows, a *people.Approval) error {
	return row.Scan(append(approvalFields(a), &a.Arguments)...)
}

const wholeApproval = `SELECT ` + approvalColumns + `, COALESCE(arguments, '') FROM tool_approvals WHERE deployment = :deployment AND `

func (tx txApprovals) InsertApproval(a people.Approval) (bool, error) {
	n, err := tx.Affected(`INSERT INTO tool_approvals (deployment, `+approvalColumns+`, arguments)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.ID, a.Agent, a.AgentName, a.Tool, a.ToolName, a.Caller.Kind, a.Caller.ID, a.Caller.Client, a.Caller.User, a.Caller.Organization, a.Caller.Workspace,
		a.Permission, a.Key, a.Content, a.Digest, a.Status, db.Micros(a.RequestedAt), db.Micros(a.DecidedAt), a.DecidedBy, db.Micros(a.EndsAt), optionalText(a.Arguments))
	return n == 1, err
}

func (tx txApprovals) LiveApproval(key string) (people.Approval, bool, error) {
	return db.First(tx.Tx, readWholeApproval, wholeApproval+`live = ? AND live <> ''`, key)
}

func (tx txApprovals) Approval(id int64) (people.Approval, bool, error) {
	return db.First(tx.Tx, readWholeApproval, wholeApproval+`id = ?`, id)
}

func (tx txApprovals) PendingApprovals(agent, user int64, principal string, now time.Time) (int, error) {
	n := 0
	_, err := tx.Get([]any{&n}, `SELECT COUNT(*) FROM tool_approvals WHERE deployment = :deployment AND agent_id = ? AND user_id = ? AND (user_id > 0 OR principal_id = ?)
		AND status IN (?, ?) AND decided_by = 0 AND live <> '' AND ends_at > ?`, agent, user, principal, people.ApprovalPending, people.ApprovalDenied, db.Micros(now))
	return n, err
}

func (tx txApprovals) DecideApproval(id int64, status string, by int64, now, ends time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE tool_approvals SET status = ?, decided_at = ?, decided_by = ?, ends_at = ?
		WHERE deployment = :deployment AND id = ? AND status = ? AND ends_at > ?`,
		status, db.Micros(now), by, db.Micros(ends), id, people.ApprovalPending, db.Micros(now))
	return n == 1, err
}

func (tx txApprovals) UseApproval(id int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE tool_approvals SET status = ?, live = '', ends_at = ? WHERE deployment = :deployment AND id = ? AND status = ? AND ends_at > ?`,
		people.ApprovalUsed, db.Micros(now), id, people.ApprovalApproved, db.Micros(now))
	return n == 1, err
}

func (tx txApprovals) FreeApproval(id int64, now time.Time) (bool, error) {
	n, err := tx.Affected(`UPDATE tool_approvals SET live = '' WHERE deployment = :deployment AND id = ? AND ends_at <= ? AND live <> ''`, id, db.Micros(now))
	return n == 1, err
}

func (tx txApprovals) ListApprovals(filter people.ApprovalFilter, limit int) ([]people.Approval, error) {
	query, args := `SELECT `+approvalColumns+` FROM tool_approvals WHERE deployment = :deployment`, []any{}
	for _, one := range []struct {
		condition string
		value     int64
	}{{` AND agent_id = ?`, filter.Agent}, {` AND user_id = ?`, filter.User}, {` AND permission <> '' AND organization_id = ?`, filter.Organization}, {` AND id < ?`, filter.Before}} {
		if one.value != 0 {
			query, args = query+one.condition, append(args, one.value)
		}
	}
	if filter.Status != "" {
		query, args = query+` AND status = ?`, append(args, filter.Status)
	}
	return db.List(tx.Tx, readApproval, query+` ORDER BY id DESC LIMIT ?`, append(args, limit)...)
}

func purgeApprovalArguments(ctx context.Context, s *Rows, before time.Time, limit int) (int64, error) {
	const kept = `ends_at < ? AND arguments IS NOT NULL AND (live = '' OR status = '` + people.ApprovalDenied + `')` // purgeApprovals ends the others
	return s.db.Writes().Exec(ctx, `UPDATE tool_approvals SET arguments = NULL, live = '' WHERE `+kept+` AND (deployment, id) IN
		(SELECT deployment, id FROM tool_approvals WHERE `+kept+` LIMIT ?)`, db.Micros(before), db.Micros(before), limit)
}
