package storetest

import (
	"time"

	"github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// approval is the nth approval, of user 1, which waits for ten minutes.
func approval(n int64) people.Approval {
	at := after(time.Duration(n) * time.Millisecond)
	return people.Approval{
		ID: ids.From(at) + n, Agent: 1, AgentName: "support", Tool: 2, ToolName: "cancel", Caller: people.ToolCaller{Kind: people.CallerKey, ID: "ck_1", User: 1, Organization: 3},
		Key: "key" + string(rune('0'+n)), Content: "content", Digest: "digest", Arguments: "sealed", Status: people.ApprovalPending, RequestedAt: at, EndsAt: at.Add(10 * time.Minute),
	}
}

// marked returns an approval of an agent with another name.
func marked(a people.Approval, agent string) people.Approval {
	a.AgentName = agent
	return a
}

func insertApproval(a people.Approval) func(tx people.Tx) error {
	return func(tx people.Tx) error {
		_, err := tx.Approvals().InsertApproval(a)
		return err
	}
}

// reportsTrue and reportsFalse check what a write reports.
func (e *env) reportsTrue(write func(tx people.Tx) (bool, error)) {
	e.t.Helper()
	e.reports(true, write)
}
func (e *env) reportsFalse(write func(tx people.Tx) (bool, error)) {
	e.t.Helper()
	e.reports(false, write)
}

var approvalStories = []story{
	{name: "an approval is decided once, in time, and claimed once", run: func(e *env) {
		e.begin()
		a, again := approval(1), approval(2)
		again.Key = a.Key
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Approvals().InsertApproval(a) })
		e.reportsFalse(func(tx people.Tx) (bool, error) { return tx.Approvals().InsertApproval(again) })
		live, _ := one(e, func(tx people.Tx) (people.Approval, bool, error) { return tx.Approvals().LiveApproval(a.Key) })
		e.Expect(live).To(gomega.Equal(a))

		use := func(at time.Time) func(tx people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) { return tx.Approvals().UseApproval(a.ID, at) }
		}
		decide := func(at time.Time) func(tx people.Tx) (bool, error) {
			return func(tx people.Tx) (bool, error) {
				return tx.Approvals().DecideApproval(a.ID, people.ApprovalApproved, 7, at, at.Add(5*time.Minute))
			}
		}
		e.reportsFalse(use(after(time.Minute)))
		e.reportsFalse(decide(a.EndsAt))
		e.reportsTrue(decide(after(time.Minute)))
		e.reportsFalse(decide(after(time.Minute)))
		e.reportsFalse(use(after(6 * time.Minute)))
		e.Expect(e.winners(8, use(after(2*time.Minute)))).To(gomega.Equal(1))
		_, found := one(e, func(tx people.Tx) (people.Approval, bool, error) { return tx.Approvals().LiveApproval(a.Key) })
		e.Expect(found).To(gomega.BeFalse(), "the key is free")
		used, _ := one(e, func(tx people.Tx) (people.Approval, bool, error) { return tx.Approvals().Approval(a.ID) })
		e.Expect([]any{used.Status, used.DecidedBy, used.DecidedAt, used.EndsAt}).To(gomega.Equal([]any{people.ApprovalUsed, int64(7), after(time.Minute), after(2 * time.Minute)}))
		e.reportsTrue(func(tx people.Tx) (bool, error) { return tx.Approvals().InsertApproval(again) })
	}},
	{name: "approvals are counted while they wait, and listed by what selects them", run: func(e *env) {
		e.begin()
		mine, decided, foreign, members := approval(1), approval(2), approval(3), approval(4)
		foreign.Caller.User, foreign.Agent = 2, 9
		members.Permission, members.Caller.User, members.Caller.ID = "orders:approve", 0, "ck_2"
		for _, a := range []people.Approval{mine, decided, foreign, members} {
			e.insert(insertApproval(a))
		}
		e.reportsTrue(func(tx people.Tx) (bool, error) {
			return tx.Approvals().DecideApproval(decided.ID, people.ApprovalDenied, 1, after(time.Minute), after(time.Hour))
		})
		count := func(agent, user int64, principal string, now time.Time) (n int) {
			e.view(home, func(tx people.Tx) (err error) {
				n, err = tx.Approvals().PendingApprovals(agent, user, principal, now)
				return err
			})
			return n
		}
		e.Expect([]int{count(1, 1, "", born), count(1, 0, "ck_2", born), count(1, 0, "ck_1", born), count(1, 1, "", after(time.Hour))}).To(gomega.Equal([]int{1, 1, 0, 0}))
		declined := approval(5)
		declined.Caller.User = 5
		e.insert(insertApproval(declined))
		e.reportsTrue(func(tx people.Tx) (bool, error) {
			return tx.Approvals().DecideApproval(declined.ID, people.ApprovalDenied, 0, after(time.Minute), after(time.Hour))
		})
		e.Expect([]int{count(1, 5, "", after(time.Minute)), count(1, 5, "", after(time.Hour))}).To(gomega.Equal([]int{1, 0}), "a client that declines for its user does not ask without bound")
		listed := func(filter people.ApprovalFilter, limit int) (found []int64) {
			for _, a := range all(e, func(tx people.Tx) ([]people.Approval, error) { return tx.Approvals().ListApprovals(filter, limit) }) {
				e.Expect(a.Arguments).To(gomega.BeEmpty())
				found = append(found, a.ID)
			}
			return found
		}
		e.Expect(listed(people.ApprovalFilter{User: 1}, 10)).To(gomega.Equal([]int64{decided.ID, mine.ID}))
		e.Expect(listed(people.ApprovalFilter{Organization: 3}, 10)).To(gomega.Equal([]int64{members.ID}))
		e.Expect(listed(people.ApprovalFilter{Agent: 1, Status: people.ApprovalPending}, 10)).To(gomega.Equal([]int64{members.ID, mine.ID}))
		e.Expect(listed(people.ApprovalFilter{Before: members.ID}, 1)).To(gomega.Equal([]int64{foreign.ID}))
	}},
	{name: "the key of an approval is free after its end only", run: func(e *env) {
		e.begin()
		a := approval(1)
		e.insert(insertApproval(a))
		live := func() (found bool) {
			_, found = one(e, func(tx people.Tx) (people.Approval, bool, error) { return tx.Approvals().LiveApproval(a.Key) })
			return found
		}
		frees := func(at time.Time) (freed bool) {
			e.insert(func(tx people.Tx) (err error) { freed, err = tx.Approvals().FreeApproval(a.ID, at); return err })
			return freed
		}
		e.Expect(frees(a.EndsAt.Add(-time.Second))).To(gomega.BeFalse())
		e.Expect(live()).To(gomega.BeTrue(), "it waits")
		e.Expect(frees(a.EndsAt)).To(gomega.BeTrue())
		e.Expect(live()).To(gomega.BeFalse())
		e.Expect(frees(a.EndsAt)).To(gomega.BeFalse())
	}},
	{name: "the arguments of an approval are purged an hour after its end, and it with the records of calls", run: func(e *env) {
		e.begin()
		a := approval(1)
		e.insert(insertApproval(a))
		purge := func(now time.Time) {
			_, err := e.store.Purge(e.ctx, now, people.Retention{Audit: time.Hour, ToolCalls: 48 * time.Hour}, 10)
			e.ok(err)
		}
		read := func() (people.Approval, bool) {
			return one(e, func(tx people.Tx) (people.Approval, bool, error) { return tx.Approvals().Approval(a.ID) })
		}
		purge(a.EndsAt.Add(time.Hour))
		kept, _ := read()
		e.Expect(kept.Arguments).To(gomega.Equal("sealed"))
		purge(a.EndsAt.Add(time.Hour + time.Second))
		kept, _ = read()
		e.Expect([]string{kept.Arguments, kept.Key}).To(gomega.Equal([]string{"", ""}), "its key is free too")
		purge(a.EndsAt.Add(48*time.Hour + time.Second))
		_, found := read()
		e.Expect(found).To(gomega.BeFalse())
	}},
}
