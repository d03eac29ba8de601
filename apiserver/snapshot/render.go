package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// RenderScheme returns the served JSON of a scheme without its first member, deployment_id, which AppendObject adds.
// The bytes are made once per change, not once per request, and remain valid when the deployment changes.
func RenderScheme(meta document.Meta, content *document.RateLimitScheme) ([]byte, error) {
	rules := make([]backendapi.RateLimitRule, len(content.Rules))
	for i, rule := range scheme.Effective(content.Rules) {
		rules[i] = ServedRule(rule)
	}
	return renderInDeployment(backendapi.RateLimitScheme{
		Slug: content.Slug, Name: content.Name, Description: content.Description, Rules: rules,
		CreatedAt: meta.CreatedAt.UTC().Truncate(time.Microsecond), UpdatedAt: meta.UpdatedAt.UTC().Truncate(time.Microsecond),
	})
}

// ServedRule is the served form of a rule with effective values.
func ServedRule(rule scheme.Rule) backendapi.RateLimitRule {
	return backendapi.RateLimitRule{
		Unit: backendapi.RateLimitUnit(rule.Unit), Duration: rule.Duration, MaxRequests: rule.MaxRequests,
		Mode: backendapi.RateLimitMode(rule.Mode), Endpoints: rule.Endpoints, Priority: *rule.Priority,
	}
}

// renderInDeployment renders an object without its first member, deployment_id.
func renderInDeployment(object any) ([]byte, error) {
	whole, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	rest, found := bytes.CutPrefix(whole, []byte(`{"deployment_id":"",`))
	if !found {
		return nil, errors.New("the generated type no longer begins with deployment_id: restore x-order in backend.yaml")
	}
	return rest, nil
}

// AppendObject appends the served JSON object of an entry of a deployment.
func AppendObject(to []byte, deploymentID int64, body []byte) []byte {
	to = append(to, `{"deployment_id":"`...)
	to = strconv.AppendInt(to, deploymentID, 10)
	to = append(to, `",`...)
	return append(to, body...)
}
