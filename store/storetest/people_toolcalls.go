package storetest

import (
	"fmt"
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// toolCall returns the record of a call that ended, n seconds after born.
func toolCall(n int64) people.ToolCall {
	at := after(time.Duration(n) * time.Second)
	return people.ToolCall{
		ID: ids.From(at) + n, At: at, Agent: 1, AgentName: "support", Tool: 2, ToolName: "find-order", Revision: "2026-07-28", Decision: people.CallAllowed, Digest: "digest",
		Caller: people.ToolCaller{Kind: people.CallerKey, ID: "key", User: 1, Organization: 3, Workspace: 4, Address: "192.0.2.1"},
		CallResult: people.CallResult{
			Outcome: people.CallSucceeded, Status: 200, Latency: 30 * time.Millisecond, Upstream: 20 * time.Millisecond, BytesIn: 1000, BytesOut: 10,
		},
	}
}

// startedCall returns the record of a call that has not ended.
func startedCall(n int64) people.ToolCall {
	c := toolCall(n)
	c.CallResult = people.CallResult{Outcome: people.CallStarted}
	return c
}

func insertToolCall(c people.ToolCall) func(people.Tx) error {
	return func(tx people.Tx) error { return tx.Records().InsertToolCall(c) }
}

// callOf reads a record of home.
func (e *env) callOf(id int64) (people.ToolCall, bool) {
	e.t.Helper()
	return one(e, func(tx people.Tx) (people.ToolCall, bool, error) { return tx.Records().ToolCall(id) })
}

var toolCallStories = []story{
	{name: "a call is read as it was recorded, alone or among many", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1))
		first, second := toolCall(1), toolCall(2)
		first.Arguments, first.Result = "sealed arguments", "sealed result"
		first.Caller.Kind, first.Caller.ID, first.Caller.Client = people.CallerClient, "grant", "client"
		second.Decision, second.Approval, second.CallResult = people.CallApprovalRequired, 9, people.CallResult{Code: "approval_required", Latency: time.Millisecond}
		e.insert(insertToolCall(first))
		third := toolCall(3)
		third.Result = "only a result"
		var n int64
		e.insert(func(tx people.Tx) (err error) {
			n, err = tx.Records().RecordToolCalls([]people.ToolCall{first, second, third})
			return err
		})
		e.Expect(n).To(gomega.BeEquivalentTo(2), "the first has a record already")
		for _, want := range []people.ToolCall{first, second, third} {
			got, found := e.callOf(want.ID)
			e.Expect(found).To(gomega.BeTrue())
			e.Expect(got).To(gomega.Equal(want))
		}
		e.refuses(people.ErrDuplicate, insertToolCall(first))
		_, found := e.callOf(4)
		e.Expect(found).To(gomega.BeFalse())
		e.ok(e.store.View(e.ctx, "apps/other", func(tx people.Tx) error {
			_, found, err := tx.Records().ToolCall(first.ID)
			e.Expect(found).To(gomega.BeFalse(), "another deployment's record")
			return err
		}))
	}},
	{name: "a record is written by one statement without a transaction, and a second statement fails", run: func(e *env) {
		e.begin()
		c := startedCall(1)
		c.Caller.User = 0
		settled := c
		settled.CallResult = toolCall(1).CallResult
		e.ok(e.store.Single(e.ctx, home, insertToolCall(c)))
		e.Expect(e.store.Single(e.ctx, home, insertToolCall(c))).To(gomega.MatchError(people.ErrDuplicate))
		settle := func(tx people.Tx) error {
			_, err := tx.Records().SettleToolCalls([]people.ToolCall{settled})
			return err
		}
		e.ok(e.store.Single(e.ctx, home, settle))
		got, _ := e.callOf(c.ID)
		e.Expect(got).To(gomega.Equal(settled))
		for name, second := range map[string]func(people.Tx) error{
			"a write": settle,
			"a read":  func(tx people.Tx) error { _, _, err := tx.Records().ToolCall(c.ID); return err },
		} {
			err := e.store.Single(e.ctx, home, func(tx people.Tx) error {
				e.ok(settle(tx))
				_ = second(tx)
				return nil
			})
			e.Expect(err).To(gomega.HaveOccurred(), name)
		}
		e.Expect(e.store.Writers()).To(gomega.BeNumerically(">=", 1))
	}},
	{name: "a call that started is settled once, also after it was abandoned", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1))
		settled := toolCall(1)
		settled.Result = "sealed result"
		e.insert(insertToolCall(startedCall(1)), insertToolCall(startedCall(2)), insertToolCall(startedCall(60)))
		settle := func(c people.ToolCall) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) {
				n, err := tx.Records().SettleToolCalls([]people.ToolCall{c})
				return n == 1, err
			}
		}
		e.reports(true, settle(settled))
		got, _ := e.callOf(settled.ID)
		e.Expect(got).To(gomega.Equal(settled))
		e.reports(false, settle(startedCall(1)))
		e.reports(false, settle(toolCall(7)))

		for _, limit := range []int64{1, 0} {
			n, err := e.store.AbandonToolCalls(e.ctx, after(time.Minute), 10)
			e.ok(err)
			e.Expect(n).To(gomega.Equal(limit))
		}
		abandoned, _ := e.callOf(toolCall(2).ID)
		e.Expect(abandoned.Outcome).To(gomega.Equal(people.CallUnknown))
		young, _ := e.callOf(toolCall(60).ID)
		e.Expect(young.Outcome).To(gomega.Equal(people.CallStarted))
		e.reports(true, settle(toolCall(2)))
		got, _ = e.callOf(toolCall(2).ID)
		e.Expect(got).To(gomega.Equal(toolCall(2)))
	}},
	{name: "calls are settled together, each with its own result", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1))
		var settled []people.ToolCall
		for n := range int64(4) {
			e.insert(insertToolCall(startedCall(n)))
			c := toolCall(n)
			if c.BytesIn = n; n%2 == 1 {
				c.Outcome, c.Code, c.Result = people.CallFailed, "upstream_status", fmt.Sprint("sealed result ", n)
			}
			settled = append(settled, c)
		}
		e.insert(func(tx people.Tx) error {
			n, err := tx.Records().SettleToolCalls(append(settled, toolCall(9)))
			e.Expect(n).To(gomega.BeEquivalentTo(4))
			return err
		})
		for _, want := range settled {
			got, _ := e.callOf(want.ID)
			e.Expect(got).To(gomega.Equal(want))
		}
	}},
	{name: "a call without a result gets one, once, and forgets it", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1))
		result := func(n int64) people.ToolCall {
			c := toolCall(n)
			c.Result = "sealed result"
			return c
		}
		receive := func(n int64) func(people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Records().ReceiveToolResult(result(n)) }
		}
		for n, outcome := range []string{
			people.CallStarted, people.CallUnknown, people.CallAccepted, people.CallTimeout, people.CallCancelled, people.CallSucceeded, people.CallFailed, "",
		} {
			c := toolCall(int64(n))
			c.Outcome = outcome
			e.insert(insertToolCall(c))
			e.reports(n < 5, receive(int64(n)))
			e.reports(false, receive(int64(n)))
			got, _ := e.callOf(c.ID)
			if n < 5 {
				c = result(int64(n))
			}
			e.Expect(got).To(gomega.Equal(c), outcome)
		}
		e.reports(false, receive(60))
		e.insert(func(tx people.Tx) error { return tx.Records().ForgetToolResult(toolCall(1).ID) })
		got, _ := e.callOf(toolCall(1).ID)
		e.Expect(got).To(gomega.Equal(toolCall(1)))
		got, _ = e.callOf(toolCall(2).ID)
		e.Expect(got).To(gomega.Equal(result(2)))
	}},
	{name: "calls are abandoned in batches, in every deployment", run: func(e *env) {
		e.begin()
		for n := range int64(7) {
			c := startedCall(n)
			c.Caller.User = 0
			e.change([]string{home, "apps/other"}[n%2], insertToolCall(c))
		}
		var batches []int64
		for {
			n, err := e.store.AbandonToolCalls(e.ctx, after(time.Hour), 3)
			e.ok(err)
			if batches = append(batches, n); n == 0 {
				break
			}
		}
		e.Expect(batches).To(gomega.Equal([]int64{3, 3, 1, 0}))
	}},
	{name: "calls are listed by agent, tool, user, outcome and time, in both orders, from a place on", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1), insertUser(5))
		calls := map[int64]people.ToolCall{}
		for n := range int64(6) {
			calls[n+1] = toolCall(n + 1)
		}
		change := func(n int64, do func(*people.ToolCall)) {
			c := calls[n]
			do(&c)
			calls[n] = c
		}
		change(2, func(c *people.ToolCall) { c.Agent = 8; c.Outcome = people.CallFailed })
		change(3, func(c *people.ToolCall) { c.Tool = 9 })
		change(4, func(c *people.ToolCall) {
			c.At = calls[3].At.Add(time.Microsecond)
			c.ID = ids.From(c.At) + 9 // of the same millisecond as the third
		})
		change(5, func(c *people.ToolCall) { c.Caller.User = 5 })
		change(6, func(c *people.ToolCall) { c.Decision, c.CallResult = people.CallBusy, people.CallResult{Code: "busy"} })
		for _, c := range calls {
			e.insert(insertToolCall(c))
		}
		e.change("apps/other", func(tx people.Tx) error { c := toolCall(1); c.Caller.User = 0; return tx.Records().InsertToolCall(c) })
		at := func(n int64) time.Time { return calls[n].At }
		for name, tc := range map[string]struct {
			filter people.ToolCallFilter
			limit  int
			want   []int64
		}{
			"all":                       {people.ToolCallFilter{}, 10, []int64{6, 5, 4, 3, 2, 1}},
			"a page":                    {people.ToolCallFilter{}, 2, []int64{6, 5}},
			"the next":                  {people.ToolCallFilter{After: calls[5].ID}, 2, []int64{4, 3}},
			"an agent":                  {people.ToolCallFilter{Agent: 8}, 10, []int64{2}},
			"a tool":                    {people.ToolCallFilter{Tool: 9}, 10, []int64{3}},
			"a user":                    {people.ToolCallFilter{User: 5}, 10, []int64{5}},
			"failed":                    {people.ToolCallFilter{Outcome: people.CallFailed}, 10, []int64{2}},
			"succeeded":                 {people.ToolCallFilter{Outcome: people.CallSucceeded}, 10, []int64{5, 4, 3, 1}},
			"an agent and a tool":       {people.ToolCallFilter{Agent: 8, Tool: 9}, 10, nil},
			"a time on":                 {people.ToolCallFilter{Since: at(4)}, 10, []int64{6, 5, 4}},
			"until a time":              {people.ToolCallFilter{Until: at(4)}, 10, []int64{3, 2, 1}},
			"a period":                  {people.ToolCallFilter{Since: at(2), Until: at(5)}, 10, []int64{4, 3, 2}},
			"all, the oldest first":     {people.ToolCallFilter{OldestFirst: true}, 10, []int64{1, 2, 3, 4, 5, 6}},
			"the next oldest":           {people.ToolCallFilter{OldestFirst: true, After: calls[3].ID}, 2, []int64{4, 5}},
			"an agent's, oldest, since": {people.ToolCallFilter{OldestFirst: true, Agent: 1, Since: at(3)}, 10, []int64{3, 4, 5, 6}},
			"a distant end":             {people.ToolCallFilter{Until: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, 10, []int64{6, 5, 4, 3, 2, 1}},
		} {
			found := all(e, func(tx people.Tx) ([]people.ToolCall, error) {
				return tx.Records().ListToolCalls(tc.filter, tc.limit)
			})
			var got []int64
			for _, c := range found {
				for n, written := range calls {
					if written.ID == c.ID {
						got = append(got, n)
						e.Expect(c).To(gomega.Equal(written), name)
					}
				}
			}
			e.Expect(got).To(gomega.Equal(tc.want), name)
		}
	}},
	{name: "an agent's calls are summed up over a period, by day and by tool", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1))
		day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
		n := int64(0)
		record := func(at time.Time, change func(*people.ToolCall)) {
			c := toolCall(1)
			n++
			c.At, c.ID = at, ids.From(at)+n
			if change != nil {
				change(&c)
			}
			e.insert(insertToolCall(c))
		}
		refused := func(decision, code string, approval int64) func(*people.ToolCall) {
			return func(c *people.ToolCall) {
				c.Decision, c.Approval, c.CallResult = decision, approval, people.CallResult{Code: code}
			}
		}
		for ms := range 100 { // of 1 to 100 ms
			record(day.Add(time.Hour), func(c *people.ToolCall) { c.Latency = time.Duration(ms+1) * time.Millisecond })
		}
		record(day.Add(47*time.Hour), func(c *people.ToolCall) {
			c.Tool, c.ToolName, c.Outcome, c.Latency = 7, "another", people.CallTimeout, time.Minute
		})
		record(day.Add(47*time.Hour), func(c *people.ToolCall) { c.Tool, c.ToolName, c.Outcome = 7, "another", people.CallUnknown })
		record(day.Add(47*time.Hour), func(c *people.ToolCall) { c.Outcome = people.CallCancelled })
		record(day.Add(47*time.Hour), refused(people.CallPermissionDenied, "permission_denied", 0))
		record(day.Add(47*time.Hour), refused(people.CallRateLimited, "rate_limited", 0))
		for _, approval := range []int64{11, 11, 12, 13} {
			record(day.Add(47*time.Hour), refused(people.CallApprovalRequired, "approval_required", approval))
		}
		record(day.Add(47*time.Hour), refused(people.CallApprovalDenied, "approval_denied", 12))
		record(day.Add(47*time.Hour), refused(people.CallApprovalDenied, people.CodeApprovalExpired, 13))
		record(day.Add(47*time.Hour), func(c *people.ToolCall) { c.Approval = 11 })
		record(day.Add(48*time.Hour), nil)                                               // after the period
		record(day.Add(-time.Microsecond), nil)                                          // before it
		record(day.Add(time.Hour), func(c *people.ToolCall) { c.Agent = 99 })            // another agent's
		e.change("apps/other", func(tx people.Tx) error { return furnish(tx, "other") }) // another deployment's

		want := people.ToolCallSummary{CallCounts: people.CallCounts{Calls: 112, Failed: 2}, Denied: 1, RateLimited: 1}
		want.Approvals.Requested, want.Approvals.Approved, want.Approvals.Denied, want.Approvals.Expired = 3, 1, 1, 1
		want.Tools = []people.ToolCounts{
			{Tool: 7, Name: "another", CallCounts: people.CallCounts{Calls: 2, Failed: 2}, Median: time.Minute, Slow: time.Minute},
			// With two more of 30 ms there are 102 calls: the 51st of them has 49 ms, the 97th 95 ms.
			{Tool: 2, Name: "find-order", CallCounts: people.CallCounts{Calls: 110}, Median: 49 * time.Millisecond, Slow: 95 * time.Millisecond},
		}
		want.Days = []people.CallDay{{Start: day, CallCounts: people.CallCounts{Calls: 100}}, {Start: day.Add(24 * time.Hour), CallCounts: people.CallCounts{Calls: 12, Failed: 2}}}
		summary := func(agent int64, p people.Period) people.ToolCallSummary {
			return all(e, func(tx people.Tx) (people.ToolCallSummary, error) { return tx.Records().SummarizeToolCalls(agent, p) })
		}
		period := people.Period{From: day, To: day.Add(48 * time.Hour)}
		e.Expect(summary(1, period)).To(gomega.Equal(want))
		e.Expect(summary(5, period)).To(gomega.BeZero())
		e.Expect(summary(1, people.Period{From: period.To, To: period.From})).To(gomega.BeZero())
	}},
	{name: "the calls of a deleted user stay, without the user", run: func(e *env) {
		e.begin()
		e.insert(insertUser(1), insertUser(5))
		ofKey, ofClient, ofOther := toolCall(1), toolCall(2), toolCall(3)
		ofKey.Arguments, ofKey.Result = "sealed arguments", "sealed result"
		ofClient.Caller.Kind = people.CallerClient
		ofOther.Caller.User, ofOther.Result = 5, "sealed result"
		e.insert(insertToolCall(ofKey), insertToolCall(ofClient), insertToolCall(ofOther), insertToolCall(startedCall(4)))
		e.insert(func(tx people.Tx) error { return tx.Users().DeleteUser(1) })
		// Records of calls before the deletion that are written after it.
		late, waiting := toolCall(5), toolCall(6)
		late.Arguments, waiting.Result = "sealed arguments", "sealed result"
		e.insert(insertToolCall(late), func(tx people.Tx) error {
			_, err := tx.Records().RecordToolCalls([]people.ToolCall{waiting, ofOther})
			return err
		})
		settled, received := toolCall(4), toolCall(7)
		settled.Result, received.Result = "sealed result", "sealed result"
		e.insert(func(tx people.Tx) error {
			_, err := tx.Records().SettleToolCalls([]people.ToolCall{settled})
			return err
		})
		e.insert(insertToolCall(startedCall(7)))
		e.reports(true, func(tx people.Tx) (bool, error) { return tx.Records().ReceiveToolResult(received) })
		for n, want := range []people.ToolCall{ofKey, ofClient, settled, late, waiting, received} {
			want.Caller.User, want.Caller.Address, want.Arguments, want.Result = 0, "", "", ""
			if n != 1 {
				want.Caller.ID = ""
			}
			got, _ := e.callOf(want.ID)
			e.Expect(got).To(gomega.Equal(want), fmt.Sprint(n))
		}
		got, _ := e.callOf(ofOther.ID)
		e.Expect(got).To(gomega.Equal(ofOther))
	}},
	{name: "records of calls are purged after their retention, and arguments and results after a week, in every deployment", run: func(e *env) {
		e.begin()
		const calls = 25
		for n := range int64(calls) {
			c := toolCall(n)
			c.Caller.User, c.Arguments = 0, "sealed arguments"
			e.change([]string{home, "apps/other", "apps/third"}[n%3], insertToolCall(c))
		}
		keep := people.Retention{Audit: time.Hour, ToolCalls: 90 * 24 * time.Hour}
		purged := func(now time.Time) (sum int64) {
			for {
				n, err := e.store.Purge(e.ctx, now, keep, 4)
				e.ok(err)
				e.Expect(n).To(gomega.BeNumerically("<=", 8))
				if sum += n; n == 0 {
					return sum
				}
			}
		}
		e.Expect(purged(after(people.CallBodiesFor))).To(gomega.BeZero())
		e.Expect(purged(after(people.CallBodiesFor+time.Hour))).To(gomega.BeEquivalentTo(calls), "the arguments")
		c, found := e.callOf(toolCall(24).ID)
		e.Expect(found).To(gomega.BeTrue())
		e.Expect(c.Arguments).To(gomega.BeEmpty())
		e.Expect(purged(after(keep.ToolCalls + 10*time.Second))).To(gomega.BeEquivalentTo(10))
		e.Expect(purged(after(keep.ToolCalls + time.Hour))).To(gomega.BeEquivalentTo(calls - 10))
	}},
}
