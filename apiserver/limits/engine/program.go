package engine

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cardea-iam/cardea/internal/scheme"
)

// Mode is the subject that a rule counts requests by.
type Mode uint8

// The modes of decisions.md 5.
const (
	PerKey Mode = iota
	PerApp
	PerIP
	PerKeyAndIP
	PerAppAndIP
	modeCount
)

var modes = map[string]Mode{
	"per_key": PerKey, "per_app": PerApp, "per_ip": PerIP, "per_key_and_ip": PerKeyAndIP, "per_app_and_ip": PerAppAndIP,
}

// Shared describes the rule's counter for a shared store, at a wall-clock time in microseconds of Unix time:
//   - kind w: size is the length of a cell in microseconds; a window with its leases lasts 66 cells;
//   - kind c: size is the end of the current calendar period, in microseconds of Unix time.
//
// A lease of the counter lasts at most term microseconds: a fiftieth of the window, and at most a second.
func (r *Rule) Shared(wall int64) (kind string, size, term int64) {
	if r.Length == 0 {
		return "c", r.window.end(r.window.period(wall)), 1e6
	}
	return "w", ceil(r.Length, cellCount-1), min(r.Length/50, 1e6)
}

// CountDenied counts a denial that did not come from the engine.
func (d *Decisions) CountDenied() { d.stripes[0].denied.Add(1) }

// String is the mode's name in a scheme.
func (m Mode) String() string {
	for name, mode := range modes {
		if mode == m {
			return name
		}
	}
	return ""
}

// subject returns what a mode counts by: the id of the key or app, and the address. A part that does not matter is 0.
func (m Mode) subject(r *Request) (of, address uint64) {
	switch m {
	case PerKey:
		return r.Key, 0
	case PerApp:
		return r.App, 0
	case PerIP:
		return 0, r.Address
	case PerKeyAndIP:
		return r.Key, r.Address
	}
	return r.App, r.Address
}

// Rule is one compiled rule. Rules of the same identity (unit, duration, mode, endpoints) are compiled into one rule
// with the smallest limit.
type Rule struct {
	// Text is `<max>/<duration><unit>`, as in `5/1s` or `100/calendar_day`.
	Text string
	// Policy is the limit and the window as RateLimit-Policy writes them, without a name: `;q=5;w=1`. The window is
	// left out where it is no whole number of seconds, and for a calendar rule: the header field has whole seconds
	// only.
	Policy string
	// Limit is max_requests.
	Limit int64
	// Length is the length of a rolling window in microseconds, 0 for calendar periods.
	Length int64
	Mode   Mode
	// Endpoints are the endpoint patterns of the rule, as in its scheme.
	Endpoints []string
	// Identity identifies a rule within its scheme: two words of a SHA-256.
	Identity [2]uint64
	// Decisions counts what the rule decided.
	Decisions *Decisions

	window window
	// peak is the largest limit that this identity has had since the engine knows the scheme. The kind of the window
	// depends on peak, so that no count is lost if a limit is lowered and raised again.
	peak int64
	// place is where the window's state lies in the block of the rule's mode.
	place
	// fields are those of the rule's program, in which the rule is the one at index at.
	fields *Fields
	at     int
}

const stripeCount = 8

// Decisions counts a rule's decisions, over all subjects, in stripes that processors seldom share.
type Decisions struct {
	stripes [stripeCount]struct {
		allowed, denied atomic.Uint64
		_               [112]byte // processors fetch lines of 64 bytes in pairs
	}
}

// Total returns how many requests the rule allowed and how many it denied.
func (d *Decisions) Total() (allowed, denied uint64) {
	for i := range d.stripes {
		allowed += d.stripes[i].allowed.Load()
		denied += d.stripes[i].denied.Load()
	}
	return allowed, denied
}

// program is a compiled scheme. It never changes.
type program struct {
	// rules are in the order of their priority. The position of a rule is its bit in every mask.
	rules   []Rule
	matcher matcher
	// ofMode are the rules of each mode.
	ofMode [modeCount]uint64
	// appRules are the rules of the modes per_app and per_app_and_ip.
	appRules uint64
	// widest is the largest number of rules that match one request.
	widest int
	layout *layout
}

// Scheme is an active rate-limit scheme. Its rules can be replaced at any time: a counter continues if its rule keeps
// its identity.
type Scheme struct {
	// ID identifies the scheme within the install.
	ID uint64
	// deployment is the "namespace/name" of the scheme's deployment. owner is what the engine holds for that
	// deployment.
	deployment string
	owner      *owner
	numbers    *atomic.Uint32
	program    atomic.Pointer[program]

	replacing sync.Mutex
	// past are the layouts that blocks may still have, the newest last.
	past atomic.Pointer[[]*layout]
}

// pastMost is how many layouts of a scheme are remembered. A block that is not used during so many changes of the
// layout starts empty.
const pastMost = 256

// Replace activates rules, which internal/scheme has validated, from the next decision on.
func (s *Scheme) Replace(rules []scheme.Rule) {
	s.replacing.Lock()
	defer s.replacing.Unlock()
	s.replace(rules)
}

func (s *Scheme) replace(rules []scheme.Rule) {
	before := s.program.Load()
	next := compile(rules, before)
	if before != nil && next.layout.equal(before.layout) {
		next.layout = before.layout
	} else {
		next.layout.number = s.numbers.Add(1)
		var past []*layout
		if known := s.past.Load(); known != nil {
			past = *known
		}
		past = append(slices.Clone(past[max(0, len(past)-pastMost+1):]), next.layout)
		s.past.Store(&past)
	}
	s.program.Store(next)
}

// layoutOf returns a past layout by its number, nil if it is not remembered.
func (s *Scheme) layoutOf(number uint32) *layout {
	for _, past := range *s.past.Load() {
		if past.number == number {
			return past
		}
	}
	return nil
}

// Group names the group to which all counters of a decision by this scheme belong. The group is the scheme if a rule
// counts by the address alone, otherwise the app if a rule counts by the app, otherwise the key.
func (s *Scheme) Group(r *Request) string {
	p := s.program.Load()
	id := strconv.FormatUint(s.ID, 36)
	switch {
	case p.ofMode[PerIP] != 0:
		return "s" + id
	case p.appRules != 0:
		return "a" + id + "." + strconv.FormatUint(r.App, 36)
	}
	return "k" + id + "." + strconv.FormatUint(r.Key, 36)
}

// Widest returns the largest number of rules of the scheme that match one request.
func (s *Scheme) Widest() int { return s.program.Load().widest }

// Deployment returns the scheme's deployment, "namespace/name".
func (s *Scheme) Deployment() string { return s.deployment }

// Lasts returns for how long counters of the scheme may still count something, in microseconds from a moment.
func (s *Scheme) Lasts(now Instant) (longest int64) {
	rules := s.program.Load().rules
	for i := range rules {
		longest = max(longest, rules[i].window.over(now))
	}
	return longest
}

// Bytes estimates the memory of the compiled scheme, from above.
func (s *Scheme) Bytes() int64 {
	const ofScheme, ofRule, ofEndpoint = 4096, 2048, 256
	rules := s.program.Load().rules
	sum := int64(ofScheme + len(rules)*ofRule)
	for i := range rules {
		for _, endpoint := range rules[i].Endpoints {
			sum += int64(ofEndpoint + 2*len(endpoint))
		}
	}
	if past := s.past.Load(); past != nil {
		for _, layout := range *past {
			for mode := range layout.modes {
				sum += int64(64 * len(layout.modes[mode].rows))
			}
		}
	}
	return sum
}

// Rules are the scheme's compiled rules in the order of their priority.
func (s *Scheme) Rules() []Rule { return s.program.Load().rules }

func compile(rules []scheme.Rule, before *program) *program {
	p := &program{layout: &layout{}}
	type source struct {
		rule      Rule
		priority  int64
		endpoints []string
	}
	var sources []source
	for _, sent := range rules {
		effective := sent.Effective()
		rule := newRule(effective)
		at := slices.IndexFunc(sources, func(s source) bool { return s.rule.Identity == rule.Identity })
		if at < 0 {
			sources = append(sources, source{rule, *effective.Priority, effective.Endpoints})
			continue
		}
		sources[at].priority = min(sources[at].priority, *effective.Priority)
		if rule.Limit < sources[at].rule.Limit {
			sources[at].rule = rule
		}
	}
	slices.SortStableFunc(sources, func(a, b source) int { return cmp.Compare(a.priority, b.priority) })
	for i, source := range sources {
		rule, bit := source.rule, uint64(1)<<i
		rule.inherit(before)
		for _, endpoint := range source.endpoints {
			p.matcher.add(endpoint, bit)
		}
		if rule.Mode == PerApp || rule.Mode == PerAppAndIP {
			p.appRules |= bit
		}
		p.ofMode[rule.Mode] |= bit
		p.rules = append(p.rules, rule)
	}
	p.lay()
	p.widest = p.matcher.widest()
	prepareFields(p.rules)
	return p
}

// newRule compiles one effective rule.
func newRule(r scheme.Rule) Rule {
	rule := Rule{
		Text: text(r), Limit: r.MaxRequests, Mode: modes[r.Mode], Endpoints: r.Endpoints, Identity: identity(r), Decisions: &Decisions{}, peak: r.MaxRequests,
	}
	if unit := unitLength[r.Unit]; unit > 0 {
		rule.Length = unit * r.Duration
	}
	rule.Policy = ";q=" + strconv.FormatInt(rule.Limit, 10)
	if rule.Length > 0 && rule.Length%1e6 == 0 {
		rule.Policy += ";w=" + strconv.FormatInt(rule.Length/1e6, 10)
	}
	rule.shape(r.Unit)
	return rule
}

// shape chooses the window for the rule's length and peak.
func (r *Rule) shape(unit string) {
	switch unit {
	case "calendar_day":
		r.window = window{kind: calendarDay}
	case "calendar_month":
		r.window = window{kind: calendarMonth}
	default:
		r.window = rolling(r.Length, r.peak)
	}
}

// inherit takes over the decision counts of the rule of the same identity in the program before. It also takes over
// that rule's peak and window if the peak was larger.
func (r *Rule) inherit(before *program) {
	if before == nil {
		return
	}
	for i := range before.rules {
		if old := &before.rules[i]; old.Identity == r.Identity {
			r.Decisions = old.Decisions
			if old.peak > r.peak {
				r.peak, r.window = old.peak, old.window
			}
			return
		}
	}
}

// unitLength is the length of each rolling unit in microseconds.
var unitLength = map[string]int64{
	"millisecond": 1e3, "second": 1e6, "minute": 60e6, "hour": 3600e6, "day": 24 * 3600e6, "month": 30 * 24 * 3600e6,
}

var unitText = map[string]string{"millisecond": "ms", "second": "s", "minute": "min", "hour": "h", "day": "d"}

func text(r scheme.Rule) string {
	of := strconv.FormatInt(r.MaxRequests, 10) + "/"
	switch r.Unit {
	case "calendar_day", "calendar_month":
		return of + r.Unit
	case "month":
		return of + "30d"
	}
	return of + strconv.FormatInt(r.Duration, 10) + unitText[r.Unit]
}

// identity returns a rule's identity: a digest over unit, duration, mode and the sorted endpoints.
func identity(r scheme.Rule) [2]uint64 {
	endpoints := slices.Sorted(slices.Values(r.Endpoints))
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %d %s %q", r.Unit, r.Duration, r.Mode, slices.Compact(endpoints)))
	return [2]uint64{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}
