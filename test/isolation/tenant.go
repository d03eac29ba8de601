package isolation

import (
	"context"
	"fmt"

	"github.com/cardea-iam/cardea/test/testkit"
)

// kubernetesIssuer lets ServiceAccounts of the cluster manage a deployment.
const kubernetesIssuer = `  jwtIssuers:
  - name: cluster
    kubernetes: {}
    permissionsExpression: "['*']"
`

// peoplePerTenant is the number of users of each tenant.
const peoplePerTenant = 5

// tenant is the owner of a deployment, with its users.
type tenant struct {
	in *install
	*testkit.Tenant
	people []*testkit.Visitor
}

// declareTenants declares the attacker and two other tenants, and signs their users up.
func (in *install) declareTenants(ctx context.Context) error {
	options := []testkit.TenantOptions{
		{Host: "attacker.localhost", Spec: kubernetesIssuer + in.site.issuer(), OpenRegistration: true, Manifests: func(namespace string) string {
			return in.site.configMap(namespace) + in.site.tools.orders(namespace) + in.site.tools.attacks(namespace)
		}},
		{Host: "other-0.localhost", Spec: kubernetesIssuer, Manifests: in.site.tools.orders}, {Host: "other-1.localhost", Spec: kubernetesIssuer, Manifests: in.site.tools.orders},
	}
	for i, of := range options {
		declared, err := in.Declare(ctx, of)
		if err != nil {
			return err
		}
		t := &tenant{in: in, Tenant: declared}
		for n := i * peoplePerTenant; len(t.people) < peoplePerTenant; n++ {
			person := testkit.NewVisitor(t.Host, fmt.Sprintf("person-%d@example.com", n), address(1, n))
			if err := t.SignUp(person); err != nil {
				return err
			}
			t.people = append(t.people, person)
		}
		if i == 0 {
			in.attacker = t
		} else {
			in.others = append(in.others, t)
		}
	}
	return nil
}

// address returns an IPv4 address in a unique /24, because requests of one network are limited. Each use has its own
// block.
func address(block byte, n int) string { return fmt.Sprintf("%d.%d.%d.7", 20+block, n/250%250, n%250) }
