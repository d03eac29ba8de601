package e2e

import (
	"fmt"
	"strings"
)

// tenant declares the deployment acme in a namespace, whose Secrets Cardea may write.
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

// limitedApp declares an app of acme with a scheme of the same name, which limits each of its keys by rules.
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

// appKey declares a key of an app, generated into a Secret of its name.
func appKey(namespace, app, name, permissions string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: %[3]s, namespace: %[1]s}
spec: {appRef: {name: %[2]s}, permissions: [%[4]s], secretTemplate: {name: %[3]s}}
---`, namespace, app, name, permissions)
}
