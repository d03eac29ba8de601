package traffic

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path"
	"sync/atomic"

	"github.com/cardea-iam/cardea/test/testkit"
)

// KubernetesIssuer lets ServiceAccounts of the cluster manage a deployment. It is a member of the deployment's spec.
const KubernetesIssuer = `  jwtIssuers:
  - name: cluster
    kubernetes: {}
    permissionsExpression: "['*']"
`

// peoplePerTenant is the number of users of each tenant.
const peoplePerTenant = 5

// Tenant is the owner of a deployment, with its users.
type Tenant struct {
	*testkit.Tenant
	People []*testkit.Visitor
}

var people, newcomers atomic.Int64

// Declare declares a tenant in an install and signs its users up. The tenant needs KubernetesIssuer and the agent of
// Orders for its traffic.
func Declare(ctx context.Context, in *testkit.Install, options testkit.TenantOptions) (*Tenant, error) {
	declared, err := in.Declare(ctx, options)
	if err != nil {
		return nil, err
	}
	t := &Tenant{Tenant: declared}
	for len(t.People) < peoplePerTenant {
		n := int(people.Add(1))
		person := testkit.NewVisitor(t.Host, fmt.Sprintf("person-%d@example.com", n), Address(1, n))
		if err := t.SignUp(person); err != nil {
			return nil, err
		}
		t.People = append(t.People, person)
	}
	return t, nil
}

// Newcomer returns a visitor of the tenant without an account, in a unique network.
func (t *Tenant) Newcomer() *testkit.Visitor {
	n := int(newcomers.Add(1))
	return testkit.NewVisitor(t.Host, fmt.Sprintf("newcomer-%d@example.com", n), Address(2, n))
}

// Address returns an IPv4 address in a unique /24, because requests of one network are limited. Each use has its own
// block; the first two are those of the traffic.
func Address(block byte, n int) string { return fmt.Sprintf("%d.%d.%d.7", 20+block, n/250%250, n%250) }

// NewOrders starts the API that the tools of Orders call. Close ends it.
func NewOrders() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"number": path.Base(r.URL.Path)})
	}))
}

// ToolManifest declares a tool of the deployment "main". %[1]s is its name, %[2]s the namespace, %[3]s the method and
// %[4]s the endpoint.
const ToolManifest = `---
apiVersion: iam.cardea.dev/v1alpha1
kind: AITool
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  deploymentRef: {name: main}
  type: API
  method: %[3]s
  endpoint: %[4]s
  timeoutSeconds: 2
`

// AgentManifest declares an agent with tools. %[1]s is the name, %[2]s the namespace, %[3]s the tools.
const AgentManifest = `---
apiVersion: iam.cardea.dev/v1alpha1
kind: AIAgent
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  deploymentRef: {name: main}
  toolRefs: [%[3]s]
`

// Orders returns the manifests of the agent "orders" in a namespace, with a tool that reads and one that writes, over
// an API at a URL.
func Orders(namespace, url string) string {
	const parameter = "  urlParamsSchema: [{name: number, fieldType: STRING, required: true}]\n"
	return fmt.Sprintf(ToolManifest, "find-order", namespace, "GET", url+"/{number}") + parameter +
		fmt.Sprintf(ToolManifest, "change-order", namespace, "POST", url+"/{number}") + parameter +
		fmt.Sprintf(AgentManifest, "orders", namespace, "{name: find-order}, {name: change-order}")
}
