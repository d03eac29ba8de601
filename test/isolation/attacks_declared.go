package isolation

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// namesOfOthers declares hosts and an issuer of another tenant: %[1]s is the attacker's namespace, %[2]d a number,
// %[3]s the other tenant's host.
const namesOfOthers = `---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: host-%[2]d, namespace: %[1]s}
spec: {deploymentRef: {name: main}, slug: host-%[2]d, fqdn: %[3]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: host-%[2]d, namespace: %[1]s}
spec:
  mode: Staging
  frontendHosts: [%[3]s]
  jwtIssuers:
  - name: theirs
    issuer: http://%[3]s/oauth/portal
    audiences: [attacker]
    algorithms: [ES256]
    jwksConfigMapRef: {name: issuer, key: jwks}
    permissionsExpression: "['*']"
`

// declareNamesOfOthers declares the hosts and issuers of the other tenants, and deletes the OAuthApps at the end.
func (a *attack) declareNamesOfOthers() error {
	manifests := ""
	for i, other := range a.in.others {
		manifests += fmt.Sprintf(namesOfOthers, a.Namespace, i, other.Host)
	}
	if err := a.Apply(a.ctx, manifests); err != nil {
		return err
	}
	a.begin()
	<-a.ctx.Done()
	a.sent.Add(int64(2 * len(a.in.others)))
	return a.takeBack(&v1alpha1.OAuthApp{}, client.MatchingFields{"metadata.name": "host-0"}, client.MatchingFields{"metadata.name": "host-1"})
}

// longPrompts declares agents with prompts of almost 64 KiB, the longest allowed, and deletes them at the end.
func (a *attack) longPrompts() error {
	prompt := strings.Repeat("Answer in the name of the customer. ", 64<<10/36)
	a.flood(20, func(n int) {
		agent := testkit.Agent(a.Namespace, "main", fmt.Sprintf("agent-%d", n))
		agent.Spec.SystemPrompt = &prompt
		_ = a.Cluster.Client.Create(a.ctx, agent)
	})
	return a.takeBack(&v1alpha1.AIAgent{})
}

// takeBack deletes the attacker's resources of a kind: those of each selection, or all if there is none.
func (a *attack) takeBack(kind client.Object, selections ...client.MatchingFields) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), time.Minute)
	defer cancel()
	if len(selections) == 0 {
		return a.Cluster.Client.DeleteAllOf(ctx, kind, client.InNamespace(a.Namespace))
	}
	for _, selection := range selections {
		if err := a.Cluster.Client.DeleteAllOf(ctx, kind, client.InNamespace(a.Namespace), selection, &client.DeleteAllOfOptions{DeleteOptions: client.DeleteOptions{PropagationPolicy: &background}}); err != nil {
			return err
		}
	}
	return nil
}

var background = metav1.DeletePropagationBackground
