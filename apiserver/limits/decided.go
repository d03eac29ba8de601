package limits

import (
	"cmp"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
)

// SchemeDecisions are the decisions of a scheme's rules.
type SchemeDecisions struct {
	Slug, Name string
	// Rules are in the order of their priority. Declared rules of one identity count as one.
	Rules []RuleDecisions
}

// RuleDecisions are the decisions of one rule, over all its subjects, since this server started or compiled it first.
type RuleDecisions struct {
	// Text is the rule's limit, as in `100/1min`.
	Text, Mode string
	Endpoints  []string
	// Allowed counts the requests that matched and passed, and Denied those that this rule refused.
	Allowed, Denied uint64
}

// Decided returns the decisions of a deployment's schemes on this server, ordered by slug.
func (l *Limiter) Decided(s *snapshot.Snapshot, deployment string) []SchemeDecisions {
	var all []SchemeDecisions
	s.List(v1alpha1.KindRateLimitScheme, deployment, func(entry *snapshot.Entry) bool {
		decided := SchemeDecisions{Slug: entry.Key, Name: snapshot.ContentOf[document.RateLimitScheme](entry).Name}
		rules := l.scheme(s, entry).Rules()
		for i := range rules {
			rule := &rules[i]
			allowed, denied := rule.Decisions.Total()
			decided.Rules = append(decided.Rules, RuleDecisions{
				Text: rule.Text, Mode: rule.Mode.String(), Endpoints: slices.Clone(rule.Endpoints), Allowed: allowed, Denied: denied,
			})
		}
		all = append(all, decided)
		return true
	})
	slices.SortFunc(all, func(a, b SchemeDecisions) int { return cmp.Compare(a.Slug, b.Slug) })
	return all
}
