package isolation

import (
	"context"
	"fmt"

	"github.com/cardea-iam/cardea/test/testkit"
	"github.com/cardea-iam/cardea/test/traffic"
)

// tenant is the owner of a deployment, with its users.
type tenant struct {
	in *install
	*traffic.Tenant
}

// organizationsEnabled lets the users of a deployment create as many organizations as a deployment can allow.
const organizationsEnabled = `---
apiVersion: iam.cardea.dev/v1alpha1
kind: B2BSettings
metadata: {name: main, namespace: %s}
spec: {deploymentRef: {name: main}, enabled: true, maxOrganizationsPerUser: 10000}
`

// declareTenants declares the attacker and two other tenants, and signs their users up.
func (in *install) declareTenants(ctx context.Context) error {
	options := []testkit.TenantOptions{
		{Host: "attacker.localhost", Spec: traffic.KubernetesIssuer + in.site.issuer() + ownDirectories, OpenRegistration: true, Manifests: func(namespace string) string {
			return in.site.configMap(namespace) + in.site.tools.orders(namespace) + in.site.tools.attacks(namespace) + in.site.tools.providers(namespace) +
				fmt.Sprintf(organizationsEnabled, namespace)
		}},
		{Host: "other-0.localhost", Spec: traffic.KubernetesIssuer, Manifests: in.site.tools.orders}, {Host: "other-1.localhost", Spec: traffic.KubernetesIssuer, Manifests: in.site.tools.orders},
	}
	for i, of := range options {
		declared, err := traffic.Declare(ctx, in.Install, of)
		if err != nil {
			return err
		}
		t := &tenant{in: in, Tenant: declared}
		if i == 0 {
			in.attacker = t
		} else {
			in.others = append(in.others, t)
		}
	}
	return nil
}
