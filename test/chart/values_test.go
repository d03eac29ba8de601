package chart

import (
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/strvals"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// set reads values as `helm --set-json` does: a=1,b.c="x".
func set(t *testing.T, text string) values {
	t.Helper()
	v := values{}
	if err := strvals.ParseJSON(text, v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// everything sets what the chart can render beyond the defaults, except objects that need third-party CRDs.
const everything = `image.repository="registry.example/cardea",image.tag="v9",image.pullSecrets=["pull"],redis.secret.name="cardea-redis",` +
	`trustedProxies=["203.0.113.7/32","2001:db8::/64"],egress={"allowedCIDRs":["10.1.0.0/16"],"deniedCIDRs":["198.51.100.0/24"]},requireHostGrants=true,` +
	`secretNamespaces=["acme"],logLevel="debug",tls.secret.name="cardea-tls",rootKey.secret.keys=["new.key","root.key"],operator.extraFlags=["--workers=32"],` +
	`server={"replicas":3,"extraFlags":["--max-staleness=10m"],"extraEnv":[{"name":"GOGC","value":"200"}],"podAnnotations":{"a":"b"},"podLabels":{"team":"iam"},"resources":{"limits":{"memory":"2Gi"}},` +
	`"nodeSelector":{"disk":"ssd"},"tolerations":[{"key":"iam","operator":"Exists"}],"affinity":{"nodeAffinity":{}},"priorityClassName":"system-cluster-critical"},` +
	`service={"type":"LoadBalancer","annotations":{"c":"d"}},` +
	`ingress={"frontend":{"enabled":true,"className":"nginx","annotations":{"e":"f"},"hosts":["login.example","*.shop.example"],"tlsSecret":"login"},"backend":{"enabled":true,"hosts":["api.example"]}},` +
	`networkPolicies={"backend":{"from":[{"podSelector":{}}]},"dns":{"to":[{"ipBlock":{"cidr":"169.254.20.10/32"}}]},"postgresql":{"port":6432,"to":[{"ipBlock":{"cidr":"10.2.0.0/16"}}]}}`

func TestLint(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "standalone.enabled=true", everything} {
		lint := action.NewLint()
		lint.Strict, lint.Namespace, lint.KubeVersion = true, system, oldest
		result := lint.Run([]string{chartPath}, set(t, text))
		for _, message := range result.Messages {
			if message.Severity >= support.WarningSev {
				t.Errorf("%q: %s", text, message)
			}
		}
		if len(result.Errors) > 0 {
			t.Errorf("%q: %v", text, result.Errors)
		}
	}
}

// Invalid values are refused before anything is rendered, with the path of the invalid value.
func TestValuesAreRefused(t *testing.T) {
	t.Parallel()
	for text, path := range map[string]string{
		`image="cardea:v1"`:                              "/image",
		`image.tag=1`:                                    "/image/tag",
		`image.digest="sha256:abc"`:                      "/image/digest",
		`image.pullPolicy="Sometimes"`:                   "/image/pullPolicy",
		`imagge.tag="v1"`:                                "imagge",
		`crds.enabled="yes"`:                             "/crds/enabled",
		`standalone=true`:                                "/standalone",
		`standalone.persistence.size="a lot"`:            "/standalone/persistence/size",
		`standalone.replicas=2`:                          "replicas",
		`store.secret.name=""`:                           "/store/secret/name",
		`store.url="postgres://u:p@h/d"`:                 "url",
		`rootKey.secret.keys=[]`:                         "/rootKey/secret/keys",
		`rootKey.secret.keys="root.key"`:                 "/rootKey/secret/keys",
		`redis.secret.key="a/b"`:                         "/redis/secret/key",
		`trustedProxies="10.0.0.1/32"`:                   "/trustedProxies",
		`trustedProxies=["10.0.0.1"]`:                    "/trustedProxies/0",
		`egress.allowedCIDRs=["everywhere"]`:             "/egress/allowedCIDRs/0",
		`requireHostGrants="true"`:                       "/requireHostGrants",
		`secretNamespaces=["Acme"]`:                      "/secretNamespaces/0",
		`logLevel="loud"`:                                "/logLevel",
		`operator.tag="a b"`:                             "/operator/tag",
		`operator.flags=[]`:                              "flags",
		`server.tag="v1"`:                                "tag",
		`operator.replicas=0`:                            "/operator/replicas",
		`server.replicas=1.5`:                            "/server/replicas",
		`server.replicas="2"`:                            "/server/replicas",
		`server.resources.limits.memory="512M"`:          "/server/resources/limits/memory",
		`server.extraFlags="--max-staleness=10m"`:        "/server/extraFlags",
		`server.extraFlags=["max-staleness=10m"]`:        "/server/extraFlags/0",
		`server.extraEnv=[{"value":"x"}]`:                "/server/extraEnv/0",
		`server.podLabels={"app.kubernetes.io/name":""}`: "/server/podLabels",
		`service.type="ExternalName"`:                    "/service/type",
		`service.ports=[]`:                               "/service/ports",
		`service.ports=["frontend","decision"]`:          "/service/ports/1",
		`ingress.frontend.enabled=true`:                  "/ingress/frontend/hosts",
		`ingress.decision.enabled=true`:                  "decision",
		`ingress.backend.hosts=["https://api.example"]`:  "/ingress/backend/hosts/0",
		`httpRoute.frontend.enabled=true`:                "/httpRoute/frontend/parentRefs",
		`httpRoute.frontend.parentRefs=[{}]`:             "/httpRoute/frontend/parentRefs/0",
		`networkPolicies.backend.from="all"`:             "/networkPolicies/backend/from",
		`networkPolicies.redis.port=70000`:               "/networkPolicies/redis/port",
		`networkPolicies.collector.enabled="yes"`:        "/networkPolicies/collector/enabled",
		`networkPolicies.collector.port=4317`:            "/networkPolicies/collector",
		`monitoring.serviceMonitor.interval="often"`:     "/monitoring/serviceMonitor/interval",
	} {
		_, err := template(t, system, set(t, text))
		if err == nil || !strings.Contains(err.Error(), "schema") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want a refusal that names %s", text, err, path)
		}
	}
	for _, text := range []string{"", "standalone.enabled=true", everything} {
		if _, err := template(t, system, set(t, text)); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// found returns one field of a rendered object as text, "<nil>" if there is none.
func found(t *testing.T, object *unstructured.Unstructured, path ...any) string {
	t.Helper()
	if object == nil {
		return "no object"
	}
	var at any = object.Object
	for _, step := range path {
		switch step := step.(type) {
		case string:
			fields, _ := at.(map[string]any)
			at = fields[step]
		case int:
			list, _ := at.([]any)
			if step >= len(list) {
				return "<nil>"
			}
			at = list[step]
		}
	}
	return fmt.Sprint(at)
}

// Values take effect on the rendered objects.
func TestValuesTakeEffect(t *testing.T) {
	t.Parallel()
	container := func(field ...any) []any { return append([]any{"spec", "template", "spec", "containers", 0}, field...) }
	pod := func(field ...any) []any { return append([]any{"spec", "template"}, field...) }
	const server, operator, standalone = "Deployment cardea-system/cardea-server", "Deployment cardea-system/cardea-operator", "StatefulSet cardea-system/cardea-standalone"
	charts := map[string]map[string]*unstructured.Unstructured{} // many rows use the same chart
	for _, tc := range []struct {
		set, object string
		path        []any
		want        string
	}{
		{everything, server, container("image"), "registry.example/cardea:v9"},
		{`image.digest="sha256:` + strings.Repeat("a", 64) + `"`, operator, container("image"), "cardea@sha256:" + strings.Repeat("a", 64)},
		{`operator.tag="v8",` + everything, operator, container("image"), "registry.example/cardea:v8"},
		{`operator.tag="v8",` + everything, server, container("image"), "registry.example/cardea:v9"},
		{`operator.tag="v8",image.digest="sha256:` + strings.Repeat("a", 64) + `"`, operator, container("image"), "cardea:v8"},
		{everything, server, container("args"), "[server --root-key=/etc/cardea/root-key/new.key,/etc/cardea/root-key/root.key --log-level=debug " +
			"--trusted-proxies=203.0.113.7/32,2001:db8::/64 --egress-allowed-cidrs=10.1.0.0/16 --egress-denied-cidrs=198.51.100.0/24 " +
			"--tls-cert=/etc/cardea/tls/tls.crt --tls-key=/etc/cardea/tls/tls.key --replicas=3 --max-staleness=10m]"},
		{everything, operator, container("args"), "[operator --root-key=/etc/cardea/root-key/new.key,/etc/cardea/root-key/root.key --log-level=debug --require-host-grants --workers=32]"},
		{"standalone.enabled=true," + everything, standalone, container("args"), "[standalone --store=sqlite:///var/lib/cardea/cardea.db " +
			"--root-key=/etc/cardea/root-key/new.key,/etc/cardea/root-key/root.key --log-level=debug --require-host-grants " +
			"--trusted-proxies=203.0.113.7/32,2001:db8::/64 --egress-allowed-cidrs=10.1.0.0/16 --egress-denied-cidrs=198.51.100.0/24 " +
			"--tls-cert=/etc/cardea/tls/tls.crt --tls-key=/etc/cardea/tls/tls.key]"},
		{everything, server, container("env"), "[map[name:CARDEA_STORE valueFrom:map[secretKeyRef:map[key:url name:cardea-store]]] " +
			"map[name:CARDEA_REDIS valueFrom:map[secretKeyRef:map[key:url name:cardea-redis]]] map[name:GOMEMLIMIT value:1840MiB] map[name:GOGC value:200]]"},
		{everything, server, pod("spec", "volumes", 1, "secret", "secretName"), "cardea-tls"},
		{everything, operator, pod("spec", "volumes", 1), "<nil>"},
		{everything, server, pod("metadata"), "map[annotations:map[a:b] labels:map[app.kubernetes.io/component:server app.kubernetes.io/name:cardea team:iam]]"},
		{everything, server, pod("spec", "imagePullSecrets"), "[map[name:pull]]"},
		{everything, server, pod("spec", "nodeSelector"), "map[disk:ssd]"},
		{everything, server, pod("spec", "tolerations"), "[map[key:iam operator:Exists]]"},
		{everything, server, pod("spec", "affinity"), "map[nodeAffinity:map[]]"},
		{everything, server, pod("spec", "priorityClassName"), "system-cluster-critical"},
		{everything, server, []any{"spec", "replicas"}, "3"},
		{"standalone.enabled=true", server, nil, "no object"},
		{`standalone={"enabled":true,"persistence":{"size":"20Gi","storageClassName":"fast"}}`, standalone, []any{"spec", "volumeClaimTemplates", 0, "spec"},
			"map[accessModes:[ReadWriteOnce] resources:map[requests:map[storage:20Gi]] storageClassName:fast]"},
		{`service.annotations={"c":"d"}`, "Service cardea-system/cardea-server", []any{"metadata", "annotations"}, "map[c:d]"},
		{everything, "Service cardea-system/cardea-server", []any{"metadata", "annotations"}, "<nil>"},
		{everything, "Service cardea-system/cardea-server-public", []any{"metadata", "annotations"}, "map[c:d]"},
		{"standalone.enabled=true," + everything, "Service cardea-system/cardea-server-public", []any{"spec", "selector"},
			"map[app.kubernetes.io/component:standalone app.kubernetes.io/name:cardea]"},
		{`service={"type":"NodePort","ports":["frontend"]}`, "Service cardea-system/cardea-server-public", []any{"spec", "ports"},
			"[map[name:frontend port:8081 targetPort:frontend]]"},
		{`service.ports=["frontend"]`, "Service cardea-system/cardea-server-public", nil, "no object"},
		{everything, "Ingress cardea-system/cardea-frontend", []any{"spec", "tls"}, "[map[hosts:[login.example *.shop.example] secretName:login]]"},
		{everything, "Ingress cardea-system/cardea-frontend", []any{"spec", "rules", 1, "host"}, "*.shop.example"},
		{everything, "Ingress cardea-system/cardea-backend", []any{"spec", "rules", 0, "http", "paths", 0, "backend"}, "map[service:map[name:cardea-server port:map[name:backend]]]"},
		{`httpRoute.frontend={"enabled":true,"parentRefs":[{"name":"gateway"}],"hostnames":["login.example"]}`, "HTTPRoute cardea-system/cardea-frontend", []any{"spec"},
			"map[hostnames:[login.example] parentRefs:[map[name:gateway]] rules:[map[backendRefs:[map[name:cardea-server port:8081]]]]]"},
		{"", "Ingress cardea-system/cardea-frontend", nil, "no object"},
		{everything, "NetworkPolicy cardea-system/cardea-backend", []any{"spec", "ingress", 0, "from"}, "[map[podSelector:map[]]]"},
		{everything, "NetworkPolicy cardea-system/cardea-dns", []any{"spec", "egress", 0, "to"}, "[map[ipBlock:map[cidr:169.254.20.10/32]]]"},
		{everything, "NetworkPolicy cardea-system/cardea-postgresql", []any{"spec", "egress"}, "[map[ports:[map[port:6432]] to:[map[ipBlock:map[cidr:10.2.0.0/16]]]]]"},
		{everything, "NetworkPolicy cardea-system/cardea-redis", []any{"spec", "egress"}, "[map[ports:[map[port:6379]]]]"},
		{"", "NetworkPolicy cardea-system/cardea-redis", nil, "no object"},
		{"", "NetworkPolicy cardea-system/cardea-collector", nil, "no object"},
		{`networkPolicies.collector={"enabled":true,"to":[{"namespaceSelector":{}}]}`, "NetworkPolicy cardea-system/cardea-collector", []any{"spec", "egress"},
			"[map[ports:[map[port:4317] map[port:4318]] to:[map[namespaceSelector:map[]]]]]"},
		{"networkPolicies.enabled=false", "NetworkPolicy cardea-system/cardea-default-deny", nil, "no object"},
		{everything, "RoleBinding acme/cardea-operator-secrets", []any{"subjects"}, "[map[kind:ServiceAccount name:cardea-operator namespace:cardea-system]]"},
		{"standalone.enabled=true," + everything, "RoleBinding acme/cardea-operator-secrets", []any{"subjects", 0, "name"}, "cardea-standalone"},
		{everything, "ClusterRoleBinding /cardea-operator-host-grants", []any{"roleRef", "name"}, "cardea-operator-host-grants"},
		{"crds.enabled=false", "CustomResourceDefinition /apikeys.iam.cardea.dev", nil, "no object"},
		{`monitoring.serviceMonitor={"enabled":true,"labels":{"release":"prometheus"},"interval":"10s"}`, "ServiceMonitor cardea-system/cardea", []any{"spec", "endpoints"},
			"[map[interval:10s port:metrics]]"},
		{`monitoring.serviceMonitor={"enabled":true,"labels":{"release":"prometheus"}}`, "ServiceMonitor cardea-system/cardea", []any{"metadata", "labels", "release"}, "prometheus"},
	} {
		if charts[tc.set] == nil {
			charts[tc.set] = rendered(t, set(t, tc.set))
		}
		if got := found(t, charts[tc.set][tc.object], tc.path...); got != tc.want {
			t.Errorf("%s of %s is %s, want %s", fmt.Sprint(tc.path...), tc.object, got, tc.want)
		}
	}
}

// Only the end-user API and the backend API are published; the decision listeners stay reachable only inside the
// cluster, by their name.
func TestPublishedServiceLeavesDecisionListenersInside(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"NodePort", "LoadBalancer"} {
		for _, standalone := range []bool{false, true} {
			published := 0
			services := rendered(t, values{"service": values{"type": kind}, "standalone": values{"enabled": standalone}})
			for key, object := range services {
				if object.GetKind() != "Service" || found(t, object, "spec", "type") == "<nil>" {
					continue
				}
				published++
				want := "[map[name:backend port:8080 targetPort:backend] map[name:frontend port:8081 targetPort:frontend]]"
				if got := found(t, object, "spec", "ports"); got != want || found(t, object, "spec", "type") != kind {
					t.Errorf("%s publishes %s, want a %s of %s", key, got, kind, want)
				}
			}
			if published != 1 {
				t.Errorf("%d Services of the type %s, want 1", published, kind)
			}
			for i, want := range []string{"backend", "frontend", "decision", "grpc-envoy"} {
				if got := found(t, services["Service cardea-system/cardea-server"], "spec", "ports", i, "name"); got != want {
					t.Errorf("port %d of cardea-server is %s, want %s", i, got, want)
				}
			}
		}
	}
}

// In another namespace, no object names the namespace of config/, not even the user names in the policy on Secrets.
func TestAnotherNamespace(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"", "standalone.enabled=true", everything} {
		manifest, err := template(t, "identity", set(t, v))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(manifest) {
			if strings.Contains(line, system) && !strings.Contains(line, "#") && !strings.Contains(line, "description") {
				t.Errorf("%q names %s: %s", v, system, line)
			}
		}
		if !strings.Contains(manifest, "'system:serviceaccount:identity:cardea-operator'") {
			t.Errorf("%q: the policy on Secrets does not bind the release's operator", v)
		}
	}
}
