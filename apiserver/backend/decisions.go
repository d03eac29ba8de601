package backend

import (
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
)

// summarizeDecisions serves what the rules of the deployment's rate-limit schemes decided, as this server counted.
func summarizeDecisions(c *call) (reply, error) {
	summary := openapi.DecisionSummary{CountedBy: openapi.ThisServer, Since: c.api.started, Schemes: []openapi.SchemeDecisions{}}
	for _, scheme := range c.api.Limiter.Decided(c.snapshot, c.tenant()) {
		served := openapi.SchemeDecisions{Slug: scheme.Slug, Name: scheme.Name, Rules: []openapi.RuleDecisions{}}
		for _, rule := range scheme.Rules {
			served.Rules = append(served.Rules, openapi.RuleDecisions{
				Rule: rule.Text, Mode: rule.Mode, Endpoints: rule.Endpoints, Allowed: int64(rule.Allowed), Denied: int64(rule.Denied),
			})
		}
		summary.Schemes = append(summary.Schemes, served)
	}
	return object(summary), nil
}
