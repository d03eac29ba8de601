package engine

import "math/bits"

// part is one block that a decision needs: the block for the matching rules of one program and one mode.
type part struct {
	scheme  *Scheme
	program *program
	rules   uint64
	key     blockKey
	hash    uint64
	shard   int32
	words   []uint64
}

// partsMost is how many blocks one decision can need: one for every mode of the request's scheme and of the app's.
const partsMost = 2 * int(modeCount)

// decision is the working state of a decision.
type decision struct {
	now   Instant
	parts [partsMost]part
	count int
	// locked are the shards held, in ascending order.
	locked [partsMost]int32
	locks  int
	// counters are the windows of the rules in Result.Rules.
	counters [2 * 64]state
}

// check evaluates every rule, in the order of priorities, and reports the state of each.
func (d *decision) check(out *Result, limits []int64) {
	for from := 0; from < d.count; {
		to := from
		var rules uint64
		for ; to < d.count && d.parts[to].program == d.parts[from].program; to++ {
			rules |= d.parts[to].rules
		}
		p := d.parts[from].program
		for ; rules != 0; rules &= rules - 1 {
			rule := &p.rules[bits.TrailingZeros64(rules)]
			limit := rule.Limit
			if at := len(out.Rules); at < len(limits) {
				limit = limits[at]
			}
			d.checkRule(out, rule, limit, d.stateOf(rule, from, to))
		}
		from = to
	}
}

// stateOf finds a rule's window in the blocks of its program.
func (d *decision) stateOf(rule *Rule, from, to int) state {
	for from < to-1 && d.parts[from].key.mode != rule.Mode {
		from++
	}
	return rule.of(d.parts[from].words, &rule.window)
}

// leastWait is the shortest Retry-After, in microseconds. It applies to a limit of which this process' part is 0: its
// window has no wait of its own.
const leastWait = 1000

func (d *decision) checkRule(out *Result, rule *Rule, limit int64, s state) {
	at := len(out.Rules)
	d.counters[at] = s
	used := rule.window.used(s, d.now)
	state := RuleState{Rule: rule, Remaining: max(0, limit-used)}
	if used > 0 {
		state.Returns = rule.window.wait(s, d.now, used)
	}
	if used >= limit {
		if out.Allowed {
			out.Allowed, out.Blocked = false, at
		}
		state.Returns = max(rule.window.wait(s, d.now, max(limit, 1)), leastWait)
		out.RetryAfter = max(out.RetryAfter, state.Returns)
	}
	out.Rules = append(out.Rules, state)
}

// charge counts the request in every rule's window.
func (d *decision) charge(out *Result) {
	var over int64
	for i := range out.Rules {
		state := &out.Rules[i]
		w := &state.Rule.window
		w.charge(d.counters[i], d.now, 1)
		state.Remaining = max(0, state.Remaining-1)
		lasts := w.over(d.now)
		over = max(over, lasts)
		if state.Returns == 0 {
			state.Returns = w.wait(d.counters[i], d.now, 1)
		}
	}
	for i := range d.count {
		words := d.parts[i].words
		words[wordOver] = max(words[wordOver], uint64(d.now.Steady+over))
	}
}

// countDecisions adds the decision to the rules' totals: a denial to those of the rules that denied. A recorded request
// was admitted elsewhere, so it counts as allowed.
func (d *decision) countDecisions(out *Result, allowed bool) {
	stripe := d.parts[0].shard & (stripeCount - 1)
	for i := range out.Rules {
		of := &out.Rules[i].Rule.Decisions.stripes[stripe]
		switch {
		case allowed:
			of.allowed.Add(1)
		case out.Rules[i].Remaining == 0:
			of.denied.Add(1)
		}
	}
}
