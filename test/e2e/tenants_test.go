package e2e

import (
	"fmt"
	"strings"
)

// tenant returns the deployment acme in a namespace, and the role binding that lets Cardea write Secrets there.
func tenant(namespace string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: acme, namespace: %s}
spec: {displayName: Acme}
---
%s
---`, namespace, secretsRoleBinding(namespace))
}

// limitedApp returns an app of acme with a scheme of the same name, whose rules limit each key of the app.
func limitedApp(namespace, name, permissions string, rules ...string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: RateLimitScheme
metadata: {name: %[2]s, namespace: %[1]s}
spec:
  deploymentRef: {name: acme}
  slug: %[2]s
  rules:
  - %[4]s
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: %[2]s, namespace: %[1]s}
spec: {deploymentRef: {name: acme}, slug: %[2]s, permissions: [%[3]s], rateLimitSchemeRef: {name: %[2]s}}
---`, namespace, name, permissions, strings.Join(rules, "\n  - "))
}

// appKey returns a key of an app, generated into a Secret with the key's name.
func appKey(namespace, app, name, permissions string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: %[3]s, namespace: %[1]s}
spec: {appRef: {name: %[2]s}, permissions: [%[4]s], secretTemplate: {name: %[3]s}}
---`, namespace, app, name, permissions)
}
