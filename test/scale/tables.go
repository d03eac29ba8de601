package scale

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// tables returns the tables of docs/scale.md by their names.
func tables() map[string]string {
	var needs []Need
	for _, s := range sizes() {
		needs = append(needs, needOf(s))
	}
	return map[string]string{
		"answer": answerTable(needs), "operations": operationTable(), "workload": workloadTable(needs), "disk": diskTable(needs),
		"limits": limitTable(needs), "latency": latencyTable(needs[len(needs)-1]), "server": serverTable(),
	}
}

// table renders rows; the first is the header.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(row)) + "|\n")
		}
	}
	return b.String()
}

// of returns a row: a name, and a cell of each size.
func of(name string, needs []Need, cell func(n Need) string) []string {
	row := []string{name}
	for _, n := range needs {
		row = append(row, cell(n))
	}
	return row
}

func answerTable(needs []Need) string {
	return table([][]string{
		of("install", needs, func(n Need) string { return n.Size.Name }),
		of("deployments", needs, func(n Need) string { return number(float64(n.Size.Deployments)) }),
		of("users", needs, func(n Need) string { return number(float64(n.Size.Users)) }),
		of("resources; runtime API keys", needs, func(n Need) string {
			return number(n.DocumentsOfServer) + "; " + number(float64(n.Size.Users)*n.Size.KeysOfUser)
		}),
		of("decisions a second; statements a second of PostgreSQL", needs, func(n Need) string { return number(n.Decisions) + "; " + number(n.Statements) }),
		of("**servers**", needs, func(n Need) string { return fmt.Sprintf("%d of %d processors", n.Servers, n.Size.ProcessorsOfServer) }),
		of("... fully used processors of all; utilization with one server less", needs, func(n Need) string {
			return number(n.ServerProcessors) + "; " + percent(n.installed()[0].Utilization())
		}),
		of("... memory of each", needs, func(n Need) string { return bytesText(n.ServerMemory) }),
		of("**PostgreSQL**: processors", needs, func(n Need) string { return strconv.Itoa(n.DatabaseMachine) }),
		of("... fully used of them; utilization", needs, func(n Need) string {
			return number(n.DatabaseProcessors) + "; " + percent(n.DatabaseProcessors/float64(n.DatabaseMachine))
		}),
		of("... disk after a year; memory (working set)", needs, func(n Need) string { return bytesText(n.Disk) + "; " + bytesText(n.WorkingSet) }),
		of("... commits a second, to one fsync each; log a second", needs, func(n Need) string {
			return number(n.Commits) + ", " + percent(n.fsyncs()) + "; " + bytesText(n.WAL)
		}),
		of("... connections; twice as many while a Deployment rolls", needs, func(n Need) string { return strconv.Itoa(n.Connections) }),
		of("**Redis**: primaries; utilization", needs, func(n Need) string {
			return strconv.Itoa(n.RedisPrimaries) + "; " + percent(n.Redis/float64(n.RedisPrimaries))
		}),
		of("**operator**: memory; share of a processor for resyncs", needs, func(n Need) string { return bytesText(n.OperatorMemory) + "; " + percent(n.Operator) }),
		of("import of all users, once", needs, func(n Need) string { return span(n.Size.importing()) }),
		of("**saturates first** on this install", needs, func(n Need) string { return saturates(n.installed()) }),
		of("... once servers are added: compared with the largest machines", needs, func(n Need) string { return saturates(n.ceilings()) }),
	})
}

func operationTable() string {
	rows := [][]string{{"operation", "server", "PostgreSQL", "statements, commits", "log", "a second of one server processor; of one PostgreSQL processor", "bound by"}}
	for _, o := range operations() {
		rows = append(rows, []string{o.Name, micros(o.Server), micros(o.Database), fmt.Sprintf("%d, %d", o.Statements, o.Commits), bytesOrNone(o.WAL),
			perSecond(o.Server) + "; " + perSecond(o.Database), o.bound()})
	}
	return table(rows)
}

func workloadTable(needs []Need) string {
	last := needs[len(needs)-1]
	header := append(of("operation", needs, func(n Need) string { return n.Size.Name + ", a second" }), "large: share of the servers' processors", "large: share of PostgreSQL's processors")
	rows := [][]string{header}
	for i, r := range last.Size.rates(last.Servers) {
		row := of(r.Operation.Name, needs, func(n Need) string { return number(n.Size.rates(n.Servers)[i].PerSecond) })
		rows = append(rows, append(row, percent(r.PerSecond*r.Operation.Server.Seconds()/last.ServerProcessors), percent(r.PerSecond*r.Operation.Database.Seconds()/last.DatabaseProcessors)))
	}
	return table(rows)
}

func diskTable(needs []Need) string {
	rows := [][]string{of("rows", needs, func(n Need) string { return n.Size.Name + ": rows; disk; working set" })}
	for i, part := range needs[0].Parts {
		rows = append(rows, of(part.Name, needs, func(n Need) string {
			return number(n.Parts[i].Rows) + "; " + bytesText(n.Parts[i].Bytes) + "; " + bytesText(n.Parts[i].Hot)
		}))
	}
	return table(append(rows, of("**together**", needs, func(n Need) string { return bytesText(n.Disk) + "; " + bytesText(n.WorkingSet) })))
}

func limitTable(needs []Need) string {
	rows := [][]string{append(of("resource", needs, func(n Need) string { return n.Size.Name }), "the most that is assumed")}
	for i, r := range needs[0].ceilings() {
		rows = append(rows, append(of(r.Name, needs, func(n Need) string {
			all := n.ceilings()
			text := percent(all[i].Utilization())
			if all[i] == saturating(all) && all[i].Utilization() >= idle {
				return "**" + text + "**"
			}
			return text
		}), r.Limit))
	}
	return table(rows)
}

// simulated is how many requests a simulation has.
const simulated = 400_000

func latencyTable(n Need) string {
	shown := []Operation{decisionByKey, getSession, refresh, byPassword}
	rows := [][]string{{"utilization of the servers; of PostgreSQL"}}
	for _, o := range shown {
		rows[0] = append(rows[0], o.Name+": p50, p99")
	}
	for _, utilization := range []float64{0.3, 0.6, 0.8, 0.9} {
		latencies, database := simulate(n, utilization, simulated, shown...)
		row := []string{percent(utilization) + "; " + percent(database)}
		for _, l := range latencies {
			row = append(row, millis(l.P50)+", "+millis(l.P99))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

func serverTable() string {
	return table([][]string{
		{"what a further server costs", "how much"},
		{"memory for its caches, at most", bytesText(serverCaches)},
		{"memory for each 1,000 active resources", bytesText(1000 * serverDocument)},
		{"connections of PostgreSQL", fmt.Sprintf("%d, and as many again while a Deployment rolls", connectionsOfProcess)},
		{"statements of PostgreSQL while nothing happens", fmt.Sprintf("%d a second, %s of a processor", idlePolls, percent(idlePolls*pollCost.Seconds()))},
		{"each change of a resource", micros(changeRead.Database) + " of PostgreSQL, " + micros(changeRead.Server) + " of the server"},
	})
}

// number renders a number with two significant digits, or whole if it is at least 10.
func number(x float64) string {
	switch {
	case x == 0:
		return "0"
	case x < 0.095:
		return strconv.FormatFloat(round(x, 1), 'f', -1, 64)
	case x < 9.95:
		return strconv.FormatFloat(round(x, 2), 'f', -1, 64)
	}
	digits := strconv.FormatFloat(round(x, 3), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// round returns a number with a number of significant digits.
func round(x float64, digits int) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, float64(digits)-math.Ceil(math.Log10(math.Abs(x))))
	return math.Round(x*scale) / scale
}

func percent(x float64) string {
	if x < 0.0005 {
		return "below 0.1 %"
	}
	if x < 0.1 {
		return strconv.FormatFloat(math.Round(x*1000)/10, 'f', -1, 64) + " %"
	}
	return strconv.FormatFloat(math.Round(x*100), 'f', 0, 64) + " %"
}

func bytesText(x float64) string {
	for _, unit := range []struct {
		name string
		of   float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if x >= unit.of*0.9995 {
			return number(x/unit.of) + " " + unit.name
		}
	}
	return number(x) + " B"
}

func micros(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return number(float64(d)/float64(time.Microsecond)) + " µs"
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(round(d.Seconds()*1000, 2), 'f', -1, 64) + " ms"
}

func perSecond(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return number(1 / d.Seconds())
}

func bytesOrNone(n int) string {
	if n == 0 {
		return "-"
	}
	return bytesText(float64(n))
}

func span(d time.Duration) string {
	switch {
	case d < time.Minute:
		return number(d.Seconds()) + " s"
	case d < time.Hour:
		return number(d.Minutes()) + " min"
	}
	return number(d.Hours()) + " h"
}
