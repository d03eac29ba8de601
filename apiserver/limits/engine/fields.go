package engine

import (
	"strconv"
	"strings"
)

// Fields are the parts of the RateLimit fields that all rules of a scheme have when no others match. They are made when
// the scheme is compiled, and never change.
type Fields struct {
	// Names are the rules' texts as unique names, with quotation marks: `"5/1s"`. Of two rules with equal texts, the
	// later has a number.
	Names []string
	// Policy is the value of RateLimit-Policy: for each rule its limit and its window in seconds.
	Policy []string
}

// prepareFields makes the fields of a scheme's rules.
func prepareFields(rules []Rule) {
	f := &Fields{}
	alike := map[string]int{}
	var policy []string
	for i := range rules {
		text := rules[i].Text
		alike[text]++
		if n := alike[text]; n > 1 {
			text += "#" + strconv.Itoa(n)
		}
		f.Names = append(f.Names, `"`+text+`"`)
		policy = append(policy, f.Names[i]+rules[i].Policy)
	}
	f.Policy = []string{strings.Join(policy, ", ")}
	for i := range rules {
		rules[i].fields, rules[i].at = f, i
	}
}

// Fields returns the fields of the scheme all of whose rules matched, and nil if not all or others too did.
func (r *Result) Fields() *Fields {
	if len(r.Rules) == 0 {
		return nil
	}
	f := r.Rules[0].Rule.fields
	if f == nil || len(f.Names) != len(r.Rules) {
		return nil
	}
	for i := range r.Rules {
		if rule := r.Rules[i].Rule; rule.fields != f || rule.at != i {
			return nil
		}
	}
	return f
}
