package limits

import "github.com/cardea-iam/cardea/apiserver/limits/engine"

// Refusals learns of refused requests. It must not wait.
type Refusals interface {
	// Refused notes that a limit of a deployment, "namespace/name", refused a request. slug is that of the scheme.
	Refused(deployment string, limit Limit, slug string)
}

// Limit is a rule of a scheme with the subject by which it counts.
type Limit struct {
	// Scheme is the id of the scheme's resource.
	Scheme int64
	// Rule is the text of the rule, as in `100/1min`, and Mode what it counts by.
	Rule string
	Mode engine.Mode
	// Key and App are the ids of the API key and of the app by which the rule counts. Both are 0 if it counts by
	// something that has no id, such as an address or the subject of a token: those are one Limit together.
	Key, App int64
}

// ReportTo sets what learns of refused requests. It is called before the first decision.
func (l *Limiter) ReportTo(r Refusals) { l.refusals = r }

// report reports the refusal of a request.
func (l *Limiter) report(b *Binding, out *engine.Result) {
	if l.refusals == nil || out.Allowed || out.Blocked < 0 {
		return
	}
	rule := out.Rules[out.Blocked].Rule
	scheme, slug := b.Scheme, b.SchemeSlug
	if b.App != nil && !hasRule(b.Scheme, rule) && hasRule(b.App, rule) {
		scheme, slug = b.App, b.AppSlug
	}
	limit := Limit{Scheme: int64(scheme.ID), Rule: rule.Text, Mode: rule.Mode}
	switch rule.Mode {
	case engine.PerKey, engine.PerKeyAndIP:
		limit.Key = idOf(b.Key)
	case engine.PerApp, engine.PerAppAndIP:
		limit.App = idOf(b.AppID)
	}
	l.refusals.Refused(scheme.Deployment(), limit, slug)
}

// hasRule reports whether a rule is among the present rules of a scheme.
func hasRule(s *engine.Scheme, rule *engine.Rule) bool {
	rules := s.Rules()
	for i := range rules {
		if &rules[i] == rule {
			return true
		}
	}
	return false
}

// idOf returns the id that a counting subject is, 0 for one that is a digest (subjectOf).
func idOf(subject uint64) int64 {
	if subject>>63 != 0 {
		return 0
	}
	return int64(subject)
}
