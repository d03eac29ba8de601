package backend

import (
	backendapi "github.com/cardea-iam/cardea/client/backend"
)

// summarizeDecisions serves this server's counts of decisions by the rules of the deployment's rate-limit schemes.
func summarizeDecisions(c *call) (reply, error) {
	summary := backendapi.DecisionSummary{CountedBy: backendapi.ThisServer, Since: c.api.started, Schemes: []backendapi.SchemeDecisions{}}
	for _, scheme := range c.api.Limiter.Decided(c.snapshot, c.tenant()) {
		served := backendapi.SchemeDecisions{Slug: scheme.Slug, Name: scheme.Name, Rules: []backendapi.RuleDecisions{}}
		for _, rule := range scheme.Rules {
			served.Rules = append(served.Rules, backendapi.RuleDecisions{
				Rule: rule.Text, Mode: rule.Mode, Endpoints: rule.Endpoints, Allowed: int64(rule.Allowed), Denied: int64(rule.Denied),
			})
		}
		summary.Schemes = append(summary.Schemes, served)
	}
	return object(summary), nil
}
