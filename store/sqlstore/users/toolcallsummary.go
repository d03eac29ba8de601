package users

import (
	"cmp"
	"database/sql"
	"math"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// maxID is larger than every id and every stored time.
const maxID = int64(math.MaxInt64)

// dayMicros is the length of a day in stored times.
const dayMicros = int64(24 * time.Hour / time.Microsecond)

// The parts of the summary's one statement.
const (
	countsPart = iota
	approvalsPart
	latenciesPart
)

// summaryQuery returns rows of three parts:
//   - counts by day, tool, decision and outcome;
//   - approvals by decision and code: each approval counts once;
//   - latencies of calls that ran and ended, by tool, in ascending order.
const summaryQuery = `WITH period AS (SELECT at / 86400000000 AS day, tool_id, tool, decision, outcome, code, approval_id, latency_ms FROM tool_calls
		WHERE deployment = :deployment AND agent_id = ? AND id >= ? AND id < ? AND at >= ? AND at < ?)
	SELECT 0 AS part, day, tool_id, MAX(tool) AS tool, decision, outcome, COUNT(*) AS n, 0 AS ms FROM period GROUP BY day, tool_id, decision, outcome
	UNION ALL SELECT 1, 0, 0, '', decision, CASE WHEN code = '` + people.CodeApprovalExpired + `' THEN code ELSE '' END, COUNT(DISTINCT approval_id), 0 FROM period
		WHERE approval_id > 0 GROUP BY decision, CASE WHEN code = '` + people.CodeApprovalExpired + `' THEN code ELSE '' END
	UNION ALL SELECT 2, 0, tool_id, '', '', '', COUNT(*), latency_ms FROM period
		WHERE decision = '` + people.CallAllowed + `' AND outcome NOT IN ('` + people.CallStarted + `', '` + people.CallUnknown + `') GROUP BY tool_id, latency_ms
	ORDER BY 1, 2, 3, 8`

// summaryRow is one row of summaryQuery.
type summaryRow struct {
	part                    int
	day, tool               int64
	name, decision, outcome string
	n, ms                   int64
}

func (tx txRecords) SummarizeToolCalls(agent int64, period people.Period) (people.ToolCallSummary, error) {
	if !period.From.Before(period.To) {
		return people.ToolCallSummary{}, nil
	}
	within := spanOf(period.From, period.To)
	s := summarizing{tools: map[int64]*toolLatencies{}}
	err := tx.Each(func(row *sql.Rows) error {
		var r summaryRow
		if err := row.Scan(&r.part, &r.day, &r.tool, &r.name, &r.decision, &r.outcome, &r.n, &r.ms); err != nil {
			return err
		}
		s.add(r)
		return nil
	}, summaryQuery, agent, within.firstID, within.endID, within.from, within.until)
	if err != nil {
		return people.ToolCallSummary{}, err
	}
	return s.done(), nil
}

// summarizing is a summary under way.
type summarizing struct {
	summary people.ToolCallSummary
	tools   map[int64]*toolLatencies
}

// toolLatencies are a tool's counts and latencies.
type toolLatencies struct {
	people.ToolCounts
	ended     int64
	latencies [][2]int64 // in milliseconds, with how many calls had each
}

func (s *summarizing) add(r summaryRow) {
	switch r.part {
	case countsPart:
		s.count(r)
	case approvalsPart:
		approvals := &s.summary.Approvals
		switch {
		case r.decision == people.CallApprovalRequired:
			approvals.Requested += r.n
		case r.decision == people.CallAllowed:
			approvals.Approved += r.n
		case r.decision == people.CallApprovalDenied && r.outcome == people.CodeApprovalExpired:
			approvals.Expired += r.n
		case r.decision == people.CallApprovalDenied:
			approvals.Denied += r.n
		}
	case latenciesPart:
		of := s.tools[r.tool] // every tool was counted before
		of.ended += r.n
		of.latencies = append(of.latencies, [2]int64{r.ms, r.n})
	}
}

func (s *summarizing) count(r summaryRow) {
	counts := people.CallCounts{Calls: r.n}
	switch r.outcome {
	case people.CallFailed, people.CallTimeout, people.CallUnknown:
		counts.Failed = r.n
	}
	switch r.decision {
	case people.CallPermissionDenied:
		s.summary.Denied += r.n
	case people.CallRateLimited:
		s.summary.RateLimited += r.n
	}
	start := time.UnixMicro(r.day * dayMicros).UTC()
	if days := s.summary.Days; len(days) == 0 || !days[len(days)-1].Start.Equal(start) {
		s.summary.Days = append(s.summary.Days, people.CallDay{Start: start})
	}
	of := s.tools[r.tool]
	if of == nil {
		of = &toolLatencies{ToolCounts: people.ToolCounts{Tool: r.tool}}
		s.tools[r.tool] = of
	}
	of.Name = max(of.Name, r.name)
	for _, sum := range []*people.CallCounts{&s.summary.CallCounts, &s.summary.Days[len(s.summary.Days)-1].CallCounts, &of.CallCounts} {
		sum.Calls += counts.Calls
		sum.Failed += counts.Failed
	}
}

func (s *summarizing) done() people.ToolCallSummary {
	for _, of := range s.tools {
		of.Median, of.Slow = of.percentile(50), of.percentile(95)
		s.summary.Tools = append(s.summary.Tools, of.ToolCounts)
	}
	slices.SortFunc(s.summary.Tools, func(a, b people.ToolCounts) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Tool, b.Tool))
	})
	return s.summary
}

// percentile returns the smallest latency that at least p percent of the calls do not exceed, 0 without calls.
func (t *toolLatencies) percentile(p int64) time.Duration {
	rank, seen := (t.ended*p+99)/100, int64(0)
	for _, latency := range t.latencies {
		if seen += latency[1]; seen >= rank {
			return time.Duration(latency[0]) * time.Millisecond
		}
	}
	return 0
}
