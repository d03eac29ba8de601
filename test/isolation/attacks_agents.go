package isolation

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// silentTools calls tools that accept connections and never answer, through many agents.
func (a *attack) silentTools() error {
	const agents = 2
	manifests := ""
	for i := range agents {
		manifests += fmt.Sprintf(`---
apiVersion: iam.cardea.dev/v1alpha1
kind: AITool
metadata: {name: silent-%[1]d, namespace: %[2]s}
spec:
  deploymentRef: {name: %[4]s}
  type: API
  method: POST
  endpoint: http://127.0.0.1:%[3]d/%[1]d
  timeoutSeconds: 2
---
apiVersion: iam.cardea.dev/v1alpha1
kind: AIAgent
metadata: {name: silent-%[1]d, namespace: %[2]s}
spec:
  deploymentRef: {name: %[4]s}
  toolRefs: [{name: silent-%[1]d}]
`, i, a.Namespace, a.in.site.silentPort(), strings.TrimPrefix(a.Deployment(), a.Namespace+"/"))
	}
	if err := a.Apply(a.ctx, manifests); err != nil {
		return err
	}
	a.flood(60, func(n int) {
		agent := fmt.Sprintf("silent-%d", n%agents)
		body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, n, agent)
		answer, err := a.Visit(a.Server(), http.MethodPost, "/mcp/"+agent, address(15, n), "application/json", strings.NewReader(body), [2]string{"Authorization", "Bearer " + a.Key})
		if err == nil && answer.Status == http.StatusOK && !strings.Contains(string(answer.Raw), `"isError":true`) && !strings.Contains(string(answer.Raw), "Unknown tool") {
			a.breached(errors.New("a tool that never answers has an answer"))
		}
	})
	return nil
}

// callElsewhere presents the attacker's keys to the agents' endpoints of the other deployments.
func (a *attack) callElsewhere() error {
	a.flood(50, func(n int) {
		other := *a.Tenant
		other.Host = a.in.others[n%len(a.in.others)].Host
		answer, err := other.Visit(a.Server(), http.MethodPost, "/mcp/silent-0", address(16, n), "application/json",
			strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), [2]string{"Authorization", "Bearer " + a.Key})
		if err == nil && answer.Status == http.StatusOK {
			a.breached(fmt.Errorf("a key of another deployment was accepted: %s", answer.Raw))
		}
	})
	return nil
}
