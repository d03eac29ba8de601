package users

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

const toolCallColumns = `id, at, agent_id, agent, tool_id, tool, principal, principal_id, client, user_id, organization_id, workspace_id, address,
	revision, decision, approval_id, outcome, code, upstream_status, latency_ms, upstream_ms, bytes_in, bytes_out, digest`

// toolCallFields returns where the columns of toolCallColumns are scanned, and a function that completes the record
// after the scan.
func toolCallFields(c *people.ToolCall) ([]any, func()) {
	latency, upstream := new(int64), new(int64)
	return []any{
			&c.ID, db.At{To: &c.At}, &c.Agent, &c.AgentName, &c.Tool, &c.ToolName, &c.Caller.Kind, &c.Caller.ID, &c.Caller.Client, &c.Caller.User, &c.Caller.Organization,
			&c.Caller.Workspace, &c.Caller.Address, &c.Revision, &c.Decision, &c.Approval, &c.Outcome, &c.Code, &c.Status, latency, upstream, &c.BytesIn, &c.BytesOut, &c.Digest,
		}, func() {
			c.Latency, c.Upstream = time.Duration(*latency)*time.Millisecond, time.Duration(*upstream)*time.Millisecond
		}
}

func readToolCall(row *sql.Rows, c *people.ToolCall) error {
	fields, complete := toolCallFields(c)
	err := row.Scan(fields...)
	complete()
	return err
}

// optionalText is the stored form of a text that may be absent: NULL for "".
func optionalText(text string) any { return sql.NullString{String: text, Valid: text != ""} }

func (tx txRecords) InsertToolCall(c people.ToolCall) error {
	kept, err := withoutDeletedUsers(tx.peopleTx, []people.ToolCall{c})
	if err != nil {
		return err
	}
	c = kept[0]
	return tx.Exec(`INSERT INTO tool_calls (deployment, `+toolCallColumns+`, arguments, result)
		VALUES (:deployment, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		c.ID, db.Micros(c.At), c.Agent, c.AgentName, c.Tool, c.ToolName, c.Caller.Kind, c.Caller.ID, c.Caller.Client, c.Caller.User, c.Caller.Organization,
		c.Caller.Workspace, c.Caller.Address, c.Revision, c.Decision, c.Approval, c.Outcome, c.Code, c.Status, c.Latency.Milliseconds(), c.Upstream.Milliseconds(),
		c.BytesIn, c.BytesOut, c.Digest, optionalText(c.Arguments), optionalText(c.Result))
}

func (tx txRecords) RecordToolCalls(calls []people.ToolCall) (int64, error) {
	if len(calls) == 0 {
		return 0, tx.Writable()
	}
	calls, err := withoutDeletedUsers(tx.peopleTx, calls)
	if err != nil {
		return 0, err
	}
	return db.InsertNew(tx.Tx, "tool_calls", calls,
		db.Numbers("id", func(c *people.ToolCall) int64 { return c.ID }),
		db.Numbers("at", func(c *people.ToolCall) int64 { return db.Micros(c.At) }),
		db.Numbers("agent_id", func(c *people.ToolCall) int64 { return c.Agent }),
		db.Texts("agent", func(c *people.ToolCall) string { return c.AgentName }),
		db.Numbers("tool_id", func(c *people.ToolCall) int64 { return c.Tool }),
		db.Texts("tool", func(c *people.ToolCall) string { return c.ToolName }),
		db.Texts("principal", func(c *people.ToolCall) string { return c.Caller.Kind }),
		db.Texts("principal_id", func(c *people.ToolCall) string { return c.Caller.ID }),
		db.Texts("client", func(c *people.ToolCall) string { return c.Caller.Client }),
		db.Numbers("user_id", func(c *people.ToolCall) int64 { return c.Caller.User }),
		db.Numbers("organization_id", func(c *people.ToolCall) int64 { return c.Caller.Organization }),
		db.Numbers("workspace_id", func(c *people.ToolCall) int64 { return c.Caller.Workspace }),
		db.Texts("address", func(c *people.ToolCall) string { return c.Caller.Address }),
		db.Texts("revision", func(c *people.ToolCall) string { return c.Revision }),
		db.Texts("decision", func(c *people.ToolCall) string { return c.Decision }),
		db.Numbers("approval_id", func(c *people.ToolCall) int64 { return c.Approval }),
		db.Texts("outcome", func(c *people.ToolCall) string { return c.Outcome }),
		db.Texts("code", func(c *people.ToolCall) string { return c.Code }),
		db.Numbers("upstream_status", func(c *people.ToolCall) int64 { return c.Status }),
		db.Numbers("latency_ms", func(c *people.ToolCall) int64 { return c.Latency.Milliseconds() }),
		db.Numbers("upstream_ms", func(c *people.ToolCall) int64 { return c.Upstream.Milliseconds() }),
		db.Numbers("bytes_in", func(c *people.ToolCall) int64 { return c.BytesIn }),
		db.Numbers("bytes_out", func(c *people.ToolCall) int64 { return c.BytesOut }),
		db.Texts("digest", func(c *people.ToolCall) string { return c.Digest }),
		db.OptionalTexts("arguments", func(c *people.ToolCall) string { return c.Arguments }),
		db.OptionalTexts("result", func(c *people.ToolCall) string { return c.Result }))
}

// withoutDeletedUsers returns the records without what leads to deleted users. It locks the other users against a
// concurrent deletion, which would not see the records written here.
func withoutDeletedUsers(tx *peopleTx, calls []people.ToolCall) ([]people.ToolCall, error) {
	var users []int64
	for i := range calls {
		if user := calls[i].Caller.User; user != 0 {
			users = append(users, user)
		}
	}
	if len(users) == 0 {
		return calls, nil
	}
	if err := tx.Writable(); err != nil {
		return nil, err
	}
	slices.Sort(users) // the users are locked in the order of the list
	living, err := db.AmongLocked(tx.Tx, tx.Dialect.KeyShare, readID, `SELECT u.id FROM users u WHERE u.deployment = :deployment AND u.id`, slices.Compact(users))
	if err != nil {
		return nil, err
	}
	kept := slices.Clone(calls)
	for i := range kept {
		c := &kept[i]
		if c.Caller.User != 0 && !slices.Contains(living, c.Caller.User) {
			c.Caller.User, c.Caller.ID, c.Caller.Address, c.Arguments, c.Result = 0, "", "", "", ""
		}
	}
	return kept, nil
}

func (tx txRecords) SettleToolCalls(calls []people.ToolCall) (int64, error) {
	return tx.settle(calls, people.CallStarted, people.CallUnknown)
}

func (tx txRecords) ReceiveToolResult(c people.ToolCall) (bool, error) {
	n, err := tx.settle([]people.ToolCall{c}, people.Unanswered()...)
	return n == 1, err
}

// settle settles calls that have one of the outcomes. COALESCE keeps the planners from the index of outcomes, which is
// full of the dead rows of calls that were settled.
func (tx txRecords) settle(calls []people.ToolCall, outcomes ...string) (int64, error) {
	if len(calls) == 0 {
		return 0, tx.Writable()
	}
	return db.UpdateEach(tx.Tx, "tool_calls", `decision = l.decision, outcome = l.outcome, code = l.code, upstream_status = l.upstream_status, latency_ms = l.latency_ms,
		upstream_ms = l.upstream_ms, bytes_in = l.bytes_in, bytes_out = l.bytes_out, result = CASE WHEN t.user_id = l.user_id THEN NULLIF(l.result, '') END`,
		"t.id = l.id AND COALESCE(t.outcome, '') IN ('"+strings.Join(outcomes, "', '")+"')", calls,
		db.Numbers("id", func(c *people.ToolCall) int64 { return c.ID }),
		db.Numbers("user_id", func(c *people.ToolCall) int64 { return c.Caller.User }),
		db.Texts("decision", func(c *people.ToolCall) string { return c.Decision }),
		db.Texts("outcome", func(c *people.ToolCall) string { return c.Outcome }),
		db.Texts("code", func(c *people.ToolCall) string { return c.Code }),
		db.Numbers("upstream_status", func(c *people.ToolCall) int64 { return c.Status }),
		db.Numbers("latency_ms", func(c *people.ToolCall) int64 { return c.Latency.Milliseconds() }),
		db.Numbers("upstream_ms", func(c *people.ToolCall) int64 { return c.Upstream.Milliseconds() }),
		db.Numbers("bytes_in", func(c *people.ToolCall) int64 { return c.BytesIn }),
		db.Numbers("bytes_out", func(c *people.ToolCall) int64 { return c.BytesOut }),
		db.Texts("result", func(c *people.ToolCall) string { return c.Result }))
}

func (tx txRecords) ToolCallOutcome(id int64) (outcome string, err error) {
	_, err = tx.Get([]any{&outcome}, `SELECT outcome FROM tool_calls WHERE deployment = :deployment AND id = ?`, id)
	return outcome, err
}

func (tx txRecords) ForgetToolResult(id int64) error {
	return tx.Exec(`UPDATE tool_calls SET result = NULL WHERE deployment = :deployment AND id = ?`, id)
}

func (tx txRecords) ToolCall(id int64) (people.ToolCall, bool, error) {
	return db.First(tx.Tx, func(row *sql.Rows, c *people.ToolCall) error {
		fields, complete := toolCallFields(c)
		err := row.Scan(append(fields, &c.Arguments, &c.Result)...)
		complete()
		return err
	}, `SELECT `+toolCallColumns+`, COALESCE(arguments, ''), COALESCE(result, '') FROM tool_calls WHERE deployment = :deployment AND id = ?`, id)
}

// span is a range of ids and of times, each with its begin and its excluded end. Ids have the time of the call in whole
// milliseconds, and the indexes are ordered by them.
type span struct{ firstID, endID, from, until int64 }

// spanOf returns the span from since until before until. A zero time is no bound.
func spanOf(since, until time.Time) span {
	s := span{firstID: ids.From(since), endID: maxID, from: db.Micros(since), until: maxID}
	if !until.IsZero() {
		s.endID, s.until = ids.From(until.Add(time.Millisecond)), db.Micros(until)
	}
	return s
}

// equal is a condition on a record.
type equal struct {
	column string
	value  any
	// indexed reports whether there is an index of the column, and partial is the condition of a partial one.
	indexed bool
	partial string
}

// conditions returns the conditions of a filter, the one that probably fewer records fulfill first.
func conditions(filter people.ToolCallFilter) (all []equal) {
	if filter.User != 0 {
		all = append(all, equal{"user_id", filter.User, true, " AND user_id > 0"})
	}
	if filter.Outcome != "" && filter.Outcome != people.CallSucceeded {
		all = append(all, equal{"outcome", filter.Outcome, true, " AND outcome <> '' AND outcome <> 'succeeded'"})
	}
	if filter.Tool != 0 {
		all = append(all, equal{"tool_id", filter.Tool, true, ""})
	}
	if filter.Agent != 0 {
		all = append(all, equal{"agent_id", filter.Agent, true, ""})
	}
	if filter.Outcome == people.CallSucceeded {
		all = append(all, equal{"outcome", filter.Outcome, false, ""})
	}
	return all
}

func (tx txRecords) ListToolCalls(filter people.ToolCallFilter, limit int) ([]people.ToolCall, error) {
	within := spanOf(filter.Since, filter.Until)
	direction := " DESC"
	if filter.OldestFirst {
		direction = ""
		within.firstID = max(within.firstID, filter.After+1)
	} else if filter.After != 0 {
		within.endID = min(within.endID, filter.After)
	}
	query, args := `SELECT `+toolCallColumns+` FROM tool_calls WHERE deployment = :deployment`, []any{}
	also := func(condition string, values ...any) { query, args = query+" AND "+condition, append(args, values...) }
	order := "id" + direction
	equals := conditions(filter)
	if len(equals) > 0 && equals[0].indexed {
		// The first condition is a range over its index. As an equality next to a range of ids, SQLite would read the
		// primary key instead.
		first := equals[0]
		also(`(`+first.column+`, id) >= (?, ?) AND (`+first.column+`, id) < (?, ?)`+first.partial, first.value, within.firstID, first.value, within.endID)
		order, equals = first.column+direction+", "+order, equals[1:]
	} else {
		// A bound that bounds nothing would mislead the planner of PostgreSQL while a table has no statistics.
		if within.firstID > 0 {
			also(`id >= ?`, within.firstID)
		}
		if within.endID < maxID {
			also(`id < ?`, within.endID)
		}
	}
	if !filter.Since.IsZero() {
		also(`at >= ?`, within.from)
	}
	if !filter.Until.IsZero() {
		also(`at < ?`, within.until)
	}
	for _, one := range equals {
		also(one.column+` = ?`+one.partial, one.value)
	}
	return db.List(tx.Tx, readToolCall, query+` ORDER BY `+order+` LIMIT ?`, append(args, limit)...)
}

// AbandonToolCalls implements people.CallUpkeep.
func (s *Rows) AbandonToolCalls(ctx context.Context, startedBefore time.Time, limit int) (int64, error) {
	on := s.db.Writes()
	// The condition is there twice, as in Purge: a call may settle concurrently.
	const started = `outcome = '` + people.CallStarted + `' AND at < ?`
	n, err := on.Exec(ctx, `UPDATE tool_calls SET outcome = '`+people.CallUnknown+`' WHERE `+started+` AND (deployment, id) IN
		(SELECT deployment, id FROM tool_calls WHERE `+started+` LIMIT ?)`, db.Micros(startedBefore), db.Micros(startedBefore), limit)
	if err != nil {
		return 0, fmt.Errorf("abandon calls of tools: %w", err)
	}
	return n, nil
}

// purgeToolCalls deletes records that are older than a time.
func purgeToolCalls(ctx context.Context, s *Rows, before time.Time, limit int) (int64, error) {
	return purgeOldest(ctx, s, "tool_calls", "id", "id", ids.From(before), limit)
}

// purgeCallBodies deletes the arguments and results of up to limit calls before a time.
func purgeCallBodies(ctx context.Context, s *Rows, before time.Time, limit int) (int64, error) {
	const kept = `at < ? AND (arguments IS NOT NULL OR result IS NOT NULL)`
	return s.db.Writes().Exec(ctx, `UPDATE tool_calls SET arguments = NULL, result = NULL WHERE `+kept+` AND (deployment, id) IN
		(SELECT deployment, id FROM tool_calls WHERE `+kept+` LIMIT ?)`, db.Micros(before), db.Micros(before), limit)
}
