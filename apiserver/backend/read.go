package backend

import (
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// readRules reads the member rules and records every fault in it.
func readRules(o *body.Object) []scheme.Rule {
	objects, ok := o.Objects("rules")
	rules := make([]scheme.Rule, len(objects))
	for i, sent := range objects {
		rules[i] = readRule(sent)
	}
	if ok { // otherwise the list is incomplete, and its faults are already recorded
		for _, fault := range scheme.ValidateList(rules) {
			o.Fault("rules"+fault.Pointer, "%s", fault.Message)
		}
	}
	return rules
}

// readRule reads one rule. It does not validate the value of a member that it could not read.
func readRule(o *body.Object) scheme.Rule {
	var rule scheme.Rule
	for _, name := range []string{"unit", "duration", "max_requests"} {
		o.Require(name)
	}
	rule.Unit, _ = o.String("unit")
	rule.Duration, _ = o.Integer("duration")
	rule.MaxRequests, _ = o.Integer("max_requests")
	var sent bool
	if rule.Mode, sent = o.String("mode"); sent && rule.Mode == "" {
		o.Fault("mode", "must be one of %s", strings.Join(scheme.Modes(), ", "))
	}
	if rule.Endpoints, sent = o.Strings("endpoints"); sent && len(rule.Endpoints) == 0 {
		o.Fault("endpoints", "must not be empty: leave it out or send [\"*\"] to cover every request")
	}
	if priority, sent := o.Integer("priority"); sent {
		rule.Priority = &priority
	}
	for _, fault := range rule.Validate() {
		if member := strings.TrimPrefix(fault.Pointer, "/"); !o.Faulty(member) {
			o.Fault(member, "%s", fault.Message)
		}
	}
	o.Close()
	return rule
}
