// Package scheme holds the values of rate-limit schemes: rules as sent, their effective values, and their validity.
package scheme

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Bounds of a scheme.
const (
	MaxRules            = 64
	MaxEndpointsPerRule = 100
	MaxEndpoints        = 512
	MaxEndpointLength   = 256
	MaxRequests         = 1<<31 - 1
)

// DefaultMode is the mode of a rule that names none.
const DefaultMode = "per_key"

// AllEndpoints is the pattern that covers every request, and the effective endpoints of a rule that lists none.
const AllEndpoints = "*"

// maxDuration is the longest duration of each unit.
var maxDuration = map[string]int64{
	"millisecond": 60000, "second": 1800, "minute": 1440, "hour": 720, "day": 30,
	"month": 1, "calendar_day": 1, "calendar_month": 1,
}

// Units lists the allowed units in the order in which they are documented.
func Units() []string {
	return []string{"millisecond", "second", "minute", "hour", "day", "month", "calendar_day", "calendar_month"}
}

// Modes lists the allowed modes. A mode says which requests are counted together.
func Modes() []string {
	return []string{"per_app", "per_key", "per_ip", "per_key_and_ip", "per_app_and_ip"}
}

// Rule is one rule as sent: a nil or absent member has its default.
type Rule struct {
	Unit        string   `json:"unit"`
	Duration    int64    `json:"duration"`
	MaxRequests int64    `json:"max_requests"`
	Mode        string   `json:"mode,omitempty"`
	Endpoints   []string `json:"endpoints,omitempty"`
	Priority    *int64   `json:"priority,omitempty"`
}

// Effective returns the rule with every default filled in; the result shares no memory with the rule.
func (r Rule) Effective() Rule {
	if r.Mode == "" {
		r.Mode = DefaultMode
	}
	if len(r.Endpoints) == 0 {
		r.Endpoints = []string{AllEndpoints}
	} else {
		r.Endpoints = slices.Clone(r.Endpoints)
	}
	priority := int64(0)
	if r.Priority != nil {
		priority = *r.Priority
	}
	r.Priority = &priority
	return r
}

// Effective returns the effective values of all rules.
func Effective(rules []Rule) []Rule {
	out := make([]Rule, len(rules))
	for i, rule := range rules {
		out[i] = rule.Effective()
	}
	return out
}

// EqualEffective reports whether two lists of rules have the same effective values, in the same order.
func EqualEffective(a, b []Rule) bool {
	return slices.EqualFunc(a, b, func(x, y Rule) bool {
		x, y = x.Effective(), y.Effective()
		return x.Unit == y.Unit && x.Duration == y.Duration && x.MaxRequests == y.MaxRequests && x.Mode == y.Mode &&
			*x.Priority == *y.Priority && slices.Equal(x.Endpoints, y.Endpoints)
	})
}

// Fault is one fault of a list of rules: its place, as a JSON pointer below the list, and how to fix it.
type Fault struct {
	Pointer string
	Message string
}

// Validate returns every fault of a list of rules: those of the list, then those of each rule in order.
func Validate(rules []Rule) []Fault {
	faults := ValidateList(rules)
	for i, rule := range rules {
		for _, fault := range rule.Validate() {
			faults = append(faults, Fault{fmt.Sprintf("/%d%s", i, fault.Pointer), fault.Message})
		}
	}
	return faults
}

// ValidateList returns the faults of a list of rules as such: how many rules and endpoints it has.
func ValidateList(rules []Rule) []Fault {
	var faults []Fault
	switch {
	case len(rules) == 0:
		faults = append(faults, Fault{"", "must have at least one rule: a scheme without rules would limit nothing"})
	case len(rules) > MaxRules:
		faults = append(faults, Fault{"", fmt.Sprintf("has %d rules: at most %d are allowed", len(rules), MaxRules)})
	}
	endpoints := 0
	for _, rule := range rules {
		endpoints += len(rule.Endpoints)
	}
	if endpoints > MaxEndpoints {
		faults = append(faults, Fault{"", fmt.Sprintf("has %d endpoints over all rules: at most %d are allowed; use prefixes (/v1/*)", endpoints, MaxEndpoints)})
	}
	return faults
}

// Validate returns every fault of one rule, each at a pointer below the rule.
func (r Rule) Validate() []Fault {
	var faults []Fault
	fault := func(pointer, format string, args ...any) {
		faults = append(faults, Fault{pointer, fmt.Sprintf(format, args...)})
	}
	if longest, known := maxDuration[r.Unit]; !known {
		fault("/unit", "must be one of %s", strings.Join(Units(), ", "))
	} else if r.Duration < 1 || r.Duration > longest {
		if longest == 1 {
			fault("/duration", "must be exactly 1 for unit %s", r.Unit)
		} else {
			fault("/duration", "must be from 1 to %d for unit %s", longest, r.Unit)
		}
	}
	if r.MaxRequests < 1 || r.MaxRequests > MaxRequests {
		fault("/max_requests", "must be from 1 to %d", MaxRequests)
	}
	if r.Mode != "" && !slices.Contains(Modes(), r.Mode) {
		fault("/mode", "must be one of %s", strings.Join(Modes(), ", "))
	}
	if len(r.Endpoints) > MaxEndpointsPerRule {
		fault("/endpoints", "has %d endpoints: at most %d are allowed in a rule", len(r.Endpoints), MaxEndpointsPerRule)
	}
	for i, endpoint := range r.Endpoints {
		if !ValidEndpoint(endpoint) {
			fault(fmt.Sprintf("/endpoints/%d", i), "must be *, an exact path (/v1/things) or a prefix ending in /* (/v1/*), each optionally after a method (POST /v1/*), of at most %d characters", MaxEndpointLength)
		}
	}
	if r.Priority != nil && (*r.Priority < -1<<31 || *r.Priority > 1<<31-1) {
		fault("/priority", "must be from -2147483648 to 2147483647")
	}
	return faults
}

// A path is printable ASCII in segments without `*`, `?` and `#`: requests are matched by their canonical, still
// encoded path, so nothing else could ever match.
var endpointForm = regexp.MustCompile(`^((GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) )?(\*|/([!-"$-)+-.0->@-~]+/)*([!-"$-)+-.0->@-~]+|\*)?)$`)

// ValidEndpoint reports whether s is an endpoint pattern: `*`, an exact path, or a prefix ending in `/*`, each
// optionally after a method and one blank.
func ValidEndpoint(s string) bool { return len(s) <= MaxEndpointLength && endpointForm.MatchString(s) }
